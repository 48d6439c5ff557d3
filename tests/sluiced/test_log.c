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

static void control_characters_of_c1_are_escaped(void **state)
{
    char quoted[64];

    (void)state;
    sl_log_quote("a\xc2\x9b"
                 "2J\xc2\xa0\x7f",
                 quoted, sizeof quoted);
    assert_string_equal(quoted, "\"a\\u009b2J\xc2\xa0\\u007f\"");
}

static void fields_follow_the_message(void **state)
{
    const struct sl_log_field fields[] = {
        {.name = "key", .kind = SL_LOG_TEXT, .text = "a \"b\"\x1b[2J\xff=c\n"},
        {.name = "remaining", .kind = SL_LOG_NUMBER, .number = -1},
        {.name = "allowed", .kind = SL_LOG_TRUTH, .number = 1},
        {.name = "dry", .kind = SL_LOG_TRUTH, .number = 0},
    };
    FILE *file = tmpfile();
    struct sl_log log;
    json_t *json;
    char *text;

    (void)state;
    sl_log_init(&log, SL_LOG_JSON, fileno(file));
    sl_log_fields(&log, SL_LOG_INFO, "decision", fields, 4);
    text = written(file);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "msg")), "decision");
    assert_string_equal(json_string_value(json_object_get(json, "key")), "a \"b\"\x1b[2J\xef\xbf\xbd=c\n");
    assert_int_equal(json_integer_value(json_object_get(json, "remaining")), -1);
    assert_true(json_is_true(json_object_get(json, "allowed")));
    assert_true(json_is_false(json_object_get(json, "dry")));
    assert_null(strchr(text, '\x1b'));
    json_decref(json);
    free(text);
    sl_log_fini(&log);
    sl_log_init(&log, SL_LOG_LOGFMT, fileno(file));
    sl_log_fields(&log, SL_LOG_INFO, "decision", fields, 4);
    text = written(file);
    assert_non_null(strstr(text, " level=info msg=\"decision\" key=\"a \\\"b\\\"\\u001b[2J\xef\xbf\xbd=c\\n\" "
                                 "remaining=-1 allowed=true dry=false\n"));
    free(text);
    sl_log_fini(&log);
    fclose(file);
}

static void fields_without_room_are_left_out(void **state)
{
    struct sl_log_field fields[8];
    char long_text[1500];
    FILE *file = tmpfile();
    struct sl_log log;

    (void)state;
    memset(long_text, '"', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    for (unsigned i = 0; i < 8; i++)
        fields[i] = (struct sl_log_field){.name = "long", .kind = SL_LOG_TEXT, .text = long_text};
    fields[7] = (struct sl_log_field){.name = "short", .kind = SL_LOG_NUMBER, .number = 7};
    for (int format = 0; format < 2; format++) {
        char *text;

        sl_log_init(&log, format ? SL_LOG_JSON : SL_LOG_LOGFMT, fileno(file));
        sl_log_fields(&log, SL_LOG_INFO, "m", fields, 8);
        text = written(file);
        assert_true(strlen(text) <= SL_LOG_FIELDS_MAX);
        assert_non_null(strstr(text, format ? ",\"short\":7,\"cut\":true}\n" : " short=7 cut=true\n"));
        if (format) {
            json_t *json = json_loads(text, 0, NULL);

            assert_non_null(json);
            json_decref(json);
        }
        free(text);
        sl_log_fini(&log);
    }
    fclose(file);
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
        cmocka_unit_test(a_line_is_one_line_in_both_formats),   cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(what_is_no_utf8_is_replaced),          cmocka_unit_test(a_cut_message_is_still_utf8),
        cmocka_unit_test(control_characters_of_c1_are_escaped), cmocka_unit_test(fields_follow_the_message),
        cmocka_unit_test(fields_without_room_are_left_out),     cmocka_unit_test(a_flood_is_bounded_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
