/* A slow store, clocks that lie apart, a table that is full: second by second in virtual time. */
#include "observe/watch_health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

struct scene {
    struct sl_alarms alarms;
    struct sl_health_watch watch;
    struct sl_health health;
    uint64_t now_us;
    unsigned n_lines;
    char line[1024]; /* the last one */
};

static void on_say(void *ctx, bool serious, const char *line)
{
    struct scene *s = ctx;

    s->n_lines++;
    snprintf(s->line, sizeof s->line, "%c %s", serious ? '!' : '.', line);
}

static void begin(struct scene *s)
{
    struct sl_teller teller = {.alarms = &s->alarms, .say = on_say, .ctx = s};

    memset(s, 0, sizeof *s);
    s->now_us = 100 * S;
    s->health.table.slots = 1000;
    sl_alarms_init(&s->alarms);
    s->health.table.evictions = 5000; /* of before we came */
    sl_health_watch_init(&s->watch, &teller, &s->health, s->now_us);
}

static void run(struct scene *s, unsigned seconds, unsigned calls, unsigned slow, unsigned evictions)
{
    for (unsigned i = 0; i < seconds; i++) {
        s->health.calls += calls;
        s->health.slow_calls += slow;
        s->health.table.evictions += evictions;
        s->now_us += S;
        sl_health_watch_look(&s->watch, &s->health, s->now_us);
    }
}

static bool is_raised(struct scene *s, enum sl_alarm alarm)
{
    return sl_alarm_read(&s->alarms, alarm).raised;
}

static void a_slow_store(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    run(&s, 60, 1000, 10, 0); /* 1 % is its p99 */
    run(&s, 11, 0, 0, 0);
    run(&s, 30, 5, 5, 0); /* too few to say */
    assert_int_equal(s.n_lines, 0);
    run(&s, 20, 1000, 20, 0);
    assert_true(is_raised(&s, SL_ALARM_STORE_SLOW));
    assert_non_null(strstr(s.line, "! alarm store_slow: "));
    assert_non_null(strstr(s.line, " % of "));
    run(&s, 45, 1000, 5, 0);
    assert_false(is_raised(&s, SL_ALARM_STORE_SLOW));
    assert_int_equal(s.n_lines, 2);
    sl_alarms_fini(&s.alarms);
}

static void clocks_apart_either_way(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    s.health.clock_apart_us = 1000000;
    run(&s, 10, 0, 0, 0);
    assert_int_equal(s.n_lines, 0);
    s.health.clock_apart_us = -INT64_C(7200000000);
    run(&s, 10, 0, 0, 0);
    assert_true(is_raised(&s, SL_ALARM_CLOCKS_APART));
    assert_non_null(strstr(s.line, "ours is 7200.0 s behind"));
    s.health.clock_apart_us = 200;
    run(&s, 40, 0, 0, 0);
    assert_false(is_raised(&s, SL_ALARM_CLOCKS_APART));
    s.health.clock_apart_us = 1100000;
    run(&s, 1, 0, 0, 0);
    assert_non_null(strstr(s.line, "ours is 1.1 s ahead"));
    s.health.clock_apart_us = INT64_MIN + 1;
    run(&s, 1, 0, 0, 0);
    assert_true(is_raised(&s, SL_ALARM_CLOCKS_APART));
    sl_alarms_fini(&s.alarms);
}

static void a_table_that_is_full_or_evicts(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    s.health.table.live = 900;
    run(&s, 200, 0, 0, 0);
    assert_false(is_raised(&s, SL_ALARM_TABLE_FULL));
    s.health.table.live = 901;
    run(&s, 1, 0, 0, 0);
    assert_true(is_raised(&s, SL_ALARM_TABLE_FULL));
    assert_non_null(strstr(s.line, "901 of 1000 slots are live, 0 live ones"));
    s.health.table.live = 300;
    run(&s, 121, 0, 0, 0);
    assert_false(is_raised(&s, SL_ALARM_TABLE_FULL));
    for (unsigned i = 0; i < 10; i++) { /* one in two seconds is no matter */
        run(&s, 1, 0, 0, 1);
        run(&s, 1, 0, 0, 0);
    }
    assert_false(is_raised(&s, SL_ALARM_TABLE_FULL));
    run(&s, 9, 0, 0, 1);
    assert_false(is_raised(&s, SL_ALARM_TABLE_FULL));
    run(&s, 1, 0, 0, 1);
    assert_true(is_raised(&s, SL_ALARM_TABLE_FULL));
    sl_alarms_fini(&s.alarms);
    begin(&s);
    run(&s, 1, 0, 0, 5000); /* all within the first second */
    assert_true(is_raised(&s, SL_ALARM_TABLE_FULL));
    sl_alarms_fini(&s.alarms);
}

/* Each event that is thrown away is one that nobody is billed for: one is enough. What was dropped before is none. */
static void an_event_that_is_not_metered(void **state)
{
    struct sl_teller teller;
    struct scene s;

    (void)state;
    begin(&s);
    teller = s.watch.teller;
    s.health.meter_dropped = 70;
    sl_health_watch_init(&s.watch, &teller, &s.health, s.now_us);
    run(&s, 60, 0, 0, 0);
    assert_int_equal(s.n_lines, 0);
    s.health.meter_dropped++;
    run(&s, 1, 0, 0, 0);
    assert_true(is_raised(&s, SL_ALARM_METERING_DROPPING));
    assert_non_null(strstr(s.line, "! alarm metering_dropping: "));
    assert_non_null(strstr(s.line, ": 1 in ten seconds;"));
    run(&s, 68, 0, 0, 0); /* nine seconds more, and its hold but for one */
    assert_true(is_raised(&s, SL_ALARM_METERING_DROPPING));
    run(&s, 1, 0, 0, 0);
    assert_false(is_raised(&s, SL_ALARM_METERING_DROPPING));
    assert_int_equal(s.n_lines, 2);
    sl_alarms_fini(&s.alarms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_store),
        cmocka_unit_test(clocks_apart_either_way),
        cmocka_unit_test(a_table_that_is_full_or_evicts),
        cmocka_unit_test(an_event_that_is_not_metered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
