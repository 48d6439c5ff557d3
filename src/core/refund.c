/* Taking back a charge without minting.
 *
 * Between a charge and its refund the bucket may have become whole, and time that passed over a whole bucket refills
 * nothing. Giving the full cost back would then hand out what nobody saved up. docs/core.md, "Safe refund", has the
 * proof that what is given back here is never more than the surplus that the charge still causes. */
#include "core/span.h"

#define CORE_BITS (~(SL_STATE_CLAIM | SL_STATE_LOG))

static bool same_state(struct sl_state x, struct sl_state y)
{
    return ((x.lo ^ y.lo) & CORE_BITS) == 0 && x.hi == y.hi;
}

static bool bucket_refund(const struct sl_shape *shape, struct sl_state current, const struct sl_decision *charge,
                          uint64_t now_us, struct sl_state *ret_state)
{
    struct sl_span debt = sl_bucket_debt(current, now_us), give = sl_span_of_tokens(shape, charge->cost);
    struct sl_span elapsed = {.us = now_us > charge->now_us ? now_us - charge->now_us : 0};

    if (debt.frac >= shape->n || !(debt.us | debt.frac) || !sl_span_is_more(give, elapsed))
        return false;
    give = sl_span_sub(give, elapsed, shape->n);
    debt = sl_span_is_more(debt, give) ? sl_span_sub(debt, give, shape->n) : (struct sl_span){0};
    *ret_state = sl_bucket_state(shape, now_us, debt);
    return true;
}

static uint32_t less(uint32_t count, uint32_t cost)
{
    return count > cost ? count - cost : 0;
}

static bool window_refund(const struct sl_shape *shape, struct sl_state current, const struct sl_decision *charge,
                          uint64_t now_us, struct sl_state *ret_state)
{
    uint64_t whole_us = sl_state_whole_us(current), charged_us = sl_state_whole_us(charge->after);
    uint32_t prev = (uint32_t)(current.hi >> 32), cur = (uint32_t)current.hi;

    if (whole_us <= now_us)
        return false;
    if (whole_us == charged_us)
        cur = less(cur, charge->cost);
    else if (shape->algorithm == SL_SLIDING_WINDOW_COUNTER && whole_us == charged_us + shape->period_us)
        prev = less(prev, charge->cost);
    else
        return false;
    *ret_state = (struct sl_state){.lo = sl_state_version_bits(shape) | whole_us, .hi = (uint64_t)prev << 32 | cur};
    return true;
}

bool sl_refund(const struct sl_shape *shape, struct sl_state current, const struct sl_decision *charge, uint64_t now_us,
               struct sl_state *ret_state)
{
    if (!charge->allowed || charge->cost == 0 || shape->algorithm == SL_SLIDING_WINDOW_LOG ||
        !sl_state_has_version(shape, current))
        return false;
    if (same_state(current, charge->after)) {
        *ret_state = charge->before;
        return true;
    }
    if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        return bucket_refund(shape, current, charge, now_us, ret_state);
    return window_refund(shape, current, charge, now_us, ret_state);
}
