/* Verdicts as JSON (SPEC section 4), for whoever tells one: the HTTP door, whose hot path this is and why it is written
 * by hand, the replay and the command line.
 *
 *     {"allowed":true,"limit":100,"remaining":99,"resetAt":"2026-01-31T09:00:00.600Z","retryAfterMs":0,
 *      "resetAfterMs":600,"delayMs":0,"source":"local","policy":"free","warning":false}
 *
 * and "warningPolicy" when the warning is about another limit than the deciding one; on a rejection "reason"; and
 * "dryRun":{"policy","retryAfterMs"} when a dry-run limit would have rejected. */
#ifndef SL_LIMITER_VERDICT_JSON_H
#define SL_LIMITER_VERDICT_JSON_H

#include "base/write.h"
#include "sluice/sluice.h"

/* The most that sl_write_verdict writes. */
#define SL_VERDICT_JSON_MAX 768

/* Writes one verdict at `at`, which must have room for SL_VERDICT_JSON_MAX bytes. Returns the end; no NUL. Pure but for
 * the cache. */
char *sl_write_verdict(char *at, const struct sluice_verdict *verdict, struct sl_date_cache *cache);

#endif
