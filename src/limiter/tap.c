/* Which requests a tap is told of. */
#include "limiter/snapshot.h"

/* 1 ... 2 * SL_TAP_EVERY - 1, on average SL_TAP_EVERY: at random, for a fixed step would see one key alone of keys that come
 * in turn. It need not be strong. */
static uint64_t next_turn(struct sl_limiter *limiter, unsigned slot)
{
    uint64_t x = limiter->pulses[slot].tap_random += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return 1 + ((x >> 32) * (2 * SL_TAP_EVERY - 1) >> 32);
}

void sl_tap_now(struct sl_limiter *limiter, unsigned slot, const struct sluice_request *request, bool rejected)
{
    if (!limiter->tap)
        return; /* the countdown began at 0 and has come round */
    limiter->pulses[slot].tap_left = next_turn(limiter, slot);
    limiter->tap(limiter->tap_ctx, slot, request, rejected);
}

void sl_limiter_set_tap(struct sl_limiter *limiter, sl_tap *tap, void *ctx)
{
    limiter->tap = tap;
    limiter->tap_ctx = ctx;
    for (unsigned slot = 0; slot < limiter->rcu.n_slots; slot++) {
        limiter->pulses[slot].tap_random = slot;
        limiter->pulses[slot].tap_left = tap ? next_turn(limiter, slot) : 0;
    }
}

unsigned sl_limiter_slots(const struct sl_limiter *limiter)
{
    return limiter->rcu.n_slots;
}

void sl_limiter_hold_slot(struct sl_limiter *limiter, unsigned slot, void (*fn)(void *ctx, unsigned slot), void *ctx)
{
    sl_rcu_hold(&limiter->rcu, slot);
    fn(ctx, slot);
    sl_rcu_leave(&limiter->rcu, slot);
}
