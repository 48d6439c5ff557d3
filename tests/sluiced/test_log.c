/* Log lines: both formats, quoting, and the bound on how many there are. */
#include "sluiced/log.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What was written into the file since the last call. */
static char *written(FILE *file)
{
    off_t len = lseek(fileno(file), 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);

    assert_int_equal(pread(fileno(file), text, (size_t)len, 0), len);
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    lseek(fileno(file), 0, SEEK_SET);
    return text;
}

static void a_line_is_one_line_in_both_formats(void **state)
{
    FILE *file = tmpfile();
    struct sl_log log;
    json_t *json;
    char *text;

    (void)state;
    sl_log_init(&log, SL_LOG_JSON, fileno(file));
    sl_log(&log, SL_LOG_WARNING, "a \"quoted\" %s\twith \\ and\nmore", "text");
    text = written(file);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "msg")), "a \"quoted\" text\twith \\ and\nmore");
    assert_string_equal(json_string_value(json_object_get(json, "level")), "warning");
    assert_int_equal(strlen(json_string_value(json_object_get(json, "time"))), 24);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    json_decref(json);
    free(text);
    sl_log_fini(&log);

    sl_log_init(&log, SL_LOG_LOGFMT, fileno(file));
    sl_log(&log, SL_LOG_INFO, "say \"hello\"\n");
    text = written(file);
    assert_non_null(strstr(text, " level=info msg=\"say \\\"hello\\\"\\n\"\n"));
    free(text);
    sl_log_fini(&log);
    fclose(file);
}

static void a_long_message_is_cut(void **state)
{
    FILE *file = tmpfile();
    char *message = calloc(1, 100001);
    struct sl_log log;
    json_t *json;
    char *text;

    (void)state;
    memset(message, '\1', 100000);
    sl_log_init(&log, SL_LOG_JSON, fileno(file));
    sl_log(&log, SL_LOG_INFO, "%s", message);
    text = written(file);
    assert_true(strlen(text) < SL_LOG_LINE_MAX + 128);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    json_decref(json);
    free(text);
    free(message);
    sl_log_fini(&log);
    fclose(file);
}

/* Whatever bytes a message holds, the line is UTF-8, so that no reader of the log gives up on it. */
static void what_is_no_utf8_is_replaced(void **state)
{
    FILE *file = tmpfile();
    struct sl_log log;
    json_t *json;
    char *text;

    (void)state;
    sl_log_init(&log, SL_LOG_JSON, fileno(file));
    sl_log(&log, SL_LOG_INFO, "a\xff\xc3\xa4\xc3(\xed\xa0\x80\xf0\x9f\x98\x80 \xe2\x82");
    text = written(file);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "msg")),
                        "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80 "
                        "\xef\xbf\xbd\xef\xbf\xbd");
    json_decref(json);
    free(text);
    sl_log_fini(&log);
    fclose(file);
}

/* ... also where it is cut. */
static void a_cut_message_is_still_utf8(void **state)
{
    static const char euro[3] = {'\xe2', '\x82', '\xac'};
    char message[3000] = "", quoted[64];
    json_t *json;

    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(message, 'x', shift);
        for (size_t i = shift; i + sizeof euro < sizeof message; i += sizeof euro)
            memcpy(message + i, euro, sizeof euro);
        sl_log_quote(message, quoted, sizeof quoted);
        json = json_loads(quoted, JSON_DECODE_ANY, NULL);
        assert_non_null(json);
        json_decref(json);
    }
}

static void a_flood_is_bounded_and_counted(void **state)
{
    FILE *file = tmpfile();
    unsigned lines = 0;
    struct sl_log log;
    char *text;

    (void)state;
    sl_log_init(&log, SL_LOG_LOGFMT, fileno(file));
    /* The bound is for each second; a run takes a few ms, so it spans two of them at the most. */
    for (unsigned i = 0; i < 5000; i++)
        sl_log(&log, SL_LOG_INFO, "line %u", i);
    text = written(file);
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    assert_in_range(lines, SL_LOG_LINES_PER_SEC, 3 * SL_LOG_LINES_PER_SEC);
    free(text);
    sl_log_fini(&log);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_line_in_both_formats), cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(what_is_no_utf8_is_replaced),        cmocka_unit_test(a_cut_message_is_still_utf8),
        cmocka_unit_test(a_flood_is_bounded_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
