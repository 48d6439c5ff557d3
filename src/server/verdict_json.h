/* Verdicts as JSON (SPEC section 4), written by hand: the hot path of the HTTP door.
 *
 *     {"allowed":true,"limit":100,"remaining":99,"resetAt":"2026-01-31T09:00:00.600Z","retryAfterMs":0,
 *      "resetAfterMs":600,"delayMs":0,"source":"local","policy":"free","warning":false}
 *
 * and, on a rejection, "reason"; and "dryRun":{"policy","retryAfterMs"} when a dry-run limit would have rejected. */
#ifndef SL_SERVER_VERDICT_JSON_H
#define SL_SERVER_VERDICT_JSON_H

#include "server/buf.h"
#include "sluice/sluice.h"

/* The last date that was worked out, so that a run of verdicts on one day divides only for the time of day. Zero it
 * before use; one per thread. */
struct sl_date_cache {
    int64_t day;
    char text[10]; /* "YYYY-MM-DD", valid when text[0] is set */
};

#define SL_RFC3339_LEN 24

/* Writes "2026-01-31T09:00:00.600Z" for Unix milliseconds, saturating at the years 1970 and 9999. Returns the end. */
char *sl_write_rfc3339(char *at, int64_t unix_ms, struct sl_date_cache *cache);

/* The most that sl_write_verdict writes. */
#define SL_VERDICT_JSON_MAX 640

/* Writes one verdict at `at`, which must have room for SL_VERDICT_JSON_MAX bytes. Returns the end. */
char *sl_write_verdict(char *at, const struct sluice_verdict *verdict, struct sl_date_cache *cache);

#endif
