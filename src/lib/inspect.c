#include "lib/handle.h"

#include "base/err.h"

#include <string.h>

struct bucket_call {
    sluice_bucket_fn *fn;
    void *ctx;
};

static void pass_bucket(void *ctx, const struct sl_bucket_info *info)
{
    const struct bucket_call *call = ctx;
    const struct sl_shape *shape = &info->limit->shapes[info->rate_idx];

    call->fn(call->ctx, &(struct sluice_bucket){.policy = info->limit->name,
                                                .endpoint = info->endpoint,
                                                .rate_idx = info->rate_idx,
                                                .dry_run = info->limit->mode == SL_MODE_DRY_RUN,
                                                .limit = info->numbers.limit,
                                                .remaining = info->numbers.remaining,
                                                .period_ms = (int64_t)(shape->period_us / SL_MS_US),
                                                .reset_after_ms = info->numbers.reset_after_ms});
}

int sluice_inspect(struct sluice *limiter, const struct sluice_request *request, sluice_bucket_fn *fn, void *ctx,
                   size_t *ret_n)
{
    struct bucket_call call = {.fn = fn, .ctx = ctx};
    int err = sluice_validate(limiter, request, NULL, 0);

    if (err != 0)
        return err;
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
                                             .dry_rejected = rows[i].dry_rejected});
    sl_free(&limiter->alloc, rows);
    return 0;
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
    memset(ret_stats, 0, stats_size);
    memcpy(ret_stats, &s, stats_size < sizeof s ? stats_size : sizeof s);
    return 0;
}
