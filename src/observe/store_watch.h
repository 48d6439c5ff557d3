/* What happens between us and the stores, for people: one line at each change, and the alarms about it.
 *
 * Every loop has connections of its own and notices the same for itself; so lines are joined, one a store, shard and
 * state, and at most one a second for each shard and kind of change: what changes faster is counted, and told with the
 * next line. The last state is always told. Findings (the kind of server, foreign data) are told once, and again after
 * an hour.
 *
 *     sl_store_watch_event(watch, event, now_us);      from every lane, as it comes
 *     sl_store_watch_look(watch, &health, now_us);     a few times a second: late lines, alarms
 *
 * Time is an argument: microseconds that do not step back. Any thread; `say` is called with a lock held, and must not
 * call back. */
#ifndef SL_OBSERVE_STORE_WATCH_H
#define SL_OBSERVE_STORE_WATCH_H

#include "fleet/fleet.h"
#include "observe/alarm.h"

#define SL_STORE_WATCH_ROWS 256u /* shards times kinds, and findings; what is beyond shares a row */
#define SL_STORE_WATCH_QUIET_US UINT64_C(1000000)
#define SL_STORE_WATCH_GRACE_US UINT64_C(2000000) /* after the start, before a store not yet reached is an alarm */

enum sl_store_say { SL_STORE_SAY_ERROR, SL_STORE_SAY_WARNING, SL_STORE_SAY_INFO };

struct sl_store_watch;

struct sl_store_watch_config {
    const struct sl_alloc *alloc; /* borrowed, as the rest */
    struct sl_alarms *alarms;
    void (*say)(void *ctx, enum sl_store_say severity, const char *line);
    void *ctx;
    uint64_t now_us;
};

int sl_store_watch_new(const struct sl_store_watch_config *config,
                       struct sl_store_watch **ret_watch); /* 0, SL_ENOMEM */
void sl_store_watch_free(struct sl_store_watch *watch);    /* accepts NULL */

void sl_store_watch_event(struct sl_store_watch *watch, const struct sl_fleet_event *event, uint64_t now_us);

/* How things stand, as sl_fleet_stats and sl_fleet_shards tell it. */
struct sl_store_health {
    bool reached, secret_known;
    enum sl_breaker_state breaker; /* the worst of all shards */
    uint64_t answered, refused;    /* calls since the start; refused: with an error that no breaker counts */
};
void sl_store_watch_look(struct sl_store_watch *watch, const struct sl_store_health *health, uint64_t now_us);

#endif
