/* The lock that lets one inserter of a key at a time through.
 *
 * The word counts: even is free, odd is held, and every taking makes a value that never was before. A waiter who
 * has seen one and the same odd value for SL_STEAL_US takes the lock over, whether the holder died or only sleeps.
 * That is safe because a holder's writes are compare-and-swaps on what it saw, and because between claiming a slot
 * and filling it a holder makes sure that it still holds the lock (insert.c). The waiter's own stop-watch decides,
 * so no deadline is left behind in the region. */
#include "table/internal.h"

struct sl_stripe *sl_stripe_of(const struct sl_table *t, uint64_t tag)
{
    return &t->stripes[tag >> 54]; /* the top ten bits: SL_STRIPES of them */
}
static_assert(SL_STRIPES == 1u << (64 - 54), "every stripe is used");

uint64_t sl_stripe_lock(struct sl_table *t, struct sl_stripe *s)
{
    struct sl_wait wait = {0};
    uint64_t seen = __atomic_load_n(&s->lock, __ATOMIC_ACQUIRE);

    for (;;) {
        if ((seen & 1) == 0) {
            if (sl_swap(&s->lock, seen, seen + 1)) {
                sl_at(t, SL_POINT_STRIPE_LOCKED);
                return seen + 1;
            }
        } else if (sl_wait_turn(&wait) >= SL_STEAL_US && sl_swap(&s->lock, seen, seen + 2)) {
            sl_add(&t->header->locks_recovered, 1);
            sl_at(t, SL_POINT_STRIPE_LOCKED);
            return seen + 2;
        }
        uint64_t now = __atomic_load_n(&s->lock, __ATOMIC_ACQUIRE);
        if (now != seen)
            wait = (struct sl_wait){0};
        seen = now;
    }
}

void sl_stripe_unlock(struct sl_stripe *s, uint64_t mine)
{
    sl_swap(&s->lock, mine, mine + 1); /* fails when it was taken over, and is not ours to free then */
}
