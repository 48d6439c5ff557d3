/* Shapes: their ranges, their exact parts, when two are the same, and the names of the algorithms. */
#include "base/err.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static const char *refusal(enum sl_algorithm algorithm, uint32_t count, uint64_t period_us, uint32_t burst)
{
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = count, .period_us = period_us};
    struct sl_shape shape, untouched;
    const char *why = NULL;

    memset(&shape, 0x5a, sizeof shape);
    untouched = shape;
    if (sl_shape_init(&shape, algorithm, &rate, burst, &why) == 0)
        return "";
    assert_memory_equal(&shape, &untouched, sizeof shape);
    assert_non_null(why);
    return why;
}

static void shape_is_the_rate_in_lowest_terms(void **state)
{
    struct sl_shape s = world_shape(SL_TOKEN_BUCKET, "7/3333ms", 20);

    (void)state;
    assert_int_equal(s.n, 7);
    assert_int_equal(s.token_us, 3333000 / 7);
    assert_int_equal(s.token_frac, 3333000 % 7);
    assert_int_equal(s.cap_us, 20 * 3333000 / 7);
    assert_int_equal(s.cap_frac, 20 * 3333000 % 7);
    assert_int_equal(s.limit, 20);
    s = world_shape(SL_LEAKY_BUCKET, "1000/s", 0);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.token_us, 1000);
    assert_int_equal(s.token_frac, 0);
    assert_int_equal(s.limit, 1000);
    s = world_shape(SL_TOKEN_BUCKET, "1000000000/ms", 0);
    assert_int_equal(s.n, 1000000);
    assert_int_equal(s.token_us, 0);
    assert_int_equal(s.token_frac, 1);
    assert_int_equal(s.cap_us, 1000);
}

static void ranges_end_where_they_are_said_to(void **state)
{
    (void)state;
    assert_string_equal(refusal(SL_TOKEN_BUCKET, 1, 1000, 1), "");
    assert_string_equal(refusal(SL_TOKEN_BUCKET, SL_COUNT_MAX, SL_PERIOD_MAX_US, SL_COUNT_MAX), "");
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 0, 1000, 1), "COUNT"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, SL_COUNT_MAX + 1, 1000, 1), "COUNT"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, 999, 1), "PERIOD"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, SL_PERIOD_MAX_US + 1, 1), "PERIOD"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, UINT64_MAX, 1), "PERIOD"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, 1000, SL_COUNT_MAX + 1), "burst"));
    assert_non_null(strstr(refusal(SL_ALGORITHMS, 1, 1000, 0), "algorithm"));
}

static void full_debt_lasts_a_hundred_years_at_most(void **state)
{
    /* 100 years are 36,525 days */
    (void)state;
    assert_string_equal(refusal(SL_TOKEN_BUCKET, 1, SL_DAY_US, 36525), "");
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, SL_DAY_US, 36526), "100 years"));
    assert_string_equal(refusal(SL_LEAKY_BUCKET, 2, SL_DAY_US, 73050), "");
    assert_non_null(strstr(refusal(SL_LEAKY_BUCKET, 2, SL_DAY_US, 73051), "100 years"));
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, SL_PERIOD_MAX_US, SL_COUNT_MAX), "100 years"));
    /* 36525 * 86400 s are 7 * 450,822,857 s and 1 s: one more is beyond by a fraction of a token */
    assert_string_equal(refusal(SL_TOKEN_BUCKET, 1, 7 * SL_SECOND_US, 450822857), "");
    assert_non_null(strstr(refusal(SL_TOKEN_BUCKET, 1, 7 * SL_SECOND_US, 450822858), "100 years"));
}

static void windows_take_no_burst_and_logs_are_short(void **state)
{
    (void)state;
    assert_non_null(strstr(refusal(SL_FIXED_WINDOW, 10, SL_SECOND_US, 10), "burst"));
    assert_non_null(strstr(refusal(SL_SLIDING_WINDOW_COUNTER, 10, SL_SECOND_US, 20), "burst"));
    assert_string_equal(refusal(SL_FIXED_WINDOW, SL_COUNT_MAX, SL_PERIOD_MAX_US, 0), "");
    assert_string_equal(refusal(SL_SLIDING_WINDOW_LOG, SL_LOG_COUNT_MAX_LOCAL, SL_SECOND_US, 0), "");
    assert_non_null(strstr(refusal(SL_SLIDING_WINDOW_LOG, SL_LOG_COUNT_MAX_LOCAL + 1, SL_SECOND_US, 0), "100000"));
}

static void unlimited_and_blocked_have_no_shape(void **state)
{
    struct sl_rate rate = {.kind = SL_RATE_BLOCKED};
    struct sl_shape shape;
    const char *why;

    (void)state;
    assert_int_equal(sl_shape_init(&shape, SL_TOKEN_BUCKET, &rate, 0, &why), SL_EINVALID);
    rate.kind = SL_RATE_UNLIMITED;
    assert_int_equal(sl_shape_init(&shape, SL_TOKEN_BUCKET, &rate, 0, &why), SL_EINVALID);
}

static bool equal(enum sl_algorithm xa, const char *x, uint32_t xb, enum sl_algorithm ya, const char *y, uint32_t yb)
{
    struct sl_shape a = world_shape(xa, x, xb), b = world_shape(ya, y, yb);
    bool is = sl_shape_equal(&a, &b);

    assert_int_equal(sl_shape_equal(&b, &a), is);
    if (is)
        assert_int_equal(a.version, b.version);
    assert_true(a.version <= SL_STATE_VERSION_MASK);
    return is;
}

static void equal_shapes_decide_alike(void **state)
{
    const enum sl_algorithm tb = SL_TOKEN_BUCKET, fw = SL_FIXED_WINDOW;

    (void)state;
    assert_true(equal(tb, "10/s", 0, tb, "10/s", 10));
    assert_true(equal(tb, "10/s", 100, tb, "600/m", 100));
    assert_false(equal(tb, "10/s", 10, tb, "10/s", 11));
    assert_false(equal(tb, "10/s", 10, tb, "11/s", 10));
    assert_false(equal(tb, "10/s", 0, SL_LEAKY_BUCKET, "10/s", 0));
    assert_false(equal(fw, "10/s", 0, fw, "600/m", 0));
    assert_false(equal(fw, "10/s", 0, fw, "10/m", 0));
    assert_true(equal(fw, "10/60s", 0, fw, "10/m", 0));
}

/* Six bits cannot tell all shapes apart, but ordinary changes of a limit must not fall on few of them. */
static void versions_spread(void **state)
{
    unsigned seen[64] = {0}, most = 0;

    (void)state;
    for (uint32_t count = 1; count <= 6400; count++) {
        struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = count, .period_us = 60 * SL_SECOND_US};
        struct sl_shape shape;
        const char *why;

        assert_int_equal(sl_shape_init(&shape, SL_TOKEN_BUCKET, &rate, 0, &why), 0);
        if (++seen[shape.version] > most)
            most = seen[shape.version];
    }
    assert_true(most < 150); /* 100 on average; the hash is fixed, so this cannot come and go */
}

static void algorithms_are_named_as_in_a_policy(void **state)
{
    static const char *const names[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log",
                                        "sliding_window_counter"};
    enum sl_algorithm algorithm;

    (void)state;
    for (unsigned i = 0; i < SL_ALGORITHMS; i++) {
        assert_string_equal(sl_algorithm_name((enum sl_algorithm)i), names[i]);
        assert_int_equal(sl_algorithm_parse(names[i], strlen(names[i]), &algorithm), 0);
        assert_int_equal(algorithm, i);
        assert_int_equal(sl_algorithm_parse(names[i], strlen(names[i]) - 1, &algorithm), SL_ENOTFOUND);
    }
    assert_int_equal(sl_algorithm_parse("", 0, &algorithm), SL_ENOTFOUND);
    assert_int_equal(sl_algorithm_parse("Token_bucket", 12, &algorithm), SL_ENOTFOUND);
    assert_non_null(sl_algorithm_name(SL_ALGORITHMS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_is_the_rate_in_lowest_terms),
        cmocka_unit_test(ranges_end_where_they_are_said_to),
        cmocka_unit_test(full_debt_lasts_a_hundred_years_at_most),
        cmocka_unit_test(windows_take_no_burst_and_logs_are_short),
        cmocka_unit_test(unlimited_and_blocked_have_no_shape),
        cmocka_unit_test(equal_shapes_decide_alike),
        cmocka_unit_test(versions_spread),
        cmocka_unit_test(algorithms_are_named_as_in_a_policy),
    };

    return cmocka_run_group_tests_name("core shape", tests, NULL, NULL);
}
