/* The alarms about what decisions stand on: is the store slow, do the clocks agree, is there room in the table,
 * does metering keep up?
 *
 *     sl_health_watch_look(&watch, &health, now_us);       once a second
 *
 * store_slow          of the calls of the last ten seconds, at least SL_HEALTH_CALLS, more than 1 % were slow
 * clocks_apart        by more than SL_HEALTH_APART_US
 * table_full          more than 90 % of the slots live, or SL_HEALTH_EVICTIONS live buckets evicted within ten seconds
 * metering_dropping   a usage event was thrown away within the last ten seconds
 *
 * Time is an argument. One thread. */
#ifndef SL_OBSERVE_WATCH_HEALTH_H
#define SL_OBSERVE_WATCH_HEALTH_H

#include "observe/ratio.h"
#include "observe/teller.h"
#include "table/table.h"

#define SL_HEALTH_CALLS 100u
#define SL_HEALTH_SLOW 0.01
#define SL_HEALTH_APART_US INT64_C(1000000)
#define SL_HEALTH_LIVE 0.90
#define SL_HEALTH_EVICTIONS 10u

struct sl_health {
    struct sl_table_stats table;
    /* Of the store; all 0 without one. */
    uint64_t calls, slow_calls; /* answered or timed out, of all shards; those that took nearly the deadline or more */
    int64_t clock_apart_us;     /* as in struct sl_fleet_stats */
    uint64_t meter_dropped;     /* usage events that were thrown away; 0 where nothing is metered */
};

struct sl_health_watch {
    struct sl_teller teller;
    struct sl_ratio calls;              /* slow ones of all */
    struct sl_ratio evictions, dropped; /* only as windows */
};

/* begin: how things stand at first; what was counted before is not looked at. */
void sl_health_watch_init(struct sl_health_watch *watch, const struct sl_teller *teller, const struct sl_health *begin,
                          uint64_t now_us);
void sl_health_watch_look(struct sl_health_watch *watch, const struct sl_health *health, uint64_t now_us);

#endif
