/* Alarms: at once when raised, over only when the cause stays away. */
#include "observe/alarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

static void it_is_raised_once_and_ends_after_its_hold(void **state)
{
    struct sl_alarms alarms;
    struct sl_alarm_state now;

    (void)state;
    sl_alarms_init(&alarms);
    now = sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN);
    assert_false(now.raised);
    assert_int_equal(now.count, 0);
    assert_false(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 9 * S)); /* it never was */
    assert_true(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, NULL, 10 * S));
    assert_false(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, NULL, 12 * S));
    assert_false(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 17 * S - 1));
    assert_true(sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN).raised);
    assert_true(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 17 * S));
    assert_false(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 18 * S));
    now = sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN);
    assert_false(now.raised);
    assert_int_equal(now.count, 1);
    assert_int_equal(now.since_us, 17 * S);
    assert_int_equal(now.seen_us, 12 * S);
    assert_int_equal(sl_alarm_read(&alarms, SL_ALARM_STORE_FAILOVER).count, 0);
    sl_alarms_fini(&alarms);
}

static void what_flaps_is_one_alarm(void **state)
{
    struct sl_alarms alarms;
    unsigned raised = 0, ended = 0;

    (void)state;
    sl_alarms_init(&alarms);
    for (uint64_t t = 0; t < 60; t++) {
        raised += sl_alarm_raise(&alarms, SL_ALARM_STORE_UNAVAILABLE, NULL, (t * 2 + 100) * S);
        ended += sl_alarm_rest(&alarms, SL_ALARM_STORE_UNAVAILABLE, (t * 2 + 101) * S);
    }
    assert_int_equal(raised, 1);
    assert_int_equal(ended, 0);
    sl_alarms_fini(&alarms);
}

static void a_late_reading_of_the_clock_ends_nothing(void **state)
{
    struct sl_alarms alarms;

    (void)state;
    sl_alarms_init(&alarms);
    assert_true(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, NULL, 10 * S));
    assert_false(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, NULL, 3 * S)); /* another thread's, older */
    assert_int_equal(sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN).seen_us, 10 * S);
    assert_false(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 9 * S));
    assert_true(sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN).raised);
    sl_alarms_fini(&alarms);
}

struct heard {
    unsigned n;
    bool raised;
    uint64_t since_us, at_us;
    char kind[32], sentence[SL_ALARM_SENTENCE_MAX], detail[SL_ALARM_DETAIL_MAX], runbook[64];
};

static void on_news(void *ctx, const struct sl_alarm_news *news)
{
    struct heard *heard = ctx;

    heard->n++;
    heard->raised = news->raised;
    heard->since_us = news->since_us;
    heard->at_us = news->at_us;
    snprintf(heard->kind, sizeof heard->kind, "%s", news->kind);
    snprintf(heard->sentence, sizeof heard->sentence, "%s", news->sentence);
    snprintf(heard->detail, sizeof heard->detail, "%s", news->detail);
    snprintf(heard->runbook, sizeof heard->runbook, "%s", news->runbook);
}

static void a_sink_is_told_once_of_each_beginning_and_end(void **state)
{
    struct sl_alarms alarms;
    struct heard heard = {0};

    (void)state;
    sl_alarms_init(&alarms);
    sl_alarms_set_sink(&alarms, on_news, &heard);
    sl_alarm_rest(&alarms, SL_ALARM_CLOCKS_APART, 1 * S);
    assert_int_equal(heard.n, 0);
    sl_alarm_raise(&alarms, SL_ALARM_CLOCKS_APART, "ours is 3.0 s behind", 10 * S);
    sl_alarm_raise(&alarms, SL_ALARM_CLOCKS_APART, "ours is 4.0 s behind", 20 * S);
    assert_int_equal(heard.n, 1);
    assert_true(heard.raised);
    assert_int_equal(heard.since_us, 10 * S);
    assert_int_equal(heard.at_us, 10 * S);
    assert_string_equal(heard.kind, "clocks_apart");
    assert_string_equal(heard.sentence,
                        "this machine's clock and the store's are more than a second apart: ours is 3.0 s behind");
    assert_string_equal(heard.runbook, "docs/runbook.md#clocks_apart");
    assert_string_equal(sl_alarm_read(&alarms, SL_ALARM_CLOCKS_APART).latest, "ours is 4.0 s behind");
    sl_alarm_rest(&alarms, SL_ALARM_CLOCKS_APART, 49 * S);
    assert_int_equal(heard.n, 1);
    sl_alarm_rest(&alarms, SL_ALARM_CLOCKS_APART, 50 * S);
    sl_alarm_rest(&alarms, SL_ALARM_CLOCKS_APART, 51 * S);
    assert_int_equal(heard.n, 2);
    assert_false(heard.raised);
    assert_int_equal(heard.since_us, 10 * S);
    assert_int_equal(heard.at_us, 50 * S);
    assert_string_equal(heard.detail, "ours is 3.0 s behind");
    sl_alarm_raise(&alarms, SL_ALARM_CLOCKS_APART, NULL, 60 * S);
    assert_string_equal(heard.sentence, sl_alarm_meaning(SL_ALARM_CLOCKS_APART));
    sl_alarms_set_sink(&alarms, NULL, NULL);
    sl_alarm_raise(&alarms, SL_ALARM_TABLE_FULL, NULL, 60 * S);
    assert_int_equal(heard.n, 3);
    sl_alarms_fini(&alarms);
}

static void the_past_is_a_ring(void **state)
{
    static struct sl_alarm_past past[SL_ALARM_HISTORY + 1];
    struct sl_alarms alarms;
    char detail[SL_ALARM_DETAIL_MAX * 2];

    (void)state;
    sl_alarms_init(&alarms);
    assert_int_equal(sl_alarms_past(&alarms, past, 10), 0);
    memset(detail, 'x', sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    for (unsigned i = 1; i <= SL_ALARM_HISTORY + 7; i++) {
        sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, detail, i * 100 * S);
        sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, (i * 100 + 50) * S);
        assert_int_equal(sl_alarms_past(&alarms, past, 1), 1);
        assert_int_equal(past[0].from_us, i * 100 * S);
        assert_int_equal(past[0].to_us, (i * 100 + 50) * S);
        assert_int_equal(strlen(past[0].detail), SL_ALARM_DETAIL_MAX - 1);
    }
    assert_int_equal(sl_alarms_past(&alarms, past, SL_ALARM_HISTORY + 1), SL_ALARM_HISTORY);
    assert_int_equal(past[SL_ALARM_HISTORY - 1].from_us, 8 * 100 * S);
    sl_alarms_fini(&alarms);
}

/* The runbook has a heading for each, and no alarm is without a meaning. */
static void every_alarm_is_in_the_runbook(void **state)
{
    static char text[65536];
    FILE *file = fopen(SLUICE_SOURCE_DIR "/docs/runbook.md", "r");
    char heading[64];

    (void)state;
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    for (unsigned i = 0; i < SL_ALARMS; i++) {
        snprintf(heading, sizeof heading, "\n## %s\n", sl_alarm_name((enum sl_alarm)i));
        if (!strstr(text, heading))
            fail_msg("docs/runbook.md has no heading `%s`", sl_alarm_name((enum sl_alarm)i));
        assert_true(strlen(sl_alarm_meaning((enum sl_alarm)i)) > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_raised_once_and_ends_after_its_hold),
        cmocka_unit_test(what_flaps_is_one_alarm),
        cmocka_unit_test(a_late_reading_of_the_clock_ends_nothing),
        cmocka_unit_test(a_sink_is_told_once_of_each_beginning_and_end),
        cmocka_unit_test(the_past_is_a_ring),
        cmocka_unit_test(every_alarm_is_in_the_runbook),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
