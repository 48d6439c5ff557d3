#include "limiter/consult.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The ceiling's pseudo-limit has no name, and no index. */
static void copy_name(char dst[static SLUICE_NAME_MAX], const struct sl_name *names, const struct sl_limit *limit)
{
    if (limit->index == UINT_MAX)
        return;
    if (names)
        memcpy(dst, names[limit->index].text, SLUICE_NAME_MAX);
    else
        snprintf(dst, SLUICE_NAME_MAX, "%s", limit->name);
}

void sl_told_numbers(const struct sl_item *item, const struct sl_decision *decision, const struct sl_telling *telling,
                     bool full, struct sl_numbers *ret_numbers)
{
    if (telling && telling->how >= SL_TOLD_NUMBERS)
        *ret_numbers = telling->numbers;
    else if (full)
        sl_decision_numbers(item->shape, decision, ret_numbers);
    else
        sl_decision_main_numbers(item->shape, decision, ret_numbers);
}

static const struct sl_telling *telling_of(const struct sl_telling *telling, unsigned i)
{
    return telling ? &telling[i] : NULL;
}

static bool has_figures(const struct sl_telling *telling, unsigned i)
{
    return telling && telling[i].how >= SL_TOLD_NUMBERS;
}

/* -1 is a wait without end. */
static bool waits_longer(int64_t x, int64_t y)
{
    if (x < 0 || y < 0)
        return x < 0 && y >= 0;
    return x > y;
}

static bool earlier_in_file(const struct sl_item *x, const struct sl_item *y)
{
    if (x->limit != y->limit)
        return x->limit->index < y->limit->index;
    return x->rate_idx < y->rate_idx;
}

/* The refusing bucket with the longest wait, or n. */
static unsigned pick_refusal(const struct sl_item *items, const struct sl_decision *decisions,
                             const struct sl_telling *telling, unsigned n, struct sl_numbers *ret_numbers)
{
    unsigned best = n;

    for (unsigned i = 0; i < n; i++) {
        struct sl_numbers numbers;

        if (decisions[i].allowed)
            continue;
        sl_told_numbers(&items[i], &decisions[i], telling_of(telling, i), false, &numbers);
        if (best == n || waits_longer(numbers.retry_after_ms, ret_numbers->retry_after_ms) ||
            (numbers.retry_after_ms == ret_numbers->retry_after_ms && earlier_in_file(&items[i], &items[best]))) {
            best = i;
            *ret_numbers = numbers;
        }
    }
    return best;
}

/* What remains of a bucket for comparison: where nobody knows, all of it. */
static uint64_t left_in(const struct sl_item *item, const struct sl_decision *decision,
                        const struct sl_telling *telling, unsigned i)
{
    if (!has_figures(telling, i))
        return sl_decision_remaining(item->shape, decision);
    return telling[i].numbers.remaining < 0 ? item->shape->limit : (uint64_t)telling[i].numbers.remaining;
}

/* The bucket with the smallest remaining/limit; n > 0. */
static unsigned pick_tightest(const struct sl_item *items, const struct sl_decision *decisions,
                              const struct sl_telling *telling, unsigned n)
{
    unsigned best = 0;

    if (n == 1)
        return 0;
    uint64_t best_left = left_in(&items[0], &decisions[0], telling, 0);

    for (unsigned i = 1; i < n; i++) {
        uint64_t left = left_in(&items[i], &decisions[i], telling, i);
        uint64_t mine = left * items[best].shape->limit, its = best_left * items[i].shape->limit;

        if (mine < its || (mine == its && earlier_in_file(&items[i], &items[best]))) {
            best = i;
            best_left = left;
        }
    }
    return best;
}

/* The instant of wholeness in Unix ms, rounded up once from the exact instant: adding two rounded figures would be off
 * by a millisecond. Windows end on whole milliseconds. */
static int64_t reset_at_ms(const struct sl_shape *shape, const struct sl_decision *d, const struct sl_numbers *numbers)
{
    uint64_t at_us = d->now_us;

    if (numbers->reset_after_ms == 0)
        return (int64_t)((at_us + 999) / 1000);
    if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        at_us = sl_state_whole_us(d->after) + (d->after.hi != 0);
    else if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
        at_us = d->log_newest_us + shape->period_us;
    else
        return (int64_t)(at_us / 1000) + numbers->reset_after_ms;
    return (int64_t)((at_us + 999) / 1000);
}

static void clear(struct sluice_verdict *v)
{
    v->allowed = true;
    v->warning = v->dry_run = false;
    v->source = SLUICE_LOCAL;
    v->reason = SLUICE_REASON_NONE;
    v->warn_at_percent = v->warning_rate_idx = v->warning_used_percent = 0;
    v->limit = v->remaining = v->reset_at_ms = v->warning_limit = v->warning_remaining = -1;
    v->retry_after_ms = v->reset_after_ms = v->delay_ms = v->dry_run_retry_after_ms = 0;
    v->policy[0] = v->dry_run_policy[0] = v->warning_policy[0] = '\0';
}

/* ---- warnings: any enforcing bucket that was met may be past its limit's mark, also one that did not decide */

/* How much of a bucket is used, in percent rounded down; 0 where nobody knows. */
static unsigned used_percent(const struct sl_numbers *numbers, const struct sl_telling *telling)
{
    int64_t whole = telling && telling->share > 0 ? telling->share : numbers->limit;

    if ((telling && telling->how == SL_TOLD_UNAVAILABLE) || numbers->remaining < 0 || numbers->remaining >= whole)
        return 0;
    return (unsigned)((whole - numbers->remaining) * 100 / whole);
}

static bool is_past_mark(const struct sl_item *item, const struct sl_numbers *numbers, const struct sl_telling *telling)
{
    unsigned mark = item->limit->warn_at_percent;

    return mark > 0 && used_percent(numbers, telling) >= mark;
}

static void warn_of(const struct sl_item *item, const struct sl_numbers *numbers, const struct sl_telling *telling,
                    const struct sl_name *names, struct sluice_verdict *v)
{
    v->warning = true;
    copy_name(v->warning_policy, names, item->limit);
    v->warn_at_percent = (uint8_t)item->limit->warn_at_percent;
    v->warning_rate_idx = (uint8_t)item->rate_idx;
    v->warning_used_percent = (uint8_t)used_percent(numbers, telling);
    v->warning_limit = numbers->limit;
    v->warning_remaining = numbers->remaining;
}

/* Of several that are past their marks each has its turn, by the instant: whoever watches the verdicts hears of all of
 * them, however long the tightest stays that. */
static void warn_of_any(const struct sl_consult *consult, const struct sl_outcome *outcome, const struct sl_name *names,
                        struct sluice_verdict *v)
{
    uint8_t past[SL_ITEMS_MAX];
    struct sl_numbers numbers;
    unsigned n = 0;

    for (unsigned i = 0; i < consult->n_items; i++) {
        if (consult->items[i].limit->warn_at_percent == 0)
            continue;
        sl_told_numbers(&consult->items[i], &outcome->items[i], telling_of(outcome->telling, i), false, &numbers);
        if (is_past_mark(&consult->items[i], &numbers, telling_of(outcome->telling, i)))
            past[n++] = (uint8_t)i;
    }
    if (n == 0)
        return;
    unsigned i = past[outcome->items[0].now_us % n];

    sl_told_numbers(&consult->items[i], &outcome->items[i], telling_of(outcome->telling, i), false, &numbers);
    warn_of(&consult->items[i], &numbers, telling_of(outcome->telling, i), names, v);
}

/* ---- one bucket's figures */

/* Takes the figures of one bucket over into the verdict, with its reason when it refused. */
static void report_bucket(const struct sl_item *item, const struct sl_decision *d, const struct sl_numbers *numbers,
                          const struct sl_name *names, struct sluice_verdict *v)
{
    copy_name(v->policy, names, item->limit);
    if (!d->allowed)
        v->reason = d->never ? SLUICE_REASON_COST_EXCEEDS_LIMIT : SLUICE_REASON_RATE_LIMITED;
    v->limit = numbers->limit;
    v->remaining = numbers->remaining;
    v->retry_after_ms = numbers->retry_after_ms;
    v->reset_after_ms = numbers->reset_after_ms;
    v->reset_at_ms = reset_at_ms(item->shape, d, numbers);
    v->warn_at_percent = (uint8_t)item->limit->warn_at_percent;
}

/* The same when another tier may have judged it. */
static void report_told(const struct sl_item *item, const struct sl_decision *d, const struct sl_telling *telling,
                        const struct sl_numbers *numbers, const struct sl_name *names, struct sluice_verdict *v)
{
    report_bucket(item, d, numbers, names, v);
    if (!telling)
        return;
    v->source = telling->source;
    if (telling->how >= SL_TOLD_NUMBERS)
        v->reset_at_ms = (int64_t)((d->now_us + 999) / 1000) + numbers->reset_after_ms;
    if (telling->how == SL_TOLD_UNKNOWN || telling->how == SL_TOLD_UNAVAILABLE)
        v->reset_at_ms = -1;
    if (telling->how == SL_TOLD_UNAVAILABLE)
        v->reason = SLUICE_REASON_STORE_UNAVAILABLE;
}

void sl_bucket_verdict(const struct sl_item *item, const struct sl_decision *decision, const struct sl_name *names,
                       struct sluice_verdict *ret_verdict)
{
    struct sl_numbers numbers;

    sl_decision_main_numbers(item->shape, decision, &numbers);
    clear(ret_verdict);
    report_bucket(item, decision, &numbers, names, ret_verdict);
    if (is_past_mark(item, &numbers, NULL))
        warn_of(item, &numbers, NULL, names, ret_verdict);
    ret_verdict->allowed = decision->allowed;
    ret_verdict->delay_ms = numbers.delay_ms;
}

/* Rejected: the refusal with the longest wait, a `blocked` limit counting as one without end. Only the deciding bucket may
 * be warned of: what another was asked for, it did not have to give. */
static const struct sl_limit *verdict_rejected(const struct sl_consult *consult, const struct sl_outcome *outcome,
                                               const struct sl_name *names, struct sluice_verdict *v)
{
    struct sl_numbers numbers;
    unsigned i = pick_refusal(consult->items, outcome->items, outcome->telling, consult->n_items, &numbers);
    bool refused = i < consult->n_items;

    v->allowed = false;
    if (consult->blocked &&
        (!refused || numbers.retry_after_ms >= 0 || consult->blocked->index < consult->items[i].limit->index)) {
        copy_name(v->policy, names, consult->blocked);
        v->reason = SLUICE_REASON_BLOCKED;
        v->limit = v->remaining = 0;
        v->retry_after_ms = -1;
        return consult->blocked;
    }
    if (!refused) {
        v->reason = SLUICE_REASON_UNMATCHED;
        v->retry_after_ms = -1;
        return NULL;
    }
    const struct sl_telling *telling = telling_of(outcome->telling, i);

    report_told(&consult->items[i], &outcome->items[i], telling, &numbers, names, v);
    if (is_past_mark(&consult->items[i], &numbers, telling))
        warn_of(&consult->items[i], &numbers, telling, names, v);
    return consult->items[i].limit;
}

/* The longest delay of all leaky buckets: held for less, the output of one of them would not be smooth. */
static int64_t longest_delay(const struct sl_consult *consult, const struct sl_outcome *outcome)
{
    int64_t delay_ms = 0;

    for (unsigned i = 0; i < consult->n_items; i++) {
        struct sl_numbers numbers;

        if (consult->items[i].shape->algorithm != SL_LEAKY_BUCKET)
            continue;
        sl_told_numbers(&consult->items[i], &outcome->items[i], telling_of(outcome->telling, i), false, &numbers);
        if (numbers.delay_ms > delay_ms)
            delay_ms = numbers.delay_ms;
    }
    return delay_ms;
}

static const struct sl_limit *verdict_allowed(const struct sl_consult *consult, const struct sl_outcome *outcome,
                                              const struct sl_name *names, struct sluice_verdict *v)
{
    struct sl_numbers numbers;

    if (consult->n_items == 0) {
        if (consult->unlimited)
            copy_name(v->policy, names, consult->unlimited);
        return consult->unlimited;
    }
    unsigned i = pick_tightest(consult->items, outcome->items, outcome->telling, consult->n_items);
    const struct sl_telling *telling = telling_of(outcome->telling, i);

    sl_told_numbers(&consult->items[i], &outcome->items[i], telling, false, &numbers);
    report_told(&consult->items[i], &outcome->items[i], telling, &numbers, names, v);
    warn_of_any(consult, outcome, names, v);
    v->delay_ms = consult->n_items == 1 ? numbers.delay_ms : longest_delay(consult, outcome);
    return consult->items[i].limit;
}

static void verdict_dry(const struct sl_consult *consult, const struct sl_outcome *outcome, const struct sl_name *names,
                        struct sluice_verdict *v)
{
    struct sl_numbers numbers;
    unsigned i = pick_refusal(consult->dry, outcome->dry, outcome->dry_telling, consult->n_dry, &numbers);
    bool refused = i < consult->n_dry;

    if (consult->dry_blocked &&
        (!refused || numbers.retry_after_ms >= 0 || consult->dry_blocked->index < consult->dry[i].limit->index)) {
        v->dry_run = true;
        v->dry_run_retry_after_ms = -1;
        copy_name(v->dry_run_policy, names, consult->dry_blocked);
    } else if (refused) {
        v->dry_run = true;
        v->dry_run_retry_after_ms = numbers.retry_after_ms;
        copy_name(v->dry_run_policy, names, consult->dry[i].limit);
    }
}

const struct sl_limit *sl_consult_verdict(const struct sl_consult *consult, const struct sl_outcome *outcome,
                                          const struct sl_name *names, struct sluice_verdict *ret_verdict)
{
    clear(ret_verdict);
    if (consult->n_dry > 0 || consult->dry_blocked)
        verdict_dry(consult, outcome, names, ret_verdict);
    return outcome->allowed ? verdict_allowed(consult, outcome, names, ret_verdict)
                            : verdict_rejected(consult, outcome, names, ret_verdict);
}
