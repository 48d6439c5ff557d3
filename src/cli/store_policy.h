/* The store's current version of the policy, for commands that hold what they are told against it. */
#ifndef SL_CLI_STORE_POLICY_H
#define SL_CLI_STORE_POLICY_H

#include "cli/store_visit.h"
#include "policy/policy.h"

/* Compiled for any region, with one reference; NULL: the store has none, or none that is valid here. ret_number may be
 * NULL. */
struct sl_policy *cli_store_policy(struct cli_store *store, uint64_t *ret_number);

#endif
