/* Lines of a jsonl log: the members of a check, strictly. */
#include "replay/jsonl_line.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static char why[SL_JSONL_WHY_MAX];

static int parse(const char *text, struct sl_jsonl_line *line)
{
    why[0] = '\0';
    return sl_jsonl_line_parse(text, strlen(text), line, why);
}

static void refused(const char *text, const char *reason)
{
    struct sl_jsonl_line line;

    assert_int_equal(parse(text, &line), SL_EINVALID);
    if (!strstr(why, reason))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, why, reason);
}

static void all_members_are_read(void **state)
{
    struct sl_jsonl_line line;

    (void)state;
    assert_int_equal(
        parse("{\"t_us\":1754003722145000,\"key\":\"acct\\u0020\\\"8\",\"scope\":\"api:search\",\"cost\":10,"
              "\"keyType\":\"user\",\"tier\":\"pro\",\"address\":\"203.0.113.9\","
              "\"labels\":{\"region\":\"eu\",\"a\":\"\"}}",
              &line),
        0);
    assert_int_equal(line.t_us, 1754003722145000);
    assert_string_equal(line.request.key, "acct \"8");
    assert_int_equal(line.request.key_len, 7);
    assert_string_equal(line.request.scope, "api:search");
    assert_int_equal(line.request.cost, 10);
    assert_string_equal(line.request.key_type, "user");
    assert_string_equal(line.request.tier, "pro");
    assert_string_equal(line.request.address, "203.0.113.9");
    assert_int_equal(line.request.n_labels, 2);
    assert_int_equal(line.request.labels[0].name_len + line.request.labels[1].name_len, 7);
    sl_jsonl_line_fini(&line);
}

static void absent_members_have_their_defaults(void **state)
{
    struct sl_jsonl_line line;

    (void)state;
    assert_int_equal(parse(" {\"key\":\"k\",\"t_us\":0} ", &line), 0);
    assert_int_equal(line.t_us, 0);
    assert_null(line.request.scope);
    assert_null(line.request.key_type);
    assert_null(line.request.tier);
    assert_null(line.request.address);
    assert_int_equal(line.request.n_labels, 0);
    assert_int_equal(line.request.cost, SLUICE_COST_DEFAULT);
    sl_jsonl_line_fini(&line);
}

static void anything_else_is_refused_by_name(void **state)
{
    (void)state;
    refused("", "empty");
    refused("{", "not JSON");
    refused("[]", "object");
    refused("null", "object");
    refused("{\"key\":\"k\"}", "t_us: is missing");
    refused("{\"t_us\":1}", "key: is missing");
    refused("{\"t_us\":1,\"key\":1}", "key: must be a string");
    refused("{\"t_us\":1,\"key\":null}", "key: must be a string");
    refused("{\"t_us\":\"1\",\"key\":\"k\"}", "t_us: must be a whole number");
    refused("{\"t_us\":1.0,\"key\":\"k\"}", "t_us: must be a whole number");
    refused("{\"t_us\":1e3,\"key\":\"k\"}", "t_us: must be a whole number");
    refused("{\"t_us\":-1,\"key\":\"k\"}", "t_us: must be a whole number");
    refused("{\"t_us\":64060588800000001,\"key\":\"k\"}", "t_us: must be a whole number");
    refused("{\"t_us\":99999999999999999999,\"key\":\"k\"}", "not JSON");
    refused("{\"t_us\":1,\"key\":\"k\",\"cost\":-1}", "cost: must be a whole number");
    refused("{\"t_us\":1,\"key\":\"k\",\"cost\":9223372036854775808}", "not JSON");
    refused("{\"t_us\":1,\"key\":\"k\",\"cost\":true}", "cost: must be a whole number");
    refused("{\"t_us\":1,\"key\":\"k\",\"keytype\":\"user\"}", "unknown member \"keytype\"");
    refused("{\"t_us\":1,\"key\":\"k\",\"key\":\"l\"}", "duplicate");
    refused("{\"t_us\":1,\"key\":\"k\"}x", "not JSON");
    refused("{\"t_us\":1,\"key\":\"k\"} {}", "not JSON");
    refused("{\"t_us\":1,\"key\":\"\xff\"}", "not JSON");
    refused("{\"t_us\":1,\"key\":\"k\",\"labels\":[]}", "labels: must be an object");
    refused("{\"t_us\":1,\"key\":\"k\",\"labels\":{\"a\":1}}", "labels: must be a string");
    refused("{\"t_us\":1,\"key\":\"k\",\"labels\":{\"1\":\"\",\"2\":\"\",\"3\":\"\",\"4\":\"\",\"5\":\"\",\"6\":\"\","
            "\"7\":\"\",\"8\":\"\",\"9\":\"\",\"10\":\"\",\"11\":\"\",\"12\":\"\",\"13\":\"\",\"14\":\"\",\"15\":\"\","
            "\"16\":\"\",\"17\":\"\"}}",
            "labels: more than 16");
}

static void deep_nesting_is_an_error_and_no_overflow(void **state)
{
    static char deep[200001];

    (void)state;
    memset(deep, '[', sizeof deep - 1);
    refused(deep, "not JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members_are_read),
        cmocka_unit_test(absent_members_have_their_defaults),
        cmocka_unit_test(anything_else_is_refused_by_name),
        cmocka_unit_test(deep_nesting_is_an_error_and_no_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
