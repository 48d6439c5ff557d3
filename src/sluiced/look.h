/* The daemon's eye on itself: once a second it reads what is counted and feeds the alarms (observe/watch_*.h), and
 * follows the hottest keys (observe/top.h).
 *
 *     sl_look_start(&look, limiter, &tier, log, ...);   before the server decides
 *     sl_look_now(&look);                               once a second, on the daemon's loop
 *     sl_look_stop(&look);                              after the server, before the limiter goes */
#ifndef SL_SLUICED_LOOK_H
#define SL_SLUICED_LOOK_H

#include "limiter/limiter.h"
#include "observe/top.h"
#include "observe/watch_health.h"
#include "observe/watch_latency.h"
#include "observe/watch_ratio.h"
#include "sluiced/log.h"
#include "sluiced/tier.h"

struct sl_look {
    struct sl_limiter *limiter; /* borrowed, as tier and log */
    struct sl_tier *tier;
    struct sl_log *log;
    struct sl_alloc alloc;
    struct sl_ratio_watch *ratios; /* for the metrics too, as top */
    struct sl_top *top;
    struct sl_health_watch health;
    struct sl_latency_watch latency;
    struct sl_limiter_count *rows; /* SL_COUNT_ROWS_MAX, scratch */
};

/* Returns 0, SL_ENOMEM or SL_EIO (no randomness), with nothing left. */
int sl_look_start(struct sl_look *look, struct sl_limiter *limiter, struct sl_tier *tier, struct sl_log *log);
void sl_look_now(struct sl_look *look);
void sl_look_stop(struct sl_look *look); /* accepts one that was zeroed and never started */

#endif
