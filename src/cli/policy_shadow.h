/* What `sluice policy shadow`, `promote` and `dry-run` share. */
#ifndef SL_CLI_POLICY_SHADOW_H
#define SL_CLI_POLICY_SHADOW_H

#include "cli/connect.h"
#include "cli/policy_source.h"

#include <jansson.h>

struct cli_shadow_values {
    struct cli_common common;
    struct cli_connect connect;
    char *author, *comment;
    bool once, stop;              /* shadow */
    uint64_t expect;              /* promote; only when given */
    char *policy;                 /* promote */
    struct cli_warnings warnings; /* promote */
    bool force;                   /* promote */
    bool reset;                   /* dry-run */
};

static inline const struct cli_shadow_values *cli_shadow_values(const struct cli_call *call)
{
    return (const struct cli_shadow_values *)call->values;
}

/* Asks the admin listener. `body` is taken; it and if_match may be NULL. Returns the answer; or NULL after it has
 * said what is wrong, with the exit status in *ret_status. */
json_t *cli_shadow_ask(const struct cli_call *call, const char *method, const char *path, json_t *body,
                       const char *if_match, int *ret_status);

/* {"author","comment"}, with the caller's name when none is given. */
json_t *cli_shadow_signature(const struct cli_call *call);

/* Until the hash that GET `path` tells at `member` (NULL: at "hash") is this one: true; or false after some seconds. */
bool cli_shadow_wait(const struct cli_call *call, const char *path, const char *member, const char *hash);

/* policy_shadow_text.c. A report for people. */
void cli_shadow_print(const json_t *report, const struct cli_style *style);
void cli_dry_print(const json_t *report, const struct cli_style *style);

#endif
