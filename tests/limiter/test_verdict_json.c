/* Verdicts as JSON, byte for byte. */
#include "limiter/verdict_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

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
                                .warning_policy = "",
                                .dry_run = true,
                                .dry_run_policy = "tried",
                                .dry_run_retry_after_ms = 7};
    assert_string_equal(written(&v), "{\"allowed\":false,\"limit\":-1,\"remaining\":-1,\"resetAt\":null,"
                                     "\"retryAfterMs\":-1,\"resetAfterMs\":0,\"delayMs\":0,\"source\":\"degraded\","
                                     "\"policy\":\"\",\"warning\":true,\"reason\":\"blocked\","
                                     "\"dryRun\":{\"policy\":\"tried\",\"retryAfterMs\":7}}");
}

static void a_warning_of_another_limit_names_it(void **state)
{
    struct sluice_verdict v = {.allowed = true, .policy = "second", .warning = true, .warning_policy = "month"};

    (void)state;
    assert_non_null(strstr(written(&v), "\"policy\":\"second\",\"warning\":true,\"warningPolicy\":\"month\"}"));
    strcpy(v.warning_policy, v.policy);
    assert_null(strstr(written(&v), "warningPolicy"));
}

static void the_longest_verdict_fits(void **state)
{
    struct sluice_verdict v = {.dry_run = true, .warning = true, .reason = SLUICE_REASON_COST_EXCEEDS_LIMIT};

    (void)state;
    memset(v.policy, 'x', sizeof v.policy);
    memset(v.dry_run_policy, 'x', sizeof v.dry_run_policy);
    memset(v.warning_policy, 'y', sizeof v.warning_policy);
    v.source = SLUICE_DEGRADED;
    v.limit = v.remaining = v.retry_after_ms = v.reset_after_ms = v.delay_ms = v.dry_run_retry_after_ms = INT64_MIN;
    v.reset_at_ms = INT64_MAX;
    assert_true(strlen(written(&v)) < SL_VERDICT_JSON_MAX);
    assert_non_null(strstr(written(&v), "-9223372036854775808"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_have_every_field),
        cmocka_unit_test(a_warning_of_another_limit_names_it),
        cmocka_unit_test(the_longest_verdict_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
