/* Numbers and dates against the C library. */
#include "base/write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static void numbers_are_written_as_printf_writes_them(void **state)
{
    static const int64_t values[] = {0,   1,    9,     10,     99,        100,       101,       999,     1000,
                                     -1,  -10,  -99,   -100,   123456789, INT64_MAX, INT64_MIN, -999999, 1000000000,
                                     -12, 4096, 65535, 100000, 7,         70,        700};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char got[32], want[32];

        *sl_write_int(got, values[i]) = '\0';
        snprintf(want, sizeof want, "%" PRId64, values[i]);
        assert_string_equal(got, want);
    }
}

/* Every day from 1970 to 2200 and the edges, against gmtime. */
static void dates_are_the_calendars(void **state)
{
    struct sl_date_cache cache = {0};
    char got[SL_RFC3339_LEN + 1], want[64];

    (void)state;
    for (int64_t s = 0; s < INT64_C(230) * 366 * 86400; s += 86399) {
        time_t t = (time_t)s;
        struct tm tm;

        gmtime_r(&t, &tm);
        strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.789Z", &tm);
        *sl_write_rfc3339(got, s * 1000 + 789, &cache) = '\0';
        assert_string_equal(got, want);
    }
    *sl_write_rfc3339(got, INT64_MAX, &cache) = '\0';
    assert_string_equal(got, "9999-12-31T23:59:59.999Z");
    *sl_write_rfc3339(got, -5, &cache) = '\0';
    assert_string_equal(got, "1970-01-01T00:00:00.000Z");
    *sl_write_rfc3339(got, INT64_C(951782400000), &cache) = '\0';
    assert_string_equal(got, "2000-02-29T00:00:00.000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_printf_writes_them),
        cmocka_unit_test(dates_are_the_calendars),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
