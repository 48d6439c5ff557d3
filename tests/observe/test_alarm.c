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
    assert_true(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, 10 * S));
    assert_false(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, 12 * S));
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
        raised += sl_alarm_raise(&alarms, SL_ALARM_STORE_UNAVAILABLE, (t * 2 + 100) * S);
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
    assert_true(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, 10 * S));
    assert_false(sl_alarm_raise(&alarms, SL_ALARM_BREAKER_OPEN, 3 * S)); /* another thread's, older */
    assert_int_equal(sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN).seen_us, 10 * S);
    assert_false(sl_alarm_rest(&alarms, SL_ALARM_BREAKER_OPEN, 9 * S));
    assert_true(sl_alarm_read(&alarms, SL_ALARM_BREAKER_OPEN).raised);
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
        cmocka_unit_test(every_alarm_is_in_the_runbook),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
