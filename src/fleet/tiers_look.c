/* Keys that wait to be looked up, each once, and the looks that take them along. */
#include "fleet/tiers_internal.h"

#include <assert.h>
#include <string.h>

#define PLACES 8u /* where a key may wait */

/* Called with the lock held. */
static void note_waiting(struct sl_tiers *tiers)
{
    atomic_store_explicit(&tiers->waiting, tiers->n_queued > 0 && tiers->free_looks, memory_order_relaxed);
}

/* A place for the key; NULL when it has one already (then *ret_there), or there is none. */
static struct want *place_for(struct tier_memory *memory, struct sl_hash128 hash, bool *ret_there)
{
    struct want *free_place = NULL;

    *ret_there = false;
    for (unsigned i = 0; i < PLACES; i++) {
        struct want *want = &memory->wants[(hash.a + i) % SL_TIERS_WANTS_MAX];

        if (want->state == WANT_FREE) {
            if (!free_place)
                free_place = want;
        } else if (want->hash.a == hash.a && want->hash.b == hash.b) {
            *ret_there = true;
            return NULL;
        }
    }
    return free_place;
}

/* Called with the lock held. */
static bool wait_for_look(struct sl_tiers *tiers, struct sl_hash128 hash, const char *key, size_t len)
{
    struct tier_memory *memory = atomic_load(&tiers->memory);
    bool there;
    struct want *want = place_for(memory, hash, &there);

    if (!want)
        return there;
    want->hash = hash;
    want->state = WANT_WAITING;
    want->learned = false;
    want->len = (uint16_t)len;
    memcpy(want->key, key, len);
    tiers->queue[(tiers->queue_at + tiers->n_queued++) % SL_TIERS_WANTS_MAX] = (uint16_t)(want - memory->wants);
    note_waiting(tiers);
    return true;
}

/* A decision does not stand in a queue for this: in the crowd of a flood it is left to a later one. */
void sl_tiers_want(struct sl_tiers *tiers, struct sl_hash128 hash, const char *key, size_t len)
{
    bool taken = false;

    assert(len <= SLUICE_KEY_MAX);
    if (pthread_mutex_trylock(&tiers->lock) == 0) {
        taken = wait_for_look(tiers, hash, key, len);
        pthread_mutex_unlock(&tiers->lock);
    }
    if (!taken)
        tiers_count(tiers, SL_TIERS_DROPPED);
}

bool sl_tiers_waiting(const struct sl_tiers *tiers)
{
    return atomic_load_explicit(&tiers->waiting, memory_order_relaxed);
}

/* ---- looks */

struct sl_tiers_look *sl_tiers_look(struct sl_tiers *tiers, uint64_t now_us)
{
    struct sl_tiers_look *look = NULL;

    pthread_mutex_lock(&tiers->lock);
    if (tiers->n_queued > 0 && tiers->free_looks) {
        struct tier_memory *memory = atomic_load(&tiers->memory);

        look = tiers->free_looks;
        tiers->free_looks = look->next;
        look->asked_us = now_us;
        for (look->n = 0; look->n < SL_TIERS_LOOK_KEYS && tiers->n_queued > 0; tiers->n_queued--) {
            uint16_t at = tiers->queue[tiers->queue_at];

            tiers->queue_at = (tiers->queue_at + 1) % SL_TIERS_WANTS_MAX;
            memory->wants[at].state = WANT_FLYING;
            look->wants[look->n++] = at;
        }
        note_waiting(tiers);
    }
    pthread_mutex_unlock(&tiers->lock);
    return look;
}

struct sl_tiers *sl_tiers_look_tiers(const struct sl_tiers_look *look)
{
    return look->tiers;
}

unsigned sl_tiers_look_n(const struct sl_tiers_look *look)
{
    return look->n;
}

static struct want *want_of(const struct sl_tiers_look *look, unsigned i)
{
    return &atomic_load(&look->tiers->memory)->wants[look->wants[i]];
}

const char *sl_tiers_look_key(const struct sl_tiers_look *look, unsigned i, size_t *ret_len)
{
    const struct want *want = want_of(look, i);

    *ret_len = want->len;
    return want->key;
}

void sl_tiers_learn(struct sl_tiers_look *look, unsigned i, const char *tier, size_t len, enum sl_tiers_count count)
{
    struct want *want = want_of(look, i);

    want->learned = true;
    tiers_count(look->tiers, count);
    sl_tiers_keep(look->tiers, want->hash, tier ? TIER_NAMED : TIER_NONE, tier, tier ? len : 0, look->asked_us,
                  look->asked_us);
}

void sl_tiers_look_end(struct sl_tiers_look *look, uint64_t now_us)
{
    struct sl_tiers *tiers = look->tiers;

    for (unsigned i = 0; i < look->n; i++) {
        if (want_of(look, i)->learned)
            continue;
        tiers_count(tiers, SL_TIERS_ERROR);
        sl_tiers_keep(tiers, want_of(look, i)->hash, TIER_FAILED, NULL, 0, look->asked_us, now_us);
    }
    pthread_mutex_lock(&tiers->lock);
    for (unsigned i = 0; i < look->n; i++)
        want_of(look, i)->state = WANT_FREE;
    look->n = 0;
    look->next = tiers->free_looks;
    tiers->free_looks = look;
    note_waiting(tiers);
    pthread_mutex_unlock(&tiers->lock);
}
