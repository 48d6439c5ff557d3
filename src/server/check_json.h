/* Bodies of POST /check: bytes in, requests out. The hot path of the HTTP door, so written by hand.
 *
 *     {"key": "acct_1", "scope": "api:search", "cost": 10, "keyType": "user", "tier": "pro", "address": "192.0.2.1",
 *      "labels": {"plan": "b"}}                                   or an array of 1 ... 1,000 of these
 *
 * Strict RFC 8259: accepts exactly the texts that jansson accepts with JSON_REJECT_DUPLICATES and that fit the shape
 * above; names, duplicates (escapes resolved), types, UTF-8, surrogate pairs and the range of cost are all checked
 * here, so a key is never silently another. \u0000 is refused everywhere. Lengths and control characters are the
 * limiter's to check (sl_request_check). Nothing nests deeper than array, object, labels: what goes deeper is of a
 * wrong type where it begins, so the reader needs no stack and no depth counter. Pure; any thread. */
#ifndef SL_SERVER_CHECK_JSON_H
#define SL_SERVER_CHECK_JSON_H

#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>

/* What was read. About 650 KB, of which a reader of single requests touches the first page only: allocate one per
 * thread. */
struct sl_check_input {
    bool batch; /* the body was an array */
    size_t n;
    struct sluice_request requests[SLUICE_BATCH_MAX];
    struct sluice_label labels[SLUICE_BATCH_MAX * SLUICE_LABELS_MAX];
};

/* What is wrong, and where. */
struct sl_check_error {
    char field[64];   /* "cost", "[3].cost", "labels"; "" when the text itself is malformed */
    char detail[160]; /* a sentence, with the byte offset for malformed JSON; ASCII, nothing from the client */
};

/* Reads len bytes. Escapes are resolved in place: `body` is changed, and the requests borrow from it. Returns 0, or
 * SL_EINVALID with *ret_error. */
int sl_check_parse(char *body, size_t len, struct sl_check_input *ret_input, struct sl_check_error *ret_error);

#endif
