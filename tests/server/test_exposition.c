/* The text of /metrics: B146, a name that would spoil the scrape if it were written as it is. */
#include "server/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void b146_label_values_are_escaped(void **state)
{
    struct sl_buf out = sl_buf_make(4096);
    struct sl_exposition x = {.out = &out};

    (void)state;
    sl_exposition_family(&x, "f", "gauge", "Help.");
    sl_exposition_begin(&x, "");
    sl_exposition_label(&x, "a", "quote\" back\\slash new\nline, {comma}");
    sl_exposition_label(&x, "b", "good \xc3\xa9 bad \xff\xc3");
    sl_exposition_int(&x, 7);
    sl_buf_add(&out, "", 1);
    assert_string_equal(out.data, "# HELP f Help.\n# TYPE f gauge\n"
                                  "f{a=\"quote\\\" back\\\\slash new\\nline, {comma}\",b=\"good \xc3\xa9 bad "
                                  "\xef\xbf\xbd\xef\xbf\xbd\"} 7\n");
    sl_buf_fini(&out);
}

static void both_formats_name_counters_their_own_way(void **state)
{
    struct sl_buf out = sl_buf_make(4096);
    struct sl_exposition x = {.out = &out};

    (void)state;
    sl_exposition_counter(&x, "c", "Help.", 1);
    sl_exposition_family(&x, "build", "info", "Help.");
    sl_exposition_end(&x);
    x.open_metrics = true;
    sl_exposition_counter(&x, "c", "Help.", 1);
    sl_exposition_family(&x, "build", "info", "Help.");
    sl_exposition_end(&x);
    sl_buf_add(&out, "", 1);
    assert_string_equal(out.data,
                        "# HELP c_total Help.\n# TYPE c_total counter\nc_total 1\n"
                        "# HELP build_info Help.\n# TYPE build_info gauge\n"
                        "# HELP c Help.\n# TYPE c counter\nc_total 1\n# HELP build Help.\n# TYPE build info\n# EOF\n");
    sl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b146_label_values_are_escaped),
        cmocka_unit_test(both_formats_name_counters_their_own_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
