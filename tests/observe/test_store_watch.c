/* Lines and alarms about the stores: several loops that notice the same are one line, a storm is one line a second, and
 * the last state is always told. */
#include "observe/store_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)
#define START (100 * S)
#define STORE "redis+cluster://10.0.0.1:6379"

struct bench {
    struct sl_alloc alloc;
    struct sl_alarms alarms;
    struct sl_store_watch *watch;
    unsigned n;
    enum sl_store_say severity;
    char line[1024];
};

static void on_say(void *ctx, enum sl_store_say severity, const char *line)
{
    struct bench *bench = ctx;

    bench->n++;
    bench->severity = severity;
    snprintf(bench->line, sizeof bench->line, "%s", line);
}

static void set_up(struct bench *bench)
{
    struct sl_store_watch_config config = {
        .alloc = &bench->alloc, .alarms = &bench->alarms, .say = on_say, .ctx = bench, .now_us = START};

    *bench = (struct bench){.alloc = sl_alloc_system()};
    sl_alarms_init(&bench->alarms);
    assert_int_equal(sl_store_watch_new(&config, &bench->watch), 0);
}

static void tear_down(struct bench *bench)
{
    sl_store_watch_free(bench->watch);
    sl_alarms_fini(&bench->alarms);
}

static void tell_at(struct bench *bench, const char *store, struct sl_client_event client, uint64_t now_us)
{
    struct sl_fleet_event event = {.client = &client, .store = store};

    sl_store_watch_event(bench->watch, &event, now_us);
}

static void connection(struct bench *bench, const char *shard, bool good, uint64_t now_us)
{
    tell_at(bench, STORE,
            (struct sl_client_event){.happening = good ? SL_CLIENT_CONNECTED : SL_CLIENT_DISCONNECTED,
                                     .shard = shard,
                                     .good = good,
                                     .cause = SL_RESULT_UNREACHABLE,
                                     .text = good ? "connected" : "connection refused"},
            now_us);
}

static void breaker(struct bench *bench, const char *shard, enum sl_breaker_state breaker, uint64_t now_us)
{
    tell_at(bench, STORE,
            (struct sl_client_event){.happening = SL_CLIENT_BREAKER,
                                     .shard = shard,
                                     .breaker = breaker,
                                     .good = breaker == SL_BREAKER_CLOSED,
                                     .text = "x"},
            now_us);
}

static void look(struct bench *bench, bool reached, bool secret_known, enum sl_breaker_state state, uint64_t now_us)
{
    struct sl_store_health health = {.reached = reached, .secret_known = secret_known, .breaker = state};

    sl_store_watch_look(bench->watch, &health, now_us);
}

static void loops_that_see_the_same_are_one_line(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    for (unsigned lane = 0; lane < 8; lane++)
        connection(&b, "10.0.0.1:6379", true, START + lane);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.severity, SL_STORE_SAY_INFO);
    assert_string_equal(b.line, "store " STORE ": connected"); /* the shard's name is in the address */
    for (unsigned lane = 0; lane < 8; lane++)
        connection(&b, "10.0.0.2:6379", true, START + lane);
    assert_int_equal(b.n, 2);
    assert_string_equal(b.line, "store " STORE ": 10.0.0.2:6379: connected");
    for (unsigned lane = 0; lane < 8; lane++)
        connection(&b, "10.0.0.2:6379", false, START + 5 * S + lane);
    assert_int_equal(b.n, 3);
    assert_int_equal(b.severity, SL_STORE_SAY_ERROR);
    assert_string_equal(b.line, "store " STORE ": 10.0.0.2:6379: no connection (unreachable): connection refused");
    tear_down(&b);
}

static void a_storm_is_one_line_a_second_and_ends_with_the_truth(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    for (unsigned i = 0; i < 999; i++) /* up, down, up ... up, within a second */
        connection(&b, "s", i % 2 == 0, START + i * 1000);
    assert_int_equal(b.n, 1);
    look(&b, true, true, SL_BREAKER_CLOSED, START + S - 1);
    assert_int_equal(b.n, 1);
    connection(&b, "s", false, START + S - 1);
    look(&b, true, true, SL_BREAKER_CLOSED, START + S);
    assert_int_equal(b.n, 2);
    assert_non_null(strstr(b.line, "no connection"));
    assert_non_null(strstr(b.line, "(998 changes before this one were not logged)"));
    look(&b, true, true, SL_BREAKER_CLOSED, START + 9 * S);
    assert_int_equal(b.n, 2);
    tear_down(&b);
}

static void disconnected(struct bench *bench, enum sl_result cause, const char *text, uint64_t now_us)
{
    tell_at(bench, "redis+cluster://a:1,b:2,c:3",
            (struct sl_client_event){
                .happening = SL_CLIENT_DISCONNECTED, .shard = "b:2", .good = false, .cause = cause, .text = text},
            now_us);
}

static void each_cause_of_an_outage_is_told_once(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    for (unsigned i = 0; i < 100; i++) {
        disconnected(&b, SL_RESULT_UNREACHABLE, "closed", START + i * 2 * S);
        disconnected(&b, SL_RESULT_WRONGPASS, "WRONGPASS", START + (i * 2 + 1) * S);
    }
    assert_int_equal(b.n, 2);
    assert_string_equal(b.line, "store redis+cluster://a:1,b:2,c:3: b:2: no connection (wrongpass): WRONGPASS");
    tell_at(
        &b, "redis+cluster://a:1,b:2,c:3",
        (struct sl_client_event){.happening = SL_CLIENT_CONNECTED, .shard = "b:2", .good = true, .text = "connected"},
        START + 300 * S);
    assert_int_equal(b.n, 3);
    disconnected(&b, SL_RESULT_WRONGPASS, "WRONGPASS", START + 302 * S);
    assert_int_equal(b.n, 4);
    tear_down(&b);
}

static void the_way_of_a_breaker_is_two_lines_and_one_alarm(void **state)
{
    struct bench b;
    uint64_t t = START;

    (void)state;
    set_up(&b);
    look(&b, true, true, SL_BREAKER_CLOSED, t);
    breaker(&b, "s", SL_BREAKER_CLOSED, t); /* nothing new */
    assert_int_equal(b.n, 0);
    breaker(&b, "s", SL_BREAKER_OPEN, t += S);
    assert_int_equal(b.n, 2); /* the line, and the alarm */
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_BREAKER_OPEN).raised);
    for (unsigned i = 0; i < 20; i++) { /* probes fail, in two loops */
        breaker(&b, "s", SL_BREAKER_HALF_OPEN, t += S / 2);
        breaker(&b, "s", SL_BREAKER_OPEN, t);
    }
    look(&b, true, true, SL_BREAKER_OPEN, t);
    assert_int_equal(b.n, 2);
    breaker(&b, "s", SL_BREAKER_HALF_OPEN, t += S);
    breaker(&b, "s", SL_BREAKER_CLOSED, t);
    breaker(&b, "s", SL_BREAKER_CLOSED, t);
    assert_int_equal(b.n, 3);
    assert_int_equal(b.severity, SL_STORE_SAY_INFO);
    look(&b, true, true, SL_BREAKER_CLOSED, t + S);
    assert_int_equal(b.n, 3);
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_BREAKER_OPEN).raised); /* until it has rested */
    look(&b, true, true, SL_BREAKER_CLOSED, t + 6 * S);
    assert_int_equal(b.n, 4);
    assert_string_equal(b.line, "alarm breaker_open is over");
    assert_int_equal(sl_alarm_read(&b.alarms, SL_ALARM_BREAKER_OPEN).count, 1);
    tear_down(&b);
}

static void a_failover_is_told_once_for_all_loops(void **state)
{
    struct bench b;
    struct sl_client_event event = {
        .happening = SL_CLIENT_FAILOVER, .shard = "m", .good = true, .text = "the master is 10.0.0.9:6379 now"};

    (void)state;
    set_up(&b);
    for (unsigned lane = 0; lane < 4; lane++)
        tell_at(&b, STORE, event, START + lane);
    assert_int_equal(b.n, 2);
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_STORE_FAILOVER).raised);
    look(&b, true, true, SL_BREAKER_CLOSED, START + 59 * S);
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_STORE_FAILOVER).raised);
    look(&b, true, true, SL_BREAKER_CLOSED, START + 61 * S);
    assert_false(sl_alarm_read(&b.alarms, SL_ALARM_STORE_FAILOVER).raised);
    tell_at(&b, STORE, event, START + 70 * S); /* it went back and forth */
    assert_int_equal(sl_alarm_read(&b.alarms, SL_ALARM_STORE_FAILOVER).count, 2);
    tear_down(&b);
}

static void a_store_out_of_reach_is_an_alarm_after_the_start(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    for (uint64_t t = START; t < START + SL_STORE_WATCH_GRACE_US; t += S / 4)
        look(&b, false, false, SL_BREAKER_CLOSED, t);
    assert_int_equal(b.n, 0);
    look(&b, false, false, SL_BREAKER_CLOSED, START + SL_STORE_WATCH_GRACE_US);
    assert_int_equal(b.n, 1);
    assert_non_null(strstr(b.line, "alarm store_unavailable: "));
    look(&b, true, false, SL_BREAKER_CLOSED, START + 10 * S); /* reached, but its secret is not known */
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    look(&b, true, true, SL_BREAKER_CLOSED, START + 20 * S);
    assert_false(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    /* One look in between is a new secret on its way into force; two are not. */
    look(&b, true, false, SL_BREAKER_CLOSED, START + 21 * S);
    look(&b, true, true, SL_BREAKER_CLOSED, START + 22 * S);
    assert_false(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    look(&b, false, true, SL_BREAKER_CLOSED, START + 23 * S);
    look(&b, false, true, SL_BREAKER_CLOSED, START + 24 * S);
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    assert_int_equal(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).count, 2);
    tear_down(&b);
}

/* It is there and answers, and still nothing is decided by it. */
static void a_store_that_refuses_is_an_alarm(void **state)
{
    struct bench b;
    struct sl_store_health health = {.reached = true, .secret_known = true};

    (void)state;
    set_up(&b);
    for (unsigned i = 1; i <= 10; i++) { /* a key among others that holds something strange */
        health.answered += 3;
        health.refused += 2;
        sl_store_watch_look(b.watch, &health, START + 10 * S + i * S / 4);
    }
    assert_false(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    for (unsigned i = 1; i <= 2; i++) {
        health.answered += 2;
        health.refused += 2;
        sl_store_watch_look(b.watch, &health, START + 13 * S + i * S / 4);
    }
    assert_true(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    for (unsigned i = 0; i < 10; i++) /* nothing is asked any more */
        sl_store_watch_look(b.watch, &health, START + 14 * S + i * S);
    assert_false(sl_alarm_read(&b.alarms, SL_ALARM_STORE_UNAVAILABLE).raised);
    tear_down(&b);
}

static void findings_are_told_once_an_hour(void **state)
{
    struct bench b;
    struct sl_fleet_event evicts = {.finding = "it evicts", .store = STORE};
    struct sl_fleet_event old = {.finding = "it is old", .serious = true, .store = STORE};

    (void)state;
    set_up(&b);
    for (unsigned i = 0; i < 100; i++)
        sl_store_watch_event(b.watch, &evicts, START + i * S);
    assert_int_equal(b.n, 1);
    assert_string_equal(b.line, "store " STORE ": it evicts");
    assert_int_equal(b.severity, SL_STORE_SAY_WARNING);
    sl_store_watch_event(b.watch, &old, START);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.severity, SL_STORE_SAY_ERROR);
    sl_store_watch_event(b.watch, &evicts, START + 3601 * S);
    assert_int_equal(b.n, 3);
    tear_down(&b);
}

/* Shards without end: bounded memory, still one line a second of what has no place of its own. */
static void more_shards_than_rows(void **state)
{
    struct bench b;
    char shard[32];

    (void)state;
    set_up(&b);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(shard, sizeof shard, "shard-%u", i);
        connection(&b, shard, false, START);
    }
    assert_in_range(b.n, 200, SL_STORE_WATCH_ROWS);
    look(&b, true, true, SL_BREAKER_CLOSED, START + S);
    assert_non_null(strstr(b.line, "shard-4999"));
    assert_non_null(strstr(b.line, "changes before this one were not logged"));
    tear_down(&b);
}

static void an_older_reading_of_the_clock_is_no_leap(void **state)
{
    struct bench b;

    (void)state;
    set_up(&b);
    connection(&b, "s", true, START);
    connection(&b, "s", false, START - 1);
    assert_int_equal(b.n, 1); /* held back, not "a second later" */
    look(&b, true, true, SL_BREAKER_CLOSED, START + S);
    assert_int_equal(b.n, 2);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_that_see_the_same_are_one_line),
        cmocka_unit_test(a_storm_is_one_line_a_second_and_ends_with_the_truth),
        cmocka_unit_test(each_cause_of_an_outage_is_told_once),
        cmocka_unit_test(the_way_of_a_breaker_is_two_lines_and_one_alarm),
        cmocka_unit_test(a_failover_is_told_once_for_all_loops),
        cmocka_unit_test(a_store_out_of_reach_is_an_alarm_after_the_start),
        cmocka_unit_test(findings_are_told_once_an_hour),
        cmocka_unit_test(a_store_that_refuses_is_an_alarm),
        cmocka_unit_test(more_shards_than_rows),
        cmocka_unit_test(an_older_reading_of_the_clock_is_no_leap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
