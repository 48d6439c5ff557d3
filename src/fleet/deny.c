/* Sets of four entries, each a cache line, under one lock a set. */
#include "fleet/deny.h"

#include "base/err.h"
#include "base/power.h"
#include "fleet/lock.h"

#include <assert.h>
#include <string.h>

#define WAYS 4u
#define ENTRIES_MIN 64u
#define ENTRIES_MAX (UINT32_C(1) << 24)

struct entry {
    struct sl_hash128 fp;
    uint32_t shape;           /* shape_id */
    uint32_t cost;            /* of the rejected request; 0: the entry is free */
    uint64_t now_us, ends_us; /* store's clock: of the decision, and when the same request may fit */
    uint64_t skew;            /* store's clock minus ours, modulo 2^64 */
    union {
        struct sl_state state;
        struct {
            uint64_t sum, newest_us;
        } log;
    };
};
static_assert(sizeof(struct entry) == 64, "an entry is a cache line");

struct set {
    _Alignas(64) struct entry entries[WAYS];
};

struct sl_deny {
    struct set *sets; /* aligned within `memory` */
    struct sl_spin *locks;
    size_t mask; /* number of sets - 1 */
    void *memory;
    struct sl_alloc alloc;
};

int sl_deny_new(size_t entries, const struct sl_alloc *alloc, struct sl_deny **ret_deny)
{
    size_t n_sets = sl_power_of_two(entries, ENTRIES_MIN, ENTRIES_MAX) / WAYS;
    struct sl_deny *deny = sl_calloc(alloc, 1, sizeof *deny);

    if (!deny)
        return SL_ENOMEM;
    deny->alloc = *alloc;
    deny->mask = n_sets - 1;
    deny->locks = sl_calloc(alloc, n_sets, sizeof *deny->locks);
    deny->memory = sl_calloc(alloc, n_sets + 1, sizeof *deny->sets);
    if (!deny->locks || !deny->memory) {
        sl_deny_free(deny);
        return SL_ENOMEM;
    }
    deny->sets = (struct set *)(((uintptr_t)deny->memory + 63) & ~(uintptr_t)63);
    *ret_deny = deny;
    return 0;
}

void sl_deny_free(struct sl_deny *deny)
{
    struct sl_alloc alloc;

    if (!deny)
        return;
    alloc = deny->alloc;
    sl_free(&alloc, deny->locks);
    sl_free(&alloc, deny->memory);
    sl_free(&alloc, deny);
}

/* What must be equal for a remembered state to mean the same; as sl_shape_equal, in 32 bits. */
static uint32_t shape_id(const struct sl_shape *shape)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);
    uint64_t parts[4] = {(uint64_t)shape->algorithm << 32 | shape->limit,
                         bucket ? (uint64_t)shape->n << 32 | shape->token_frac : 0,
                         bucket ? shape->token_us : shape->period_us, 0};
    uint64_t h = 0;

    for (unsigned i = 0; i < 4; i++) {
        h = (h ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32);
}

static size_t set_of(const struct sl_deny *deny, struct sl_hash128 fp)
{
    return (size_t)(fp.a ^ fp.b) & deny->mask;
}

static struct entry *find(struct set *set, struct sl_hash128 fp)
{
    for (unsigned i = 0; i < WAYS; i++) {
        struct entry *e = &set->entries[i];

        if (e->cost && e->fp.a == fp.a && e->fp.b == fp.b)
            return e;
    }
    return NULL;
}

/* When it ends, by our clock. */
static uint64_t ends_here_us(const struct entry *e)
{
    return e->ends_us - e->skew;
}

/* A rejection of the log is not decided again, its entries are not here; that of a dearer request ends no sooner. */
static void log_decision(const struct entry *e, uint64_t store_us, uint32_t cost, struct sl_decision *ret_decision)
{
    *ret_decision = (struct sl_decision){.cost = cost,
                                         .now_us = store_us,
                                         .log_sum = e->log.sum,
                                         .log_newest_us = e->log.newest_us,
                                         .log_fit_us = e->ends_us};
}

bool sl_deny_find(struct sl_deny *deny, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                  uint64_t keep_us, uint32_t cost, struct sl_decision *ret_decision)
{
    size_t at = set_of(deny, fp);
    struct entry *found, entry;
    uint64_t store_us;

    if (cost == 0 || cost > shape->limit)
        return false;
    sl_spin_lock(&deny->locks[at]);
    found = find(&deny->sets[at], fp);
    if (found)
        entry = *found;
    sl_spin_unlock(&deny->locks[at]);
    if (!found || cost < entry.cost || entry.shape != shape_id(shape))
        return false;
    store_us = now_us + entry.skew;
    if (store_us < entry.now_us) /* a slower reading of our clock than the one that asked */
        store_us = entry.now_us;
    if (store_us >= entry.ends_us || store_us - entry.now_us > keep_us)
        return false;
    if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
        log_decision(&entry, store_us, cost, ret_decision);
    else
        sl_decide(shape, entry.state, store_us, cost, ret_decision);
    ret_decision->changed = false; /* there is nothing to store */
    return !ret_decision->allowed;
}

static void fill(struct entry *e, struct sl_hash128 fp, const struct sl_shape *shape,
                 const struct sl_decision *decision, uint64_t asked_us)
{
    struct sl_numbers numbers;

    *e = (struct entry){.fp = fp,
                        .shape = shape_id(shape),
                        .cost = decision->cost,
                        .now_us = decision->now_us,
                        .ends_us = decision->log_fit_us,
                        .skew = decision->now_us - asked_us};
    if (shape->algorithm == SL_SLIDING_WINDOW_LOG) {
        e->log.sum = decision->log_sum;
        e->log.newest_us = decision->log_newest_us;
        return;
    }
    e->state = decision->before;
    sl_decision_main_numbers(shape, decision, &numbers);
    e->ends_us = decision->now_us + (uint64_t)numbers.retry_after_ms * SL_MS_US;
}

/* True when what is remembered says more than the new one: a cheaper request that is rejected still, or, of an equal
 * one, a later rejection. */
static bool says_more(const struct entry *old, const struct entry *new, uint64_t asked_us)
{
    if (old->shape != new->shape || ends_here_us(old) <= asked_us || old->cost > new->cost)
        return false;
    return old->cost < new->cost || old->now_us > new->now_us;
}

/* Where the bucket's entry goes: a free place, else that of the one that ends soonest. */
static struct entry *place(struct set *set)
{
    struct entry *best = &set->entries[0];

    for (unsigned i = 0; i < WAYS; i++) {
        struct entry *e = &set->entries[i];

        if (!e->cost)
            return e;
        if (ends_here_us(e) < ends_here_us(best))
            best = e;
    }
    return best;
}

void sl_deny_learn(struct sl_deny *deny, struct sl_hash128 fp, const struct sl_shape *shape,
                   const struct sl_decision *decision, uint64_t asked_us)
{
    size_t at = set_of(deny, fp);
    struct entry new = {0}, *old;

    if (decision->cost == 0 || decision->never)
        return;
    if (!decision->allowed)
        fill(&new, fp, shape, decision, asked_us);
    sl_spin_lock(&deny->locks[at]);
    old = find(&deny->sets[at], fp);
    if (decision->allowed) {
        if (old && decision->now_us >= old->now_us) /* answers of two connections may arrive in the other order */
            old->cost = 0;
    } else if (!old) {
        *place(&deny->sets[at]) = new;
    } else if (!says_more(old, &new, asked_us)) {
        *old = new;
    }
    sl_spin_unlock(&deny->locks[at]);
}

void sl_deny_forget(struct sl_deny *deny, struct sl_hash128 fp)
{
    size_t at = set_of(deny, fp);
    struct entry *found;

    sl_spin_lock(&deny->locks[at]);
    found = find(&deny->sets[at], fp);
    if (found)
        found->cost = 0;
    sl_spin_unlock(&deny->locks[at]);
}

size_t sl_deny_count(const struct sl_deny *deny, uint64_t now_us)
{
    size_t n = 0;

    for (size_t at = 0; at <= deny->mask; at++) {
        sl_spin_lock(&deny->locks[at]);
        for (unsigned i = 0; i < WAYS; i++) {
            const struct entry *e = &deny->sets[at].entries[i];

            n += e->cost && ends_here_us(e) > now_us;
        }
        sl_spin_unlock(&deny->locks[at]);
    }
    return n;
}
