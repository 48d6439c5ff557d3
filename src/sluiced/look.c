#include "sluiced/look.h"

#include "base/err.h"

#include <uv.h>

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

static void on_say(void *ctx, bool serious, const char *line)
{
    struct sl_look *look = ctx;

    sl_log(look->log, serious ? SL_LOG_ERROR : SL_LOG_INFO, "%s", line);
}

/* ---- what decisions stand on */

struct calls {
    struct sl_health *health;
    uint64_t timeout_us;
};

/* Slow: beyond the last step of the histogram that is shorter than the deadline. */
static void add_calls(void *ctx, const struct sl_shard_stats *stats)
{
    struct calls *calls = ctx;

    for (unsigned i = 0; i < SL_CLIENT_DURATIONS; i++) {
        calls->health->calls += stats->durations[i];
        if (i == SL_CLIENT_DURATIONS - 1 || sl_client_bounds_us[i] >= calls->timeout_us)
            calls->health->slow_calls += stats->durations[i];
    }
}

static struct sl_health health_now(struct sl_look *look)
{
    struct sl_health health = {0};
    uint64_t timeout_us = look->tier->config->timeout_us;
    struct calls calls = {.health = &health, .timeout_us = timeout_us ? timeout_us : SL_CLIENT_TIMEOUT_US};
    struct sl_fleet_stats stats;

    sl_table_stats(sl_limiter_table(look->limiter), &health.table);
    if (look->tier->fleet) {
        sl_fleet_shards(look->tier->fleet, add_calls, &calls);
        sl_fleet_stats(look->tier->fleet, &stats);
        health.clock_apart_us = stats.clock_apart_us;
    }
    return health;
}

/* ---- traffic */

static void look_at_traffic(struct sl_look *look)
{
    struct sl_ratio_traffic traffic = {.rows = look->rows, .hottest_address = sl_top_hottest_address(look->top)};

    traffic.n_rows = sl_limiter_counts(look->limiter, look->rows, SL_COUNT_ROWS_MAX);
    sl_limiter_stats(look->limiter, &traffic.stats);
    sl_ratio_watch_look(look->ratios, &traffic, now_us());
    sl_latency_watch_look(&look->latency, &traffic.stats, now_us());
}

void sl_look_now(struct sl_look *look)
{
    struct sl_health health;

    sl_top_look(look->top, now_us());
    health = health_now(look);
    look_at_traffic(look);
    sl_health_watch_look(&look->health, &health, now_us());
    sl_policy_watch_look(&look->tier->policies, now_us());
}

/* ---- life */

int sl_look_start(struct sl_look *look, struct sl_limiter *limiter, struct sl_tier *tier, struct sl_log *log)
{
    struct sl_teller teller = {.alarms = &tier->alarms, .say = on_say, .ctx = look};
    struct sl_health begin;
    struct sl_limiter_stats stats;
    int err = SL_ENOMEM;

    *look = (struct sl_look){.limiter = limiter, .tier = tier, .log = log, .alloc = sl_alloc_system()};
    look->rows = sl_calloc(&look->alloc, SL_COUNT_ROWS_MAX, sizeof *look->rows);
    if (look->rows)
        err = sl_ratio_watch_new(&look->alloc, &teller, now_us(), &look->ratios);
    if (!err)
        err = sl_top_new(&look->alloc, limiter, &look->top);
    if (err) {
        sl_look_stop(look);
        return err;
    }
    sl_limiter_stats(limiter, &stats);
    sl_latency_watch_init(&look->latency, &teller, sl_config_latency_budget_us(tier->config, sl_tier_is_shared(tier)),
                          &stats, now_us());
    begin = health_now(look);
    sl_health_watch_init(&look->health, &teller, &begin, now_us());
    look_at_traffic(look); /* which limits there are from the start */
    return 0;
}

void sl_look_stop(struct sl_look *look)
{
    if (!look->limiter)
        return;
    sl_top_free(look->top);
    sl_ratio_watch_free(look->ratios);
    sl_free(&look->alloc, look->rows);
    *look = (struct sl_look){0};
}
