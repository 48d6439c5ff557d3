/* Do decisions keep their budget? decision_slow: more than one in a hundred takes longer.
 *
 *     sl_latency_watch_init(&watch, &teller, budget_us, &stats, now_us);
 *     sl_latency_watch_look(&watch, &stats, now_us);       once a second
 *
 * Judged is the difference of the limiter's histogram over the last minute, or over as many minutes, up to ten, as it takes
 * to have SL_LATENCY_LEAST samples; one decision in 64 is one. Within the step of the histogram in which the budget
 * lies, samples are taken to lie evenly. It begins when there are more than 1 % beyond the budget, and more than chance
 * explains, and ends at half of that (hysteresis).
 *
 * The histogram has the whole of a decision: the near part, and where the store was asked, the wait for it until the
 * answer or the deadline. So the budget is of what a caller waits for, wherever it is spent.
 *
 * Time is an argument. One thread. */
#ifndef SL_OBSERVE_WATCH_LATENCY_H
#define SL_OBSERVE_WATCH_LATENCY_H

#include "limiter/limiter.h"
#include "observe/teller.h"

#define SL_LATENCY_LEAST 100u
#define SL_LATENCY_SLOW 0.01
#define SL_LATENCY_STEP_US UINT64_C(10000000)
#define SL_LATENCY_MINUTE 6u /* steps */
#define SL_LATENCY_STEPS 60u

struct sl_latency_reading {
    uint64_t count, duration[SL_DURATION_BUCKETS];
};

struct sl_latency_watch {
    struct sl_teller teller;
    uint64_t budget_us; /* 0: nothing is watched */
    bool lasts;
    /* readings, a ring: the newest is of the beginning of this step */
    uint64_t step_us;
    unsigned n, newest;
    struct sl_latency_reading readings[SL_LATENCY_STEPS + 1];
};

/* begin: what was counted before is not looked at. */
void sl_latency_watch_init(struct sl_latency_watch *watch, const struct sl_teller *teller, uint64_t budget_us,
                           const struct sl_limiter_stats *begin, uint64_t now_us);
void sl_latency_watch_look(struct sl_latency_watch *watch, const struct sl_limiter_stats *stats, uint64_t now_us);

#endif
