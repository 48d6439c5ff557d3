/* Nothing drifts: over a simulated year a rate admits exactly what it should, asked at every opportunity or at
 * random. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define T0 UINT64_C(1754006400000000)

/* A year is 95 million decisions of 3/s; a month is enough where each of them is watched by a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DAYS 30
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DAYS 30
#endif
#endif
#ifndef DAYS
#define DAYS 365
#endif

static uint64_t seed;

/* floor(count * us / period): what a bucket drained at the start has earned since. */
static uint64_t earned(const struct sl_shape *shape, uint64_t us)
{
    return (uint64_t)((unsigned __int128)us * shape->count / shape->period_us);
}

/* The instant, in whole microseconds, at which the k-th token has been earned. */
static uint64_t earned_at_us(const struct sl_shape *shape, uint64_t k)
{
    return (uint64_t)(((unsigned __int128)k * shape->period_us + shape->count - 1) / shape->count);
}

/* Every token is there on the microsecond it is due, and not one microsecond before. */
static void every_token_comes_when_due(enum sl_algorithm algorithm, const char *rate, uint32_t burst, uint64_t span_us)
{
    struct bucket b = bucket_of(algorithm, rate, burst);
    uint64_t n = earned(&b.shape, span_us);
    struct sl_decision d;

    assert_true(bucket_charge(&b, T0, b.shape.limit).allowed);
    for (uint64_t k = 1; k <= n; k++) {
        uint64_t t_us = T0 + earned_at_us(&b.shape, k);

        if (k % 64 == 0) {
            sl_decide(&b.shape, b.state, t_us - 1, 1, &d);
            assert_false(d.allowed);
        }
        sl_decide(&b.shape, b.state, t_us, 1, &d);
        if (!d.allowed)
            fail_msg("%s: token %llu is late", rate, (unsigned long long)k);
        b.state = d.after;
    }
    assert_false(bucket_look(&b, T0 + earned_at_us(&b.shape, n + 1) - 1, 1).allowed);
    assert_true(bucket_look(&b, T0 + earned_at_us(&b.shape, n + 1), 1).allowed);
}

static void three_a_second_for_a_year_at_every_opportunity(void **state)
{
    (void)state;
    every_token_comes_when_due(SL_TOKEN_BUCKET, "3/s", 3, DAYS * SL_DAY_US);
}

static void awkward_rates_at_every_opportunity(void **state)
{
    (void)state;
    every_token_comes_when_due(SL_TOKEN_BUCKET, "7/3333ms", 7, DAYS * SL_DAY_US / 20);
    every_token_comes_when_due(SL_LEAKY_BUCKET, "7/3333ms", 100, DAYS * SL_DAY_US / 20);
    every_token_comes_when_due(SL_TOKEN_BUCKET, "1000000000/d", 1000000000, 60 * SL_SECOND_US);
    every_token_comes_when_due(SL_TOKEN_BUCKET, "999999937/d", 999999937, 60 * SL_SECOND_US);
    every_token_comes_when_due(SL_TOKEN_BUCKET, "999/m", 2, 3 * SL_DAY_US);
    every_token_comes_when_due(SL_TOKEN_BUCKET, "1/366d", 30, 90 * 366 * SL_DAY_US);
    every_token_comes_when_due(SL_TOKEN_BUCKET, "366/365d", 1000, 90 * 366 * SL_DAY_US);
}

/* Polled at random, at times at once many times over. It is emptied every seventh time and the gaps are below an eighth
 * of what fills it, so it never becomes full, and nothing is lost either. */
static void random_polling_loses_nothing(void **state)
{
    static const struct {
        const char *rate;
        uint32_t burst;
    } limits[] = {{"3/s", 30}, {"7/3333ms", 70}, {"1000000000/d", 1000000000}, {"97/h", 97}, {"1000003/7d", 5000}};

    (void)state;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct bucket b = bucket_of(SL_TOKEN_BUCKET, limits[i].rate, limits[i].burst);
        uint64_t us = 0, end_us = DAYS * SL_DAY_US, admitted = 0;
        struct sl_decision d = bucket_charge(&b, T0, b.shape.limit);

        for (unsigned n = 0; us < end_us && n < 300000; n++) {
            us += world_below(&seed, 3) ? world_below(&seed, 3000) : world_below(&seed, b.shape.cap_us / 8);
            sl_decide(&b.shape, b.state, T0 + us, 1 + (uint32_t)world_below(&seed, b.shape.limit / 4), &d);
            if (d.allowed)
                b.state = d.after;
            admitted += d.allowed ? d.cost : 0;
            if (n % 7 == 0) { /* takes all there is */
                sl_decide(&b.shape, b.state, T0 + us, 0, &d);
                sl_decide(&b.shape, b.state, T0 + us, sl_decision_remaining(&b.shape, &d), &d);
                assert_true(d.allowed);
                b.state = d.after;
                admitted += d.cost;
                assert_int_equal(admitted, earned(&b.shape, us));
            }
        }
        assert_true(admitted > 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_a_second_for_a_year_at_every_opportunity),
        cmocka_unit_test(awkward_rates_at_every_opportunity),
        cmocka_unit_test(random_polling_loses_nothing),
    };

    seed = world_seed();
    return cmocka_run_group_tests_name("core drift", tests, NULL, NULL);
}
