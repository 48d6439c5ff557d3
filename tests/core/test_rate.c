/* Rates and durations as text: what is accepted, what is refused and why, and back to text. */
#include "base/err.h"
#include "core/limits.h"
#include "core/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static int parse(const char *text, struct sl_rate *ret_rate, const char **ret_why)
{
    *ret_why = NULL;
    return sl_rate_parse(text, strlen(text), ret_rate, ret_why);
}

static void rates_that_may_be_written(void **state)
{
    static const struct {
        const char *text;
        uint32_t count;
        uint64_t period_us;
        const char *canonical;
    } rows[] = {
        {"100/s", 100, 1000000, "100/s"},
        {"5000/m", 5000, 60000000, "5000/m"},
        {"5/15m", 5, 900000000, "5/15m"},
        {"7/3333ms", 7, 3333000, "7/3333ms"},
        {"10000/d", 10000, 86400000000, "10000/d"},
        {"1/ms", 1, 1000, "1/ms"},
        {"1/1ms", 1, 1000, "1/ms"},
        {"1000000000/366d", 1000000000, 31622400000000, "1000000000/366d"},
        {"1/31622400000ms", 1, 31622400000000, "1/366d"},
        {"60/60s", 60, 60000000, "60/m"},
        {"1/60m", 1, 3600000000, "1/h"},
        {"1/24h", 1, 86400000000, "1/d"},
        {"1/1000ms", 1, 1000000, "1/s"},
        {"1/90s", 1, 90000000, "1/90s"},
        {"0007/0001s", 7, 1000000, "7/s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[SL_RATE_TEXT_MAX];
        struct sl_rate rate;
        const char *why;

        if (parse(rows[i].text, &rate, &why))
            fail_msg("%s: %s", rows[i].text, why);
        assert_int_equal(rate.kind, SL_RATE_LIMITED);
        assert_int_equal(rate.count, rows[i].count);
        assert_int_equal(rate.period_us, rows[i].period_us);
        assert_int_equal(sl_rate_format(&rate, text), strlen(rows[i].canonical));
        assert_string_equal(text, rows[i].canonical);
    }
}

static void rates_that_may_not(void **state)
{
    static const struct {
        const char *text, *why; /* a part of the reason */
    } rows[] = {
        {"", "COUNT/PERIOD"},
        {"100", "COUNT/PERIOD"},
        {"/", "whole number"},
        {"/s", "whole number"},
        {"100/", "unit"},
        {"100//s", "unit"},
        {"100/s/s", "unit"},
        {"100/S", "unit"},
        {"100/sec", "unit"},
        {"100/w", "unit"},
        {"100/us", "unit"},
        {"100/15", "needs a unit"},
        {"100/1.5s", "unit"},
        {"100/-1s", "unit"},
        {"100/+1s", "unit"},
        {"100/1 s", "unit"},
        {"100/ s", "unit"},
        {"100/s ", "unit"},
        {"100/s\n", "unit"},
        {" 100/s", "whole number"},
        {"100 /s", "whole number"},
        {"+100/s", "whole number"},
        {"-100/s", "whole number"},
        {"1e3/s", "whole number"},
        {"0x10/s", "whole number"},
        {"1_000/s", "whole number"},
        {"1.5/s", "whole number"},
        {"\xd9\xa1\xd9\xa0/s", "whole number"}, /* Arabic-Indic digits */
        {"\xef\xbc\x91/s", "whole number"},     /* a full-width digit */
        {"100\xe2\x81\x84s", "COUNT/PERIOD"},   /* a fraction slash */
        {"100/\xd1\x95", "unit"},               /* a Cyrillic s */
        {"0/0s", "blocked"},
        {"1/0s", "366 d"},
        {"1/0ms", "366 d"},
        {"1/367d", "366 d"},
        {"1/31622400001ms", "366 d"},
        {"1000000001/s", "1000000000"},
        {"4294967297/s", "1000000000"},                  /* 2^32 + 1 */
        {"18446744073709551617/s", "1000000000"},        /* 2^64 + 1 */
        {"98765432198765432198765/3600s", "1000000000"}, /* B10 */
        {"1/18446744073709551617ms", "366 d"},
        {"1/213503982334602d", "366 d"}, /* times a day in us: 2^64 and a little */
        {"Unlimited", "COUNT/PERIOD"},
        {"unlimited ", "COUNT/PERIOD"},
        {"blocked/s", "whole number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sl_rate rate = {.count = 4711}, untouched = rate;
        const char *why;

        if (parse(rows[i].text, &rate, &why) != SL_EINVALID)
            fail_msg("accepted: %s", rows[i].text);
        if (!strstr(why, rows[i].why))
            fail_msg("%s: %s", rows[i].text, why);
        assert_memory_equal(&rate, &untouched, sizeof rate);
    }
}

static void zero_names_the_two_words_that_say_it(void **state)
{
    static const char *const zeros[] = {"0/s", "00/s", "0/5m"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct sl_rate rate;
        const char *why;

        assert_int_equal(parse(zeros[i], &rate, &why), SL_EINVALID);
        assert_non_null(strstr(why, "blocked"));
        assert_non_null(strstr(why, "unlimited"));
    }
}

static void words_for_no_limit_and_no_request(void **state)
{
    char text[SL_RATE_TEXT_MAX];
    struct sl_rate rate;
    const char *why;

    (void)state;
    assert_int_equal(parse("unlimited", &rate, &why), 0);
    assert_int_equal(rate.kind, SL_RATE_UNLIMITED);
    assert_int_equal(sl_rate_format(&rate, text), 9);
    assert_string_equal(text, "unlimited");
    assert_int_equal(parse("blocked", &rate, &why), 0);
    assert_int_equal(rate.kind, SL_RATE_BLOCKED);
    assert_int_equal(sl_rate_format(&rate, text), 7);
    assert_string_equal(text, "blocked");
}

static void text_is_read_to_its_length_not_to_a_nul(void **state)
{
    struct sl_rate rate;
    const char *why;

    (void)state;
    assert_int_equal(sl_rate_parse("10/sX", 4, &rate, &why), 0);
    assert_int_equal(sl_rate_parse("10/s\0", 5, &rate, &why), SL_EINVALID);
    assert_int_equal(sl_rate_parse("10/s", 3, &rate, &why), SL_EINVALID);
    assert_int_equal(sl_rate_parse(NULL, 0, &rate, &why), SL_EINVALID);
}

static void durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t us; /* 0: refused */
    } rows[] = {
        {"250ms", 250000},
        {"1s", 1000000},
        {"s", 1000000},
        {"15m", 900000000},
        {"h", 3600000000},
        {"366d", SL_PERIOD_MAX_US},
        {"8784h", SL_PERIOD_MAX_US},
        {"1ms", 1000},
        {"", 0},
        {"0s", 0},
        {"0", 0},
        {"250", 0},
        {"-1s", 0},
        {" 1s", 0},
        {"1s ", 0},
        {"1.5s", 0},
        {"367d", 0},
        {"8785h", 0},
        {"99999999999999999999d", 0},
        {"1us", 0},
        {"1 s", 0},
        {"ss", 0},
        {"mss", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = NULL;
        uint64_t us = 0;
        int rc = sl_duration_parse(rows[i].text, strlen(rows[i].text), &us, &why);

        assert_int_equal(rc, rows[i].us ? 0 : SL_EINVALID);
        assert_int_equal(us, rows[i].us);
        assert_true(rc == 0 || (why && *why));
    }
}

static void longest_text_fits(void **state)
{
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = UINT32_MAX, .period_us = UINT64_MAX};
    char text[SL_RATE_TEXT_MAX];
    size_t len = sl_rate_format(&rate, text);

    (void)state;
    assert_int_equal(len, strlen(text));
    assert_string_equal(text, "4294967295/18446744073709551615us");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_that_may_be_written),
        cmocka_unit_test(rates_that_may_not),
        cmocka_unit_test(zero_names_the_two_words_that_say_it),
        cmocka_unit_test(words_for_no_limit_and_no_request),
        cmocka_unit_test(text_is_read_to_its_length_not_to_a_nul),
        cmocka_unit_test(durations),
        cmocka_unit_test(longest_text_fits),
    };

    return cmocka_run_group_tests_name("core rate", tests, NULL, NULL);
}
