/* What is counted, by whom, and over a reload. */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void the_deciding_limit_and_all_consulted_are_counted(void **state)
{
    struct kit k;
    struct sl_limiter_stats stats;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: mine, key: a, rate: 10/h}\n"
                 "  - {name: free-for-all, key: b, rate: unlimited}\n"
                 "  - {name: shut, key: c, rate: blocked}\n"
                 "  - {name: all, layer: backend, key_type: api_key, per: [], rate: 3/h}\n");
    for (int i = 0; i < 4; i++)
        kit_check(&k, "a", NULL, 1);
    kit_check(&k, "b", NULL, 1);
    kit_check(&k, "c", NULL, 1);

    struct sl_limiter_count mine = kit_count(&k, "mine"), all = kit_count(&k, "all");

    assert_int_equal(mine.decided_allowed + mine.decided_rejected, 0); /* `all` was tighter */
    assert_int_equal(mine.checks_allowed, 4);                          /* it had room, whatever others said */
    assert_int_equal(mine.checks_rejected, 0);
    assert_int_equal(all.decided_allowed, 3);
    assert_int_equal(all.decided_rejected, 2); /* a's fourth, and b's */
    assert_int_equal(all.checks_allowed, 3);
    assert_int_equal(all.checks_rejected, 3); /* also c's: looked at, though blocked */
    assert_int_equal(kit_count(&k, "free-for-all").checks_allowed, 1);
    assert_int_equal(kit_count(&k, "shut").decided_rejected, 1);
    assert_true(kit_count(&k, "shut").blocked);
    assert_false(kit_count(&k, "free-for-all").blocked || mine.blocked);
    assert_int_equal(kit_count(&k, "shut").checks_rejected, 1);
    sl_limiter_stats(k.limiter, &stats);
    assert_int_equal(stats.allowed, 3);
    assert_int_equal(stats.rejected, 3);
    assert_int_equal(stats.unmatched, 0);
    kit_close(&k);
}

static void unmatched_requests_have_a_row(void **state)
{
    struct kit k;
    struct sl_limiter_stats stats;
    struct sl_limiter_count rows[4];

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, key: a, rate: 1/s}\n");
    kit_check(&k, "stranger", NULL, 1);
    assert_int_equal(sl_limiter_counts(k.limiter, rows, 1), 2);
    assert_string_equal(rows[0].limit, "one");
    assert_int_equal(sl_limiter_counts(k.limiter, rows, 4), 2);
    assert_string_equal(rows[1].limit, "");
    assert_int_equal(rows[1].decided_allowed, 1);
    sl_limiter_stats(k.limiter, &stats);
    assert_int_equal(stats.unmatched, 1);
    kit_close(&k);
}

static void counts_survive_a_reload_while_the_name_stays(void **state)
{
    struct kit k;
    struct sl_limiter_stats stats;

    (void)state;
    kit_open(&k, "limits:\n  - {name: x, key: a, rate: 1/s}\n  - {name: y, key: b, rate: 1/s}\n");
    kit_check(&k, "a", NULL, 1);
    kit_check(&k, "b", NULL, 1);
    kit_check(&k, "b", NULL, 1);
    kit_reload(&k, "limits:\n  - {name: z, key: c, rate: 1/s}\n  - {name: y, key: b, rate: 5/s}\n");
    k.now_us += SL_SECOND_US;
    kit_check(&k, "b", NULL, 1);
    assert_int_equal(kit_count(&k, "y").decided_allowed, 2);
    assert_int_equal(kit_count(&k, "y").decided_rejected, 1);
    assert_int_equal(kit_count(&k, "z").decided_allowed, 0);
    assert_string_equal(kit_count(&k, "x").limit, "");
    sl_limiter_stats(k.limiter, &stats);
    assert_int_equal(stats.reloads, 1);
    assert_int_equal(stats.allowed, 3);
    kit_close(&k);
}

/* 1,003 limits, by key k0 ... k1002. */
static char *many_limits(const char *name_of_first)
{
    size_t size = 1003 * 64;
    char *yaml = malloc(size);
    int len = snprintf(yaml, size, "limits:\n");

    for (int i = 0; i < 1003; i++)
        len += i == 0 ? snprintf(yaml + len, size - (size_t)len, "  - {name: %s, key: k0, rate: 9/s}\n", name_of_first)
                      : snprintf(yaml + len, size - (size_t)len, "  - {name: n%d, key: k%d, rate: 9/s}\n", i, i);
    return yaml;
}

static void beyond_a_thousand_limits_share_a_row(void **state)
{
    struct kit k;
    char *yaml = many_limits("n0");

    (void)state;
    kit_open(&k, yaml);
    free(yaml);
    for (int i = 998; i < 1003; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        assert_true(kit_check(&k, key, NULL, 1).allowed);
    }
    assert_int_equal(kit_count(&k, "n999").decided_allowed, 1);
    assert_int_equal(kit_count(&k, "other").decided_allowed, 3);
    assert_int_equal(sl_limiter_counts(k.limiter, NULL, 0), SL_COUNT_ROWS_MAX);

    yaml = many_limits("other"); /* now the shared row is that limit's */
    kit_reload(&k, yaml);
    free(yaml);
    kit_check(&k, "k0", NULL, 1);
    kit_check(&k, "k1002", NULL, 1);
    assert_int_equal(kit_count(&k, "other").decided_allowed, 5);
    assert_int_equal(sl_limiter_counts(k.limiter, NULL, 0), SL_COUNT_ROWS_MAX - 1);
    kit_close(&k);
}

static struct sluice_request anonymous(const char *address)
{
    struct sluice_request r = kit_request(address, NULL, 1);

    r.key_type = "address", r.key_type_len = 7;
    return r;
}

static void expect_anonymous(struct kit *k, uint64_t allowed, uint64_t rejected)
{
    struct sl_limiter_stats stats;

    sl_limiter_stats(k->limiter, &stats);
    assert_int_equal(stats.anonymous_allowed, allowed);
    assert_int_equal(stats.anonymous_rejected, rejected);
}

/* Whichever way a decision takes: anew, out of the memo, with a report, over several buckets, in a batch. */
static void anonymous_decisions_are_counted_on_every_way(void **state)
{
    struct kit k;
    struct sluice_request a = anonymous("192.0.2.1"), mixed[4];
    struct sluice_verdict verdicts[4];
    struct sl_report report;
    size_t bad;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: by-address, key_type: address, rate: 6/h}\n"
                 "  - {name: all, layer: backend, endpoint: search, per: [], rate: 1/h}\n"
                 "endpoints: {search: {match: [s]}}\n");
    for (int i = 0; i < 4; i++) /* from the third on out of the memo */
        kit_decide(&k, &a);
    kit_check(&k, "192.0.2.1", NULL, 1); /* the same text, as an API key */
    expect_anonymous(&k, 4, 0);
    a.scope = "s", a.scope_len = 1;
    kit_decide(&k, &a);
    kit_decide(&k, &a); /* the backend's one token is gone */
    expect_anonymous(&k, 5, 1);
    a.scope = NULL, a.scope_len = 0;
    assert_int_equal(sl_limiter_check(k.limiter, &a, &verdicts[0], &report, NULL, NULL), 0);
    expect_anonymous(&k, 6, 1);
    for (int i = 0; i < 4; i++)
        mixed[i] = i == 2 ? kit_request("k", NULL, 1) : anonymous(i == 3 ? "192.0.2.9" : "192.0.2.1");
    assert_int_equal(sl_limiter_check_batch(k.limiter, mixed, 4, verdicts, NULL, &bad, NULL, NULL), 0);
    expect_anonymous(&k, 7, 3);
    a.key = "nowhere", a.key_len = 7; /* no decision */
    assert_int_not_equal(sl_limiter_check(k.limiter, &a, &verdicts[0], NULL, NULL, NULL), 0);
    expect_anonymous(&k, 7, 3);
    kit_close(&k);
}

static void one_decision_in_64_is_timed(void **state)
{
    static struct sluice_request requests[64];
    static struct sluice_verdict verdicts[64];
    struct kit k;
    struct sl_limiter_stats stats;
    uint64_t in_buckets = 0;

    (void)state;
    kit_open(&k, "limits:\n  - {name: x, rate: 1000/s}\n");
    for (int i = 0; i < 640; i++)
        kit_check(&k, "a", NULL, 1);
    sl_limiter_stats(k.limiter, &stats);
    /* each slot counts for itself, and the thread may have moved between processors */
    assert_in_range(stats.duration_count, 10, 74);
    for (int i = 0; i < SL_DURATION_BUCKETS; i++)
        in_buckets += stats.duration[i];
    assert_int_equal(in_buckets, stats.duration_count);
    assert_true(stats.duration_sum_ns > 0);
    for (int i = 0; i < 64; i++)
        requests[i] = kit_request("a", NULL, 1);
    assert_int_equal(sl_limiter_check_batch(k.limiter, requests, 64, verdicts, NULL, NULL, NULL, NULL), 0);
    in_buckets = stats.duration_count;
    sl_limiter_stats(k.limiter, &stats);
    assert_int_equal(stats.duration_count, in_buckets + 1);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_deciding_limit_and_all_consulted_are_counted),
        cmocka_unit_test(unmatched_requests_have_a_row),
        cmocka_unit_test(counts_survive_a_reload_while_the_name_stays),
        cmocka_unit_test(beyond_a_thousand_limits_share_a_row),
        cmocka_unit_test(anonymous_decisions_are_counted_on_every_way),
        cmocka_unit_test(one_decision_in_64_is_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
