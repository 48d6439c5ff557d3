/* Bytes and times of a replay as text: for summaries and verdict lines. Pure but for memory; any thread. */
#ifndef SL_REPLAY_TEXT_H
#define SL_REPLAY_TEXT_H

#include "base/alloc.h"

#include <stddef.h>
#include <stdint.h>

/* A copy with NUL behind it in which every byte that is no UTF-8 is U+FFFD and every control character too; NULL when
 * out of memory. */
char *sl_replay_text_utf8(const struct sl_alloc *alloc, const char *text, size_t len);

/* "2015-05-17T10:05:03.000Z" */
#define SL_REPLAY_TEXT_TIME_MAX 32
void sl_replay_text_time(uint64_t t_us, char buf[SL_REPLAY_TEXT_TIME_MAX]);

/* "2015-05-17T10:05Z" */
#define SL_REPLAY_TEXT_MINUTE_MAX 32
void sl_replay_text_minute(uint64_t minute, char buf[SL_REPLAY_TEXT_MINUTE_MAX]);

#endif
