/* Sixteen bytes of state, and the decision that turns one into the next.
 *
 * For the four algorithms of constant size sl_decide is a pure function: (shape, old state, now, cost) -> (allowed,
 * new state). Whoever holds the state (the table by compare-and-swap, the Redis module, a test) stores `after` if
 * what it gave is still in place, else asks again. Rejections and peeks leave the state as it was. For the sliding
 * log the holder keeps the entries and core judges their sum (core/log.h).
 *
 *   lo   [claim 1 | log 1 | version 6 | whole 56]
 *   hi   token_bucket, leaky_bucket   [0 32 | frac 32]    time of wholeness (TAT) = whole + frac/n us
 *        fixed_window                 [0 32 | count 32]   whole = end of the window the count belongs to
 *        sliding_window_counter       [prev 32 | cur 32]  whole = end of cur's window + PERIOD
 *        sliding_window_log           [lock owner 32 | entry index 32]  whole = newest entry + PERIOD
 *
 * The one invariant of all of them: a state whose `whole` is <= now (frac == 0) or < now says nothing: the bucket is
 * whole, and so is a bucket that has no state at all. Expiry therefore needs no timer and no knowledge of the shape:
 * sl_state_is_dead(state, now) is true of every whole bucket, one tick later at the latest. The all-zero state is
 * the empty one. `claim` and `log` belong to the table.
 *
 * `version` tells states written under another shape of the same limit (after a reload). A bucket then keeps its
 * debt in time, rounded up to a whole tick and capped at the new full debt; a window keeps its count, in the window
 * that contains now (a changed COUNT alone leaves windows as they are).
 *
 * A state ahead of now by more than its shape allows is of two kinds. Up to SL_STALE_MAX_US it is the work of a
 * newer clock reading than ours (another thread was faster): it is decided at that reading's time and never moved
 * back, for moving it back would mint. Beyond that a clock leapt and came back, or the state is damaged or foreign:
 * it is healed, debt or count as it stood (at most the full debt), moved to now. A healed state must be stored even
 * when the request is rejected, else it would be healed again at every request and never come right; `changed` says
 * so.
 *
 * Nothing here can fail, and any bit pattern is a valid input. */
#ifndef SL_CORE_STATE_H
#define SL_CORE_STATE_H

#include "core/limits.h"
#include "core/shape.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_state {
    uint64_t lo, hi;
};

#define SL_STALE_MAX_US SL_SECOND_US /* how far readings of concurrent deciders may lie apart */

#define SL_STATE_CLAIM (UINT64_C(1) << 63)
#define SL_STATE_LOG (UINT64_C(1) << 62)
#define SL_STATE_VERSION_SHIFT 56
#define SL_STATE_VERSION_MASK UINT64_C(63)
#define SL_STATE_WHOLE_MASK ((UINT64_C(1) << 56) - 1)

static inline uint64_t sl_state_whole_us(struct sl_state s)
{
    return s.lo & SL_STATE_WHOLE_MASK;
}

/* True when the bucket is whole again at now_us whatever its shape, so that its slot may be reused. A fraction of
 * a tick counts as a tick. Undefined for claims. */
static inline bool sl_state_is_dead(struct sl_state s, uint64_t now_us)
{
    return sl_state_whole_us(s) < now_us;
}

/* What was decided. `before` is the state as judged (healed, converted, moved to the window of now), so that
 * the figures of a verdict can be computed later, and only where somebody asks for them. */
struct sl_decision {
    bool allowed;
    bool never;   /* rejected for ever: cost above what the limit can hold */
    bool changed; /* `after` must be stored: it was charged, or (also when rejected) healed */
    uint32_t cost;
    uint64_t now_us;
    struct sl_state before; /* normalised */
    struct sl_state after;  /* equals `before` in value when nothing is spent */
    /* sliding_window_log only, filled by the holder of the entries (see core/log.h) */
    uint64_t log_sum;       /* sum of the costs in force, before this request */
    uint64_t log_newest_us; /* time of the newest entry in force, after this request; 0: none */
    uint64_t log_fit_us;    /* rejected: when enough entries will have expired */
};

/* Decides a request of `cost` (0 ... SL_COST_MAX) at now_us (<= SL_TIME_MAX_US). Cost 0 spends nothing, is always
 * allowed and never `changed`. Not for SL_SLIDING_WINDOW_LOG. core/decide.h has it inline. Any thread; pure. */
void sl_decide(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
               struct sl_decision *ret_decision);

/* The figures of a verdict, all in the units of SPEC section 4. */
struct sl_numbers {
    int64_t limit;          /* tokens */
    int64_t remaining;      /* tokens, after this decision; 0 <= remaining <= limit */
    int64_t retry_after_ms; /* 0 when allowed, -1 when never, else >= 1 */
    int64_t reset_after_ms; /* until the limit is whole again, after this decision */
    int64_t delay_ms;       /* leaky_bucket, allowed, cost > 0: how long to hold the request */
    int64_t next_token_ms;  /* until remaining grows by one (buckets), or the window's end; the log: until it fits when
                             * rejected, else as reset_after_ms; 0 when full */
};

/* Computes them for any algorithm, from the decision alone. Pure. */
void sl_decision_numbers(const struct sl_shape *shape, const struct sl_decision *decision,
                         struct sl_numbers *ret_numbers);

/* The same but for next_token_ms, which is 0 of a bucket: a verdict does not tell it, and it costs a division. Pure. */
void sl_decision_main_numbers(const struct sl_shape *shape, const struct sl_decision *decision,
                              struct sl_numbers *ret_numbers);

/* Only what is needed to compare buckets: remaining tokens after the decision. Pure. */
uint32_t sl_decision_remaining(const struct sl_shape *shape, const struct sl_decision *decision);

/* Takes back a charge (see docs/core.md, "Safe refund"). `current` is the bucket's state now, `charge` the decision
 * whose `after` was stored, now_us a clock reading made after `current` was read (an older one could mint). Returns
 * true and the state to store in place of `current`, or false when there is nothing to give back. Never makes room
 * that time alone would not have made: if current is still what the charge wrote, the old state returns; else a
 * bucket's debt falls by max(0, cost * token - (now - charge time)), and a window's count by the cost while the
 * charge's window is in force (for the sliding counter also as the window before). Not for the log. Pure. */
bool sl_refund(const struct sl_shape *shape, struct sl_state current, const struct sl_decision *charge, uint64_t now_us,
               struct sl_state *ret_state);

#endif
