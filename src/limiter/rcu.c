#include "limiter/rcu.h"

#include "base/err.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_MIN 16
#define SLOTS_MAX 128

/* Four slots a processor: one for the thread that runs there, the rest for those that were preempted inside. */
static unsigned choose_slots(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = SLOTS_MIN;

    while (n < SLOTS_MAX && (long)n < 4 * processors)
        n *= 2;
    return n;
}

int sl_rcu_init(struct sl_rcu *rcu, const struct sl_alloc *alloc)
{
    unsigned n = choose_slots();
    void *memory = sl_calloc(alloc, n + 1, sizeof(struct sl_rcu_slot));

    if (!memory)
        return SL_ENOMEM;
    /* An allocator need not know alignments of a cache line. */
    uintptr_t aligned = ((uintptr_t)memory + 63) & ~(uintptr_t)63;

    *rcu = (struct sl_rcu){.alloc = *alloc, .slots = (struct sl_rcu_slot *)aligned, .memory = memory, .n_slots = n};
    return 0;
}

void sl_rcu_fini(struct sl_rcu *rcu)
{
    sl_free(&rcu->alloc, rcu->memory);
    rcu->memory = NULL;
    rcu->slots = NULL;
}

/* Gives others the processor; after many turns sleeps, so that a thread of high priority cannot starve the one it
 * waits for. */
static void give_way(unsigned turn)
{
    const struct timespec pause = {.tv_nsec = 50000};

    if (turn < 100)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

static bool try_slot(struct sl_rcu *rcu, unsigned slot, void *snapshot)
{
    void *nobody = NULL;

    return __atomic_compare_exchange_n(&rcu->slots[slot].held, &nobody, snapshot, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* The way of a thread whose slot was held: by one that was preempted inside, or by the code that a signal
 * interrupted. */
static __attribute__((noinline)) unsigned claim_any(struct sl_rcu *rcu, unsigned hint, void *snapshot)
{
    for (unsigned turn = 0;; turn++) {
        for (unsigned i = 1; i <= rcu->n_slots; i++) {
            unsigned slot = (hint + i) & (rcu->n_slots - 1);

            if (!__atomic_load_n(&rcu->slots[slot].held, __ATOMIC_RELAXED) && try_slot(rcu, slot, snapshot))
                return slot;
        }
        give_way(turn);
    }
}

unsigned sl_rcu_claim(struct sl_rcu *rcu, void *snapshot)
{
    unsigned hint = (unsigned)sched_getcpu() * 4 & (rcu->n_slots - 1); /* any number will do, also that of a failure */

    return try_slot(rcu, hint, snapshot) ? hint : claim_any(rcu, hint, snapshot);
}

void sl_rcu_hold(struct sl_rcu *rcu, unsigned slot)
{
    for (unsigned turn = 0; !try_slot(rcu, slot, rcu); turn++) /* any pointer will do that is no snapshot */
        give_way(turn);
}

void *sl_rcu_swap(struct sl_rcu *rcu, void *snapshot)
{
    void *old = __atomic_exchange_n(&rcu->current, snapshot, __ATOMIC_SEQ_CST);

    for (unsigned n = 0; old && n < rcu->n_slots; n++)
        for (unsigned turn = 0; __atomic_load_n(&rcu->slots[n].held, __ATOMIC_SEQ_CST) == old; turn++)
            give_way(turn);
    return old;
}

void *sl_rcu_peek(const struct sl_rcu *rcu)
{
    return __atomic_load_n(&rcu->current, __ATOMIC_ACQUIRE);
}
