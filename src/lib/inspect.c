#include "lib/handle.h"
#include "lib/look.h"

#include "base/err.h"

#include <string.h>

struct bucket_call {
    sluice_bucket_fn *fn;
    void *ctx;
};

static void pass_bucket(void *ctx, const struct sl_bucket_info *info)
{
    const struct bucket_call *call = ctx;
    struct sluice_bucket bucket;

    if (!call->fn)
        return;
    sl_bucket_public(info, &bucket);
    call->fn(call->ctx, &bucket);
}

int sluice_inspect(struct sluice *limiter, const struct sluice_request *request, sluice_bucket_fn *fn, void *ctx,
                   size_t *ret_n)
{
    struct bucket_call call = {.fn = fn, .ctx = ctx};
    int err = sluice_validate(limiter, request, NULL, 0);

    if (err != 0)
        return err;
    if (limiter->tier)
        return sl_tier_look(limiter->tier, request, false, fn, ctx, ret_n);
    size_t n = sl_limiter_inspect(limiter->limiter, request, pass_bucket, &call);

    if (ret_n)
        *ret_n = n;
    return 0;
}

int sluice_reset(struct sluice *limiter, const struct sluice_request *request, size_t *ret_n)
{
    int err = sluice_validate(limiter, request, NULL, 0);

    if (err != 0)
        return err;
    if (limiter->tier)
        return sl_tier_look(limiter->tier, request, true, NULL, NULL, ret_n);
    size_t n = sl_limiter_reset(limiter->limiter, request);

    if (ret_n)
        *ret_n = n;
    return 0;
}

static struct sl_limiter_count *all_counts(struct sluice *limiter, size_t *ret_n)
{
    struct sl_limiter_count *rows = sl_calloc(&limiter->alloc, SL_COUNT_ROWS_MAX, sizeof *rows);

    if (rows)
        *ret_n = sl_limiter_counts(limiter->limiter, rows, SL_COUNT_ROWS_MAX);
    return rows;
}

int sluice_limit_counts(struct sluice *limiter, sluice_limit_count_fn *fn, void *ctx)
{
    size_t n;
    struct sl_limiter_count *rows = all_counts(limiter, &n);

    if (!rows)
        return SL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        fn(ctx, &(struct sluice_limit_count){.policy = rows[i].limit,
                                             .decided_allowed = rows[i].decided_allowed,
                                             .decided_rejected = rows[i].decided_rejected,
                                             .checks_allowed = rows[i].checks_allowed,
                                             .checks_rejected = rows[i].checks_rejected,
                                             .dry_allowed = rows[i].dry_allowed,
                                             .dry_rejected = rows[i].dry_rejected,
                                             .shared_allowed = rows[i].shared_allowed,
                                             .shared_rejected = rows[i].shared_rejected,
                                             .degraded_allowed = rows[i].degraded_allowed,
                                             .degraded_rejected = rows[i].degraded_rejected});
    sl_free(&limiter->alloc, rows);
    return 0;
}

static void worst_breaker(void *ctx, const struct sl_shard_stats *shard)
{
    struct sluice_stats *stats = ctx;

    if (shard->breaker > stats->store_breaker)
        stats->store_breaker = shard->breaker;
}

static void add_tier(struct sl_tier *tier, struct sluice_stats *stats)
{
    struct sl_fleet_stats f;

    sl_fleet_stats(tier->fleet, &f);
    stats->near_rejected = f.near_rejected;
    stats->leased = f.leased;
    stats->asked = f.asked;
    stats->degraded = f.degraded;
    stats->store_operations = f.operations;
    stats->renewals = f.renewals;
    stats->returns = f.returns;
    stats->refunds = f.refunds;
    stats->tokens_lost = f.tokens_lost;
    stats->refunds_lost = f.refunds_lost;
    stats->foreign = f.foreign;
    stats->leases = f.leases_active;
    stats->instances = f.instances;
    stats->pending = atomic_load(&tier->pending);
    stats->pending_full = atomic_load(&tier->pending_full);
    stats->store_reached = f.reached && f.secret_known;
    stats->policy_version = sl_tier_runs(tier).number;
    sl_fleet_shards(tier->fleet, worst_breaker, stats);
}

int sluice_stats(struct sluice *limiter, struct sluice_stats *ret_stats, size_t stats_size)
{
    struct sl_table *table = sl_limiter_table(limiter->limiter);
    struct sl_table_stats t;
    struct sl_limiter_stats l;
    struct sluice_stats s;

    if (stats_size == 0)
        return SL_EINVALID;
    sl_limiter_stats(limiter->limiter, &l);
    sl_table_scan(table, UINT64_MAX);
    sl_table_stats(table, &t);
    s = (struct sluice_stats){.allowed = l.allowed,
                              .rejected = l.rejected,
                              .unmatched = l.unmatched,
                              .reloads = l.reloads,
                              .table_bytes = t.bytes,
                              .table_slots = t.slots,
                              .table_live = t.live,
                              .table_evictions = t.evictions,
                              .table_negative_elapsed = t.negative_elapsed,
                              .table_log_entries = t.log_entries,
                              .table_log_used = t.log_used,
                              .table_log_folded = t.log_folded};
    if (limiter->tier)
        add_tier(limiter->tier, &s);
    memset(ret_stats, 0, stats_size);
    memcpy(ret_stats, &s, stats_size < sizeof s ? stats_size : sizeof s);
    return 0;
}
