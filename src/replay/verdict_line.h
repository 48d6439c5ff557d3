/* `--verdicts`: one JSON line per event, in the order decided.
 *
 *     {"t_us":1754003722145000,"key":"acct_8812","scope":"api:search","allowed":true,"limit":100,"remaining":99,
 *      "resetAt":"2025-07-31T23:15:22.745Z","retryAfterMs":0,"resetAfterMs":600,"delayMs":0,"source":"local",
 *      "policy":"free","warning":false}
 *
 * t_us, key and scope are the event's own, as in the log; bytes that are no UTF-8 are shown as U+FFFD. */
#ifndef SL_REPLAY_VERDICT_LINE_H
#define SL_REPLAY_VERDICT_LINE_H

#include "base/slice.h"
#include "sluice/sluice.h"

#include <stdint.h>
#include <stdio.h>

/* Writes one line. Errors stay with the stream (ferror). */
void sl_verdict_line_write(FILE *out, uint64_t t_us, struct sl_slice key, struct sl_slice scope,
                           const struct sluice_verdict *verdict);

#endif
