/* The time of a log line: "17/May/2015:10:05:03 +0000", to Unix microseconds. Pure; any thread. */
#ifndef SL_REPLAY_LOG_TIME_H
#define SL_REPLAY_LOG_TIME_H

#include <stddef.h>
#include <stdint.h>

/* Parses the time at the beginning of len bytes, which may go on behind it. A fraction of a second may follow the
 * seconds (".25"; what is finer than a microsecond is cut off); second 60 is the next minute's first. Years 1970 ...
 * 3999. Returns the number of bytes read and the time in *ret_us, or 0. */
size_t sl_log_time_parse(const char *text, size_t len, uint64_t *ret_us);

#endif
