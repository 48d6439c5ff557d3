/* What is written by hand: numbers, dates, verdicts, problems. */
#include "server/problem.h"
#include "server/verdict_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
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

static const char *written(const struct sluice_verdict *v)
{
    static char text[SL_VERDICT_JSON_MAX + 1];
    struct sl_date_cache cache = {0};

    *sl_write_verdict(text, v, &cache) = '\0';
    return text;
}

static void verdicts_have_every_field(void **state)
{
    struct sluice_verdict v = {.allowed = true,
                               .limit = 100,
                               .remaining = 99,
                               .reset_after_ms = 600,
                               .reset_at_ms = INT64_C(1769850000600),
                               .policy = "free"};

    (void)state;
    assert_string_equal(
        written(&v), "{\"allowed\":true,\"limit\":100,\"remaining\":99,\"resetAt\":\"2026-01-31T09:00:00.600Z\","
                     "\"retryAfterMs\":0,\"resetAfterMs\":600,\"delayMs\":0,\"source\":\"local\",\"policy\":\"free\","
                     "\"warning\":false}");
    v = (struct sluice_verdict){.limit = -1,
                                .remaining = -1,
                                .reset_at_ms = -1,
                                .retry_after_ms = -1,
                                .source = SLUICE_DEGRADED,
                                .reason = SLUICE_REASON_BLOCKED,
                                .warning = true,
                                .dry_run = true,
                                .dry_run_policy = "tried",
                                .dry_run_retry_after_ms = 7};
    assert_string_equal(written(&v), "{\"allowed\":false,\"limit\":-1,\"remaining\":-1,\"resetAt\":null,"
                                     "\"retryAfterMs\":-1,\"resetAfterMs\":0,\"delayMs\":0,\"source\":\"degraded\","
                                     "\"policy\":\"\",\"warning\":true,\"reason\":\"blocked\","
                                     "\"dryRun\":{\"policy\":\"tried\",\"retryAfterMs\":7}}");
}

static void the_longest_verdict_fits(void **state)
{
    struct sluice_verdict v = {.dry_run = true, .warning = true, .reason = SLUICE_REASON_COST_EXCEEDS_LIMIT};

    (void)state;
    memset(v.policy, 'x', sizeof v.policy);
    memset(v.dry_run_policy, 'x', sizeof v.dry_run_policy);
    v.source = SLUICE_DEGRADED;
    v.limit = v.remaining = v.retry_after_ms = v.reset_after_ms = v.delay_ms = v.dry_run_retry_after_ms = INT64_MIN;
    v.reset_at_ms = INT64_MAX;
    assert_true(strlen(written(&v)) < SL_VERDICT_JSON_MAX);
    assert_non_null(strstr(written(&v), "-9223372036854775808"));
}

static void problems_are_json_whatever_they_say(void **state)
{
    struct sl_http_response r;
    json_t *p;

    (void)state;
    sl_http_response_init(&r, 4096);
    sl_problem(&r, 400, "a \"quote\", a \\ and a\nline\x7f\x01", "[3].cost");
    p = json_loadb(r.body.data, r.body.len, 0, NULL);
    assert_non_null(p);
    assert_string_equal(json_string_value(json_object_get(p, "detail")), "a \"quote\", a \\ and a\nline\x7f\x01");
    assert_string_equal(json_string_value(json_object_get(p, "field")), "[3].cost");
    assert_string_equal(json_string_value(json_object_get(p, "title")), "Bad Request");
    assert_string_equal(json_string_value(json_object_get(p, "type")), "about:blank");
    json_decref(p);
    sl_http_response_fini(&r);
}

static void a_full_buffer_says_so_and_stays_as_it_was(void **state)
{
    struct sl_buf b = sl_buf_make(600);
    char piece[100] = {0};

    (void)state;
    for (int i = 0; i < 6; i++)
        sl_buf_add(&b, piece, sizeof piece);
    assert_false(b.failed);
    sl_buf_add(&b, piece, 1);
    assert_true(b.failed);
    assert_int_equal(b.len, 600);
    sl_buf_text(&b, "");
    assert_true(b.failed);
    sl_buf_clear(&b);
    sl_buf_printf(&b, "%d", 17);
    assert_false(b.failed);
    assert_int_equal(b.len, 2);
    sl_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_printf_writes_them),
        cmocka_unit_test(dates_are_the_calendars),
        cmocka_unit_test(verdicts_have_every_field),
        cmocka_unit_test(the_longest_verdict_fits),
        cmocka_unit_test(problems_are_json_whatever_they_say),
        cmocka_unit_test(a_full_buffer_says_so_and_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
