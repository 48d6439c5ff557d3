/* States that sl_decide did not write itself, or not with this shape, or not at this time: garbage, leapt clocks, newer
 * readings of other threads, shapes of before a reload. */
#include "model.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define T0 UINT64_C(1754006400000000) /* a whole day, so every window of whole units begins here */
#define SEC SL_SECOND_US

static uint64_t seed;

static struct sl_state garbage(const struct sl_shape *shape, uint64_t now_us)
{
    struct sl_state s = {.lo = world_random(&seed), .hi = world_random(&seed) >> world_below(&seed, 64)};
    uint64_t spread = UINT64_C(1) << world_below(&seed, 56);
    uint64_t whole_us = now_us - spread / 2 + world_below(&seed, spread);

    if (world_below(&seed, 4)) /* near now, where it matters */
        s.lo = (s.lo & ~SL_STATE_WHOLE_MASK) | (whole_us & SL_STATE_WHOLE_MASK);
    if (world_below(&seed, 2)) /* aligned, as a window */
        s.lo -= sl_state_whole_us(s) % shape->period_us;
    if (world_below(&seed, 2)) {
        s.lo &= ~(SL_STATE_VERSION_MASK << SL_STATE_VERSION_SHIFT);
        s.lo |= (uint64_t)shape->version << SL_STATE_VERSION_SHIFT;
    }
    return s;
}

static void assert_sane(const struct sl_numbers *n, const struct sl_decision *d, const struct sl_shape *shape)
{
    assert_int_equal(n->limit, shape->limit);
    assert_true(n->remaining >= 0 && n->remaining <= n->limit);
    assert_true(n->reset_after_ms >= 0 && n->next_token_ms >= 0 && n->delay_ms >= 0);
    if (d->allowed)
        assert_int_equal(n->retry_after_ms, 0);
    else
        assert_true(d->never ? n->retry_after_ms == -1 : n->retry_after_ms >= 1);
    assert_int_equal(d->never, d->cost > shape->limit);
}

/* The waits stay bounded by the shape, and honest and tight, whatever was found. */
static void assert_comes_right(struct bucket *b, const struct sl_numbers *n, uint64_t now_us, uint32_t cost)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)b->shape.algorithm);
    uint64_t most_us = (bucket ? b->shape.cap_us + 1 : 2 * b->shape.period_us) + SL_STALE_MAX_US + SL_MS_US;
    struct bucket later = *b;

    if (n->retry_after_ms < 0)
        return;
    assert_true((uint64_t)n->retry_after_ms * 1000 <= most_us + SL_MS_US);
    assert_true(bucket_look(&later, now_us + (uint64_t)n->retry_after_ms * 1000, cost).allowed);
    assert_false(bucket_look(&later, now_us + (uint64_t)(n->retry_after_ms - 1) * 1000, cost).allowed);
}

static void any_bits_are_a_valid_state(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t now_us = world_some_time(&seed);
        uint32_t cost =
            world_below(&seed, 3) ? 1 + (uint32_t)world_below(&seed, b.shape.limit) : (uint32_t)world_random(&seed);
        struct sl_numbers n;
        struct sl_decision d;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        b.state = garbage(&b.shape, now_us);
        d = bucket_look(&b, now_us, 0);
        assert_true(d.allowed && !d.changed);
        n = bucket_numbers(&b, &d);
        assert_sane(&n, &d, &b.shape);
        d = bucket_charge(&b, now_us, cost);
        n = bucket_numbers(&b, &d);
        assert_sane(&n, &d, &b.shape);
        if (!d.allowed)
            assert_comes_right(&b, &n, now_us, cost);
    }
}

static void b48_bucket_a_day_ahead_is_clamped_to_its_full_debt(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/m", 10);
    struct sl_decision d;

    (void)state;
    bucket_charge(&b, T0 + SL_DAY_US, 10);
    d = bucket_charge(&b, T0, 1);
    assert_false(d.allowed);
    assert_true(d.changed);
    assert_int_equal(bucket_numbers(&b, &d).remaining, 0);
    assert_int_equal(bucket_numbers(&b, &d).retry_after_ms, 6000);
    assert_int_equal(bucket_numbers(&b, &d).reset_after_ms, 60000);
    assert_false(bucket_charge(&b, T0 + 5999999, 1).allowed);
    assert_true(bucket_charge(&b, T0 + 6000000, 1).allowed);
}

static void b48_window_with_a_foreign_count_is_free_within_one_window(void **state)
{
    static const enum sl_algorithm windows[] = {SL_FIXED_WINDOW, SL_SLIDING_WINDOW_COUNTER};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bucket b = bucket_of(windows[i], "5/m", 0);
        struct sl_decision d;

        b.state.lo = (uint64_t)b.shape.version << SL_STATE_VERSION_SHIFT | (T0 + 100 * SL_DAY_US);
        b.state.hi = 10; /* limit + 5 */
        d = bucket_charge(&b, T0 + 20 * SEC, 1);
        assert_false(d.allowed);
        assert_int_equal(bucket_numbers(&b, &d).remaining, 0);
        d = bucket_charge(&b, T0 + (windows[i] == SL_FIXED_WINDOW ? 60 : 120) * SEC, 1);
        assert_true(d.allowed);
        assert_int_equal(bucket_numbers(&b, &d).remaining, 4);
    }
}

/* A clock that leaps a century and comes back costs a client one full debt at most, once. */
static void clock_that_leapt_and_came_back_heals(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b;
        struct sl_numbers n;
        struct sl_decision d;

        if (a == SL_SLIDING_WINDOW_LOG)
            continue;
        b = bucket_of((enum sl_algorithm)a, "10/m", 0);
        bucket_charge(&b, T0 + SL_LIFE_MAX_US, 10);
        d = bucket_charge(&b, T0, 1);
        n = bucket_numbers(&b, &d);
        assert_false(d.allowed);
        assert_true(n.retry_after_ms <= 66000);
        assert_true(bucket_charge(&b, T0 + (uint64_t)n.retry_after_ms * 1000, 1).allowed);
        /* and the healed state decays like any other */
        d = bucket_look(&b, T0 + 180 * SEC, 10);
        assert_true(d.allowed);
    }
}

static void b29_older_reading_cannot_move_a_bucket_back(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 1);

    (void)state;
    assert_true(bucket_charge(&b, T0 + 100000, 1).allowed);
    for (unsigned i = 0; i < 1000; i++) {
        struct sl_decision d = bucket_charge(&b, T0 + i * 100, 1); /* up to 100 ms behind */

        assert_false(d.allowed);
        assert_false(d.changed);
    }
    assert_false(bucket_charge(&b, T0 + 199999, 1).allowed);
    assert_true(bucket_charge(&b, T0 + 200000, 1).allowed);
}

static void older_reading_is_decided_in_the_newer_window(void **state)
{
    struct bucket fw = bucket_of(SL_FIXED_WINDOW, "3/s", 0), sc = bucket_of(SL_SLIDING_WINDOW_COUNTER, "3/s", 0);
    struct sl_decision d;

    (void)state;
    bucket_charge(&fw, T0 + SEC, 1);
    d = bucket_charge(&fw, T0 + SEC - 1, 2);
    assert_true(d.allowed);
    assert_false(bucket_charge(&fw, T0 + SEC, 1).allowed);
    d = bucket_look(&fw, T0 + SEC - 1, 1);
    assert_int_equal(bucket_numbers(&fw, &d).retry_after_ms, 1001);

    bucket_charge(&sc, T0, 1);
    bucket_charge(&sc, T0 + SEC, 1);
    d = bucket_charge(&sc, T0 + SEC - 1, 1);
    assert_true(d.allowed);
    assert_false(bucket_look(&sc, T0 + SEC, 1).allowed);
    assert_false(bucket_look(&sc, T0 + SEC - 1, 1).allowed);
}

/* Several deciders with readings up to a second apart: what they admit together, in the order they admitted it, one
 * bucket with one clock would have admitted too. */
static void readings_apart_never_admit_more(void **state)
{
    static struct model m;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        struct bucket b = {.shape = world_some_shape(&seed)};
        uint64_t now_us = T0 + world_below(&seed, SL_DAY_US), step_us = b.shape.period_us / b.shape.count + 1;

        if (b.shape.algorithm == SL_SLIDING_WINDOW_LOG)
            continue;
        model_init(&m, &b.shape);
        for (unsigned k = 0; k < 40; k++) {
            uint64_t stale_us = world_below(&seed, 2) ? world_below(&seed, SL_STALE_MAX_US) : world_below(&seed, 50);
            uint32_t cost = 1 + (uint32_t)world_below(&seed, world_below(&seed, 2) ? 3 : b.shape.limit);
            struct sl_decision d = bucket_charge(&b, now_us - stale_us, cost);
            struct sl_numbers unused;

            if (d.allowed)
                assert_true(model_decide(&m, now_us - stale_us, cost, &unused));
            now_us += world_below(&seed, 2) ? world_below(&seed, 2 * step_us) : 0;
        }
    }
}

static struct sl_decision look_with(const char *rate, enum sl_algorithm algorithm, uint32_t burst, struct sl_state s,
                                    uint64_t now_us, uint32_t cost)
{
    struct bucket b = bucket_of(algorithm, rate, burst);

    b.state = s;
    return bucket_look(&b, now_us, cost);
}

static int64_t remaining_with(const char *rate, enum sl_algorithm algorithm, uint32_t burst, struct sl_state s,
                              uint64_t now_us)
{
    struct bucket b = bucket_of(algorithm, rate, burst);
    struct sl_decision d = look_with(rate, algorithm, burst, s, now_us, 0);

    return bucket_numbers(&b, &d).remaining;
}

static void reload_keeps_a_buckets_debt_in_time(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 100);
    struct sl_decision d;

    (void)state;
    bucket_charge(&b, T0, 40); /* owes 4 s */
    assert_int_equal(remaining_with("10/s", SL_TOKEN_BUCKET, 100, b.state, T0), 60);
    assert_int_equal(remaining_with("20/s", SL_TOKEN_BUCKET, 100, b.state, T0), 20);   /* 4 s are 80 of 100 */
    assert_int_equal(remaining_with("5/s", SL_TOKEN_BUCKET, 100, b.state, T0), 80);    /* 4 s are 20 of 100 */
    assert_int_equal(remaining_with("7/s", SL_TOKEN_BUCKET, 100, b.state, T0), 72);    /* 28 of 100 */
    assert_int_equal(remaining_with("10/s", SL_TOKEN_BUCKET, 1000, b.state, T0), 960); /* a larger burst gives room */
    assert_int_equal(remaining_with("100/s", SL_TOKEN_BUCKET, 100, b.state, T0), 0); /* capped: the full debt is 1 s */
    d = look_with("100/s", SL_TOKEN_BUCKET, 100, b.state, T0, 1);
    assert_true(d.changed && !d.allowed);
    b = bucket_of(SL_TOKEN_BUCKET, "100/s", 100);
    assert_int_equal(bucket_numbers(&b, &d).retry_after_ms, 10);
    assert_int_equal(bucket_numbers(&b, &d).reset_after_ms, 1000);
}

/* A debt only a little beyond the new full debt is capped too: the tolerance for newer readings is not for other
 * shapes. */
static void reload_caps_at_the_new_full_debt_exactly(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 100), after = bucket_of(SL_TOKEN_BUCKET, "10/s", 10);
    struct sl_decision d;

    (void)state;
    bucket_charge(&b, T0, 15); /* owes 1.5 s, where 1 s is all that can be owed from now on */
    d = look_with("10/s", SL_TOKEN_BUCKET, 10, b.state, T0, 1);
    assert_true(d.changed && !d.allowed);
    assert_int_equal(bucket_numbers(&after, &d).retry_after_ms, 100);
}

/* 100/30s counted 50 in the window now running; under 100/m that window's end looks like the end of the window of
 * now, as if the counts were of the window before. They are not, and must not fade. */
static void reload_does_not_mistake_this_window_for_the_last(void **state)
{
    struct bucket b = bucket_of(SL_SLIDING_WINDOW_COUNTER, "100/30s", 0);

    (void)state;
    bucket_charge(&b, T0 + 5 * SEC, 50);
    assert_int_equal(remaining_with("100/30s", SL_SLIDING_WINDOW_COUNTER, 0, b.state, T0 + 20 * SEC), 50);
    assert_int_equal(remaining_with("100/m", SL_SLIDING_WINDOW_COUNTER, 0, b.state, T0 + 20 * SEC), 50);
}

static void reload_rounds_a_fraction_up(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "3/s", 3);
    struct sl_decision d;

    (void)state;
    bucket_charge(&b, T0, 1); /* owes 333,333 us and a third */
    d = look_with("7/s", SL_TOKEN_BUCKET, 7, b.state, T0, 0);
    assert_int_equal(sl_state_whole_us(d.before), T0 + 333334);
    assert_int_equal(d.before.hi, 0);
}

static void b98_reload_keeps_a_windows_count(void **state)
{
    struct bucket fw = bucket_of(SL_FIXED_WINDOW, "100/m", 0), sc = bucket_of(SL_SLIDING_WINDOW_COUNTER, "100/m", 0);

    (void)state;
    bucket_charge(&fw, T0 + 5 * SEC, 50);
    assert_int_equal(remaining_with("100/m", SL_FIXED_WINDOW, 0, fw.state, T0 + 10 * SEC), 50);
    assert_int_equal(remaining_with("10/m", SL_FIXED_WINDOW, 0, fw.state, T0 + 10 * SEC), 0);
    assert_int_equal(remaining_with("60/m", SL_FIXED_WINDOW, 0, fw.state, T0 + 10 * SEC), 10);
    assert_int_equal(remaining_with("10/m", SL_FIXED_WINDOW, 0, fw.state, T0 + 60 * SEC), 10);

    /* A changed COUNT alone leaves the sliding counter's windows where they are. */
    bucket_charge(&sc, T0 + 5 * SEC, 50);
    assert_int_equal(remaining_with("80/m", SL_SLIDING_WINDOW_COUNTER, 0, sc.state, T0 + 90 * SEC), 55);
    /* A changed period moves its counts into the window that contains now. */
    assert_int_equal(remaining_with("100/h", SL_SLIDING_WINDOW_COUNTER, 0, sc.state, T0 + 90 * SEC), 50);
}

static void b103_a_new_period_moves_the_end_once(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "100/m", 0);
    unsigned n = 30;

    (void)state;
    bucket_charge(&b, T0 + 30 * SEC, n);
    b.shape = world_shape(SL_FIXED_WINDOW, "100/2m", 0);
    for (uint64_t t = 40; t < 120; t += 10) {
        struct sl_decision d = bucket_charge(&b, T0 + t * SEC, 1);

        n++;
        assert_true(d.allowed);
        assert_int_equal(bucket_numbers(&b, &d).reset_after_ms, (120 - (int64_t)t) * 1000);
        assert_int_equal(bucket_numbers(&b, &d).remaining, 100 - n);
    }
    assert_int_equal(remaining_with("100/2m", SL_FIXED_WINDOW, 0, b.state, T0 + 120 * SEC), 100);
}

/* However shapes follow each other over a bucket that is kept drained, a reload never hands out a full one. */
static void reloads_never_refill(void **state)
{
    static const char *const rates[] = {"10/s", "7/s", "100/m", "999999937/d", "1/s", "3/3333ms"};

    (void)state;
    for (unsigned i = 0; i < 36; i++) {
        struct bucket b = bucket_of(SL_TOKEN_BUCKET, rates[i / 6], 0);
        struct sl_decision d = bucket_charge(&b, T0, b.shape.limit);
        uint64_t owed_us = b.shape.cap_us;

        assert_true(d.allowed);
        b.shape = world_shape(SL_TOKEN_BUCKET, rates[i % 6], 0);
        d = bucket_look(&b, T0, 0);
        if (owed_us > b.shape.cap_us)
            owed_us = b.shape.cap_us;
        assert_true(sl_state_whole_us(d.before) - T0 >= owed_us);
        assert_true(sl_state_whole_us(d.before) - T0 <= b.shape.cap_us + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bits_are_a_valid_state),
        cmocka_unit_test(b48_bucket_a_day_ahead_is_clamped_to_its_full_debt),
        cmocka_unit_test(b48_window_with_a_foreign_count_is_free_within_one_window),
        cmocka_unit_test(clock_that_leapt_and_came_back_heals),
        cmocka_unit_test(b29_older_reading_cannot_move_a_bucket_back),
        cmocka_unit_test(older_reading_is_decided_in_the_newer_window),
        cmocka_unit_test(readings_apart_never_admit_more),
        cmocka_unit_test(reload_keeps_a_buckets_debt_in_time),
        cmocka_unit_test(reload_caps_at_the_new_full_debt_exactly),
        cmocka_unit_test(reload_does_not_mistake_this_window_for_the_last),
        cmocka_unit_test(reload_rounds_a_fraction_up),
        cmocka_unit_test(b98_reload_keeps_a_windows_count),
        cmocka_unit_test(b103_a_new_period_moves_the_end_once),
        cmocka_unit_test(reloads_never_refill),
    };

    seed = world_seed();
    return cmocka_run_group_tests_name("core healing", tests, NULL, NULL);
}
