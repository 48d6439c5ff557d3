/* What wakes somebody and what does not: traffic of whole days, attacks, mistakes and outages, through a real limiter and the
 * real watches, in virtual time. */
#include "scene.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define N(flows) (sizeof(flows) / sizeof *(flows))
#define MINUTES(n) ((n)*60u)

/* Customers of 1 request a second each, who mostly keep it. */
#define CUSTOMERS "limits: [{name: customers, rate: 60/m}]\n"

/* Two thirds keep their limit; a third ask for more than twice as much as they may: 40 % of all is rejected. */
static const struct flow usual[] = {
    {.name = "calm", .n_keys = 40, .per_second = 10},
    {.name = "greedy", .n_keys = 10, .per_second = 26},
};

static void open_usual(struct scene *s)
{
    scene_open(s, CUSTOMERS);
    scene_run(s, MINUTES(20), usual, N(usual));
    scene_expect_only(s, 0);
    scene_mark(s);
}

/* ---- what is ordinary */

static void steady_forty_percent(void **state)
{
    struct scene s;
    struct sl_limiter_stats stats;

    (void)state;
    open_usual(&s);
    scene_run(&s, MINUTES(120), usual, N(usual));
    scene_expect_only(&s, 0);
    sl_limiter_stats(s.kit.limiter, &stats);
    assert_true(stats.rejected * 10 > (stats.allowed + stats.rejected) * 3);
    scene_close(&s);
}

/* A request every five seconds, of which now and then three in a row are rejected; in the morning all is as it was. */
static void a_quiet_night(void **state)
{
    static const struct flow night[] = {{.name = "calm", .n_keys = 40, .per_second = 0.1},
                                        {.name = "greedy", .n_keys = 1, .per_second = 0.1}};
    struct scene s;

    (void)state;
    scene_open(&s, "limits: [{name: customers, rate: 60/m}, {name: rare, key: greedy0, rate: 1/m, layer: rare}]\n");
    scene_run(&s, MINUTES(20), usual, N(usual));
    scene_ramp(&s, MINUTES(30), usual, night, N(night));
    scene_run(&s, MINUTES(8 * 60), night, N(night));
    scene_ramp(&s, MINUTES(30), night, usual, N(night));
    scene_run(&s, MINUTES(20), usual, N(usual));
    scene_expect_only(&s, 0);
    scene_close(&s);
}

/* Days of eight hours: twice as many requests by day as by night, and by day one in five is rejected. */
static void days_and_nights(void **state)
{
    static const struct flow day[] = {{.name = "calm", .n_keys = 400, .per_second = 20},
                                      {.name = "greedy", .n_keys = 3, .per_second = 8}};
    static const struct flow night[] = {{.name = "calm", .n_keys = 400, .per_second = 12},
                                        {.name = "greedy", .n_keys = 3, .per_second = 2.5}};
    struct scene s;

    (void)state;
    scene_open(&s, CUSTOMERS);
    for (unsigned i = 0; i < 2; i++) {
        scene_run(&s, MINUTES(120), night, N(night));
        scene_ramp(&s, MINUTES(120), night, day, N(day));
        scene_run(&s, MINUTES(120), day, N(day));
        scene_ramp(&s, MINUTES(120), day, night, N(day));
    }
    scene_expect_only(&s, 0);
    scene_close(&s);
}

/* One that lets hardly anything pass, of which there is hardly anything. */
static void three_requests_an_hour(void **state)
{
    static const struct flow flows[] = {{.name = "calm", .n_keys = 40, .per_second = 10},
                                        {.name = "rare", .n_keys = 1, .per_second = 3.0 / 3600}};
    struct scene s;

    (void)state;
    scene_open(&s, "limits: [{name: customers, rate: 60/m}, {name: rare, key: rare0, rate: 1/d, layer: rare}]\n");
    scene_run(&s, MINUTES(8 * 60), flows, N(flows));
    scene_expect_only(&s, 0);
    scene_close(&s);
}

/* One customer sends twenty times as much for half a minute; it is limited, and all others are not. */
static void the_burst_of_one_customer(void **state)
{
    static const struct flow many[] = {{.name = "calm", .n_keys = 500, .per_second = 100},
                                       {.name = "one", .n_keys = 1, .per_second = 0.5}};
    static const struct flow burst[] = {{.name = "calm", .n_keys = 500, .per_second = 100},
                                        {.name = "one", .n_keys = 1, .per_second = 10}};
    struct scene s;

    (void)state;
    scene_open(&s, CUSTOMERS);
    scene_run(&s, MINUTES(20), many, N(many));
    for (unsigned i = 0; i < 5; i++) {
        scene_run(&s, 30, burst, N(burst));
        scene_run(&s, MINUTES(3), many, N(many));
    }
    scene_expect_only(&s, 0);
    scene_close(&s);
}

/* ---- attacks */

static const struct flow attacked[] = {
    {.name = "calm", .n_keys = 200, .per_second = 40},
    {.name = "attacker", .n_keys = 20, .per_second = 1},
};
static const struct flow attack[] = {
    {.name = "calm", .n_keys = 200, .per_second = 40},
    {.name = "attacker", .n_keys = 20, .per_second = 200},
};

static void open_attacked(struct scene *s)
{
    scene_open(s, CUSTOMERS);
    scene_run(s, MINUTES(20), attacked, N(attacked));
    scene_expect_only(s, 0);
    scene_mark(s);
}

/* In ten seconds from nothing to five times the usual traffic. */
static void a_fast_attack(void **state)
{
    struct scene s;

    (void)state;
    open_attacked(&s);
    scene_ramp(&s, 10, attacked, attack, N(attack));
    scene_run(&s, MINUTES(10), attack, N(attack));
    scene_run(&s, MINUTES(20), attacked, N(attacked));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 60);
    scene_expect_only(&s, ONLY(REJECTION_RATIO));
    assert_false(scene_is_raised(&s, SL_ALARM_REJECTION_RATIO));
    scene_close(&s);
}

/* In half an hour. It is seen while it grows, and is one alarm. */
static void a_slow_attack(void **state)
{
    struct scene s;

    (void)state;
    open_attacked(&s);
    scene_ramp(&s, MINUTES(30), attacked, attack, N(attack));
    scene_run(&s, MINUTES(10), attack, N(attack));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 60, MINUTES(15));
    scene_expect_only(&s, ONLY(REJECTION_RATIO));
    scene_close(&s);
}

/* The share swings about the margin for an hour: at most one alarm. */
static void flapping_at_the_threshold(void **state)
{
    static const struct flow more[] = {{.name = "calm", .n_keys = 200, .per_second = 40},
                                       {.name = "attacker", .n_keys = 1, .per_second = 7}};
    static const struct flow less[] = {{.name = "calm", .n_keys = 200, .per_second = 40},
                                       {.name = "attacker", .n_keys = 1, .per_second = 4}};
    struct scene s;

    (void)state;
    open_attacked(&s);
    for (unsigned i = 0; i < 90; i++) {
        scene_run(&s, 20, more, N(more));
        scene_run(&s, 20, less, N(less));
    }
    assert_true(s.n_raised[SL_ALARM_REJECTION_RATIO] <= 1);
    scene_expect_only(&s, ONLY(REJECTION_RATIO));
    scene_close(&s);
}

/* The daemon is started anew while an attack goes on: it is usual then, and its end is nothing to wake anybody for. */
static void a_restart_in_the_middle_of_an_attack(void **state)
{
    struct scene s;

    (void)state;
    open_attacked(&s);
    scene_run(&s, MINUTES(3), attack, N(attack));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 45);
    scene_restart_watches(&s);
    scene_mark(&s);
    scene_run(&s, MINUTES(20), attack, N(attack));
    scene_run(&s, MINUTES(30), attacked, N(attacked));
    scene_expect_only(&s, 0);
    scene_run(&s, MINUTES(60), attacked, N(attacked)); /* what is usual without it is known again */
    scene_mark(&s);
    scene_run(&s, MINUTES(1), attack, N(attack));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 45);
    scene_close(&s);
}

/* ---- mistakes in the policy */

static void a_tenth_of_the_limit(void **state)
{
    static const struct flow flows[] = {{.name = "calm", .n_keys = 40, .per_second = 30}};
    struct scene s;

    (void)state;
    scene_open(&s, "limits: [{name: customers, rate: 100/m}]\n");
    scene_run(&s, MINUTES(20), flows, N(flows));
    scene_mark(&s);
    kit_reload(&s.kit, "limits: [{name: customers, rate: 10/m}]\n");
    scene_run(&s, MINUTES(5), flows, N(flows));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 60);
    assert_true(strstr(sl_alarm_read(&s.alarms, SL_ALARM_REJECTION_RATIO).began, "`customers` rejects") != NULL);
    scene_expect_only(&s, ONLY(REJECTION_RATIO));
    scene_close(&s);
}

static void nothing_passes_any_more(void **state)
{
    static const struct flow flows[] = {{.name = "calm", .n_keys = 40, .per_second = 30}};
    struct scene s;

    (void)state;
    scene_open(&s, "limits: [{name: customers, rate: 100/m}]\n");
    scene_run(&s, MINUTES(20), flows, N(flows));
    scene_mark(&s);
    kit_reload(&s.kit, "limits: [{name: customers, rate: 1/d}]\n");
    scene_run(&s, MINUTES(5), flows, N(flows));
    scene_expect(&s, SL_ALARM_ALL_REJECTED, 1, 15);
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 45);
    scene_expect_only(&s, ONLY(REJECTION_RATIO) | ONLY(ALL_REJECTED));
    kit_reload(&s.kit, "limits: [{name: customers, rate: 100/m}]\n");
    scene_run(&s, MINUTES(3), flows, N(flows));
    assert_false(scene_is_raised(&s, SL_ALARM_ALL_REJECTED));
    scene_close(&s);
}

/* ---- a proxy's header */

#define CROWD \
    "limits: [{name: keyed, key_type: api_key, rate: 60/m}, {name: anonymous, key_type: address, rate: 60/m}]\n"

static const struct flow crowd[] = {
    {.name = "key", .n_keys = 100, .per_second = 20},
    {.anonymous = true, .n_keys = 400, .per_second = 20},
    {.anonymous = true, .first = 400, .n_keys = 5, .per_second = 15},
};

static void open_crowd(struct scene *s)
{
    scene_open(s, CROWD);
    scene_run(s, MINUTES(20), crowd, N(crowd));
    scene_expect_only(s, 0);
    scene_mark(s);
}

static void the_header_with_the_key_is_lost(void **state)
{
    static const struct flow lost[] = {{.anonymous = true, .n_keys = 500, .per_second = 40},
                                       {.anonymous = true, .first = 400, .n_keys = 5, .per_second = 15}};
    struct scene s;

    (void)state;
    open_crowd(&s);
    scene_run(&s, MINUTES(3), lost, N(lost));
    scene_expect(&s, SL_ALARM_ANONYMOUS_EVERYONE, 1, 10);
    assert_false(scene_is_raised(&s, SL_ALARM_ANONYMOUS_NOBODY));
    assert_int_equal(s.n_raised[SL_ALARM_ALL_REJECTED], 0);
    scene_close(&s);
}

static void everybody_is_the_proxy(void **state)
{
    static const struct flow lost[] = {{.name = "key", .n_keys = 100, .per_second = 20},
                                       {.anonymous = true, .n_keys = 1, .per_second = 35}};
    struct scene s;

    (void)state;
    open_crowd(&s);
    scene_run(&s, MINUTES(3), lost, N(lost));
    scene_expect(&s, SL_ALARM_ANONYMOUS_EVERYONE, 1, 15);
    scene_expect_only(&s, ONLY(ANONYMOUS_EVERYONE) | ONLY(REJECTION_RATIO) | ONLY(ALL_REJECTED));
    scene_close(&s);
}

/* A header that clients write: those who were limited have another address each time. */
static void a_header_that_anybody_may_write(void **state)
{
    static const struct flow forged[] = {{.name = "key", .n_keys = 100, .per_second = 20},
                                         {.anonymous = true, .n_keys = 900, .per_second = 35}};
    struct scene s;

    (void)state;
    open_crowd(&s);
    scene_run(&s, MINUTES(3), forged, N(forged));
    scene_expect(&s, SL_ALARM_ANONYMOUS_NOBODY, 5, 25);
    scene_expect_only(&s, ONLY(ANONYMOUS_NOBODY) | ONLY(REJECTION_RATIO));
    scene_close(&s);
}

static void a_proxy_gives_everybody_its_key(void **state)
{
    static const struct flow keyed[] = {{.name = "key", .n_keys = 100, .per_second = 20},
                                        {.name = "proxy", .n_keys = 1, .per_second = 35}};
    struct scene s;

    (void)state;
    open_crowd(&s);
    scene_run(&s, MINUTES(3), keyed, N(keyed));
    scene_expect(&s, SL_ALARM_ANONYMOUS_NOBODY, 5, 25);
    assert_int_equal(s.n_raised[SL_ALARM_ANONYMOUS_EVERYONE], 0);
    scene_close(&s);
}

/* ---- the store */

/* A limit whose buckets take a while to become empty, so that lost counts are missed for minutes. */
#define HOURLY "limits: [{name: hourly, rate: 3600/h, burst: 300}]\n"

static void forget_counts(struct scene *s)
{
    for (unsigned i = 0; i < 50; i++) {
        char key[32];
        struct sluice_request request;

        snprintf(key, sizeof key, "%s%u", i < 40 ? "calm" : "greedy", i < 40 ? i : i - 40);
        request = kit_request(key, NULL, 1);
        sl_limiter_reset(s->kit.limiter, &request);
    }
}

static void fail_over(struct scene *s)
{
    struct sl_client_event client = {
        .happening = SL_CLIENT_FAILOVER, .shard = "one", .text = "b is the master now, not a"};
    struct sl_fleet_event event = {.client = &client, .store = "redis://one"};

    sl_store_watch_event(s->store, &event, s->kit.now_us);
    forget_counts(s);
}

static void open_shared(struct scene *s)
{
    scene_open(s, HOURLY);
    s->shared = true;
    scene_run(s, MINUTES(60), usual, N(usual));
    scene_expect_only(s, ONLY(REJECTION_RATIO)); /* buckets become empty */
    scene_mark(s);
}

static void the_dip_after_a_failover(void **state)
{
    struct sl_alarm_state failover;
    struct scene s;

    (void)state;
    open_shared(&s);
    fail_over(&s);
    scene_run(&s, 120, usual, N(usual));
    assert_true(scene_is_raised(&s, SL_ALARM_STORE_FAILOVER)); /* for as long as the dip lasts */
    failover = sl_alarm_read(&s.alarms, SL_ALARM_STORE_FAILOVER);
    assert_string_equal(failover.began, "b is the master now, not a");
    assert_non_null(strstr(failover.latest, "counts were lost and fill up again: `hourly` rejects"));
    scene_run(&s, MINUTES(20), usual, N(usual));
    scene_expect(&s, SL_ALARM_STORE_FAILOVER, 0, 1);
    assert_false(scene_is_raised(&s, SL_ALARM_STORE_FAILOVER));
    scene_expect_only(&s, ONLY(STORE_FAILOVER));
    scene_close(&s);
}

/* The dip is over, and nothing of it was learned: that the same happens without a failover is a change. */
static void a_fall_later_is_none_of_the_failovers(void **state)
{
    struct scene s;

    (void)state;
    open_shared(&s);
    fail_over(&s);
    scene_run(&s, MINUTES(30), usual, N(usual));
    scene_mark(&s);
    forget_counts(&s);
    scene_run(&s, MINUTES(2), usual, N(usual));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 45);
    scene_expect_only(&s, ONLY(REJECTION_RATIO));
    scene_close(&s);
}

/* A failover that lost nothing is its own alarm alone, and over after its hold. */
static void a_failover_without_a_loss(void **state)
{
    struct sl_client_event client = {.happening = SL_CLIENT_FAILOVER, .shard = "one", .text = "b is the master now"};
    struct sl_fleet_event event = {.client = &client, .store = "redis://one"};
    struct scene s;

    (void)state;
    open_shared(&s);
    sl_store_watch_event(s.store, &event, s.kit.now_us);
    scene_run(&s, 62, usual, N(usual));
    scene_expect_only(&s, ONLY(STORE_FAILOVER));
    assert_false(scene_is_raised(&s, SL_ALARM_STORE_FAILOVER));
    scene_close(&s);
}

/* What is limited in this process alone has lost nothing with the store: its fall is a change. */
static void a_local_limit_has_no_excuse(void **state)
{
    struct scene s;

    (void)state;
    open_shared(&s);
    scene_close(&s);
    scene_open(&s, HOURLY);
    scene_run(&s, MINUTES(60), usual, N(usual));
    scene_mark(&s);
    fail_over(&s);
    scene_run(&s, MINUTES(1), usual, N(usual));
    scene_expect(&s, SL_ALARM_REJECTION_RATIO, 20, 45);
    scene_close(&s);
}

/* The store is gone for ten minutes and comes back empty. */
static void an_outage_and_what_follows(void **state)
{
    struct scene s;

    (void)state;
    open_shared(&s);
    s.reached = false;
    s.breaker_open = true;
    scene_run(&s, MINUTES(10), usual, N(usual));
    s.reached = true;
    s.breaker_open = false;
    forget_counts(&s);
    scene_run(&s, MINUTES(30), usual, N(usual));
    scene_expect(&s, SL_ALARM_STORE_UNAVAILABLE, 1, 3);
    scene_expect(&s, SL_ALARM_BREAKER_OPEN, 1, 3);
    scene_expect_only(&s, ONLY(STORE_UNAVAILABLE) | ONLY(BREAKER_OPEN));
    scene_close(&s);
}

/* ... and a mistake in the policy at the same time is seen all the same. */
static void a_mistake_in_the_middle_of_an_outage(void **state)
{
    struct scene s;

    (void)state;
    open_shared(&s);
    s.reached = false;
    scene_run(&s, 30, usual, N(usual));
    kit_reload(&s.kit, "limits: [{name: hourly, rate: 1/d}]\n");
    scene_run(&s, 60, usual, N(usual));
    scene_expect(&s, SL_ALARM_ALL_REJECTED, 30, 60);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steady_forty_percent),
        cmocka_unit_test(a_quiet_night),
        cmocka_unit_test(days_and_nights),
        cmocka_unit_test(three_requests_an_hour),
        cmocka_unit_test(the_burst_of_one_customer),
        cmocka_unit_test(a_fast_attack),
        cmocka_unit_test(a_slow_attack),
        cmocka_unit_test(flapping_at_the_threshold),
        cmocka_unit_test(a_restart_in_the_middle_of_an_attack),
        cmocka_unit_test(a_tenth_of_the_limit),
        cmocka_unit_test(nothing_passes_any_more),
        cmocka_unit_test(the_header_with_the_key_is_lost),
        cmocka_unit_test(everybody_is_the_proxy),
        cmocka_unit_test(a_header_that_anybody_may_write),
        cmocka_unit_test(a_proxy_gives_everybody_its_key),
        cmocka_unit_test(the_dip_after_a_failover),
        cmocka_unit_test(a_fall_later_is_none_of_the_failovers),
        cmocka_unit_test(a_failover_without_a_loss),
        cmocka_unit_test(a_local_limit_has_no_excuse),
        cmocka_unit_test(an_outage_and_what_follows),
        cmocka_unit_test(a_mistake_in_the_middle_of_an_outage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
