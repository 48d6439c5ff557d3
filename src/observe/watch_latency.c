#include "observe/watch_latency.h"

#include <inttypes.h>
#include <stdio.h>

#define SIGMAS 4.0 /* what chance explains */
#define LEAST_NS 64.0

/* ---- readings */

static void take_reading(struct sl_latency_watch *watch, const struct sl_limiter_stats *stats)
{
    struct sl_latency_reading *reading;

    watch->newest = (watch->newest + 1) % (SL_LATENCY_STEPS + 1);
    reading = &watch->readings[watch->newest];
    reading->count = stats->duration_count;
    for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++)
        reading->duration[i] = stats->duration[i];
    if (watch->n <= SL_LATENCY_STEPS)
        watch->n++;
}

static const struct sl_latency_reading *reading_of(const struct sl_latency_watch *watch, unsigned back)
{
    return &watch->readings[(watch->newest + SL_LATENCY_STEPS + 1 - back) % (SL_LATENCY_STEPS + 1)];
}

/* The latest one that is a minute old or older and has enough samples after it, else the oldest. */
static const struct sl_latency_reading *begin_of(const struct sl_latency_watch *watch,
                                                 const struct sl_limiter_stats *stats)
{
    unsigned back = watch->n - 1 < SL_LATENCY_MINUTE ? watch->n - 1 : SL_LATENCY_MINUTE;

    while (back + 1 < watch->n && stats->duration_count - reading_of(watch, back)->count < SL_LATENCY_LEAST)
        back++;
    return reading_of(watch, back);
}

/* ---- judging */

struct window {
    double n, buckets[SL_DURATION_BUCKETS];
};

static struct window window_of(const struct sl_latency_watch *watch, const struct sl_limiter_stats *stats)
{
    const struct sl_latency_reading *from = begin_of(watch, stats);
    struct window w = {0};

    for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++) {
        w.buckets[i] = stats->duration[i] > from->duration[i] ? (double)(stats->duration[i] - from->duration[i]) : 0;
        w.n += w.buckets[i];
    }
    return w;
}

static double upper_ns(unsigned bucket)
{
    return LEAST_NS * (double)(UINT64_C(1) << bucket);
}

static double lower_ns(unsigned bucket)
{
    return bucket ? upper_ns(bucket - 1) : 0;
}

/* How many took longer. The last bucket has no end, and all of it is beyond its beginning. */
static double beyond(const struct window *w, double ns)
{
    double n = 0;

    for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++) {
        if (lower_ns(i) >= ns || i == SL_DURATION_BUCKETS - 1)
            n += w->buckets[i];
        else if (upper_ns(i) > ns)
            n += w->buckets[i] * (upper_ns(i) - ns) / (upper_ns(i) - lower_ns(i));
    }
    return n;
}

static double p99_ns(const struct window *w)
{
    double left = w->n * SL_LATENCY_SLOW;

    for (unsigned i = SL_DURATION_BUCKETS; i-- > 0;) {
        if (w->buckets[i] > left)
            return i == SL_DURATION_BUCKETS - 1 ? lower_ns(i)
                                                : upper_ns(i) - (upper_ns(i) - lower_ns(i)) * left / w->buckets[i];
        left -= w->buckets[i];
    }
    return 0;
}

/* Once it is so, half as many are enough. */
static bool is_slow(const struct window *w, double slow, bool lasts)
{
    double usual = w->n * SL_LATENCY_SLOW, excess = slow - usual;

    if (w->n < SL_LATENCY_LEAST)
        return false;
    return lasts ? slow > usual / 2 : excess > 0 && excess * excess > SIGMAS * SIGMAS * usual;
}

static void tell(const struct sl_latency_watch *watch, const struct window *w, uint64_t now_us)
{
    char detail[SL_TELLER_DETAIL_MAX];

    snprintf(detail, sizeof detail, "its 99th percentile is %.2g ms, of %.0f that were measured; the budget is %.4g ms",
             p99_ns(w) / 1e6, w->n, (double)watch->budget_us / 1e3);
    sl_teller_set(&watch->teller, SL_ALARM_DECISION_SLOW, watch->lasts, detail, now_us);
}

/* ---- the door */

void sl_latency_watch_init(struct sl_latency_watch *watch, const struct sl_teller *teller, uint64_t budget_us,
                           const struct sl_limiter_stats *begin, uint64_t now_us)
{
    *watch = (struct sl_latency_watch){.teller = *teller, .budget_us = budget_us, .step_us = now_us};
    take_reading(watch, begin);
}

void sl_latency_watch_look(struct sl_latency_watch *watch, const struct sl_limiter_stats *stats, uint64_t now_us)
{
    struct window w;

    if (watch->budget_us == 0)
        return;
    w = window_of(watch, stats);
    watch->lasts = is_slow(&w, beyond(&w, (double)watch->budget_us * 1e3), watch->lasts);
    tell(watch, &w, now_us);
    if (now_us >= watch->step_us + SL_LATENCY_STEP_US) {
        watch->step_us = now_us;
        take_reading(watch, stats);
    }
}
