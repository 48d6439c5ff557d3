#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static bool is_bucket(const struct model *m)
{
    return m->algorithm == SL_TOKEN_BUCKET || m->algorithm == SL_LEAKY_BUCKET;
}

static int64_t ceil_ms(__int128 us_numerator, __int128 us_denominator)
{
    __int128 d = us_denominator * 1000;

    return (int64_t)((us_numerator + d - 1) / d);
}

void model_init(struct model *m, const struct sl_shape *shape)
{
    memset(m, 0, sizeof *m);
    m->algorithm = (enum sl_algorithm)shape->algorithm;
    m->count = shape->count;
    m->period_us = shape->period_us;
    m->limit = shape->limit;
    m->level = (__int128)m->limit * m->period_us;
}

static __int128 level_at(const struct model *m, uint64_t t_us)
{
    __int128 capacity = (__int128)m->limit * m->period_us;
    __int128 level = m->level + (m->started ? (__int128)(t_us - m->latest_us) * m->count : 0);

    return level < capacity ? level : capacity;
}

/* Sum of the costs admitted in the aligned window number `idx`. */
static __int128 window_sum(const struct model *m, uint64_t idx)
{
    __int128 sum = 0;

    for (unsigned i = 0; i < m->n_admitted; i++)
        if (m->admitted[i].t_us / m->period_us == idx)
            sum += m->admitted[i].cost;
    return sum;
}

/* Sum of the costs admitted in (t - PERIOD, t]. */
static __int128 log_sum(const struct model *m, uint64_t t_us)
{
    __int128 sum = 0;

    for (unsigned i = 0; i < m->n_admitted; i++)
        if (m->admitted[i].t_us + m->period_us > t_us)
            sum += m->admitted[i].cost;
    return sum;
}

/* What is used of the limit at t_us, times PERIOD (so that it is whole for the sliding counter). */
static __int128 used_at(const struct model *m, uint64_t t_us)
{
    uint64_t idx = t_us / m->period_us, elapsed_us = t_us % m->period_us;
    __int128 period = m->period_us;

    switch (m->algorithm) {
    case SL_FIXED_WINDOW:
        return window_sum(m, idx) * period;
    case SL_SLIDING_WINDOW_LOG:
        return log_sum(m, t_us) * period;
    case SL_SLIDING_WINDOW_COUNTER:
        return (idx ? window_sum(m, idx - 1) : 0) * (period - elapsed_us) + window_sum(m, idx) * period;
    default:
        return (__int128)m->limit * period - level_at(m, t_us);
    }
}

bool model_would_allow(const struct model *m, uint64_t t_us, uint64_t cost)
{
    return cost == 0 || used_at(m, t_us) + (__int128)cost * m->period_us <= (__int128)m->limit * m->period_us;
}

/* The least number of milliseconds after which `cost` fits. Room only grows while nothing is admitted. */
static int64_t search_wait_ms(const struct model *m, uint64_t t_us, uint64_t cost)
{
    int64_t low = 0, high = 1; /* rejected at low, allowed at high */

    if (cost > m->limit)
        return -1;
    while (!model_would_allow(m, t_us + (uint64_t)high * 1000, cost))
        high *= 2;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (model_would_allow(m, t_us + (uint64_t)middle * 1000, cost))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int64_t search_whole_ms(const struct model *m, uint64_t t_us)
{
    int64_t low = -1, high = 1;

    while (used_at(m, t_us + (uint64_t)high * 1000) != 0)
        high *= 2;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (used_at(m, t_us + (uint64_t)middle * 1000) == 0)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int64_t next_token_ms(const struct model *m, uint64_t t_us, const struct sl_numbers *n)
{
    if (n->reset_after_ms == 0)
        return 0;
    if (m->algorithm == SL_SLIDING_WINDOW_LOG)
        return n->retry_after_ms > 0 ? n->retry_after_ms : n->reset_after_ms;
    if (!is_bucket(m))
        return ceil_ms(m->period_us - t_us % m->period_us, 1);
    return ceil_ms((__int128)(n->remaining + 1) * m->period_us - level_at(m, t_us), m->count);
}

static void spend(struct model *m, uint64_t t_us, uint64_t cost)
{
    if (is_bucket(m)) {
        m->level -= (__int128)cost * m->period_us;
        return;
    }
    assert_true(m->n_admitted < MODEL_ADMITTED_MAX);
    m->admitted[m->n_admitted].t_us = t_us;
    m->admitted[m->n_admitted++].cost = cost;
}

bool model_decide(struct model *m, uint64_t t_us, uint64_t cost, struct sl_numbers *ret_numbers)
{
    __int128 period = m->period_us, before;
    bool allowed;

    if (m->started && t_us < m->latest_us)
        t_us = m->latest_us;
    m->level = level_at(m, t_us);
    m->latest_us = t_us;
    m->started = true;
    before = used_at(m, t_us);
    allowed = model_would_allow(m, t_us, cost);
    *ret_numbers = (struct sl_numbers){.limit = (int64_t)m->limit};
    if (!allowed)
        ret_numbers->retry_after_ms = search_wait_ms(m, t_us, cost);
    if (allowed && cost)
        spend(m, t_us, cost);
    ret_numbers->remaining = (int64_t)(((__int128)m->limit * period - used_at(m, t_us)) / period);
    ret_numbers->reset_after_ms = search_whole_ms(m, t_us);
    ret_numbers->next_token_ms = next_token_ms(m, t_us, ret_numbers);
    if (m->algorithm == SL_LEAKY_BUCKET && allowed && cost)
        ret_numbers->delay_ms = ceil_ms(before, m->count);
    return allowed;
}
