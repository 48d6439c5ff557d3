/* Moments as people write them: times of day that have been, dates, and so long ago. */
#include "cli/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define NOON_MS INT64_C(1769860800000) /* 2026-01-31T12:00:00Z */
#define MIN_MS INT64_C(60000)
#define HOUR_MS (60 * MIN_MS)
#define DAY_MS (24 * HOUR_MS)

static void expect(const char *text, int64_t now_ms, int64_t wanted_ms, bool minute)
{
    struct moment moment = {.given = false};

    if (moment_read(text, now_ms, &moment))
        fail_msg("`%s` is not read", text);
    assert_true(moment.given);
    if (moment.ms != wanted_ms)
        fail_msg("`%s` is %lld, not %lld", text, (long long)moment.ms, (long long)wanted_ms);
    assert_int_equal(moment.minute, minute);
}

static void zone(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

static void a_time_of_day_is_the_last_one(void **state)
{
    (void)state;
    zone("UTC");
    expect("11:03", NOON_MS, NOON_MS - 57 * MIN_MS, true);
    expect("11:03:04", NOON_MS, NOON_MS - 57 * MIN_MS + 4000, false);
    expect("11:03:04.120", NOON_MS, NOON_MS - 57 * MIN_MS + 4000, false);
    expect("12:00", NOON_MS, NOON_MS, true);
    expect("12:00:01", NOON_MS, NOON_MS + 1000 - DAY_MS, false); /* not yet: yesterday's */
    expect("23:59", NOON_MS, NOON_MS - 12 * HOUR_MS - MIN_MS, true);
    expect("00:00", NOON_MS, NOON_MS - 12 * HOUR_MS, true);
    zone("XXX-5"); /* 17:00 there */
    expect("16:30", NOON_MS, NOON_MS - 30 * MIN_MS, true);
    expect("17:01", NOON_MS, NOON_MS + MIN_MS - DAY_MS, true);
}

/* The night on which clocks are put forward, in the middle of Europe: yesterday's 12:00 is 23 hours ago. */
static void days_are_not_always_24_hours(void **state)
{
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3");
    expect("12:00", INT64_C(1774774800000), INT64_C(1774695600000), true); /* now 11:00 of the 29th */
    zone("UTC");
}

static void a_date_may_be_there(void **state)
{
    (void)state;
    zone("XXX-5");
    expect("2026-01-31T12:00Z", 0, NOON_MS, true);
    expect("2026-01-31 12:00:30Z", 0, NOON_MS + 30000, false);
    expect("2026-01-31T17:00", 0, NOON_MS, true);
    expect("2026-01-31 17:00:01.5", 0, NOON_MS + 1000, false);
    zone("UTC");
}

static void so_long_ago(void **state)
{
    (void)state;
    expect("10m", NOON_MS, NOON_MS - 10 * MIN_MS, false);
    expect("1500ms", NOON_MS, NOON_MS - 1500, false);
    expect("2d", NOON_MS, NOON_MS - 2 * DAY_MS, false);
}

static void anything_else_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "noon",
                                        "12",
                                        "24:00",
                                        "12:60",
                                        "12:03x",
                                        "12:03 ",
                                        "12:03Z",
                                        "-5m",
                                        "10x",
                                        "5m5s",
                                        "12:03:99",
                                        ":",
                                        "2026-01-31",
                                        "2026-02-30x",
                                        "2026-01-31T",
                                        "2026-01-31T12",
                                        "1969-12-31T23:59Z",
                                        "99999999999999999999d",
                                        "2026-01-31T12:00+01:00"};
    struct moment moment = {.given = false};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (moment_read(wrong[i], NOON_MS, &moment) == 0)
            fail_msg("`%s` is read", wrong[i]);
        assert_false(moment.given);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_of_day_is_the_last_one), cmocka_unit_test(days_are_not_always_24_hours),
        cmocka_unit_test(a_date_may_be_there),           cmocka_unit_test(so_long_ago),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
