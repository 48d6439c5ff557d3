/* Problems, and the buffer that answers are written into. */
#include "server/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

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
        cmocka_unit_test(problems_are_json_whatever_they_say),
        cmocka_unit_test(a_full_buffer_says_so_and_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
