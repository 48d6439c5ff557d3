/* A fixed set of names with numbers from 1 (0 stands for "none"): tiers, key types, labels of one policy.
 *
 * Filled while a policy is compiled, then read only: look-ups from any thread. A look-up compares bytes, so a collision
 * can cost time, never exactness; and what can collide is what the policy's author wrote, not what a client sends. */
#ifndef SL_POLICY_NAMES_H
#define SL_POLICY_NAMES_H

#include "policy/arena.h"

#include <stddef.h>
#include <stdint.h>

struct sl_name {
    const char *text;
    size_t len;
};

struct sl_name_set {
    struct sl_name *list; /* list[0] is "" */
    uint32_t n;           /* names, without list[0] */
    uint32_t *slots;
    uint32_t mask;
};

/* An empty set with room for max names. Returns 0 or SL_ENOMEM. */
int sl_name_set_init(struct sl_name_set *set, struct sl_arena *arena, size_t max);

/* The name's number, added when it is new. Borrows text for the set's life. */
uint32_t sl_name_set_add(struct sl_name_set *set, const char *text, size_t len);

/* The name's number, 0 when it is not there. */
uint32_t sl_name_set_find(const struct sl_name_set *set, const char *text, size_t len);

#endif
