/* Overrides as JSON: what the store and the state folder keep, and what the admin listener and the command line say.
 *
 *     {"key":"acct_8812","keyType":"api_key","limit":null,"rate":"9000/m","burst":null,
 *      "until":"2026-12-31T18:00:00.000Z","author":"ann","comment":"","set":"2026-11-30T09:12:44.120Z"}
 *
 * A record, as it is kept, has "setUs", whole microseconds, for "set". JSON values are new references; NULL stands for
 * memory that ran out. Pure; any thread. */
#ifndef SL_POLICY_OVERRIDE_JSON_H
#define SL_POLICY_OVERRIDE_JSON_H

#include "policy/override.h"

struct json_t;

enum sl_override_form {
    SL_OVERRIDE_SHOWN,  /* with "set" */
    SL_OVERRIDE_RECORD, /* with "setUs" */
    SL_OVERRIDE_ASKED,  /* with neither: when it was set is said by whoever keeps it */
};

struct json_t *sl_override_json(const struct sl_override *override, enum sl_override_form form);

/* Reads a RECORD or what was ASKED (author may be absent there, NULL then; comment "" by default). Texts are borrowed from
 * `value`. Every member is checked (sl_override_check), unknown ones are refused. Returns NULL; or a sentence, valid
 * until the next call on this thread, and the member at fault ("" when it is the whole). */
const char *sl_override_read(const struct json_t *value, enum sl_override_form form, struct sl_override *ret_override,
                             const char **ret_field);

/* A record as a text of one line: at most this long, without the NUL. */
#define SL_OVERRIDE_RECORD_MAX 5120u

/* Whether a status says "active", "inactive" or "over". */
const char *sl_override_state(const struct sl_override_status *status);

#endif
