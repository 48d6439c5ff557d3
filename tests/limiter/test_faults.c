/* Faults that other rate limiters had, at the level of one decision. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

/* Cost 0 was charged as 1. */
static void b18_a_cost_of_zero_spends_nothing(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: ten, rate: 10/h}\n");
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_check(&k, "a", NULL, 0).remaining, 10);
    assert_int_equal(kit_live(&k), 0);
    assert_int_equal(kit_check(&k, "a", NULL, 1).remaining, 9);
    kit_close(&k);
}

/* The second round of a zero-cost, zero-rate loop failed. */
static void b19_a_blocked_key_answers_alike_for_ever(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: shut, rate: blocked}\n");
    struct sluice_verdict first = kit_check(&k, "a", NULL, 0);

    for (int i = 0; i < 1000; i++) {
        struct sluice_verdict one = kit_check(&k, "a", NULL, 1), zero = kit_check(&k, "a", NULL, 0);

        assert_false(one.allowed);
        assert_int_equal(one.reason, SLUICE_REASON_BLOCKED);
        assert_int_equal(zero.allowed, first.allowed);
        assert_int_equal(zero.reason, first.reason);
        assert_int_equal(zero.retry_after_ms, first.retry_after_ms);
    }
    kit_close(&k);
}

/* A refused request moved the bucket. Every algorithm: drained at 0, a hundred refusals, and what time has given back
 * is still there. */
static void b22_refusals_change_nothing(void **state)
{
    static const char *const algorithms[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log",
                                             "sliding_window_counter"};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct kit k;
        char yaml[200];
        bool bucket = i < 2;

        snprintf(yaml, sizeof yaml, "limits:\n  - {name: ten, algorithm: %s, rate: %s}\n", algorithms[i],
                 bucket ? "1/s, burst: 10" : "10/m");
        kit_open(&k, yaml);
        k.now_us = T0_MINUTE_US;
        assert_true(kit_check(&k, "a", NULL, bucket ? 10 : 9).allowed);
        k.now_us += SL_SECOND_US;
        for (int n = 0; n < 100; n++)
            assert_false(kit_check(&k, "a", NULL, 5).allowed);
        assert_true(kit_check(&k, "a", NULL, 1).allowed);
        assert_false(kit_check(&k, "a", NULL, 1).allowed);
        kit_close(&k);
    }
}

/* Parts of a key that, glued together, are the parts of another. */
static void b66_parts_do_not_join_ambiguously(void **state)
{
    static const char *const pairs[][2] = {{"a", "b:c"},  {"a:b", "c"},  {"1.2.3.1", "1/x"}, {"1.2.3.11", "/x"},
                                           {"a\\", ":b"}, {"a\\:", "b"}, {"a%3A", "b"},      {"a%", "3Ab"},
                                           {"ab", ""},    {"a", "b"},    {"a|", "b"},        {"a", "|b"}};
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, per: [key, scope], rate: 1/h}\n");
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(kit_check(&k, pairs[i][0], pairs[i][1], 1).allowed);
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_false(kit_check(&k, pairs[i][0], pairs[i][1], 1).allowed);
    kit_close(&k);
}

/* The same with labels: name and value, and one label from the next. */
static void b66_labels_do_not_join_ambiguously(void **state)
{
    static const char *const pairs[][2] = {{"a", "b:c"}, {"a:b", "c"}, {"", "ab"}, {"ab", ""}, {"b:c", "a"}};
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, per: [label.x, label.y], rate: 1/h}\n");
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct sluice_request request = kit_request("k", NULL, 1);
        struct sluice_label labels[] = {{"x", 1, pairs[i][0], strlen(pairs[i][0])},
                                        {"y", 1, pairs[i][1], strlen(pairs[i][1])}};

        request.labels = labels;
        request.n_labels = 2;
        assert_true(kit_decide(&k, &request).allowed);
        assert_false(kit_decide(&k, &request).allowed);
        request.n_labels = 1; /* an absent label is a value of its own, not the empty one */
        assert_true(kit_decide(&k, &request).allowed);
    }
    kit_close(&k);
}

/* Only the beginning of the key counted. */
static void b68_all_of_a_long_key_counts(void **state)
{
    struct kit k;
    char key[2][SLUICE_KEY_MAX + 1];

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, rate: 1/h}\n");
    for (int i = 0; i < 2; i++) {
        memset(key[i], 'k', SLUICE_KEY_MAX);
        key[i][SLUICE_KEY_MAX] = '\0';
        key[i][SLUICE_KEY_MAX - 1] = (char)('a' + i);
        assert_true(kit_check(&k, key[i], NULL, 1).allowed);
    }
    assert_false(kit_check(&k, key[0], NULL, 1).allowed);
    kit_close(&k);
}

/* A user id that reads like an address shared that address's bucket. */
static void b69_key_types_are_apart(void **state)
{
    static const char *const types[] = {NULL, "user", "address"};
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, rate: 1/h}\n");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            struct sluice_request request = kit_request("192.0.2.7", NULL, 1);

            request.key_type = types[i];
            request.key_type_len = types[i] ? strlen(types[i]) : 0;
            assert_int_equal(kit_decide(&k, &request).allowed, round == 0);
        }
    }
    kit_close(&k);
}

/* The same policy counted once per route here and once per key there: a bucket is of the limit, not of where it is
 * asked. */
static void b74_one_limit_is_one_bucket_whatever_the_endpoint(void **state)
{
    struct kit k;
    unsigned admitted = 0;

    (void)state;
    kit_open(&k, "endpoints:\n  a: {match: [\"GET /a*\"]}\n  b: {match: [\"GET /b*\"]}\n"
                 "limits:\n  - {name: ten, rate: 10/h}\n");
    for (int i = 0; i < 20; i++)
        admitted += kit_check(&k, "k", i % 2 ? "GET /a" : "GET /b", 1).allowed;
    assert_int_equal(admitted, 10);
    kit_close(&k);

    kit_open(&k, "endpoints:\n  a: {match: [\"GET /a*\"]}\n  b: {match: [\"GET /b*\"]}\n"
                 "limits:\n  - {name: ten, per: [key, endpoint], rate: 10/h}\n");
    for (int i = 0; i < 40; i++)
        admitted += kit_check(&k, "k", i % 2 ? "GET /a" : "GET /b", 1).allowed;
    assert_int_equal(admitted, 30);
    kit_close(&k);
}

#define WINDOW(rate) "limits:\n  - {name: w, algorithm: fixed_window, rate: " rate "}\n"

/* A new limit was ignored until the counter expired. */
static void b98_a_lower_limit_holds_at_once(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, WINDOW("100/m"));
    k.now_us = T0_MINUTE_US;
    kit_check(&k, "a", NULL, 1);
    kit_check(&k, "b", NULL, 50);
    kit_reload(&k, WINDOW("10/m"));
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_int_equal(v.limit, 10);
    assert_int_equal(v.remaining, 8);
    v = kit_check(&k, "b", NULL, 1);
    assert_false(v.allowed);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(v.retry_after_ms, 60000);
    k.now_us += MINUTE_US;
    assert_int_equal(kit_check(&k, "b", NULL, 1).remaining, 9);
    kit_close(&k);
}

/* Counters jumped on reload. */
static void b100_an_unrelated_reload_changes_no_counter(void **state)
{
    static const char *const algorithms[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_log",
                                             "sliding_window_counter"};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct kit k;
        char yaml[200];

        snprintf(yaml, sizeof yaml, "limits:\n  - {name: hundred, algorithm: %s, rate: 100/m}\n", algorithms[i]);
        kit_open(&k, yaml);
        assert_int_equal(kit_admitted(&k, "a", NULL, 3), 3);
        for (int n = 0; n < 20; n++) {
            snprintf(yaml, sizeof yaml,
                     "limits:\n  - {name: other-%d, key: x, rate: 1/s}\n"
                     "  - {name: hundred, algorithm: %s, rate: 100/m}\n",
                     n, algorithms[i]);
            kit_reload(&k, yaml);
            assert_int_equal(kit_check(&k, "a", NULL, 0).remaining, 97);
        }
        kit_close(&k);
    }
}

/* A longer window moved its end on every request and never emptied. */
static void b103_a_longer_window_ends_once(void **state)
{
    struct kit k;
    int64_t last_reset_ms = 0;
    unsigned moves = 0, windows = 0;

    (void)state;
    kit_open(&k, WINDOW("1000/60s"));
    k.now_us = T0_MINUTE_US + 30 * SL_SECOND_US;
    kit_check(&k, "a", NULL, 7);
    kit_reload(&k, WINDOW("1000/120s"));
    for (int i = 0; i < 60; i++, k.now_us += 10 * SL_SECOND_US) {
        struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

        assert_true(v.reset_at_ms >= last_reset_ms);
        moves += v.reset_at_ms != last_reset_ms;
        last_reset_ms = v.reset_at_ms;
        windows += v.remaining == 999; /* the first of a new window */
        if (i == 0)
            assert_int_equal(v.remaining, 992);
    }
    assert_int_equal(moves, 6); /* 30 s ... 630 s: windows that end at 120, 240, ... 720 */
    assert_int_equal(windows, 5);
    kit_close(&k);
}

/* Whatever a reload does to rate and burst, it never hands out a full bucket. */
static void b98_a_bucket_keeps_its_debt_in_time(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: t, rate: 10/m, burst: 10}\n");
    assert_true(kit_check(&k, "a", NULL, 10).allowed); /* 60 s of debt */
    kit_reload(&k, "limits:\n  - {name: t, rate: 20/m, burst: 100}\n");
    struct sluice_verdict v = kit_check(&k, "a", NULL, 0);

    assert_int_equal(v.limit, 100);
    assert_int_equal(v.remaining, 80); /* 60 s at 3 s a token */
    kit_reload(&k, "limits:\n  - {name: t, rate: 1/m, burst: 1}\n");
    v = kit_check(&k, "a", NULL, 1);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ms, 60000);
    kit_reload(&k, "limits:\n  - {name: t, rate: 60/m, burst: 30}\n"); /* 60 s exceed the full debt of 30 s */
    v = kit_check(&k, "a", NULL, 1);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ms, 1000);
    kit_reload(&k, "limits:\n  - {name: u, rate: 60/m, burst: 30}\n"); /* another name is another limit */
    assert_int_equal(kit_check(&k, "a", NULL, 0).remaining, 30);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b18_a_cost_of_zero_spends_nothing),
        cmocka_unit_test(b19_a_blocked_key_answers_alike_for_ever),
        cmocka_unit_test(b22_refusals_change_nothing),
        cmocka_unit_test(b66_parts_do_not_join_ambiguously),
        cmocka_unit_test(b66_labels_do_not_join_ambiguously),
        cmocka_unit_test(b68_all_of_a_long_key_counts),
        cmocka_unit_test(b69_key_types_are_apart),
        cmocka_unit_test(b74_one_limit_is_one_bucket_whatever_the_endpoint),
        cmocka_unit_test(b98_a_lower_limit_holds_at_once),
        cmocka_unit_test(b98_a_bucket_keeps_its_debt_in_time),
        cmocka_unit_test(b100_an_unrelated_reload_changes_no_counter),
        cmocka_unit_test(b103_a_longer_window_ends_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
