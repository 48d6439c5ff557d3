#include "limiter/counters.h"

#include "base/err.h"

#include <string.h>
#include <time.h>

/* The row for limits beyond the named ones; a limit that is itself called "other" shares its series. */
static unsigned find_other(const struct sl_counters *c)
{
    for (unsigned row = 0; row < c->n_named; row++)
        if (strcmp(sl_policy_limit(c->policy, row)->name, "other") == 0)
            return row;
    return c->n_named;
}

static void choose_rows(struct sl_counters *c)
{
    size_t n_limits = sl_policy_n_limits(c->policy);

    c->n_named = n_limits < SL_COUNTED_LIMITS ? (unsigned)n_limits : SL_COUNTED_LIMITS;
    c->unmatched_row = c->other_row = c->n_named;
    if (n_limits > c->n_named) {
        c->other_row = find_other(c);
        if (c->other_row == c->n_named)
            c->unmatched_row++;
    }
    c->n_rows = c->unmatched_row + 1;
}

int sl_counters_init(struct sl_counters *counters, const struct sl_alloc *alloc, const struct sl_policy *policy,
                     unsigned n_slots)
{
    struct sl_counters c = {.alloc = *alloc, .policy = policy, .n_slots = n_slots};

    choose_rows(&c);
    c.stripe_bytes = (c.n_rows * sizeof(struct sl_counter_row) + 63) & ~(size_t)63;
    c.memory = sl_calloc(alloc, n_slots * c.stripe_bytes + 64, 1);
    c.inherited = sl_calloc(alloc, c.n_rows, sizeof *c.inherited);
    if (!c.memory || !c.inherited) {
        sl_counters_fini(&c);
        return SL_ENOMEM;
    }
    c.stripes = (char *)(((uintptr_t)c.memory + 63) & ~(uintptr_t)63);
    *counters = c;
    return 0;
}

void sl_counters_fini(struct sl_counters *counters)
{
    sl_free(&counters->alloc, counters->memory);
    sl_free(&counters->alloc, counters->inherited);
    counters->memory = NULL;
    counters->inherited = NULL;
}

const char *sl_counters_name(const struct sl_counters *counters, unsigned row)
{
    if (row == counters->unmatched_row)
        return "";
    return row < counters->n_named ? sl_policy_limit(counters->policy, row)->name : "other";
}

void sl_counters_sum(const struct sl_counters *counters, unsigned row, struct sl_counter_row *ret_sum)
{
    *ret_sum = counters->inherited[row];
    for (unsigned slot = 0; slot < counters->n_slots; slot++) {
        const struct sl_counter_row *stripe =
            (const struct sl_counter_row *)(counters->stripes + slot * counters->stripe_bytes);

        for (unsigned i = 0; i < SL_COUNTS; i++)
            ret_sum->n[i] += __atomic_load_n(&stripe[row].n[i], __ATOMIC_RELAXED);
    }
}

/* The row of `from` that has this row's name, trying the same place first: most reloads move nothing. */
static unsigned find_row(const struct sl_counters *from, unsigned row, const char *name)
{
    if (row < from->n_rows && strcmp(sl_counters_name(from, row), name) == 0)
        return row;
    for (unsigned i = 0; i < from->n_rows; i++)
        if (strcmp(sl_counters_name(from, i), name) == 0)
            return i;
    return from->n_rows;
}

void sl_counters_inherit(struct sl_counters *to, const struct sl_counters *from)
{
    for (unsigned row = 0; row < to->n_rows; row++) {
        unsigned old = find_row(from, row, sl_counters_name(to, row));

        if (old < from->n_rows)
            sl_counters_sum(from, old, &to->inherited[row]);
    }
}

unsigned sl_duration_bucket(uint64_t ns)
{
    unsigned i = 0;

    while (i < SL_DURATION_BUCKETS - 1 && ns > (UINT64_C(64) << i))
        i++;
    return i;
}

uint64_t sl_stopwatch_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void sl_pulse_record(struct sl_pulse *pulse, uint64_t ns)
{
    sl_tally(&pulse->duration[sl_duration_bucket(ns)], 1);
    sl_tally(&pulse->duration_count, 1);
    sl_tally(&pulse->duration_sum_ns, ns);
}
