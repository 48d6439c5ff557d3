/* What the two halves of tiers.h share: what is known of keys (tiers.c), and who waits to be looked up (tiers_look.c). */
#ifndef SL_FLEET_TIERS_INTERNAL_H
#define SL_FLEET_TIERS_INTERNAL_H

#include "fleet/lock.h"
#include "fleet/tiers.h"

#include <pthread.h>
#include <stdatomic.h>

enum tier_state { TIER_EMPTY, TIER_FAILED, TIER_NONE, TIER_NAMED };

struct tier_entry {
    struct sl_hash128 key;
    uint64_t asked_us; /* our clock, when the store was asked for what stands here */
    uint64_t again_us; /* who finds it after this asks for a look-up */
    uint64_t used_us;
    uint8_t state; /* enum tier_state */
    uint8_t tier_len;
    char tier[SLUICE_NAME_MAX];
};

#define TIER_WAYS 4u
struct tier_set {
    struct sl_spin lock;
    struct tier_entry entries[TIER_WAYS];
};

enum want_state { WANT_FREE, WANT_WAITING, WANT_FLYING };

/* A key to be looked up. Its bytes are the look's own while it is FLYING. */
struct want {
    struct sl_hash128 hash;
    uint8_t state; /* enum want_state */
    bool learned;  /* while FLYING, the look's own */
    uint16_t len;
    char key[SLUICE_KEY_MAX];
};

struct sl_tiers_look {
    struct sl_tiers *tiers;
    struct sl_tiers_look *next; /* free ones */
    uint64_t asked_us;
    unsigned n;
    uint16_t wants[SL_TIERS_LOOK_KEYS];
};

/* All that costs memory: made at the first find. */
struct tier_memory {
    size_t mask; /* number of sets - 1 */
    struct tier_set *sets;
    struct want *wants; /* SL_TIERS_WANTS_MAX */
};

struct sl_tiers {
    struct sl_alloc alloc;
    struct sl_secret secret;
    uint64_t ttl_us;
    size_t n_sets;
    struct tier_memory *_Atomic memory;
    atomic_uint_fast64_t counts[SL_TIERS_COUNTS];
    atomic_uint_fast64_t n_entries;
    atomic_bool waiting; /* some want waits, and some look is free */

    pthread_mutex_t lock; /* what follows, the wants, and making the memory */
    uint16_t queue[SL_TIERS_WANTS_MAX];
    unsigned queue_at, n_queued;
    struct sl_tiers_look looks[SL_TIERS_LOOKS_MAX], *free_looks;
};

static inline void tiers_count(struct sl_tiers *tiers, enum sl_tiers_count what)
{
    atomic_fetch_add_explicit(&tiers->counts[what], 1, memory_order_relaxed);
}

/* tiers.c: what a look-up, asked at asked_us, has told of a key. FAILED: nothing. */
void sl_tiers_keep(struct sl_tiers *tiers, struct sl_hash128 key, enum tier_state state, const char *tier, size_t len,
                   uint64_t asked_us, uint64_t now_us);

/* tiers_look.c: somebody wants the key looked up. Drops it when too many wait. */
void sl_tiers_want(struct sl_tiers *tiers, struct sl_hash128 hash, const char *key, size_t len);

#endif
