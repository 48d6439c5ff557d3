/* Deciding: what a stored state says at `now`, and whether a cost still fits.
 *
 * A state may be of the past (its time has gone: it says nothing), of now, of a newer clock reading than ours
 * (another thread was faster: decided at the latest, never moved back), of another shape of the limit (after a
 * reload: converted), or damaged (healed). Whatever it is, the result obeys the shape. */
#include "core/decide.h"

bool sl_bucket_heal(const struct sl_shape *shape, struct sl_state state, struct sl_span *debt)
{
    bool same_shape = sl_state_has_version(shape, state) && debt->frac < shape->n;
    uint64_t tolerated_us = same_shape ? SL_STALE_MAX_US : 0;

    if (!same_shape) {
        /* The fraction means nothing under another denominator. Up, so that a reload is never in the client's
         * favour. */
        debt->us += debt->frac != 0;
        debt->frac = 0;
    }
    if (!sl_span_is_more(*debt, (struct sl_span){.us = shape->cap_us + tolerated_us, .frac = shape->cap_frac}))
        return false;
    *debt = sl_full_debt(shape);
    return true;
}

static uint64_t window_end_us(const struct sl_shape *shape, uint64_t now_us)
{
    return now_us - now_us % shape->period_us + shape->period_us;
}

/* True when the window that begins at start_us is a real one of this shape, entered by a reading slightly newer than
 * ours. */
static bool is_newer_window(const struct sl_shape *shape, struct sl_state state, uint64_t start_us, uint64_t now_us)
{
    return sl_state_has_version(shape, state) && start_us > now_us && start_us - now_us <= SL_STALE_MAX_US &&
           start_us % shape->period_us == 0;
}

struct window {
    uint64_t whole_us;   /* as stored */
    uint32_t prev, cur;  /* prev: sliding counter only */
    uint64_t elapsed_us; /* sliding counter: since cur's window began */
    bool healed;         /* must be stored even when the request is rejected */
};

static struct window fixed_window(const struct sl_shape *shape, struct sl_state state, uint64_t now_us)
{
    uint64_t whole_us = sl_state_whole_us(state);
    struct window w = {.whole_us = window_end_us(shape, now_us)};

    if (whole_us <= now_us)
        return w;
    w.cur = (uint32_t)state.hi;
    if (whole_us == w.whole_us)
        return w;
    if (whole_us > shape->period_us && is_newer_window(shape, state, whole_us - shape->period_us, now_us))
        w.whole_us = whole_us;
    else
        w.healed = true;
    return w;
}

static struct window sliding_window(const struct sl_shape *shape, struct sl_state state, uint64_t now_us)
{
    uint64_t whole_us = sl_state_whole_us(state), period_us = shape->period_us;
    uint64_t end_us = window_end_us(shape, now_us);
    struct window w = {.whole_us = end_us + period_us, .elapsed_us = now_us % period_us};
    bool same_shape = sl_state_has_version(shape, state);

    if (whole_us <= now_us)
        return w;
    if (same_shape && whole_us == end_us) { /* the window before this one */
        w.prev = (uint32_t)state.hi;
        return w;
    }
    w.cur = (uint32_t)state.hi;
    w.prev = (uint32_t)(state.hi >> 32);
    if (same_shape && whole_us == w.whole_us)
        return w;
    if (whole_us > 2 * period_us && is_newer_window(shape, state, whole_us - 2 * period_us, now_us)) {
        w.whole_us = whole_us;
        w.elapsed_us = 0;
    } else {
        w.healed = true;
    }
    return w;
}

/* prev * (1 - elapsed/P) + cur + cost <= R, multiplied out. prev < 2^32 and P < 2^45: the products need 128 bits. */
static bool sliding_window_fits(const struct sl_shape *shape, const struct window *w, uint32_t cost)
{
    uint64_t used = (uint64_t)w->cur + cost;

    if (used > shape->limit)
        return false;
    return (unsigned __int128)w->prev * (shape->period_us - w->elapsed_us) <=
           (unsigned __int128)(shape->limit - used) * shape->period_us;
}

static struct sl_state window_state(const struct sl_shape *shape, const struct window *w)
{
    return (struct sl_state){.lo = sl_state_version_bits(shape) | w->whole_us, .hi = (uint64_t)w->prev << 32 | w->cur};
}

void sl_decide_window(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
                      struct sl_decision *ret_decision)
{
    bool sliding = shape->algorithm == SL_SLIDING_WINDOW_COUNTER;
    struct window w = sliding ? sliding_window(shape, state, now_us) : fixed_window(shape, state, now_us);

    *ret_decision = (struct sl_decision){.allowed = true, .cost = cost, .now_us = now_us};
    ret_decision->before = ret_decision->after = window_state(shape, &w);
    if (cost == 0)
        return;
    ret_decision->never = cost > shape->limit;
    /* A fixed window has no prev, so one test serves both. */
    ret_decision->allowed = sliding_window_fits(shape, &w, cost);
    ret_decision->changed = ret_decision->allowed || w.healed;
    if (!ret_decision->allowed)
        return;
    w.cur += cost;
    ret_decision->after = window_state(shape, &w);
}

void sl_decide(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
               struct sl_decision *ret_decision)
{
    sl_decide_inline(shape, state, now_us, cost, ret_decision);
}
