#include "observe/watch_health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void sl_health_watch_init(struct sl_health_watch *watch, const struct sl_teller *teller, const struct sl_health *begin,
                          uint64_t now_us)
{
    *watch = (struct sl_health_watch){.teller = *teller};
    sl_ratio_init(&watch->calls, SL_RATIO_SAMPLES, 1, now_us);
    sl_ratio_init(&watch->evictions, SL_RATIO_SAMPLES, 1, now_us);
    sl_ratio_feed(&watch->calls, begin->slow_calls, begin->calls, now_us);
    sl_ratio_init(&watch->dropped, SL_RATIO_SAMPLES, 1, now_us);
    sl_ratio_feed(&watch->evictions, 0, begin->table.evictions, now_us);
    sl_ratio_feed(&watch->dropped, 0, begin->meter_dropped, now_us);
}

static void look_at_store(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us)
{
    char detail[SL_TELLER_DETAIL_MAX];
    const struct sl_ratio_window *now = &watch->calls.now;

    sl_ratio_feed(&watch->calls, health->slow_calls, health->calls, now_us);
    snprintf(detail, sizeof detail, "%.1f %% of %" PRIu64 " calls in ten seconds", now->share * 100, now->n);
    sl_teller_set(&watch->teller, SL_ALARM_STORE_SLOW, now->n >= SL_HEALTH_CALLS && now->share > SL_HEALTH_SLOW, detail,
                  now_us);
}

static void look_at_clocks(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us)
{
    char detail[SL_TELLER_DETAIL_MAX];
    int64_t apart_us = health->clock_apart_us;

    snprintf(detail, sizeof detail, "ours is %.1f s %s", (double)llabs((long long)apart_us) / 1e6,
             apart_us < 0 ? "behind" : "ahead");
    sl_teller_set(&watch->teller, SL_ALARM_CLOCKS_APART,
                  apart_us > SL_HEALTH_APART_US || apart_us < -SL_HEALTH_APART_US, detail, now_us);
}

static void look_at_table(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us)
{
    const struct sl_table_stats *table = &health->table;
    char detail[SL_TELLER_DETAIL_MAX];
    uint64_t evicted;

    sl_ratio_feed(&watch->evictions, 0, table->evictions, now_us);
    evicted = watch->evictions.now.n;
    snprintf(detail, sizeof detail,
             "%" PRIu64 " of %" PRIu64 " slots are live, %" PRIu64 " live ones evicted in ten seconds", table->live,
             table->slots, evicted);
    sl_teller_set(&watch->teller, SL_ALARM_TABLE_FULL,
                  evicted >= SL_HEALTH_EVICTIONS || (double)table->live > (double)table->slots * SL_HEALTH_LIVE, detail,
                  now_us);
}

static void look_at_metering(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us)
{
    char detail[SL_TELLER_DETAIL_MAX];

    sl_ratio_feed(&watch->dropped, 0, health->meter_dropped, now_us);
    snprintf(detail, sizeof detail, "%" PRIu64 " in ten seconds", watch->dropped.now.n);
    sl_teller_set(&watch->teller, SL_ALARM_METERING_DROPPING, watch->dropped.now.n > 0, detail, now_us);
}

void sl_health_watch_look(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us)
{
    look_at_store(watch, health, now_us);
    look_at_clocks(watch, health, now_us);
    look_at_table(watch, health, now_us);
    look_at_metering(watch, health, now_us);
}
