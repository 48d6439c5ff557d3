/* `sluice override`: what its two ways, through a daemon and straight in the store, share. */
#ifndef SL_CLI_OVERRIDE_H
#define SL_CLI_OVERRIDE_H

#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/store_visit.h"
#include "policy/override.h"

struct json_t;

struct override_values {
    struct cli_common common;
    struct cli_connect connect;  /* timeout_us: that of `at` */
    struct cli_store_options at; /* store NULL: through the daemon */
    char *key_type, *limit, *rate, *until, *author, *comment;
    uint64_t burst, n; /* burst 0: not given; n: entries of the history */
};

/* Lays the store's overrides over a policy, which takes the place of *policy. Returns 0, or a status after it has said what is
 * wrong. */
int cli_override_lay(const struct cli_store_options *options, struct sl_policy **policy);

/* Each returns what the admin listener would answer (a new reference), or NULL after the reason has been said and
 * *ret_status set. */
struct json_t *cli_override_set_in_store(const struct override_values *values, const struct sl_override *override,
                                         int *ret_status);
struct json_t *cli_override_remove_in_store(const struct override_values *values, const struct sl_override *override,
                                            int *ret_status);
/* `log`: so many of the newest changes with it; 0: none. */
struct json_t *cli_override_list_in_store(const struct override_values *values, unsigned log, int *ret_status);

#endif
