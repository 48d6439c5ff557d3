/* What is known of keys: sets of four entries under one lock each. */
#include "fleet/tiers_internal.h"

#include "base/err.h"
#include "base/power.h"

#include <assert.h>
#include <string.h>

#define ENTRIES_MIN 64u
#define ENTRIES_MAX (UINT32_C(1) << 20)

const char *const sl_tiers_count_names[SL_TIERS_COUNTS] = {
    [SL_TIERS_HIT] = "hit",     [SL_TIERS_MISS] = "miss",       [SL_TIERS_UNKNOWN_TIER] = "unknown_tier",
    [SL_TIERS_ERROR] = "error", [SL_TIERS_DROPPED] = "dropped",
};

/* ---- life */

int sl_tiers_new(const struct sl_tiers_config *config, struct sl_tiers **ret_tiers)
{
    struct sl_tiers *tiers = sl_calloc(config->alloc, 1, sizeof *tiers);

    if (!tiers)
        return SL_ENOMEM;
    tiers->alloc = *config->alloc;
    tiers->ttl_us = config->ttl_us ? config->ttl_us : SL_TIERS_TTL_US;
    tiers->n_sets =
        sl_power_of_two(config->entries ? config->entries : SL_TIERS_ENTRIES, ENTRIES_MIN, ENTRIES_MAX) / TIER_WAYS;
    if (sl_secret_random(&tiers->secret) != 0) {
        sl_free(config->alloc, tiers);
        return SL_EIO;
    }
    pthread_mutex_init(&tiers->lock, NULL);
    for (unsigned i = 0; i < SL_TIERS_LOOKS_MAX; i++) {
        tiers->looks[i] = (struct sl_tiers_look){.tiers = tiers, .next = tiers->free_looks};
        tiers->free_looks = &tiers->looks[i];
    }
    *ret_tiers = tiers;
    return 0;
}

static void free_memory(const struct sl_alloc *alloc, struct tier_memory *memory)
{
    if (!memory)
        return;
    sl_free(alloc, memory->sets);
    sl_free(alloc, memory->wants);
    sl_free(alloc, memory);
}

void sl_tiers_free(struct sl_tiers *tiers)
{
    struct sl_alloc alloc;

    if (!tiers)
        return;
    alloc = tiers->alloc;
    free_memory(&alloc, atomic_load(&tiers->memory));
    pthread_mutex_destroy(&tiers->lock);
    sl_free(&alloc, tiers);
}

static struct tier_memory *make_memory(struct sl_tiers *tiers)
{
    struct tier_memory *memory = sl_calloc(&tiers->alloc, 1, sizeof *memory);

    if (!memory)
        return NULL;
    memory->mask = tiers->n_sets - 1;
    memory->sets = sl_calloc(&tiers->alloc, tiers->n_sets, sizeof *memory->sets);
    memory->wants = sl_calloc(&tiers->alloc, SL_TIERS_WANTS_MAX, sizeof *memory->wants);
    if (memory->sets && memory->wants)
        return memory;
    free_memory(&tiers->alloc, memory);
    return NULL;
}

/* NULL: out of memory. Tried again by the next find. */
static struct tier_memory *memory_of(struct sl_tiers *tiers)
{
    struct tier_memory *memory = atomic_load_explicit(&tiers->memory, memory_order_acquire);

    if (__builtin_expect(memory != NULL, 1))
        return memory;
    pthread_mutex_lock(&tiers->lock);
    memory = atomic_load(&tiers->memory);
    if (!memory) {
        memory = make_memory(tiers);
        atomic_store_explicit(&tiers->memory, memory, memory_order_release);
    }
    pthread_mutex_unlock(&tiers->lock);
    return memory;
}

/* ---- sets */

static struct tier_set *set_of(const struct tier_memory *memory, struct sl_hash128 key)
{
    return &memory->sets[(key.a ^ key.b) & memory->mask];
}

static struct tier_entry *find(struct tier_set *set, struct sl_hash128 key)
{
    for (unsigned i = 0; i < TIER_WAYS; i++) {
        struct tier_entry *e = &set->entries[i];

        if (e->state != TIER_EMPTY && e->key.a == key.a && e->key.b == key.b)
            return e;
    }
    return NULL;
}

static uint64_t age_us(uint64_t then_us, uint64_t now_us)
{
    return now_us > then_us ? now_us - then_us : 0;
}

/* Who stays longer than `e`, of two entries of a set: tiers in use stay longest. */
static bool outlives(const struct sl_tiers *tiers, const struct tier_entry *x, const struct tier_entry *y,
                     uint64_t now_us)
{
    bool x_serves = x->state == TIER_NAMED && age_us(x->used_us, now_us) < tiers->ttl_us;
    bool y_serves = y->state == TIER_NAMED && age_us(y->used_us, now_us) < tiers->ttl_us;

    if (x->state == TIER_EMPTY || y->state == TIER_EMPTY)
        return x->state != TIER_EMPTY;
    if (x_serves != y_serves)
        return x_serves;
    return x->used_us >= y->used_us;
}

/* The entry that makes room for a key that comes in `state`; NULL: all of them serve others, who come first. */
static struct tier_entry *make_room(const struct sl_tiers *tiers, struct tier_set *set, enum tier_state state,
                                    uint64_t now_us)
{
    struct tier_entry *last = &set->entries[0];
    bool serves;

    for (unsigned i = 1; i < TIER_WAYS; i++)
        if (outlives(tiers, last, &set->entries[i], now_us))
            last = &set->entries[i];
    serves = last->state == TIER_NAMED && age_us(last->used_us, now_us) < tiers->ttl_us;
    return serves && state != TIER_NAMED ? NULL : last;
}

/* Keys that were learned together are not looked up together again. */
static uint64_t refresh_us(const struct sl_tiers *tiers, struct sl_hash128 key, uint64_t asked_us)
{
    uint64_t spread = tiers->ttl_us / 5;

    return asked_us + tiers->ttl_us / 4 * 3 +
           (spread ? ((key.b ^ asked_us) * UINT64_C(0x9E3779B97F4A7C15) >> 20) % spread : 0);
}

static void write(struct sl_tiers *tiers, struct tier_entry *e, struct sl_hash128 key, enum tier_state state,
                  const char *tier, size_t len, uint64_t asked_us)
{
    e->key = key;
    e->state = (uint8_t)state;
    e->asked_us = asked_us;
    e->again_us = refresh_us(tiers, key, asked_us);
    e->tier_len = (uint8_t)len;
    if (len > 0)
        memcpy(e->tier, tier, len);
}

void sl_tiers_keep(struct sl_tiers *tiers, struct sl_hash128 key, enum tier_state state, const char *tier, size_t len,
                   uint64_t asked_us, uint64_t now_us)
{
    struct tier_set *set = set_of(atomic_load(&tiers->memory), key);
    struct tier_entry *e;

    assert(len < SLUICE_NAME_MAX);
    sl_spin_lock(&set->lock);
    e = find(set, key);
    if (!e) {
        e = make_room(tiers, set, state, now_us);
        if (e && e->state == TIER_EMPTY)
            atomic_fetch_add_explicit(&tiers->n_entries, 1, memory_order_relaxed);
        if (e) {
            write(tiers, e, key, state, tier, len, asked_us);
            e->used_us = now_us;
        }
    } else if (state != TIER_FAILED) {
        write(tiers, e, key, state, tier, len, asked_us);
    }
    if (e && state == TIER_FAILED)
        e->again_us = now_us + SL_TIERS_AGAIN_US;
    sl_spin_unlock(&set->lock);
}

bool sl_tiers_find(struct sl_tiers *tiers, const char *key, size_t len, uint64_t now_us, struct sl_tier_name *ret_tier)
{
    struct sl_hash128 hash = sl_hash13(tiers->secret, key, len);
    struct tier_memory *memory = memory_of(tiers);
    bool wanted = true, named = false;
    struct tier_set *set;
    struct tier_entry *e;

    if (!memory)
        return false;
    set = set_of(memory, hash);
    sl_spin_lock(&set->lock);
    e = find(set, hash);
    if (e) {
        e->used_us = now_us;
        wanted = now_us >= e->again_us;
        if (wanted) /* by one of those who come now, not by all until the answer is there */
            e->again_us = now_us + SL_TIERS_AGAIN_US;
        named = e->state == TIER_NAMED && age_us(e->asked_us, now_us) < SL_TIERS_KEEP_US;
        if (named) {
            ret_tier->len = e->tier_len;
            memcpy(ret_tier->text, e->tier, e->tier_len);
        }
    }
    sl_spin_unlock(&set->lock);
    if (wanted)
        sl_tiers_want(tiers, hash, key, len);
    return named;
}

void sl_tiers_stats(const struct sl_tiers *tiers, struct sl_tiers_stats *ret_stats)
{
    for (unsigned i = 0; i < SL_TIERS_COUNTS; i++)
        ret_stats->lookups[i] = atomic_load_explicit(&tiers->counts[i], memory_order_relaxed);
    ret_stats->entries = atomic_load_explicit(&tiers->n_entries, memory_order_relaxed);
}
