/* One line of a jsonl log: a JSON object with the members of POST /check, and the time.
 *
 *     {"t_us":1754003722145000,"key":"acct_8812","scope":"api:search","cost":10,"keyType":"user","tier":"pro",
 *      "address":"203.0.113.9","labels":{"region":"eu"}}
 *
 * t_us (Unix microseconds, up to the year 4000) and key are required. Strict: unknown or duplicate members, wrong
 * types, fractions and exponents, invalid UTF-8 and anything behind the object are errors. Whether the values are in
 * the ranges of a request is for sl_request_check; a cost may be any whole number from 0. */
#ifndef SL_REPLAY_JSONL_LINE_H
#define SL_REPLAY_JSONL_LINE_H

#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

#define SL_JSONL_WHY_MAX 160

struct sl_jsonl_line {
    uint64_t t_us;
    struct sluice_request request; /* borrows from `root` and `labels` */
    struct sluice_label labels[SLUICE_LABELS_MAX];
    struct json_t *root;
};

/* Returns 0 and a line to free with sl_jsonl_line_fini; or SL_EINVALID with the reason in ret_why, or SL_ENOMEM. */
int sl_jsonl_line_parse(const char *text, size_t len, struct sl_jsonl_line *ret_line, char ret_why[SL_JSONL_WHY_MAX]);

void sl_jsonl_line_fini(struct sl_jsonl_line *line);

#endif
