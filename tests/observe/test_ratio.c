/* What is a change of a share and what is not: scenarios in virtual time, one feed a second. */
#include "observe/ratio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

/* A limit's traffic: what passes and what is rejected, a second, with noise of its own. */
struct traffic {
    struct sl_ratio ratio;
    uint64_t now_us, part, whole, random;
    unsigned n_risen, n_fallen, n_all, n_none; /* seconds in that state */
};

static void begin(struct traffic *t, unsigned mature, double all_at)
{
    memset(t, 0, sizeof *t);
    t->now_us = 1000 * S;
    t->random = 88172645463325252u;
    sl_ratio_init(&t->ratio, mature, all_at, t->now_us);
    sl_ratio_feed(&t->ratio, 0, 0, t->now_us);
}

static double chance(struct traffic *t)
{
    t->random ^= t->random << 13, t->random ^= t->random >> 7, t->random ^= t->random << 17;
    return (double)(t->random >> 11) / (double)(UINT64_C(1) << 53);
}

/* One second of `rate` decisions, each rejected with this probability. */
static void second(struct traffic *t, unsigned rate, double rejected)
{
    for (unsigned i = 0; i < rate; i++)
        t->part += chance(t) < rejected;
    t->whole += rate;
    t->now_us += S;
    sl_ratio_feed(&t->ratio, t->part, t->whole, t->now_us);
    t->n_risen += t->ratio.state.risen;
    t->n_fallen += t->ratio.state.fallen;
    t->n_all += t->ratio.state.all;
    t->n_none += t->ratio.state.none;
}

static void run(struct traffic *t, unsigned seconds, unsigned rate, double rejected)
{
    for (unsigned i = 0; i < seconds; i++)
        second(t, rate, rejected);
}

/* From one level to another. */
static void ramp(struct traffic *t, unsigned seconds, double rate, double to_rate, double rejected, double to_rejected)
{
    for (unsigned i = 0; i < seconds; i++) {
        double f = (double)i / seconds;

        second(t, (unsigned)(rate + (to_rate - rate) * f), rejected + (to_rejected - rejected) * f);
    }
}

static void expect_quiet(const struct traffic *t)
{
    assert_int_equal(t->n_risen, 0);
    assert_int_equal(t->n_fallen, 0);
    assert_int_equal(t->n_all, 0);
    assert_int_equal(t->n_none, 0);
}

static void the_share_is_of_the_last_ten_seconds(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 20, 1000, 1);
    assert_true(t.ratio.now.share == 1);
    run(&t, 5, 1000, 0);
    assert_true(t.ratio.now.share > 0.49 && t.ratio.now.share < 0.51);
    assert_true(t.ratio.now.whole > 999 && t.ratio.now.whole < 1001);
    run(&t, 5, 1000, 0);
    assert_true(t.ratio.now.share == 0);
    assert_int_equal(t.ratio.now.n, 10000);
    assert_true(sl_ratio_share(&t.ratio, t.part + 2500, t.whole + 2500) > 0.19); /* since the last feed */
    run(&t, 11, 0, 0);
    assert_true(t.ratio.now.share == 0 && t.ratio.now.n == 0);
}

static void before_the_first_feed_all_counts(void **state)
{
    struct sl_ratio ratio;

    (void)state;
    sl_ratio_init(&ratio, 30, 0.99, 0);
    assert_true(sl_ratio_share(&ratio, 0, 0) == 0);
    assert_true(sl_ratio_share(&ratio, 50, 100) == 0.5);
}

static void a_steady_share_is_quiet_however_high(void **state)
{
    static const double shares[] = {0, 0.02, 0.4, 0.9, 0.995, 1};

    (void)state;
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct traffic t;

        begin(&t, 30, 0.99);
        run(&t, 2 * 3600, 50, shares[i]);
        expect_quiet(&t);
    }
}

static void a_jump_is_seen_within_seconds(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 1800, 200, 0.4);
    run(&t, 20, 200, 0.8);
    assert_false(t.ratio.state.risen);
    run(&t, 10, 200, 0.8);
    assert_true(t.ratio.state.risen);
    assert_true(t.n_risen >= 5);
    assert_int_equal(t.n_all, 0);
}

/* Large keys near their limit are rejected in clumps, far more of them in ten seconds than chance would explain if each
 * decision stood for itself. */
static void clumps_are_quiet(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    for (unsigned i = 0; i < 100; i++) {
        run(&t, 185, 100, 0.01);
        run(&t, 15, 100, 0.4);
    }
    expect_quiet(&t);
}

/* 2 % rejected; then within two minutes twenty times the traffic, most of it rejected; half an hour later it is over. */
static void an_attack_ramps_up_and_ends(void **state)
{
    struct traffic t;
    unsigned risen;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 3600, 100, 0.02);
    expect_quiet(&t);
    ramp(&t, 120, 100, 2000, 0.02, 0.93);
    assert_true(t.ratio.state.risen);
    assert_true(t.n_risen > 60); /* since 20 % of them or so */
    run(&t, 600, 2000, 0.93);
    assert_true(t.ratio.state.risen);
    risen = t.n_risen;
    run(&t, 30, 100, 0.02);
    assert_false(t.ratio.state.risen);
    assert_true(t.n_risen - risen <= 11); /* the window's length */
    run(&t, 3600, 100, 0.02);
    assert_false(t.ratio.state.risen);
    assert_int_equal(t.n_fallen, 0); /* rejections ended with the traffic they were of */
    assert_int_equal(t.n_none, 0);
    assert_int_equal(t.n_all, 0); /* as much is allowed as ever */
}

/* It lasted so long that it became usual. Its end is no fall, as the traffic has gone with it. */
static void the_end_of_a_flood_of_hours_is_quiet(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 2 * 3600, 500, 0.8);
    run(&t, 1800, 100, 0.02);
    expect_quiet(&t);
}

/* Somebody halves a limit: a change, and after a while the usual state. */
static void a_configuration_jump_is_told_and_becomes_usual(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 3600, 100, 0.05);
    run(&t, 300, 100, 0.5);
    assert_true(t.ratio.state.risen);
    run(&t, 600, 100, 0.5);
    assert_true(t.ratio.state.risen); /* it is stubborn for a quarter of an hour */
    run(&t, 900, 100, 0.5);
    assert_false(t.ratio.state.risen);
    run(&t, 3600, 100, 0.5);
    assert_false(t.ratio.state.risen);
    assert_int_equal(t.n_all, 0);
    run(&t, 30, 100, 0.05); /* and taken back: traffic goes on, rejections do not */
    assert_true(t.ratio.state.fallen);
}

static void a_limit_taken_away_is_a_fall(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 1800, 100, 0.3);
    run(&t, 30, 100, 0);
    assert_true(t.ratio.state.fallen);
    assert_true(t.ratio.state.none);
    assert_false(t.ratio.state.risen);
}

/* 2 decisions a second at night, of them now and then most rejected; by day 100. */
static void quiet_nights_are_quiet(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 3600, 100, 0.03);
    ramp(&t, 3600, 100, 2, 0.03, 0.03);
    for (unsigned hour = 0; hour < 6; hour++) {
        run(&t, 1800, 2, 0.05);
        run(&t, 1800, 2, 0.9);
    }
    run(&t, 600, 0, 0);
    assert_true(t.ratio.usual.high < 0.1); /* the evening's, not the night's */
    ramp(&t, 3600, 2, 100, 0.03, 0.03);
    run(&t, 3600, 100, 0.03);
    expect_quiet(&t);
}

static void what_drifts_over_hours_is_quiet(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 3600, 100, 0.05);
    ramp(&t, 3 * 3600, 100, 300, 0.05, 0.6);
    ramp(&t, 3 * 3600, 300, 300, 0.6, 0.05);
    run(&t, 3600, 300, 0.05);
    expect_quiet(&t);
}

/* Clients that come all at the full minute: 20 % of the time most of it is rejected. */
static void what_swings_is_quiet(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    for (unsigned minute = 0; minute < 120; minute++) {
        run(&t, 12, 300, 0.7);
        run(&t, 48, 50, 0.01);
    }
    expect_quiet(&t);
}

static void nothing_is_judged_before_it_is_known(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 60, 100, 0); /* buckets are full after a start */
    run(&t, 200, 100, 0.6);
    expect_quiet(&t);
    assert_true(t.ratio.usual.n > 20);
    run(&t, 3600, 100, 0.6);
    expect_quiet(&t);
}

static void a_mistake_that_rejects_all_is_seen_in_three_seconds(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 600, 40, 0.05);
    run(&t, 2, 40, 1);
    assert_int_equal(t.n_all, 0);
    run(&t, 2, 40, 1);
    assert_true(t.ratio.state.all);
    run(&t, 10, 15, 1); /* clients that heed Retry-After */
    assert_true(t.ratio.state.all);
    run(&t, 5, 40, 0.05);
    assert_false(t.ratio.state.all);
}

/* 99.7 % rejected, but what was allowed before still is: somebody knocks at the door, the door is as it was. */
static void a_flood_is_not_all(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 600, 20, 0.01);
    run(&t, 120, 7000, 0.997);
    assert_true(t.ratio.state.risen);
    assert_int_equal(t.n_all, 0);
}

/* Around the threshold: the state is kept until the share is well back. */
static void there_is_hysteresis(void **state)
{
    struct traffic t;
    unsigned changes = 0;
    bool last = false;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 1800, 1000, 0.10);
    run(&t, 40, 1000, 0.235);
    last = t.ratio.state.risen;
    assert_true(last);
    for (unsigned i = 0; i < 300; i++) {
        second(&t, 1000, 0.215 + 0.02 * (i / 10 % 2 ? 1 : -1)); /* the threshold is near 21 % */
        changes += t.ratio.state.risen != last;
        last = t.ratio.state.risen;
    }
    assert_int_equal(changes, 0);
    run(&t, 20, 1000, 0.12);
    assert_false(t.ratio.state.risen);
}

/* Everybody has lost his key: keyed traffic is gone, and as much anonymous there instead. With little known. */
static void keyed_traffic_that_turns_anonymous_is_all(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 3, 0.95);
    run(&t, 45, 100, 0.3);
    run(&t, 6, 100, 1);
    assert_true(t.ratio.state.all);
    begin(&t, 3, 0.95);
    run(&t, 45, 100, 0.3);
    run(&t, 60, 3000, 0.977); /* a crowd beside them is not that */
    assert_int_equal(t.n_all, 0);
}

static void counters_and_clocks_that_go_back_are_harmless(void **state)
{
    struct sl_ratio ratio;

    (void)state;
    sl_ratio_init(&ratio, 1, 0.99, 100 * S);
    sl_ratio_feed(&ratio, 50, 100, 100 * S);
    sl_ratio_feed(&ratio, 10, 20, 90 * S);
    assert_true(ratio.now.share == 0 && ratio.now.n == 0 && ratio.now.whole == 0);
    sl_ratio_feed(&ratio, 60, 90, 101 * S); /* more parts than wholes */
    assert_true(ratio.now.share == 0);
    sl_ratio_feed(&ratio, 90, 110, 102 * S);
    assert_true(ratio.now.share == 1);
    sl_ratio_feed(&ratio, UINT64_MAX, UINT64_MAX, 103 * S);
    assert_true(ratio.now.share <= 1 && ratio.now.share >= 0);
}

static void after_a_failover(struct traffic *t)
{
    begin(t, 30, 0.99);
    run(t, 1800, 100, 0.4);
    sl_ratio_trouble(&t->ratio, SL_RATIO_FALLS);
    run(t, 60, 100, 0.02);
    sl_ratio_trouble(&t->ratio, 0);
}

/* Counts were lost: whole buckets, hardly a rejection, for twenty minutes. It is neither a change nor remembered. */
static void a_dip_that_is_explained_is_excused(void **state)
{
    struct traffic t;

    (void)state;
    after_a_failover(&t);
    assert_true(sl_ratio_is_excused_fall(&t.ratio));
    run(&t, 600, 100, 0.02);
    ramp(&t, 600, 100, 100, 0.02, 0.4);
    run(&t, 600, 100, 0.4);
    expect_quiet(&t);
    assert_false(sl_ratio_is_excused_fall(&t.ratio));
    assert_true(t.ratio.usual.low > 0.34); /* the end of the ramp is within the margin */
    run(&t, 30, 100, 0.02);                /* the next one is none of its business */
    assert_true(t.ratio.state.fallen);
}

static void a_rise_is_never_excused(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 1800, 100, 0.4);
    sl_ratio_trouble(&t.ratio, SL_RATIO_FALLS);
    run(&t, 30, 100, 0.9);
    assert_true(t.ratio.state.risen);
    run(&t, 10, 100, 1);
    assert_true(t.ratio.state.all);
}

/* What never comes back becomes usual in the end, and was no change. */
static void an_excuse_does_not_last_for_ever(void **state)
{
    struct traffic t;

    (void)state;
    after_a_failover(&t);
    run(&t, 3 * 3600, 100, 0.02);
    expect_quiet(&t);
    assert_true(t.ratio.usual.low < 0.05);
    run(&t, 30, 100, 0.4);
    assert_true(t.ratio.state.risen);
}

/* A fall that comes first is not explained by what comes later. */
static void what_was_there_before_is_not_excused(void **state)
{
    struct traffic t;

    (void)state;
    begin(&t, 30, 0.99);
    run(&t, 1800, 100, 0.4);
    run(&t, 30, 100, 0.02);
    assert_true(t.ratio.state.fallen);
    sl_ratio_trouble(&t.ratio, SL_RATIO_FALLS);
    run(&t, 20, 100, 0.02);
    assert_true(t.ratio.state.fallen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_share_is_of_the_last_ten_seconds),
        cmocka_unit_test(before_the_first_feed_all_counts),
        cmocka_unit_test(a_steady_share_is_quiet_however_high),
        cmocka_unit_test(a_jump_is_seen_within_seconds),
        cmocka_unit_test(clumps_are_quiet),
        cmocka_unit_test(an_attack_ramps_up_and_ends),
        cmocka_unit_test(the_end_of_a_flood_of_hours_is_quiet),
        cmocka_unit_test(a_configuration_jump_is_told_and_becomes_usual),
        cmocka_unit_test(a_limit_taken_away_is_a_fall),
        cmocka_unit_test(quiet_nights_are_quiet),
        cmocka_unit_test(what_drifts_over_hours_is_quiet),
        cmocka_unit_test(what_swings_is_quiet),
        cmocka_unit_test(nothing_is_judged_before_it_is_known),
        cmocka_unit_test(a_mistake_that_rejects_all_is_seen_in_three_seconds),
        cmocka_unit_test(a_flood_is_not_all),
        cmocka_unit_test(there_is_hysteresis),
        cmocka_unit_test(keyed_traffic_that_turns_anonymous_is_all),
        cmocka_unit_test(counters_and_clocks_that_go_back_are_harmless),
        cmocka_unit_test(a_dip_that_is_explained_is_excused),
        cmocka_unit_test(a_rise_is_never_excused),
        cmocka_unit_test(an_excuse_does_not_last_for_ever),
        cmocka_unit_test(what_was_there_before_is_not_excused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
