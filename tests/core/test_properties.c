/* src/core against the model, over every shape that may be written and times from 1970 to the year 4000: ten thousand
 * random sequences a run. The seed is printed; SLUICE_SEED=... repeats a run, SLUICE_SEQUENCES=... lengthens it. */
#include "model.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static unsigned n_sequences(void)
{
    const char *text = getenv("SLUICE_SEQUENCES");

    return text ? (unsigned)strtoul(text, NULL, 10) : 10000;
}

static uint32_t some_cost(const struct sl_shape *shape, const struct sl_numbers *last)
{
    switch (world_below(&seed, 10)) {
    case 0:
        return 0;
    case 1:
        return shape->limit;
    case 2:
        return shape->limit + 1;
    case 3:
        return (uint32_t)world_below(&seed, SL_COST_MAX + 1);
    case 4:
        return (uint32_t)last->remaining;
    case 5:
        return (uint32_t)last->remaining + 1;
    case 6:
        return 1 + (uint32_t)world_below(&seed, shape->limit);
    default:
        return 1;
    }
}

/* How far to move on: nothing, a little, to one of the edges that the last verdict named, or far. */
static uint64_t some_step_us(const struct sl_shape *shape, const struct sl_numbers *last)
{
    uint64_t edge_us;

    switch (world_below(&seed, 10)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return world_below(&seed, 2000);
    case 3:
        edge_us = last->retry_after_ms > 0 ? (uint64_t)last->retry_after_ms * 1000 : 1;
        break;
    case 4:
        edge_us = (uint64_t)last->reset_after_ms * 1000;
        break;
    case 5:
        edge_us = (uint64_t)last->next_token_ms * 1000;
        break;
    case 6:
        edge_us = shape->period_us;
        break;
    case 7:
        return world_below(&seed, 2 * shape->period_us);
    case 8:
        return world_below(&seed, shape->period_us / shape->count + 2);
    default:
        return world_below(&seed, 50) == 0 ? world_below(&seed, SL_LIFE_MAX_US) : world_below(&seed, shape->period_us);
    }
    return edge_us ? edge_us - world_below(&seed, 2) + world_below(&seed, 2) : 0;
}

static void assert_same(const struct bucket *b, const struct sl_numbers *got, const struct sl_numbers *want)
{
    if (memcmp(got, want, sizeof *got) == 0)
        return;
    fail_msg("%s %u/%llu us limit %u: remaining %lld/%lld retry %lld/%lld reset %lld/%lld delay %lld/%lld "
             "next %lld/%lld (got/right)",
             sl_algorithm_name((enum sl_algorithm)b->shape.algorithm), b->shape.count,
             (unsigned long long)b->shape.period_us, b->shape.limit, (long long)got->remaining,
             (long long)want->remaining, (long long)got->retry_after_ms, (long long)want->retry_after_ms,
             (long long)got->reset_after_ms, (long long)want->reset_after_ms, (long long)got->delay_ms,
             (long long)want->delay_ms, (long long)got->next_token_ms, (long long)want->next_token_ms);
}

/* A rejection promises: allowed after exactly this wait, rejected one millisecond earlier. */
static void assert_honest_and_tight(struct bucket *b, uint64_t now_us, uint32_t cost, int64_t retry_ms)
{
    struct bucket later = *b;

    if (retry_ms < 0)
        return;
    assert_true(retry_ms >= 1);
    assert_false(bucket_look(&later, now_us + (uint64_t)(retry_ms - 1) * 1000, cost).allowed);
    assert_true(bucket_look(&later, now_us + (uint64_t)retry_ms * 1000, cost).allowed);
}

static void run_step(struct bucket *b, struct model *m, uint64_t now_us, uint32_t cost, struct sl_numbers *last)
{
    struct sl_state old = b->state;
    size_t n_entries = b->n_entries;
    struct sl_numbers want, got;
    bool allowed = model_decide(m, now_us, cost, &want);
    struct sl_decision d = bucket_charge(b, now_us, cost);

    got = bucket_numbers(b, &d);
    assert_int_equal(d.allowed, allowed);
    assert_same(b, &got, &want);
    assert_true(got.remaining >= 0 && got.remaining <= got.limit);
    if (!allowed || cost == 0) {
        assert_false(d.changed);
        assert_memory_equal(&b->state, &old, sizeof old);
        assert_int_equal(b->n_entries, n_entries);
    }
    if (!allowed)
        assert_honest_and_tight(b, now_us, cost, got.retry_after_ms);
    *last = got;
}

static void run_sequence(void)
{
    static struct model m;
    struct bucket b = {.shape = world_some_shape(&seed)};
    struct sl_numbers last = {.remaining = b.shape.limit};
    uint64_t now_us = world_some_time(&seed);

    model_init(&m, &b.shape);
    for (unsigned i = 0; i < 24 && now_us < SL_TIME_MAX_US - 2 * SL_LIFE_MAX_US; i++) {
        run_step(&b, &m, now_us, some_cost(&b.shape, &last), &last);
        now_us += some_step_us(&b.shape, &last);
    }
    bucket_fini(&b);
}

static void core_agrees_with_the_model(void **state)
{
    (void)state;
    for (unsigned i = 0; i < n_sequences(); i++)
        run_sequence();
}

/* The smallest and the largest of everything, in all combinations, each at its capacity, one below and one above. */
static void extremes_agree_with_the_model(void **state)
{
    static const uint32_t counts[] = {1, 2, 999999937, 1000000000};
    static const uint64_t periods_us[] = {1000, 3333000, 86400000000, SL_PERIOD_MAX_US};
    static const uint32_t bursts[] = {0, 1, 999999937, 1000000000};
    static struct model m;
    unsigned n_shapes = 0;

    (void)state;
    for (unsigned i = 0; i < SL_ALGORITHMS * 64; i++) {
        struct sl_rate rate = {.count = counts[i % 4], .period_us = periods_us[i / 4 % 4]};
        enum sl_algorithm algorithm = (enum sl_algorithm)(i / 64);
        struct sl_numbers last;
        struct bucket b = {0};
        const char *why;

        if (sl_shape_init(&b.shape, algorithm, &rate, bursts[i / 16 % 4], &why))
            continue;
        n_shapes++;
        model_init(&m, &b.shape);
        for (uint64_t t_us = 0; t_us < 9; t_us++) {
            const uint32_t costs[] = {1, b.shape.limit - 1, b.shape.limit, b.shape.limit + 1, 0, UINT32_MAX};

            for (unsigned c = 0; c < 6; c++)
                run_step(&b, &m, t_us * t_us * t_us * rate.period_us / 7, costs[c], &last);
        }
        bucket_fini(&b);
    }
    assert_true(n_shapes > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(core_agrees_with_the_model),
        cmocka_unit_test(extremes_agree_with_the_model),
    };

    seed = world_seed();
    return cmocka_run_group_tests_name("core properties", tests, NULL, NULL);
}
