/* Every field of a verdict, and how layers, rates, modes and the ceiling come together in it. */
#include "kit.h"

#include <string.h>

#define ONE_BUCKET "limits:\n  - {name: free, rate: 10/m, burst: 20, warn_at: 80%}\n"

static void an_allowed_request_has_every_field(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, ONE_BUCKET);
    k.now_us = T0_US + 250; /* 6 s a token; whole again at T0 + 6000.25 ms, which goes out rounded up */
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_true(v.allowed);
    assert_false(v.warning);
    assert_false(v.dry_run);
    assert_int_equal(v.source, SLUICE_LOCAL);
    assert_int_equal(v.reason, SLUICE_REASON_NONE);
    assert_int_equal(v.warn_at_percent, 80);
    assert_int_equal(v.limit, 20);
    assert_int_equal(v.remaining, 19);
    assert_int_equal(v.retry_after_ms, 0);
    assert_int_equal(v.reset_after_ms, 6000);
    assert_int_equal(v.reset_at_ms, T0_US / 1000 + 6001);
    assert_int_equal(v.delay_ms, 0);
    assert_string_equal(v.policy, "free");
    assert_string_equal(v.dry_run_policy, "");
    assert_int_equal(v.dry_run_retry_after_ms, 0);
    kit_close(&k);
}

static void a_rejected_request_has_every_field(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, ONE_BUCKET);
    assert_true(kit_check(&k, "a", NULL, 20).allowed);
    struct sluice_verdict v = kit_check(&k, "a", NULL, 2);

    assert_false(v.allowed);
    assert_true(v.warning);
    assert_int_equal(v.reason, SLUICE_REASON_RATE_LIMITED);
    assert_int_equal(v.limit, 20);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(v.retry_after_ms, 12000);
    assert_int_equal(v.reset_after_ms, 120000);
    assert_int_equal(v.reset_at_ms, T0_US / 1000 + 120000);
    assert_string_equal(v.policy, "free");
    k.now_us += 12000000 - 1000;
    assert_false(kit_check(&k, "a", NULL, 2).allowed);
    k.now_us += 1000;
    assert_true(kit_check(&k, "a", NULL, 2).allowed);
    kit_close(&k);
}

static void a_cost_beyond_the_limit_never_fits(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, ONE_BUCKET);
    struct sluice_verdict v = kit_check(&k, "a", NULL, 21);

    assert_false(v.allowed);
    assert_int_equal(v.reason, SLUICE_REASON_COST_EXCEEDS_LIMIT);
    assert_int_equal(v.retry_after_ms, -1);
    assert_int_equal(v.remaining, 20);
    kit_close(&k);
}

static void the_warning_begins_at_its_percentage(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, ONE_BUCKET);
    assert_false(kit_check(&k, "a", NULL, 15).warning); /* 75 % */
    assert_true(kit_check(&k, "a", NULL, 1).warning);   /* 80 % */
    assert_true(kit_check(&k, "a", NULL, 0).warning);   /* a peek sees it too */
    assert_false(kit_check(&k, "b", NULL, 0).warning);
    kit_close(&k);
}

static void assert_warns(const struct sluice_verdict *v, const char *policy, unsigned used, int64_t remaining)
{
    assert_true(v->warning);
    assert_string_equal(v->warning_policy, policy);
    assert_int_equal(v->warning_used_percent, used);
    assert_int_equal(v->warning_remaining, remaining);
}

/* The deciding limit is the tightest; a month's quota that is nearly used up must be heard of although a second's is
 * tighter for the moment. */
static void a_limit_that_does_not_decide_is_warned_of_too(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: second, rate: 10/s}\n"
                 "  - {name: month, layer: quota, rates: [1000/h, 100/30d], warn_at: 50%}\n");
    for (int i = 0; i < 5; i++, k.now_us += 10 * MINUTE_US / 60)
        assert_false(kit_check(&k, "a", NULL, 9).warning);
    struct sluice_verdict v = kit_check(&k, "a", NULL, 9); /* 54 of 100, and 9 of 10 */

    assert_string_equal(v.policy, "second");
    assert_int_equal(v.remaining, 1);
    assert_warns(&v, "month", 54, 46);
    assert_int_equal(v.warn_at_percent, 50);
    assert_int_equal(v.warning_rate_idx, 1);
    assert_int_equal(v.warning_limit, 100);
    v = kit_check(&k, "a", NULL, 9); /* rejected: nothing is known of what did not decide */
    assert_false(v.allowed);
    assert_false(v.warning);
    assert_string_equal(v.warning_policy, "");
    kit_close(&k);
}

static void several_limits_past_their_marks_are_named_in_turn(void **state)
{
    struct kit k;
    unsigned seen[2] = {0};

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: narrow, rate: 100/d, warn_at: 50%}\n"
                 "  - {name: wide, layer: quota, rate: 110/d, warn_at: 50%}\n");
    assert_true(kit_check(&k, "a", NULL, 60).allowed);
    for (int i = 0; i < 16; i++, k.now_us += 1) {
        struct sluice_verdict v = kit_check(&k, "a", NULL, 0);

        assert_true(v.warning);
        assert_string_equal(v.policy, "narrow");
        seen[strcmp(v.warning_policy, "wide") == 0]++;
    }
    assert_int_equal(seen[0], 8);
    assert_int_equal(seen[1], 8);
    kit_close(&k);
}

static void what_only_tries_warns_of_nothing(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k,
             "limits: [{name: tried, rate: 10/d, warn_at: 10%, mode: dry_run}, {name: shut, key: b, rate: blocked}]\n");
    assert_false(kit_check(&k, "a", NULL, 9).warning);
    assert_false(kit_check(&k, "b", NULL, 1).warning);
    kit_close(&k);
}

static void unlimited_and_unmatched_tell_no_numbers(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: vip, key: vip, rate: unlimited}\n");
    for (int i = 0; i < 2; i++) {
        struct sluice_verdict v = kit_check(&k, i ? "other" : "vip", NULL, 1000000000);

        assert_true(v.allowed);
        assert_string_equal(v.policy, i ? "" : "vip");
        assert_int_equal(v.limit, -1);
        assert_int_equal(v.remaining, -1);
        assert_int_equal(v.reset_at_ms, -1);
        assert_int_equal(v.reset_after_ms, 0);
        assert_int_equal(v.retry_after_ms, 0);
        assert_false(v.warning);
    }
    assert_int_equal(kit_live(&k), 0);
    kit_close(&k);
}

static void blocked_rejects_also_peeks_and_for_ever(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: shut, key: bad, rate: blocked}\n");
    for (int cost = 0; cost < 2; cost++) {
        struct sluice_verdict v = kit_check(&k, "bad", NULL, cost);

        assert_false(v.allowed);
        assert_int_equal(v.reason, SLUICE_REASON_BLOCKED);
        assert_int_equal(v.retry_after_ms, -1);
        assert_string_equal(v.policy, "shut");
        assert_int_equal(v.limit, 0);
        assert_int_equal(v.remaining, 0);
        assert_int_equal(v.reset_at_ms, -1);
    }
    kit_close(&k);
}

static void unmatched_deny_rejects_also_peeks(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, key: known, rate: 1/h}\nunmatched: deny\n");
    for (int cost = 0; cost < 2; cost++) {
        struct sluice_verdict v = kit_check(&k, "stranger", NULL, cost);

        assert_false(v.allowed);
        assert_int_equal(v.reason, SLUICE_REASON_UNMATCHED);
        assert_int_equal(v.retry_after_ms, -1);
        assert_string_equal(v.policy, "");
        assert_int_equal(v.limit, -1);
        assert_int_equal(v.remaining, -1);
    }
    assert_true(kit_check(&k, "known", NULL, 1).allowed);
    kit_close(&k);
}

static void of_several_rates_the_longest_wait_is_told(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: two, rates: [{rate: 4/s, burst: 4}, {rate: 6/m, burst: 6}]}\n");
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_int_equal(v.limit, 4); /* 3/4 < 5/6 */
    assert_int_equal(v.remaining, 3);
    assert_true(kit_check(&k, "a", NULL, 3).allowed);
    v = kit_check(&k, "a", NULL, 4); /* the first: 1 s; the second has 2: 20 s */
    assert_false(v.allowed);
    assert_int_equal(v.limit, 6);
    assert_int_equal(v.remaining, 2);
    assert_int_equal(v.retry_after_ms, 20000);
    v = kit_check(&k, "a", NULL, 5); /* never fits the first */
    assert_int_equal(v.limit, 4);
    assert_int_equal(v.retry_after_ms, -1);
    assert_int_equal(v.reason, SLUICE_REASON_COST_EXCEEDS_LIMIT);
    kit_close(&k);
}

static void equal_rates_report_the_first_in_the_file(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: edge, layer: edge, rate: 10/s}\n"
                 "  - {name: main, rate: 10/s}\n");
    assert_string_equal(kit_check(&k, "a", NULL, 1).policy, "edge");
    assert_int_equal(kit_admitted(&k, "a", NULL, 20), 9);
    assert_string_equal(kit_check(&k, "a", NULL, 1).policy, "edge");
    kit_close(&k);
}

#define TWO_LAYERS                   \
    "limits:\n"                      \
    "  - {name: mine, rate: 10/m}\n" \
    "  - {name: all, layer: backend, per: [], rate: 3/m}\n"

static void a_layer_that_rejects_keeps_the_others_whole(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, TWO_LAYERS);
    for (int i = 0; i < 3; i++)
        assert_true(kit_check(&k, i % 2 ? "a" : "b", NULL, 1).allowed);
    struct sluice_verdict v = kit_check(&k, "c", NULL, 1);

    assert_false(v.allowed);
    assert_string_equal(v.policy, "all");
    assert_int_equal(v.retry_after_ms, 20000);
    kit_reload(&k, "limits:\n  - {name: mine, rate: 10/m}\n");
    assert_int_equal(kit_check(&k, "c", NULL, 0).remaining, 10);
    assert_int_equal(kit_check(&k, "b", NULL, 0).remaining, 8);
    kit_close(&k);
}

static void a_bucket_is_told_rather_than_unlimited(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: free-for-all, rate: unlimited}\n"
                 "  - {name: all, layer: backend, per: [], rate: 3/m}\n");
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_string_equal(v.policy, "all");
    assert_int_equal(v.remaining, 2);
    kit_close(&k);
}

static void blocked_in_one_layer_beats_a_wait_in_another(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: mine, rate: 1/m}\n"
                 "  - {name: shut, layer: gate, key: bad, rate: blocked}\n");
    assert_string_equal(kit_check(&k, "bad", NULL, 1).policy, "shut");
    struct sluice_verdict v = kit_check(&k, "bad", NULL, 1);

    assert_int_equal(v.reason, SLUICE_REASON_BLOCKED);
    assert_string_equal(kit_check(&k, "bad", NULL, 2).policy, "mine"); /* -1 both: file order */
    /* and nothing was charged in the other layer */
    kit_reload(&k, "limits:\n  - {name: mine, rate: 1/m}\n");
    assert_int_equal(kit_check(&k, "bad", NULL, 0).remaining, 1);
    kit_close(&k);
}

static void a_leaky_bucket_tells_how_long_to_hold(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: smooth, algorithm: leaky_bucket, rate: 10/s, burst: 100}\n"
                 "  - {name: tight, layer: edge, rate: 5/s}\n");
    assert_int_equal(kit_check(&k, "a", NULL, 1).delay_ms, 0);
    struct sluice_verdict v = kit_check(&k, "a", NULL, 2);

    assert_string_equal(v.policy, "tight"); /* the tighter one is told, and yet the leaky one must be smooth */
    assert_int_equal(v.delay_ms, 100);
    assert_int_equal(kit_check(&k, "a", NULL, 0).delay_ms, 0);
    assert_int_equal(kit_check(&k, "a", NULL, 3).delay_ms, 0); /* rejected */
    kit_close(&k);
}

static void windows_are_whole_again_at_their_end(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: w, algorithm: fixed_window, rate: 5/m}\n");
    k.now_us = T0_MINUTE_US + 1234567;
    struct sluice_verdict v = kit_check(&k, "a", NULL, 5);

    assert_int_equal(v.reset_at_ms, T0_MINUTE_US / 1000 + 60000);
    assert_int_equal(v.reset_after_ms, 58766);
    v = kit_check(&k, "a", NULL, 1);
    assert_int_equal(v.retry_after_ms, 58766);
    kit_close(&k);
}

static void a_sliding_log_is_whole_when_the_newest_hit_leaves(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: log, algorithm: sliding_window_log, rate: 2/m}\n");
    kit_check(&k, "a", NULL, 1);
    k.now_us += 10000400;
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_int_equal(v.remaining, 0);
    assert_int_equal(v.reset_after_ms, 60000);
    assert_int_equal(v.reset_at_ms, T0_US / 1000 + 70001);
    v = kit_check(&k, "a", NULL, 1);
    assert_int_equal(v.retry_after_ms, 50000); /* 49,999.6 */
    kit_close(&k);
}

static void a_peek_tells_all_and_changes_nothing(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, TWO_LAYERS);
    for (int i = 0; i < 3; i++) {
        struct sluice_verdict v = kit_check(&k, "a", NULL, 0);

        assert_true(v.allowed);
        assert_int_equal(v.remaining, 10); /* equal fractions: the first in the file */
    }
    assert_int_equal(kit_live(&k), 0);
    kit_check(&k, "a", NULL, 3);
    assert_true(kit_check(&k, "a", NULL, 0).allowed); /* the shared bucket is empty */
    assert_string_equal(kit_check(&k, "a", NULL, 0).policy, "all");
    kit_close(&k);
}

static void a_dry_run_limit_is_told_and_never_obeyed(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: real, rate: 5/h}\n"
                 "  - {name: tried, layer: trial, rate: 2/h, mode: dry_run}\n"
                 "  - {name: tried-longer, layer: second-trial, rate: 2/d, mode: dry_run}\n");
    for (int i = 0; i < 2; i++)
        assert_false(kit_check(&k, "a", NULL, 1).dry_run);
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_true(v.allowed);
    assert_true(v.dry_run);
    assert_string_equal(v.policy, "real");
    assert_string_equal(v.dry_run_policy, "tried-longer");
    assert_int_equal(v.dry_run_retry_after_ms, 43200000);
    assert_int_equal(kit_count(&k, "tried").dry_allowed, 2);
    assert_int_equal(kit_count(&k, "tried").dry_rejected, 1);
    assert_int_equal(kit_count(&k, "tried").checks_allowed, 0);
    kit_close(&k);
}

static void a_dry_run_limit_is_charged_only_for_what_was_allowed(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: real, rate: 2/h}\n"
                 "  - {name: tried, layer: trial, rate: 4/h, mode: dry_run}\n");
    assert_int_equal(kit_admitted(&k, "a", NULL, 10), 2);
    k.now_us +=
        1800 * SL_SECOND_US; /* real has one token again; tried is whole, as it was charged twice, not ten times */
    assert_false(kit_check(&k, "a", NULL, 1).dry_run);
    kit_reload(&k, "limits:\n"
                   "  - {name: new, rate: 200/h}\n"
                   "  - {name: tried, layer: trial, rate: 4/h, mode: dry_run}\n");
    for (int i = 0; i < 3; i++)
        assert_false(kit_check(&k, "a", NULL, 1).dry_run);
    assert_true(kit_check(&k, "a", NULL, 1).dry_run);
    kit_close(&k);
}

static void a_blocked_dry_run_is_told(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: real, rate: 2/h}\n"
                 "  - {name: shut, layer: trial, key: a, rate: blocked, mode: dry_run}\n");
    struct sluice_verdict v = kit_check(&k, "a", NULL, 1);

    assert_true(v.allowed);
    assert_true(v.dry_run);
    assert_string_equal(v.dry_run_policy, "shut");
    assert_int_equal(v.dry_run_retry_after_ms, -1);
    kit_close(&k);
}

static void the_ceiling_caps_and_stands_in(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: vip, key: vip, rate: unlimited}\n"
                 "  - {name: big, key: big, rate: 1000000/s, burst: 1000000}\n"
                 "  - {name: window, key: window, algorithm: fixed_window, rate: 1000000/s}\n"
                 "  - {name: shared, key: shared, per: [], rate: 1000000/s}\n"
                 "ceiling: {rate: 10/s, burst: 20}\n");
    assert_int_equal(kit_check(&k, "vip", NULL, 1).limit, 20);
    assert_string_equal(kit_check(&k, "vip", NULL, 1).policy, "vip");
    assert_int_equal(kit_check(&k, "big", NULL, 1).limit, 20);
    assert_int_equal(kit_check(&k, "window", NULL, 1).limit, 10);
    assert_int_equal(kit_check(&k, "shared", NULL, 1).limit, 1000000);
    struct sluice_verdict v = kit_check(&k, "nobody", NULL, 1);

    assert_string_equal(v.policy, "");
    assert_int_equal(v.limit, 20);
    assert_int_equal(v.remaining, 19);
    assert_int_equal(kit_admitted(&k, "nobody", NULL, 100), 19);
    assert_false(kit_check(&k, "nobody", NULL, 1).allowed);
    assert_int_equal(kit_check(&k, "somebody", NULL, 1).remaining, 19);
    kit_close(&k);
}

static void a_bad_request_names_its_field_and_charges_nothing(void **state)
{
    struct kit k;
    struct sluice_verdict v;
    const char *field, *why;
    struct sluice_label labels[2] = {{"plan", 4, "x", 1}, {"", 0, "y", 1}};

    (void)state;
    kit_open(&k, ONE_BUCKET);
    struct sluice_request request = kit_request("a", NULL, -2);

    assert_int_equal(sl_limiter_check(k.limiter, &request, &v, NULL, &field, &why), SLUICE_EINVALID);
    assert_string_equal(field, "cost");
    assert_true(strlen(why) > 0);
    request = kit_request("", NULL, 1);
    assert_int_equal(sl_limiter_check(k.limiter, &request, &v, NULL, &field, &why), SLUICE_EINVALID);
    assert_string_equal(field, "key");
    request = kit_request("a", NULL, 1);
    request.labels = labels;
    request.n_labels = 2;
    assert_int_equal(sl_limiter_check(k.limiter, &request, &v, NULL, &field, &why), SLUICE_EINVALID);
    assert_string_equal(field, "labels[1].name");
    assert_int_equal(sl_limiter_check(k.limiter, &request, &v, NULL, NULL, NULL), SLUICE_EINVALID);
    assert_int_equal(sl_limiter_check_at(k.limiter, UINT64_MAX, &request, &v, NULL, &field, &why), SLUICE_EINVALID);
    assert_string_equal(field, "t_us");
    assert_int_equal(kit_live(&k), 0);
    kit_close(&k);
}

static void the_report_lists_every_bucket(void **state)
{
    struct kit k;
    struct sluice_verdict v;
    static struct sl_report report;
    struct sluice_request request = kit_request("a", NULL, 1);

    (void)state;
    kit_open(&k, "limits:\n"
                 "  - {name: two, rates: [10/m, 3/h]}\n"
                 "  - {name: shut, layer: gate, key: b, rate: blocked}\n"
                 "  - {name: tried, layer: trial, rate: 2/h, mode: dry_run}\n");
    for (int i = 0; i < 4; i++)
        assert_int_equal(sl_limiter_check(k.limiter, &request, &v, &report, NULL, NULL), 0);
    assert_false(v.allowed);
    assert_int_equal(report.n, 3);
    assert_string_equal(report.items[0].name, "two");
    assert_int_equal(report.items[0].quota, 10);
    assert_int_equal(report.items[0].remaining, 7); /* had room, and nothing was spent */
    assert_int_equal(report.items[0].period_us, MINUTE_US);
    assert_int_equal(report.items[0].next_ms, 6000);
    assert_true(report.items[0].allowed);
    assert_int_equal(report.items[1].quota, 3);
    assert_int_equal(report.items[1].remaining, 0);
    assert_false(report.items[1].allowed);
    assert_true(report.items[2].dry_run);
    assert_string_equal(report.items[2].name, "tried");
    assert_false(report.items[2].allowed);

    request = kit_request("b", NULL, 1);
    assert_int_equal(sl_limiter_check(k.limiter, &request, &v, &report, NULL, NULL), 0);
    assert_int_equal(report.n, 4);
    assert_string_equal(report.items[2].name, "shut");
    assert_int_equal(report.items[2].quota, 0);
    assert_false(report.items[2].allowed);
    assert_int_equal(report.items[3].remaining, 2);
    kit_close(&k);
}

static void an_event_of_the_past_is_decided_at_the_latest(void **state)
{
    struct kit k;
    struct sluice_verdict v;
    struct sluice_request request = kit_request("a", NULL, 1);
    struct sl_table_stats stats;

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, rate: 1/s}\n");
    assert_int_equal(sl_limiter_check_at(k.limiter, T0_US + 5000000, &request, &v, NULL, NULL, NULL), 0);
    assert_true(v.allowed);
    assert_int_equal(sl_limiter_check_at(k.limiter, T0_US + 1000000, &request, &v, NULL, NULL, NULL), 0);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ms, 1000);
    sl_table_stats(sl_limiter_table(k.limiter), &stats);
    assert_int_equal(stats.negative_elapsed, 1);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allowed_request_has_every_field),
        cmocka_unit_test(a_rejected_request_has_every_field),
        cmocka_unit_test(a_cost_beyond_the_limit_never_fits),
        cmocka_unit_test(the_warning_begins_at_its_percentage),
        cmocka_unit_test(a_limit_that_does_not_decide_is_warned_of_too),
        cmocka_unit_test(several_limits_past_their_marks_are_named_in_turn),
        cmocka_unit_test(what_only_tries_warns_of_nothing),
        cmocka_unit_test(unlimited_and_unmatched_tell_no_numbers),
        cmocka_unit_test(blocked_rejects_also_peeks_and_for_ever),
        cmocka_unit_test(unmatched_deny_rejects_also_peeks),
        cmocka_unit_test(of_several_rates_the_longest_wait_is_told),
        cmocka_unit_test(equal_rates_report_the_first_in_the_file),
        cmocka_unit_test(a_layer_that_rejects_keeps_the_others_whole),
        cmocka_unit_test(a_bucket_is_told_rather_than_unlimited),
        cmocka_unit_test(blocked_in_one_layer_beats_a_wait_in_another),
        cmocka_unit_test(a_leaky_bucket_tells_how_long_to_hold),
        cmocka_unit_test(windows_are_whole_again_at_their_end),
        cmocka_unit_test(a_sliding_log_is_whole_when_the_newest_hit_leaves),
        cmocka_unit_test(a_peek_tells_all_and_changes_nothing),
        cmocka_unit_test(a_dry_run_limit_is_told_and_never_obeyed),
        cmocka_unit_test(a_dry_run_limit_is_charged_only_for_what_was_allowed),
        cmocka_unit_test(a_blocked_dry_run_is_told),
        cmocka_unit_test(the_ceiling_caps_and_stands_in),
        cmocka_unit_test(a_bad_request_names_its_field_and_charges_nothing),
        cmocka_unit_test(the_report_lists_every_bucket),
        cmocka_unit_test(an_event_of_the_past_is_decided_at_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
