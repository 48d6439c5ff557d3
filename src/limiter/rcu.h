/* One pointer that many read and few replace: the policy in force.
 *
 * A reader takes a slot of its own for as long as it uses the snapshot: one compare-and-swap that no other thread
 * contends for, as slots are chosen by processor. A writer publishes the new snapshot, then waits until no slot holds
 * the old one. While a slot is held nobody else holds it: whatever is kept per slot (counters) needs no atomic
 * read-modify-write.
 *
 * The wait is as long as the longest read: well under a microsecond, or until a reader that was preempted inside runs
 * again.
 *
 * With more readers inside than slots (threads preempted while inside) the next one yields until one leaves. A reader
 * may be interrupted by a signal handler that reads too. After fork(2) in the middle of another thread's read the
 * child can read but not replace: the slot stays held there. */
#ifndef SL_LIMITER_RCU_H
#define SL_LIMITER_RCU_H

#include "base/alloc.h"

struct sl_rcu_slot {
    _Alignas(64) void *held; /* atomic; NULL: free */
};

struct sl_rcu {
    struct sl_alloc alloc;
    void *current; /* atomic */
    struct sl_rcu_slot *slots;
    void *memory;     /* what `slots` lies in */
    unsigned n_slots; /* a power of two */
};

/* Without a snapshot: sl_rcu_swap puts the first one in force, and returns NULL, before anybody may enter. Returns 0 or
 * SL_ENOMEM. */
int sl_rcu_init(struct sl_rcu *rcu, const struct sl_alloc *alloc);

/* Nobody may be inside. The snapshot stays the caller's: see sl_rcu_peek. */
void sl_rcu_fini(struct sl_rcu *rcu);

/* Takes the slot of this processor or, when that is held, any that is free; waits while there is none. The snapshot is
 * only what the slot shows to writers at first: see sl_rcu_enter. */
unsigned sl_rcu_claim(struct sl_rcu *rcu, void *snapshot);

/* Enters: *ret_snapshot stays valid, and the slot whose number is returned the caller's own, until sl_rcu_leave. Keep
 * it short: a writer waits. */
static inline unsigned sl_rcu_enter(struct sl_rcu *rcu, void **ret_snapshot)
{
    void *snapshot = __atomic_load_n(&rcu->current, __ATOMIC_ACQUIRE), *now;
    unsigned slot = sl_rcu_claim(rcu, snapshot);

    /* Either the writer sees this slot, or this thread sees the writer's snapshot: both sides store, then load. */
    while ((now = __atomic_load_n(&rcu->current, __ATOMIC_SEQ_CST)) != snapshot) {
        snapshot = now;
        __atomic_store_n(&rcu->slots[slot].held, snapshot, __ATOMIC_SEQ_CST);
    }
    *ret_snapshot = snapshot;
    return slot;
}

static inline void sl_rcu_leave(struct sl_rcu *rcu, unsigned slot)
{
    __atomic_store_n(&rcu->slots[slot].held, NULL, __ATOMIC_RELEASE);
}

/* Takes this very slot, as soon as it is free, to look at what is kept for it, or change it; sl_rcu_leave gives it back. Keep it
 * short: readers go to other slots meanwhile. Not from inside. */
void sl_rcu_hold(struct sl_rcu *rcu, unsigned slot);

/* Puts `snapshot` (not NULL) in force and returns the old one when its last reader has left. One writer at a time;
 * not from inside. */
void *sl_rcu_swap(struct sl_rcu *rcu, void *snapshot);

/* The snapshot in force, for a writer, who alone knows that it stays. */
void *sl_rcu_peek(const struct sl_rcu *rcu);

#endif
