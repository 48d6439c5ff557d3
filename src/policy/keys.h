/* The keys a policy names: those with a tier (keys, keys_file), those with limits of their own, and, in a policy with
 * a store, those with a store of their own; each with a number from 1.
 *
 * Found by the keyed hash of their bytes, then compared byte by byte. Filled by one load, then read only. */
#ifndef SL_POLICY_KEYS_H
#define SL_POLICY_KEYS_H

#include "base/hash.h"
#include "policy/arena.h"

#include <stddef.h>
#include <stdint.h>

struct sl_key_entry {
    const char *key; /* borrowed from the policy's arena */
    uint16_t len;
    uint16_t store; /* 1 + index in `dedicated`; 0: the main store */
    uint32_t tier;  /* number of the tier, 0: in no table */
};

struct sl_key_slot {
    uint64_t hash;
    uint32_t number; /* 0: empty */
};

struct sl_keys {
    struct sl_key_entry *list; /* list[0] stands for a key that is not here */
    uint32_t n, n_tiered;
    struct sl_key_slot *slots;
    uint16_t *present; /* by home slot: a bit for each key there, chosen by its hash */
    uint64_t mask;
};

/* An empty set with room for max keys. Returns 0 or SL_ENOMEM. */
int sl_keys_init(struct sl_keys *keys, struct sl_arena *arena, size_t max);

/* The key's number, added when it is new. `hash` is that of its bytes. */
uint32_t sl_keys_add(struct sl_keys *keys, struct sl_hash128 hash, const char *key, size_t len);

/* The key's number, 0 when it is not there. */
uint32_t sl_keys_find(const struct sl_keys *keys, struct sl_hash128 hash, const char *key, size_t len);

#endif
