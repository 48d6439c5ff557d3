/* Faults that other rate limiters have had, by their numbers, with the right values: those that are arithmetic. */
#include "base/err.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define T0 UINT64_C(1754006400000000) /* a whole day: windows of every unit begin here */
#define MS SL_MS_US
#define SEC SL_SECOND_US
#define HOUR (3600 * SL_SECOND_US)

static bool take(struct bucket *b, uint64_t at_us, uint32_t cost)
{
    return bucket_charge(b, T0 + at_us, cost).allowed;
}

static struct sl_numbers numbers_of(struct bucket *b, uint64_t at_us, uint32_t cost)
{
    struct sl_decision d = bucket_charge(b, T0 + at_us, cost);

    return bucket_numbers(b, &d);
}

static int64_t remaining(struct bucket *b, uint64_t at_us)
{
    return numbers_of(b, at_us, 0).remaining;
}

/* The wait a rejected request is told; fails when it is allowed. */
static int64_t retry_ms(struct bucket *b, uint64_t at_us, uint32_t cost)
{
    struct sl_decision d = bucket_charge(b, T0 + at_us, cost);

    assert_false(d.allowed);
    return bucket_numbers(b, &d).retry_after_ms;
}

static void b01_long_idle_time_does_not_overflow(void **state)
{
    const uint64_t idles_us[] = {12 * HOUR, SL_LIFE_MAX_US, 15 * SL_LIFE_MAX_US};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1000000/h", 1000000);

        assert_true(take(&b, 0, 1));
        assert_int_equal(numbers_of(&b, idles_us[i], 1).remaining, 999999);
    }
}

static void b03_requests_on_time_are_allowed(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 1), three = bucket_of(SL_TOKEN_BUCKET, "3/s", 3);

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(take(&b, i * 100 * MS, 1));
        assert_false(take(&b, (i + 1) * 100 * MS - 1, 1)); /* one tick before its slot */
    }
    for (unsigned i = 0; i < 3; i++)
        assert_true(take(&three, 0, 1));
    for (unsigned i = 0; i < 3; i++)
        assert_true(take(&three, SEC, 1));
    assert_false(take(&three, SEC, 1));
}

static void b04_emission_interval_may_be_under_a_millisecond(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "8000/s", 2), c = bucket_of(SL_TOKEN_BUCKET, "2000/s", 1);
    struct bucket fastest = bucket_of(SL_TOKEN_BUCKET, "1000000000/ms", 1000000000);
    struct sl_numbers n = numbers_of(&b, 0, 1);

    (void)state;
    assert_int_equal(n.limit, 2);
    assert_int_equal(n.remaining, 1);
    assert_int_equal(n.reset_after_ms, 1); /* 125 us, rounded up */
    assert_true(take(&b, 0, 1));
    assert_false(take(&b, 124, 1));
    assert_true(take(&b, 125, 1));
    assert_int_equal(numbers_of(&c, 0, 1).remaining, 0);
    assert_false(take(&c, 499, 1));
    assert_true(take(&c, 500, 1));
    assert_true(take(&fastest, 0, 1000000000));
    assert_true(take(&fastest, 1, 1000000));
    assert_false(take(&fastest, 1, 1));
}

static void b06_millisecond_waits_do_not_cap_throughput(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "3000/s", 100);
    unsigned n = 0;

    (void)state;
    for (uint64_t i = 0; i < 27000; i++)
        n += take(&b, i * SEC / 27000, 1);
    assert_int_equal(n, 3099);
}

static void b08_long_periods_are_long_or_refused(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/366d", 1);
    const char *text = "1/1000000000s", *why;
    struct sl_rate rate;

    (void)state;
    assert_int_equal(sl_rate_parse(text, strlen(text), &rate, &why), SL_EINVALID);
    assert_true(take(&b, 0, 1));
    assert_int_equal(retry_ms(&b, 2 * SEC, 1), (int64_t)(366 * 86400 - 2) * 1000);
}

static void b10_limit_that_no_integer_holds_is_refused_at_load(void **state)
{
    const char *text = "98765432198765432198765/3600s", *why = NULL;
    struct sl_rate rate;

    (void)state;
    assert_int_equal(sl_rate_parse(text, strlen(text), &rate, &why), SL_EINVALID);
    assert_non_null(strstr(why, "COUNT"));
}

static void b11_default_burst_is_the_count(void **state)
{
    struct bucket day = bucket_of(SL_TOKEN_BUCKET, "5/d", 0), second = bucket_of(SL_TOKEN_BUCKET, "1/s", 0);

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_true(take(&day, 0, 1));
    assert_int_equal(retry_ms(&day, 0, 1), 17280000);
    assert_true(take(&second, 0, 1));
    assert_int_equal(retry_ms(&second, 0, 1), 1000);
}

static void b13_slow_rates_hold_a_request(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/10s", 0), six = bucket_of(SL_TOKEN_BUCKET, "6/m", 1);

    (void)state;
    assert_true(take(&b, 0, 1) && take(&six, 0, 1));
    assert_int_equal(retry_ms(&b, 5 * SEC, 1), 5000);
    assert_int_equal(retry_ms(&six, 5 * SEC, 1), 5000);
    assert_true(take(&b, 10 * SEC, 1) && take(&six, 10 * SEC, 1));
}

static void b14_polling_keeps_fractions(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/s", 1), c = bucket_of(SL_TOKEN_BUCKET, "1/10s", 3);
    unsigned n = 0;

    (void)state;
    for (uint64_t t = 0; t <= 10000; t++) {
        bool allowed = take(&b, t * MS, 1);

        assert_int_equal(allowed, t % 1000 == 0);
        n += allowed;
    }
    assert_int_equal(n, 11);
    assert_true(take(&c, 0, 3));
    assert_int_equal(remaining(&c, 25 * SEC), 2);
    assert_int_equal(remaining(&c, 30 * SEC - 1), 2);
    assert_int_equal(remaining(&c, 30 * SEC), 3);
}

static void b15_cost_above_capacity_is_never(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "10/s", 10);
    struct sl_decision d = bucket_charge(&b, T0, 11);

    (void)state;
    assert_true(!d.allowed && d.never && !d.changed);
    assert_int_equal(bucket_numbers(&b, &d).retry_after_ms, -1);
    assert_int_equal(b.state.lo | b.state.hi, 0);
    assert_int_equal(numbers_of(&b, 0, 10).remaining, 0);
}

static void b16_cost_equal_to_capacity_has_a_wait(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "5/5s", 5);

    (void)state;
    assert_true(take(&b, 0, 1));
    assert_int_equal(retry_ms(&b, 0, 5), 1000);
    assert_true(take(&b, SEC, 5));
}

static void b17_impossible_cost_is_never_in_every_algorithm(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "3/2s", 0);

        assert_true(take(&b, 0, 1));
        assert_int_equal(retry_ms(&b, 0, 4), -1);
        assert_int_equal(retry_ms(&b, 0, UINT32_MAX), -1);
        assert_int_equal(remaining(&b, 0), 2);
        bucket_fini(&b);
    }
}

static void b18_cost_zero_is_a_peek(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "10/m", 0);

        for (unsigned i = 0; i < 3; i++) {
            struct sl_decision d = bucket_charge(&b, T0, 0);

            assert_true(d.allowed && !d.changed);
            assert_int_equal(bucket_numbers(&b, &d).remaining, 10);
        }
        assert_int_equal(numbers_of(&b, 0, 1).remaining, 9);
        bucket_fini(&b);
    }
}

static void b19_peeks_between_rejections_change_nothing(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "10/h", 0);
        struct sl_numbers first, n;

        assert_true(take(&b, 0, 10));
        first = numbers_of(&b, 0, 0);
        for (unsigned i = 0; i < 1000; i++) {
            assert_false(take(&b, 0, 1));
            n = numbers_of(&b, 0, 0);
            assert_memory_equal(&n, &first, sizeof n);
        }
        bucket_fini(&b);
    }
}

static void b22_rejections_do_not_change_a_bucket(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b =
            bucket_of((enum sl_algorithm)a, a <= SL_LEAKY_BUCKET ? "1/s" : "10/s", a <= SL_LEAKY_BUCKET ? 10 : 0);
        uint64_t at_us = a == SL_SLIDING_WINDOW_COUNTER ? 1100 * MS : SEC;
        uint32_t greedy = a <= SL_LEAKY_BUCKET ? 5 : 11;

        assert_true(take(&b, 0, 10));
        for (unsigned i = 0; i < 100; i++)
            assert_false(take(&b, at_us, greedy));
        assert_true(take(&b, at_us, 1));
        bucket_fini(&b);
    }
}

/* A table never shows a clock that was set back; a store that does costs a full debt at the most. */
static void b25_clock_set_back_locks_nobody_out(void **state)
{
    struct limit l = {.buckets = {bucket_of(SL_TOKEN_BUCKET, "10/m", 10)}, .n_buckets = 1};
    struct bucket bare = bucket_of(SL_TOKEN_BUCKET, "10/m", 10);
    struct verdict v;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        limit_decide(&l, T0 + HOUR, 1);
        take(&bare, HOUR, 1);
    }
    v = limit_decide(&l, T0, 1);
    assert_true(v.allowed);
    assert_int_equal(v.numbers.remaining, 6);
    assert_true(retry_ms(&bare, 0, 1) <= 60000);
    assert_true(take(&bare, 6 * SEC, 1));
}

static void b27_skewed_readings_do_not_refill_twice(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "150/s", 150);
    struct limit l = {.buckets = {b}, .n_buckets = 1};

    (void)state;
    assert_int_equal(limit_decide(&l, T0 + 100 * SEC, 2).numbers.remaining, 148);
    assert_int_equal(limit_decide(&l, T0 + 99 * SEC, 10).numbers.remaining, 138);
    assert_int_equal(limit_decide(&l, T0 + 100 * SEC, 1).numbers.remaining, 137);
}

static void b30_leaky_bucket_leaks_while_it_is_hit(void **state)
{
    static const int64_t right[] = {9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2};
    struct bucket b = bucket_of(SL_LEAKY_BUCKET, "10/30s", 10);

    (void)state;
    for (uint64_t t = 0; t <= 10; t++)
        assert_int_equal(numbers_of(&b, t * SEC, 1).remaining, right[t]);
}

static void b31_remaining_is_never_above_the_limit(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "10/30s", 0);

        for (unsigned i = 0; i < 3; i++)
            assert_true(take(&b, 0, 1));
        assert_int_equal(remaining(&b, HOUR), 10);
        assert_int_equal(numbers_of(&b, HOUR, 1).remaining, 9);
        bucket_fini(&b);
    }
}

static void b32_wait_counts_the_burst(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/s", 10);
    struct sl_numbers n;

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_true(take(&b, 0, 1));
    n = numbers_of(&b, 0, 1);
    assert_int_equal(n.retry_after_ms, 1000);
    assert_int_equal(n.reset_after_ms, 10000);
}

static void b34_part_of_a_token_counts_in_the_wait(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/s", 1);

    (void)state;
    assert_true(take(&b, 0, 1));
    assert_int_equal(retry_ms(&b, 200 * MS, 1), 800);
}

static void b36_sliding_counter_weighs_the_window_before(void **state)
{
    struct bucket b = bucket_of(SL_SLIDING_WINDOW_COUNTER, "100/100s", 0);
    uint64_t base_us = 100 * SEC - T0 % (100 * SEC); /* the next window of 100 s */

    (void)state;
    assert_true(take(&b, base_us, 50));
    assert_true(take(&b, base_us + 100 * SEC, 10));
    assert_int_equal(remaining(&b, base_us + 110 * SEC), 45);
    assert_int_equal(numbers_of(&b, base_us + 110 * SEC, 1).remaining, 44);
}

static void b38_sliding_log_waits_for_the_oldest(void **state)
{
    struct bucket b = bucket_of(SL_SLIDING_WINDOW_LOG, "2/60s", 0);

    (void)state;
    assert_true(take(&b, 0, 1) && take(&b, 10 * SEC, 1));
    assert_int_equal(retry_ms(&b, 20 * SEC, 1), 40000);
    assert_true(take(&b, 60 * SEC, 1));
    bucket_fini(&b);
}

static unsigned admitted_of_pairs(enum sl_algorithm algorithm)
{
    struct bucket b = bucket_of(algorithm, "17/30s", 0);
    unsigned n = 0;

    for (uint64_t t = 0; t < 30; t++) {
        n += take(&b, t * SEC, 1);
        n += take(&b, t * SEC + 250 * MS, 1);
    }
    bucket_fini(&b);
    return n;
}

static unsigned admitted_across_the_hour(enum sl_algorithm algorithm)
{
    struct bucket b = bucket_of(algorithm, "5/h", 0);
    unsigned n = 0;

    for (unsigned i = 0; i < 10; i++)
        n += take(&b, HOUR + (i < 5 ? -30 : 30) * (int64_t)SEC, 1);
    bucket_fini(&b);
    return n;
}

static void b40_each_algorithm_admits_what_is_documented(void **state)
{
    (void)state;
    assert_int_equal(admitted_of_pairs(SL_FIXED_WINDOW), 17);
    assert_int_equal(admitted_of_pairs(SL_SLIDING_WINDOW_LOG), 17);
    assert_int_equal(admitted_of_pairs(SL_TOKEN_BUCKET), 33);
    assert_int_equal(admitted_across_the_hour(SL_FIXED_WINDOW), 10);
    assert_int_equal(admitted_across_the_hour(SL_SLIDING_WINDOW_LOG), 5);
    assert_int_equal(admitted_across_the_hour(SL_SLIDING_WINDOW_COUNTER), 5);
}

static void b41_windows_rotate(void **state)
{
    static const char *const rates[] = {"10/s", "10/10s", "10/60s", "10/h", "10/200ms"};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct bucket b = bucket_of(SL_FIXED_WINDOW, rates[i], 0);

        assert_true(take(&b, 123, 10));
        assert_false(take(&b, b.shape.period_us - 1, 1));
        assert_int_equal(remaining(&b, b.shape.period_us), 10);
        assert_int_equal(remaining(&b, 2 * b.shape.period_us), 10);
    }
}

static void b42_windows_are_multiples_from_the_epoch(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "1/30d", 0);
    uint64_t start_us = T0 - T0 % (30 * SL_DAY_US);

    (void)state;
    assert_true(bucket_charge(&b, start_us + 30 * SL_DAY_US - 1, 1).allowed);
    assert_true(bucket_charge(&b, start_us + 30 * SL_DAY_US, 1).allowed);
    assert_false(bucket_charge(&b, start_us + 60 * SL_DAY_US - 1, 1).allowed);
}

static void b43_old_count_does_not_leak_into_the_next_window(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "5/m", 0);

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_true(take(&b, 58700 * MS, 1));
    for (unsigned i = 0; i < 5; i++)
        assert_true(take(&b, 60100 * MS, 1));
    assert_false(take(&b, 60100 * MS, 1));
}

static void b52_hits_do_not_prolong_a_window(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "5/60s", 0);

    (void)state;
    for (uint64_t t = 0; t < 600; t += 10)
        assert_int_equal(take(&b, t * SEC, 1), t % 60 != 50);
}

static void b53_windows_may_be_shorter_than_a_second(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "10/200ms", 0);

    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_true(take(&b, 10 * MS, 1));
    assert_int_equal(retry_ms(&b, 10 * MS, 1), 190);
    assert_true(take(&b, 200 * MS, 1));
}

static void b56_told_wait_always_succeeds(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "1/10s", 1);

    (void)state;
    assert_true(take(&b, 0, 1));
    assert_int_equal(retry_ms(&b, 1 * MS, 1), 9999);
    assert_int_equal(retry_ms(&b, 9500 * MS, 1), 500);
    assert_int_equal(retry_ms(&b, 10 * SEC - 1, 1), 1); /* never 0 on a rejection */
    assert_true(take(&b, 10 * SEC, 1));
}

static void b58_wait_is_not_the_whole_window(void **state)
{
    struct bucket b = bucket_of(SL_SLIDING_WINDOW_LOG, "10/60s", 0);

    (void)state;
    for (uint64_t t = 0; t < 20; t += 2)
        assert_true(take(&b, t * SEC, 1));
    assert_int_equal(retry_ms(&b, 20 * SEC, 1), 40000);
    bucket_fini(&b);
}

static void b60_reset_stays_when_the_limit_is_hit(void **state)
{
    struct bucket b = bucket_of(SL_FIXED_WINDOW, "2/60s", 0);
    struct sl_numbers n;

    (void)state;
    assert_int_equal(numbers_of(&b, 0, 1).reset_after_ms, 60000);
    assert_int_equal(numbers_of(&b, 2 * SEC, 1).reset_after_ms, 58000);
    n = numbers_of(&b, 5 * SEC, 1);
    assert_int_equal(n.reset_after_ms, 55000);
    assert_int_equal(n.retry_after_ms, 55000);
}

static void b61_reset_is_not_one_too_big(void **state)
{
    struct bucket b = bucket_of(SL_TOKEN_BUCKET, "30/60s", 16);
    struct sl_numbers n = numbers_of(&b, 0, 1);

    (void)state;
    assert_int_equal(n.limit, 16);
    assert_int_equal(n.remaining, 15);
    assert_int_equal(n.reset_after_ms, 2000);
}

static void b65_remaining_is_never_negative(void **state)
{
    static const int64_t right[] = {4, 3, 2, 1, 0, 0, 0, 0};

    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "5/h", 0);

        for (unsigned i = 0; i < 8; i++)
            assert_int_equal(numbers_of(&b, i, 1).remaining, right[i]);
        bucket_fini(&b);
    }
}

/* The clock stands still: what is there is admitted once, and waits are still right. */
static void clock_that_stops_admits_one_capacity(void **state)
{
    (void)state;
    for (unsigned a = 0; a < SL_ALGORITHMS; a++) {
        struct bucket b = bucket_of((enum sl_algorithm)a, "100/m", 0);
        unsigned n = 0;

        for (unsigned i = 0; i < 1000; i++)
            n += take(&b, 17 * SEC, 1);
        assert_int_equal(n, 100);
        assert_true(retry_ms(&b, 17 * SEC, 1) >= 1);
        bucket_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b01_long_idle_time_does_not_overflow),
        cmocka_unit_test(b03_requests_on_time_are_allowed),
        cmocka_unit_test(b04_emission_interval_may_be_under_a_millisecond),
        cmocka_unit_test(b06_millisecond_waits_do_not_cap_throughput),
        cmocka_unit_test(b08_long_periods_are_long_or_refused),
        cmocka_unit_test(b10_limit_that_no_integer_holds_is_refused_at_load),
        cmocka_unit_test(b11_default_burst_is_the_count),
        cmocka_unit_test(b13_slow_rates_hold_a_request),
        cmocka_unit_test(b14_polling_keeps_fractions),
        cmocka_unit_test(b15_cost_above_capacity_is_never),
        cmocka_unit_test(b16_cost_equal_to_capacity_has_a_wait),
        cmocka_unit_test(b17_impossible_cost_is_never_in_every_algorithm),
        cmocka_unit_test(b18_cost_zero_is_a_peek),
        cmocka_unit_test(b19_peeks_between_rejections_change_nothing),
        cmocka_unit_test(b22_rejections_do_not_change_a_bucket),
        cmocka_unit_test(b25_clock_set_back_locks_nobody_out),
        cmocka_unit_test(b27_skewed_readings_do_not_refill_twice),
        cmocka_unit_test(b30_leaky_bucket_leaks_while_it_is_hit),
        cmocka_unit_test(b31_remaining_is_never_above_the_limit),
        cmocka_unit_test(b32_wait_counts_the_burst),
        cmocka_unit_test(b34_part_of_a_token_counts_in_the_wait),
        cmocka_unit_test(b36_sliding_counter_weighs_the_window_before),
        cmocka_unit_test(b38_sliding_log_waits_for_the_oldest),
        cmocka_unit_test(b40_each_algorithm_admits_what_is_documented),
        cmocka_unit_test(b41_windows_rotate),
        cmocka_unit_test(b42_windows_are_multiples_from_the_epoch),
        cmocka_unit_test(b43_old_count_does_not_leak_into_the_next_window),
        cmocka_unit_test(b52_hits_do_not_prolong_a_window),
        cmocka_unit_test(b53_windows_may_be_shorter_than_a_second),
        cmocka_unit_test(b56_told_wait_always_succeeds),
        cmocka_unit_test(b58_wait_is_not_the_whole_window),
        cmocka_unit_test(b60_reset_stays_when_the_limit_is_hit),
        cmocka_unit_test(b61_reset_is_not_one_too_big),
        cmocka_unit_test(b65_remaining_is_never_negative),
        cmocka_unit_test(clock_that_stops_admits_one_capacity),
    };

    return cmocka_run_group_tests_name("core faults", tests, NULL, NULL);
}
