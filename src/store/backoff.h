/* How long to wait before dialling again: longer each time up to a cap, and at random, so that a fleet that lost one
 * server together does not come back together. Each wait is drawn from [base, 3 x the wait before], cut at the cap. */
#ifndef SL_STORE_BACKOFF_H
#define SL_STORE_BACKOFF_H

#include <stdint.h>

struct sl_backoff {
    uint64_t base_us, cap_us; /* 0 < base <= cap */
    uint64_t last_us;         /* 0: no failure since the last success */
};

/* The next wait. `random`: any number. */
static inline uint64_t sl_backoff_next_us(struct sl_backoff *backoff, uint64_t random)
{
    uint64_t from = backoff->base_us;
    uint64_t to = 3 * (backoff->last_us ? backoff->last_us : from);

    if (to > backoff->cap_us)
        to = backoff->cap_us;
    backoff->last_us = to > from ? from + random % (to - from + 1) : from;
    return backoff->last_us;
}

static inline void sl_backoff_reset(struct sl_backoff *backoff)
{
    backoff->last_us = 0;
}

#endif
