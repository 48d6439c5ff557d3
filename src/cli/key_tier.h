/* Tiers of keys in the store (`tiers.keys_store`): the hash that daemons look them up in. */
#ifndef SL_CLI_KEY_TIER_H
#define SL_CLI_KEY_TIER_H

#include "cli/store_visit.h"
#include "sluice/sluice.h"

#define CLI_KEY_TIERS_AT_ONCE 500u /* of one command */

struct cli_key_tier {
    bool found;
    size_t len;
    char text[SLUICE_NAME_MAX]; /* cut to that; nothing longer is a tier */
};

/* Each returns 0, or a status after it has said what is wrong. */
int cli_key_tier_get(struct cli_store *store, const char *key, size_t len, struct cli_key_tier *ret_tier);
int cli_key_tier_set(struct cli_store *store, const char *key, size_t len, const char *tier);
/* Keys and tiers by turns, n words. */
int cli_key_tier_set_many(struct cli_store *store, const struct sl_word *pairs, size_t n);
/* *ret_old: whether it had one. */
int cli_key_tier_remove(struct cli_store *store, const char *key, size_t len, bool *ret_old);

#endif
