/* A lock of one byte for sections of some tens of nanoseconds, one beside every small set of a table.
 *
 * Waiters spin a little, then yield: whoever holds it may have been preempted. Not recursive. All zero is free. */
#ifndef SL_FLEET_LOCK_H
#define SL_FLEET_LOCK_H

#include <sched.h>
#include <stdatomic.h>

struct sl_spin {
    atomic_uchar held;
};

#define SL_SPINS 64u

static inline void sl_spin_lock(struct sl_spin *lock)
{
    unsigned spins = 0;

    while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire)) {
        while (atomic_load_explicit(&lock->held, memory_order_relaxed))
            if (++spins > SL_SPINS)
                sched_yield();
    }
}

static inline void sl_spin_unlock(struct sl_spin *lock)
{
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif
