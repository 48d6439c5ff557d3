/* The text of /metrics: B146, a name that would spoil the scrape if it were written as it is. */
#include "server/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

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

static void open_metrics_is_for_those_who_prefer_it(void **state)
{
    static const struct {
        const char *accept;
        bool wants;
    } rows[] = {
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"application/json", false},
        {"application/openmetrics-text", true},
        {"application/openmetrics-text; version=1.0.0", true},
        {"application/openmetrics-text; version=1.0.0; charset=utf-8", true},
        {"Application/OpenMetrics-Text ;\tVERSION=\"1.0.0\"", true},
        {"application/openmetrics-text;version=0.0.1", false},
        {"application/openmetrics-text;version=2.0.0,text/plain;q=0.1", false},
        {"application/openmetrics-text-not", false},
        {"x-application/openmetrics-text", false},
        /* As Prometheus asks */
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         true},
        {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         true},
        {"application/openmetrics-text;q=0.2,text/plain", false},
        {"application/openmetrics-text;q=0.2,*/*;q=0.9", false},
        {"application/openmetrics-text;q=0.2,*/*;q=0.9,text/plain;q=0.1", true},
        {"application/openmetrics-text;q=0", false},
        {"application/openmetrics-text;q=0.000", false},
        {"application/openmetrics-text;q=0.001", true},
        {"application/openmetrics-text;q=2", false},
        {"application/openmetrics-text;q=", false},
        {"application/openmetrics-text;q=0.x", false},
        {", ,;;=,=;q, application/openmetrics-text;", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sl_exposition_wants_open_metrics(rows[i].accept, strlen(rows[i].accept)) != rows[i].wants)
            fail_msg("%s", rows[i].accept);
}

static void units_and_bounds_are_told_as_open_metrics_wants_them(void **state)
{
    struct sl_buf out = sl_buf_make(4096);
    struct sl_exposition x = {.out = &out, .open_metrics = true};

    (void)state;
    sl_exposition_counter(&x, "forgiven_seconds", "Help.", 1);
    sl_exposition_gauge(&x, "seconds", "Help.", 1);
    sl_exposition_family(&x, "took_seconds", "histogram", "Help.");
    for (int i = 0; i < 3; i++) {
        sl_exposition_begin(&x, "_bucket");
        sl_exposition_bound(&x, i == 0 ? 0.000000064 : i == 1 ? 0.25 : 1);
        sl_exposition_int(&x, 5);
    }
    sl_buf_add(&out, "", 1);
    assert_string_equal(out.data,
                        "# HELP forgiven_seconds Help.\n# TYPE forgiven_seconds counter\n# UNIT forgiven_seconds "
                        "seconds\nforgiven_seconds_total 1\n"
                        "# HELP seconds Help.\n# TYPE seconds gauge\nseconds 1\n"
                        "# HELP took_seconds Help.\n# TYPE took_seconds histogram\n# UNIT took_seconds seconds\n"
                        "took_seconds_bucket{le=\"6.4e-08\"} 5\ntook_seconds_bucket{le=\"0.25\"} 5\n"
                        "took_seconds_bucket{le=\"1.0\"} 5\n");
    sl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b146_label_values_are_escaped),
        cmocka_unit_test(both_formats_name_counters_their_own_way),
        cmocka_unit_test(open_metrics_is_for_those_who_prefer_it),
        cmocka_unit_test(units_and_bounds_are_told_as_open_metrics_wants_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
