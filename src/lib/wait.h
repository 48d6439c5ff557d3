/* A count that one thread waits for until others have brought it to zero. It may lie on the waiter's stack: whoever
 * brings it to zero does not touch it any more. */
#ifndef SL_LIB_WAIT_H
#define SL_LIB_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sl_wait {
    atomic_uint left;
};

static inline void sl_wait_init(struct sl_wait *wait, unsigned left)
{
    atomic_init(&wait->left, left);
}

/* One less; the last one wakes the waiter. Any thread. */
void sl_wait_done(struct sl_wait *wait);

/* Waits for zero, at most for_us (UINT64_MAX: for ever). True when it is zero. */
bool sl_wait_for(struct sl_wait *wait, uint64_t for_us);

#endif
