#include "limiter/snapshot.h"

#include "base/err.h"
#include "policy/override.h"

#include <stdio.h>
#include <string.h>

static struct sl_name *make_names(const struct sl_alloc *alloc, const struct sl_policy *policy)
{
    size_t n = sl_policy_n_limits(policy);
    struct sl_name *names = sl_calloc(alloc, n, sizeof *names);

    for (size_t i = 0; names && i < n; i++)
        snprintf(names[i].text, sizeof names[i].text, "%s", sl_policy_limit(policy, i)->name);
    return names;
}

/* Frees what there is of it, but drops no reference of the policy. */
static void snapshot_discard(const struct sl_alloc *alloc, struct sl_snapshot *snapshot)
{
    sl_counters_fini(&snapshot->counters);
    sl_free(alloc, snapshot->memos);
    sl_free(alloc, snapshot->names);
    sl_free(alloc, snapshot);
}

static struct sl_snapshot *snapshot_new(const struct sl_alloc *alloc, struct sl_policy *policy, unsigned n_slots)
{
    struct sl_snapshot *snapshot = sl_calloc(alloc, 1, sizeof *snapshot);

    if (!snapshot)
        return NULL;
    snapshot->counters.alloc = *alloc;
    snapshot->policy = policy;
    snapshot->names = make_names(alloc, policy);
    snapshot->memos = sl_calloc(alloc, n_slots, sizeof *snapshot->memos);
    if (!snapshot->names || !snapshot->memos || sl_counters_init(&snapshot->counters, alloc, policy, n_slots) != 0) {
        snapshot_discard(alloc, snapshot);
        return NULL;
    }
    return snapshot;
}

static void snapshot_free(const struct sl_alloc *alloc, struct sl_snapshot *snapshot)
{
    sl_policy_unref(snapshot->policy);
    snapshot_discard(alloc, snapshot);
}

static int alloc_pulses(struct sl_limiter *limiter)
{
    limiter->pulse_memory = sl_calloc(&limiter->alloc, limiter->rcu.n_slots + 1, sizeof *limiter->pulses);
    if (!limiter->pulse_memory)
        return SL_ENOMEM;
    limiter->pulses = (struct sl_pulse *)(((uintptr_t)limiter->pulse_memory + 63) & ~(uintptr_t)63);
    return 0;
}

/* Everything that can fail; frees what it made when it does, but neither table nor policy. */
static int limiter_init(struct sl_limiter *limiter, struct sl_policy *policy)
{
    struct sl_snapshot *snapshot;

    if (sl_rcu_init(&limiter->rcu, &limiter->alloc) != 0)
        return SL_ENOMEM;
    if (alloc_pulses(limiter) != 0)
        goto no_pulses;
    snapshot = snapshot_new(&limiter->alloc, policy, limiter->rcu.n_slots);
    if (!snapshot)
        goto no_snapshot;
    sl_rcu_swap(&limiter->rcu, snapshot);
    pthread_mutex_init(&limiter->lock, NULL);
    return 0;

no_snapshot:
    sl_free(&limiter->alloc, limiter->pulse_memory);
no_pulses:
    sl_rcu_fini(&limiter->rcu);
    return SL_ENOMEM;
}

int sl_limiter_new(struct sl_table *table, struct sl_policy *policy, const struct sl_alloc *alloc,
                   struct sl_limiter **ret_limiter)
{
    struct sl_limiter *limiter = sl_calloc(alloc, 1, sizeof *limiter);

    if (!limiter)
        return SL_ENOMEM;
    limiter->alloc = *alloc;
    limiter->table = table;
    if (limiter_init(limiter, policy) != 0) {
        sl_free(alloc, limiter);
        return SL_ENOMEM;
    }
    *ret_limiter = limiter;
    return 0;
}

void sl_limiter_free(struct sl_limiter *limiter)
{
    if (!limiter)
        return;
    struct sl_alloc alloc = limiter->alloc;

    snapshot_free(&alloc, sl_rcu_peek(&limiter->rcu));
    sl_rcu_fini(&limiter->rcu);
    sl_free(&alloc, limiter->pulse_memory);
    sl_table_close(&limiter->table);
    pthread_mutex_destroy(&limiter->lock);
    sl_free(&alloc, limiter);
}

struct sl_table *sl_limiter_table(struct sl_limiter *limiter)
{
    return limiter->table;
}

int sl_limiter_set_policy(struct sl_limiter *limiter, struct sl_policy *policy)
{
    struct sl_snapshot *old, *next = snapshot_new(&limiter->alloc, policy, limiter->rcu.n_slots);

    if (!next)
        return SL_ENOMEM;
    pthread_mutex_lock(&limiter->lock);
    old = sl_rcu_swap(&limiter->rcu, next);
    sl_counters_inherit(&next->counters, &old->counters);
    limiter->reloads += !sl_policy_same_base(old->policy, policy);
    pthread_mutex_unlock(&limiter->lock);
    snapshot_free(&limiter->alloc, old);
    return 0;
}

struct sl_policy *sl_limiter_policy(struct sl_limiter *limiter)
{
    struct sl_policy *policy;
    void *snapshot;
    unsigned slot = sl_rcu_enter(&limiter->rcu, &snapshot);

    policy = sl_policy_ref(((struct sl_snapshot *)snapshot)->policy);
    sl_rcu_leave(&limiter->rcu, slot);
    return policy;
}

size_t sl_limiter_counts(struct sl_limiter *limiter, struct sl_limiter_count *rows, size_t max)
{
    struct sl_counters *counters;
    size_t n;

    pthread_mutex_lock(&limiter->lock);
    counters = &((struct sl_snapshot *)sl_rcu_peek(&limiter->rcu))->counters;
    n = counters->n_rows;
    for (size_t i = 0; i < n && i < max; i++) {
        struct sl_counter_row sum;
        uint64_t plain_allowed, plain_rejected;

        sl_counters_sum(counters, (unsigned)i, &sum);
        plain_allowed = sum.n[SL_COUNT_PLAIN_ALLOWED];
        plain_rejected = sum.n[SL_COUNT_PLAIN_REJECTED];
        rows[i] = (struct sl_limiter_count){.decided_allowed = sum.n[SL_COUNT_DECIDED_ALLOWED] + plain_allowed,
                                            .decided_rejected = sum.n[SL_COUNT_DECIDED_REJECTED] + plain_rejected,
                                            .shared_allowed = sum.n[SL_COUNT_SHARED_ALLOWED],
                                            .shared_rejected = sum.n[SL_COUNT_SHARED_REJECTED],
                                            .degraded_allowed = sum.n[SL_COUNT_DEGRADED_ALLOWED],
                                            .degraded_rejected = sum.n[SL_COUNT_DEGRADED_REJECTED],
                                            .checks_allowed = sum.n[SL_COUNT_CHECK_ALLOWED] + plain_allowed,
                                            .checks_rejected = sum.n[SL_COUNT_CHECK_REJECTED] + plain_rejected,
                                            .dry_allowed = sum.n[SL_COUNT_DRY_ALLOWED],
                                            .dry_rejected = sum.n[SL_COUNT_DRY_REJECTED],
                                            .blocked = i < counters->n_named &&
                                                       sl_policy_limit(counters->policy, i)->kind == SL_RATE_BLOCKED};
        snprintf(rows[i].limit, sizeof rows[i].limit, "%s", sl_counters_name(counters, (unsigned)i));
    }
    pthread_mutex_unlock(&limiter->lock);
    return n;
}

void sl_limiter_stats(struct sl_limiter *limiter, struct sl_limiter_stats *ret_stats)
{
    memset(ret_stats, 0, sizeof *ret_stats);
    pthread_mutex_lock(&limiter->lock);
    ret_stats->reloads = limiter->reloads;
    pthread_mutex_unlock(&limiter->lock);
    for (unsigned slot = 0; slot < limiter->rcu.n_slots; slot++) {
        const struct sl_pulse *pulse = &limiter->pulses[slot];

        ret_stats->rejected += __atomic_load_n(&pulse->decided[0], __ATOMIC_RELAXED);
        ret_stats->allowed += __atomic_load_n(&pulse->decided[1], __ATOMIC_RELAXED);
        ret_stats->anonymous_rejected += __atomic_load_n(&pulse->anonymous[0], __ATOMIC_RELAXED);
        ret_stats->anonymous_allowed += __atomic_load_n(&pulse->anonymous[1], __ATOMIC_RELAXED);
        ret_stats->unmatched += __atomic_load_n(&pulse->unmatched, __ATOMIC_RELAXED);
        ret_stats->duration_count += __atomic_load_n(&pulse->duration_count, __ATOMIC_RELAXED);
        ret_stats->duration_sum_ns += __atomic_load_n(&pulse->duration_sum_ns, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++)
            ret_stats->duration[i] += __atomic_load_n(&pulse->duration[i], __ATOMIC_RELAXED);
    }
}
