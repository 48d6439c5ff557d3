/* The figures of a verdict, from a decision that is already made. Apart from deciding because only some callers ask
 * for them, and because it is here that the divisions are. */
#include "core/span.h"

typedef unsigned __int128 u128;

/* Whole tokens in a span, at most shape->limit. In units of 1/n us one token is PERIOD in lowest terms, below 2^45,
 * and a span below 2^82; 64 bits hold nearly every span of a real limit. */
static uint32_t tokens_in(const struct sl_shape *shape, struct sl_span x)
{
    uint64_t token = shape->token_us * shape->n + shape->token_frac;
    uint64_t units;

    if (!__builtin_mul_overflow(x.us, (uint64_t)shape->n, &units) && !__builtin_add_overflow(units, x.frac, &units))
        return (uint32_t)(units / token);
    return (uint32_t)(((u128)x.us * shape->n + x.frac) / token);
}

/* prev and cur of a sliding counter, and how much of the window lies ahead. */
struct sliding {
    uint64_t prev, cur;
    uint64_t left_us; /* of the window: 0 < left_us <= PERIOD, whatever the clock of the one who asks says */
    uint64_t end_us;
};

static struct sliding sliding_of(const struct sl_shape *shape, struct sl_state s, uint64_t now_us)
{
    struct sliding w = {.prev = s.hi >> 32, .cur = (uint32_t)s.hi, .end_us = sl_state_whole_us(s) - shape->period_us};

    w.left_us = w.end_us - now_us < shape->period_us ? w.end_us - now_us : shape->period_us;
    return w;
}

static uint64_t divide_up(u128 x, uint64_t y)
{
    return (uint64_t)((x + y - 1) / y);
}

static uint32_t sliding_remaining(const struct sl_shape *shape, struct sl_state s, uint64_t now_us)
{
    struct sliding w = sliding_of(shape, s, now_us);
    uint64_t used = w.cur + divide_up((u128)w.prev * w.left_us, shape->period_us);

    return used >= shape->limit ? 0 : shape->limit - (uint32_t)used;
}

uint32_t sl_decision_remaining(const struct sl_shape *shape, const struct sl_decision *decision)
{
    uint64_t used = (uint32_t)decision->after.hi;

    switch ((enum sl_algorithm)shape->algorithm) {
    case SL_SLIDING_WINDOW_COUNTER:
        return sliding_remaining(shape, decision->after, decision->now_us);
    case SL_SLIDING_WINDOW_LOG:
        used = decision->log_sum + (decision->allowed ? decision->cost : 0);
        break;
    case SL_FIXED_WINDOW:
        break;
    default: {
        struct sl_span debt = sl_bucket_debt(decision->after, decision->now_us), full = sl_full_debt(shape);

        return sl_span_is_more(debt, full) ? 0 : tokens_in(shape, sl_span_sub(full, debt, shape->n));
    }
    }
    return used >= shape->limit ? 0 : shape->limit - (uint32_t)used;
}

static void bucket_numbers(const struct sl_shape *shape, const struct sl_decision *d, struct sl_numbers *out)
{
    struct sl_span before = sl_bucket_debt(d->before, d->now_us), after = sl_bucket_debt(d->after, d->now_us);
    struct sl_span full = sl_full_debt(shape), wanted;

    out->reset_after_ms = (int64_t)sl_span_ms_ceil(after);
    if (d->allowed && d->cost && shape->algorithm == SL_LEAKY_BUCKET)
        out->delay_ms = (int64_t)sl_span_ms_ceil(before);
    if (!d->allowed && !d->never) {
        wanted = sl_span_add(before, sl_span_of_tokens(shape, d->cost), shape->n);
        out->retry_after_ms = (int64_t)sl_span_ms_ceil(sl_span_sub(wanted, full, shape->n));
    }
}

static void bucket_next_token(const struct sl_shape *shape, const struct sl_decision *d, struct sl_numbers *out)
{
    struct sl_span wanted;

    if (out->remaining == out->limit)
        return;
    wanted = sl_span_add(sl_bucket_debt(d->after, d->now_us), sl_span_of_tokens(shape, (uint32_t)out->remaining + 1),
                         shape->n);
    out->next_token_ms = (int64_t)sl_span_ms_ceil(sl_span_sub(wanted, sl_full_debt(shape), shape->n));
}

static void fixed_numbers(const struct sl_decision *d, struct sl_numbers *out)
{
    int64_t end_ms = (int64_t)sl_ms_ceil(sl_state_whole_us(d->after) - d->now_us);

    out->reset_after_ms = out->next_token_ms = (uint32_t)d->after.hi ? end_ms : 0;
    if (!d->allowed && !d->never)
        out->retry_after_ms = end_ms;
}

/* The estimate only falls while nothing is admitted, through this window and on through the next, where `cur`
 * becomes what fades. So the first instant at which the cost fits is found by solving for the part of the window
 * that is left. */
static uint64_t sliding_fit_us(const struct sl_shape *shape, const struct sl_decision *d)
{
    struct sliding w = sliding_of(shape, d->before, d->now_us);
    uint64_t room = shape->limit - d->cost;

    if (w.cur <= room)
        return w.end_us - (uint64_t)((u128)(room - w.cur) * shape->period_us / w.prev);
    return w.end_us + shape->period_us - (uint64_t)((u128)room * shape->period_us / w.cur);
}

static void sliding_numbers(const struct sl_shape *shape, const struct sl_decision *d, struct sl_numbers *out)
{
    struct sliding w = sliding_of(shape, d->after, d->now_us);
    int64_t end_ms = (int64_t)sl_ms_ceil(w.end_us - d->now_us);

    if (w.cur)
        out->reset_after_ms = (int64_t)sl_ms_ceil(w.end_us + shape->period_us - d->now_us);
    else if (w.prev)
        out->reset_after_ms = end_ms;
    if (w.cur || w.prev)
        out->next_token_ms = end_ms;
    if (!d->allowed && !d->never)
        out->retry_after_ms = (int64_t)sl_ms_ceil(sliding_fit_us(shape, d) - d->now_us);
}

static void log_numbers(const struct sl_shape *shape, const struct sl_decision *d, struct sl_numbers *out)
{
    if (d->log_sum || d->changed)
        out->reset_after_ms = (int64_t)sl_ms_ceil(d->log_newest_us + shape->period_us - d->now_us);
    if (!d->allowed && !d->never)
        out->retry_after_ms = (int64_t)sl_ms_ceil(d->log_fit_us - d->now_us);
    out->next_token_ms = out->retry_after_ms > 0 ? out->retry_after_ms : out->reset_after_ms;
}

void sl_decision_main_numbers(const struct sl_shape *shape, const struct sl_decision *decision,
                              struct sl_numbers *ret_numbers)
{
    *ret_numbers = (struct sl_numbers){.limit = shape->limit,
                                       .remaining = sl_decision_remaining(shape, decision),
                                       .retry_after_ms = decision->never ? -1 : 0};
    switch ((enum sl_algorithm)shape->algorithm) {
    case SL_FIXED_WINDOW:
        fixed_numbers(decision, ret_numbers);
        break;
    case SL_SLIDING_WINDOW_LOG:
        log_numbers(shape, decision, ret_numbers);
        break;
    case SL_SLIDING_WINDOW_COUNTER:
        sliding_numbers(shape, decision, ret_numbers);
        break;
    default:
        bucket_numbers(shape, decision, ret_numbers);
        break;
    }
}

void sl_decision_numbers(const struct sl_shape *shape, const struct sl_decision *decision,
                         struct sl_numbers *ret_numbers)
{
    sl_decision_main_numbers(shape, decision, ret_numbers);
    if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        bucket_next_token(shape, decision, ret_numbers);
}
