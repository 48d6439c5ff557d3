/* Targets, queries and header look-up. */
#include "server/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *target, *path, *query; /* query NULL: none */
} targets[] = {
    {"/", "/", NULL},
    {"/a/b?x=1&y", "/a/b", "x=1&y"},
    {"/a?", "/a", ""},
    {"/a#f?x", "/a", NULL},
    {"http://h", "", NULL},
    {"http://h/p?q#f", "/p", "q"},
    {"*", "*", NULL},
    {"", "", NULL},
    {"/a?b?c", "/a", "b?c"},
    {"/x?u=http://h/p", "/x", "u=http://h/p"},
    {"http://h?/check", "", "/check"},
    {"http://h#/check", "", NULL},
    {"a?u=http://h/check", "a", "u=http://h/check"},
};

static void targets_are_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct sl_slice path, query;

        sl_http_split_target((struct sl_slice){targets[i].target, strlen(targets[i].target)}, &path, &query);
        assert_int_equal(path.len, strlen(targets[i].path));
        assert_memory_equal(path.text, targets[i].path, path.len);
        assert_int_equal(query.text != NULL, targets[i].query != NULL);
        if (targets[i].query) {
            assert_int_equal(query.len, strlen(targets[i].query));
            assert_memory_equal(query.text, targets[i].query, query.len);
        }
    }
}

static void parameters_are_walked(void **state)
{
    static const char text[] = "&&a=1&b&=x&c=%41+b%2&d==&";
    struct sl_slice query = {text, sizeof text - 1}, name, value;
    char seen[128] = "", *at = seen;

    (void)state;
    while (sl_http_next_parameter(&query, &name, &value)) {
        at += sprintf(at, "%.*s[%.*s]", (int)name.len, name.text, (int)value.len, value.text);
    }
    assert_string_equal(seen, "a[1]b[][x]c[%41+b%2]d[=]");
    query = (struct sl_slice){NULL, 0};
    assert_false(sl_http_next_parameter(&query, &name, &value));
}

static void escapes_are_decoded(void **state)
{
    char buf[8];
    size_t len = 99;

    (void)state;
    assert_true(sl_http_decode((struct sl_slice){"%41+b%2f", 8}, buf, sizeof buf, &len));
    assert_int_equal(len, 4);
    assert_memory_equal(buf, "A b/", 4);
    assert_false(sl_http_decode((struct sl_slice){"%4", 2}, buf, sizeof buf, &len));
    assert_false(sl_http_decode((struct sl_slice){"%", 1}, buf, sizeof buf, &len));
    assert_false(sl_http_decode((struct sl_slice){"%4g", 3}, buf, sizeof buf, &len));
    assert_false(sl_http_decode((struct sl_slice){"123456789", 9}, buf, sizeof buf, &len));
    assert_true(sl_http_decode((struct sl_slice){"12345678", 8}, buf, sizeof buf, &len));
}

static void headers_are_found_in_any_case(void **state)
{
    static const char base[] = "Hostx-a1X-A2";
    static const struct sl_http_field fields[] = {{0, 4, 0, 0}, {4, 3, 7, 1}, {8, 3, 11, 1}};
    struct sl_http_request q = {.base = base, .fields = fields, .n_fields = 3};
    struct sl_slice values[2];
    unsigned n;

    (void)state;
    assert_int_equal(sl_http_find(&q, "X-A", &n).text[0], '1');
    assert_int_equal(n, 2);
    assert_int_equal(sl_http_find_all(&q, "x-a", values, 2), 2);
    assert_int_equal(values[1].text[0], '2');
    assert_null(sl_http_find(&q, "x-b", NULL).text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_split),
        cmocka_unit_test(parameters_are_walked),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(headers_are_found_in_any_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
