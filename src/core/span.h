/* Spans of time in mixed radix: us + frac / n microseconds, frac < n, where n belongs to the shape.
 *
 * This is what makes a bucket exact: one token is a span, so is a debt, and sums of spans lose nothing. Ranges:
 * every span that is formed stays below two full debts plus a clock reading, under 2^57 us, so no sum or product
 * here can wrap; SPEC's bound of 100 years on burst*PERIOD/COUNT is what guarantees it. For src/core only. */
#ifndef SL_CORE_SPAN_H
#define SL_CORE_SPAN_H

#include "core/shape.h"
#include "core/state.h"

struct sl_span {
    uint64_t us;
    uint32_t frac;
};

static inline bool sl_span_is_more(struct sl_span x, struct sl_span y)
{
    return x.us > y.us || (x.us == y.us && x.frac > y.frac);
}

static inline struct sl_span sl_span_add(struct sl_span x, struct sl_span y, uint32_t n)
{
    uint32_t frac = x.frac + y.frac; /* both < 10^9: the sum fits */
    bool carry = frac >= n;

    return (struct sl_span){.us = x.us + y.us + carry, .frac = carry ? frac - n : frac};
}

/* x - y; x must not be less than y. */
static inline struct sl_span sl_span_sub(struct sl_span x, struct sl_span y, uint32_t n)
{
    bool borrow = x.frac < y.frac;

    return (struct sl_span){.us = x.us - y.us - borrow, .frac = borrow ? x.frac + n - y.frac : x.frac - y.frac};
}

/* Durations that somebody waits are rounded up. */
static inline uint64_t sl_ms_ceil(uint64_t us)
{
    return (us + SL_MS_US - 1) / SL_MS_US;
}

static inline uint64_t sl_span_ms_ceil(struct sl_span x)
{
    return sl_ms_ceil(x.us + (x.frac != 0));
}

/* The time `tokens` take to come back; tokens <= shape->limit, so the result is at most the full debt. The division is
 * skipped where the common shapes need none: one token, or a token of whole microseconds. */
static inline struct sl_span sl_span_of_tokens(const struct sl_shape *shape, uint32_t tokens)
{
    struct sl_span x = {.us = tokens * shape->token_us};
    uint64_t frac = (uint64_t)tokens * shape->token_frac; /* < 10^18 */

    if (frac >= shape->n) {
        x.us += frac / shape->n;
        frac %= shape->n;
    }
    x.frac = (uint32_t)frac;
    return x;
}

static inline struct sl_span sl_full_debt(const struct sl_shape *shape)
{
    return (struct sl_span){.us = shape->cap_us, .frac = shape->cap_frac};
}

static inline uint64_t sl_state_version_bits(const struct sl_shape *shape)
{
    return (uint64_t)shape->version << SL_STATE_VERSION_SHIFT;
}

static inline bool sl_state_has_version(const struct sl_shape *shape, struct sl_state s)
{
    return ((s.lo >> SL_STATE_VERSION_SHIFT) & SL_STATE_VERSION_MASK) == shape->version;
}

/* The state of a bucket that owes `debt` at now_us. */
static inline struct sl_state sl_bucket_state(const struct sl_shape *shape, uint64_t now_us, struct sl_span debt)
{
    return (struct sl_state){.lo = sl_state_version_bits(shape) | (now_us + debt.us), .hi = debt.frac};
}

/* The debt that a state of this shape says; for states that sl_bucket_state made. */
static inline struct sl_span sl_bucket_debt(struct sl_state s, uint64_t now_us)
{
    uint64_t whole = sl_state_whole_us(s);

    if (whole < now_us)
        return (struct sl_span){0};
    return (struct sl_span){.us = whole - now_us, .frac = (uint32_t)s.hi};
}

#endif
