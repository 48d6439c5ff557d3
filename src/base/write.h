/* Numbers and dates as text where printf(3) and strftime(3) are too slow, or speak the locale's language. Each writes
 * at `at` and returns the end; no NUL. */
#ifndef SL_BASE_WRITE_H
#define SL_BASE_WRITE_H

#include <stdint.h>

/* A number in decimal: at most SL_INT_LEN_MAX bytes. */
#define SL_INT_LEN_MAX 20
char *sl_write_int(char *at, int64_t value);

/* The last date that was worked out, so that a run of verdicts on one day divides only for the time of day. Zero it
 * before use; one per thread. */
struct sl_date_cache {
    int64_t day;
    char text[10]; /* "YYYY-MM-DD", valid when text[0] is set */
};

#define SL_RFC3339_LEN 24

/* Writes "2026-01-31T09:00:00.600Z" for Unix milliseconds, saturating at the years 1970 and 9999. */
char *sl_write_rfc3339(char *at, int64_t unix_ms, struct sl_date_cache *cache);

#endif
