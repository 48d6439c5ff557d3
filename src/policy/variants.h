/* What overrides make of a policy: the keys that have some, and the variants of limits that stand in for them.
 *
 * Overrides with the same rate, burst and key type are of one kind, and a limit has one variant for each kind that meets
 * it, however many keys share it. Built once, then read only. */
#ifndef SL_POLICY_VARIANTS_H
#define SL_POLICY_VARIANTS_H

#include "policy/keys.h"
#include "policy/override.h"

struct sl_override_kind {
    struct sl_rate rate;
    uint32_t burst;
    const char *key_type;
    bool swept;                         /* all limits that name no key have been looked at */
    struct sl_override_status of_sweep; /* what came of them */
};

/* A limit under a kind of override. */
struct sl_variant_slot {
    uint32_t kind, limit;     /* numbers of the kind, from 1 (0: empty slot), and of the limit */
    struct sl_limit *variant; /* NULL: it cannot be */
    const char *why;
};

#define SL_ANY_LIMIT UINT32_MAX

/* One override, at its key. */
struct sl_placed_override {
    uint32_t key;   /* number in `keys` */
    uint32_t kind;  /* from 1 */
    uint32_t limit; /* number of the one it names; SL_ANY_LIMIT */
    uint32_t index; /* in the list */
};

struct sl_variants {
    struct sl_keys keys;               /* those with overrides */
    uint32_t *first;                   /* by number of the key, and one more: where its part of `placed` begins */
    struct sl_placed_override *placed; /* by key; of each key the one that counts first */
    size_t n_placed;
    struct sl_override_kind *kinds; /* [0] is none */
    uint32_t n_kinds;
    struct sl_variant_slot *slots;
    uint32_t mask, n_slots;
    struct sl_override_status *status; /* by index in the list */
    size_t n_active;
};

/* The number of a key that has overrides, or 0. `hash` is that of its bytes. */
static inline uint32_t sl_variants_key(const struct sl_variants *v, struct sl_hash128 hash, const char *key, size_t len)
{
    return v ? sl_keys_find(&v->keys, hash, key, len) : 0;
}

/* Makes the variant of a limit for a kind unless it is there, and counts it in *status: among the limits that are replaced,
 * or among those that cannot be, with the reason. False: out of memory. */
bool sl_variants_add(struct sl_policy *policy, struct sl_variants *v, uint32_t kind, const struct sl_limit *limit,
                     struct sl_override_status *status);

/* The variant of a limit for the key of that number, of the request's type; the limit itself when there is none.
 * *ret_placed (may be NULL): by which override. */
const struct sl_limit *sl_variants_find(const struct sl_variants *v, uint32_t key, const struct sluice_request *request,
                                        const struct sl_limit *limit, const struct sl_placed_override **ret_placed);

#endif
