/* Lines of the combined format: who, when, what; and the reason when a line says none of it. */
#include "replay/log_line.h"

#include "base/err.h"
#include "replay/log_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* "t=<us> <first> | <forwarded> | <method> | <path>" with the kind of client in front, or the reason. */
static const char *read_bytes(const char *line, size_t len)
{
    static const char *const kinds[] = {"address", "list", "opaque"};
    static char out[2000];
    struct sl_log_line l;
    const char *why = NULL;

    if (sl_log_line_parse(line, len, &l, &why)) {
        assert_non_null(why);
        return why;
    }
    if (l.client != SL_LOG_LIST)
        l.forwarded = (struct sl_slice){"", 0};
    snprintf(out, sizeof out, "%s %" PRIu64 " %.*s | %.*s | %.*s | %.*s", kinds[l.client], l.t_us, (int)l.first.len,
             l.first.text, (int)l.forwarded.len, l.forwarded.text, (int)l.method.len, l.method.text, (int)l.path.len,
             l.path.text);
    return out;
}

static const char *read_line(const char *line)
{
    return read_bytes(line, strlen(line));
}

/* The same for a line with this request. */
static const char *request(const char *text)
{
    char line[1000];
    const char *got, *bar;

    snprintf(line, sizeof line, "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"%s\" 200 5 \"-\" \"agent\"", text);
    got = read_line(line);
    bar = strstr(got, "|  | ");
    return bar ? bar + 5 : got;
}

static const char *client(const char *fields)
{
    static char out[1000];
    char line[1000];
    const char *got;

    snprintf(line, sizeof line, "%s [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5", fields);
    got = read_line(line);
    snprintf(out, sizeof out, "%s", got);
    if (strstr(out, " | GET"))
        *strstr(out, " | GET") = '\0';
    if (strstr(out, "1431857103000000 ")) {
        char *t = strstr(out, "1431857103000000 ");

        memmove(t, t + 17, strlen(t + 17) + 1);
    }
    return out;
}

static void a_line_is_read(void **state)
{
    (void)state;
    assert_string_equal(
        read_line(
            "198.18.217.173 - - [17/May/2015:10:05:03 +0000] \"GET /a/b.png?x=1 HTTP/1.1\" 200 203023 \"-\" \"-\""),
        "address 1431857103000000 198.18.217.173 |  | GET | /a/b.png");
    assert_string_equal(read_line("2001:db8::1 - frank smith [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/2.0\" 200 1"),
                        "address 0 2001:db8::1 |  | GET | /");
    assert_string_equal(read_line("10.0.0.1 - x[y [01/Jan/1970:00:00:01 +0000] \"GET / HTTP/2.0\" - -"),
                        "address 1000000 10.0.0.1 |  | GET | /");
}

static void b184_unquoted_forwarded_lists_are_split_from_the_peer(void **state)
{
    (void)state;
    assert_string_equal(client("2001:db8::7, 198.51.100.9, 10.0.0.1 127.0.0.1 - -"),
                        "list 2001:db8::7, 198.51.100.9, 10.0.0.1 127.0.0.1 | 2001:db8::7, 198.51.100.9, 10.0.0.1");
    assert_string_equal(client("198.51.100.9 127.0.0.1 - -"), "list 198.51.100.9 127.0.0.1 | 198.51.100.9");
    assert_string_equal(client("127.0.0.1 - -"), "address 127.0.0.1 | ");
    assert_string_equal(client("198.51.100.9, 10.0.0.1 - -"), "list 198.51.100.9, 10.0.0.1 | 198.51.100.9");
    assert_string_equal(client("198.51.100.9,10.0.0.1 - frank"), "list 198.51.100.9,10.0.0.1 | 198.51.100.9");
    assert_string_equal(client("- 10.0.0.1 - -"), "list - 10.0.0.1 | -");
    assert_string_equal(client("unknown, 198.51.100.9 10.0.0.1 - -"),
                        "list unknown, 198.51.100.9 10.0.0.1 | unknown, 198.51.100.9");
    assert_string_equal(client("198.51.100.9, garbage - -"), "opaque 198.51.100.9, garbage | ");
}

static void a_first_field_that_is_no_address_is_opaque(void **state)
{
    (void)state;
    assert_string_equal(client("crawler.example.test - -"), "opaque crawler.example.test | ");
    assert_string_equal(client("192.0.2.01 - -"), "opaque 192.0.2.01 | ");
    assert_string_equal(client("- - -"), "opaque - | ");
}

static void b188_requests_that_are_not_http_are_told_by_reason(void **state)
{
    (void)state;
    assert_non_null(strstr(request(""), "empty"));
    assert_non_null(strstr(request("-"), "no path"));
    assert_non_null(strstr(request("\\x16\\x03\\x01\\x00\\xEE"), "no method"));
    assert_non_null(strstr(request("\x16\x03\x01 \x80\xff"), "no method"));
    assert_non_null(strstr(request("MGLNDD_192.0.2.1_80"), "no path"));
    assert_non_null(strstr(request("GET HTTP/1.1"), "no path"));
    assert_non_null(strstr(request("GET ?q HTTP/1.1"), "no path"));
    assert_string_equal(request("GET /a\\\"b\\\" HTTP/1.1"), "GET | /a\\\"b\\\"");
    assert_string_equal(request("GET /a\\\\"), "GET | /a\\\\");
    assert_string_equal(request("GET /\\x22x HTTP/1.1"), "GET | /\\x22x");
    assert_string_equal(read_bytes("10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET /\0 HTTP/1.1\" 200 1", 64),
                        "address 0 10.0.0.1 |  | GET | /");
    assert_non_null(strstr(read_bytes("\0\0\0", 3), "no time"));
    assert_non_null(strstr(read_line(""), "empty"));
    assert_non_null(strstr(read_line("nonsense"), "no time"));
    assert_non_null(
        strstr(read_line("10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\\\" 200 1"), "quotes"));
    assert_non_null(strstr(read_line("10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\""), "status"));
    assert_non_null(strstr(read_line("10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\" 20"), "status"));
    assert_non_null(strstr(read_line("10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\" 2000"), "status"));
    assert_non_null(strstr(read_line("[01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1"), "three fields"));
    assert_non_null(
        strstr(read_line("10.0.0.1 - [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1"), "three fields"));
}

static void b189_spaces_connect_absolute_and_old_requests(void **state)
{
    (void)state;
    assert_string_equal(request("GET /index.php?x=a b HTTP/1.1"), "GET | /index.php");
    assert_string_equal(request("GET /a b c HTTP/1.1"), "GET | /a b c");
    assert_string_equal(request("CONNECT example.test:80 HTTP/1.1"), "CONNECT | example.test:80");
    assert_string_equal(request("GET http://example.test/x HTTP/1.1"), "GET | http://example.test/x");
    assert_string_equal(request("GET /"), "GET | /");
    assert_string_equal(request("GET /HTTP/x"), "GET | /HTTP/x");
    assert_string_equal(request("GET  /two  HTTP/1.0"), "GET | /two ");
    assert_string_equal(request("OPTIONS * HTTP/1.1"), "OPTIONS | *");
    assert_string_equal(request("GET //a/../%7Eb HTTP/1.1"), "GET | //a/../%7Eb");
}

static const char *time_of(const char *text)
{
    static char out[32];
    uint64_t us;
    size_t n = sl_log_time_parse(text, strlen(text), &us);

    if (n == 0)
        return "refused";
    assert_int_equal(n, strlen(text));
    snprintf(out, sizeof out, "%" PRIu64, us);
    return out;
}

static void b191_midnights_of_months_and_years(void **state)
{
    (void)state;
    assert_string_equal(time_of("31/Dec/2019:23:59:59.9 +0000"), "1577836799900000");
    assert_string_equal(time_of("01/Jan/2020:00:00:00.1 +0000"), "1577836800100000");
    assert_string_equal(time_of("29/Feb/2020:23:59:59 +0000"), "1583020799000000");
    assert_string_equal(time_of("01/Mar/2020:00:00:00 +0000"), "1583020800000000");
    assert_string_equal(time_of("31/Dec/2019:23:59:59 -0100"), "1577840399000000");
    assert_string_equal(time_of("01/Jan/2020:00:59:59 +0100"), "1577836799000000");
    assert_string_equal(time_of("01/Jan/2020:05:30:00 +0530"), "1577836800000000");
    assert_string_equal(time_of("31/Dec/2016:23:59:60 +0000"), "1483228800000000");
}

static void bad_times_are_refused(void **state)
{
    static const char *const bad[] = {
        "29/Feb/2019:00:00:00 +0000", "29/Feb/1900:00:00:00 +0000",
        "31/Apr/2020:00:00:00 +0000", "00/Jan/2020:00:00:00 +0000",
        "01/jan/2020:00:00:00 +0000", "01/Foo/2020:00:00:00 +0000",
        "01/Jan/2020:24:00:00 +0000", "01/Jan/2020:00:60:00 +0000",
        "01/Jan/2020:00:00:61 +0000", "01/Jan/2020:00:00:00 0000",
        "01/Jan/2020:00:00:00 +2400", "01/Jan/2020:00:00:00 +0060",
        "01/Jan/1969:23:59:59 +0000", "01/Jan/1970:00:00:00 +0001",
        "01/Jan/4000:00:00:00 +0000", "1/Jan/2020:00:00:00 +0000",
        "01-Jan-2020:00:00:00 +0000", "01/Jan/2020:00:00:00. +0000",
        "01/Jan/2020:00:00:-1 +0000", "01/Jan/2020 00:00:00 +0000",
        "01/Jan/2020:00:00:00 +000",  "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_string_equal(time_of(bad[i]), "refused");
    assert_string_equal(time_of("29/Feb/2000:00:00:00 +0000"), "951782400000000");
    assert_string_equal(time_of("01/Jan/2020:00:00:00.123456789 +0000"), "1577836800123456");
}

/* Every day of four hundred years and more, against the C library. */
static void every_day_is_the_one_the_c_library_means(void **state)
{
    (void)state;
    for (int64_t day = 0; day < 180000; day++) {
        time_t t = (time_t)(day * 86400 + day % 86400);
        char text[64], want[32];
        struct tm tm;

        assert_non_null(gmtime_r(&t, &tm));
        strftime(text, sizeof text, "%d/%b/%Y:%H:%M:%S +0000", &tm);
        snprintf(want, sizeof want, "%" PRId64, (int64_t)t * 1000000);
        assert_string_equal(time_of(text), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_read),
        cmocka_unit_test(b184_unquoted_forwarded_lists_are_split_from_the_peer),
        cmocka_unit_test(a_first_field_that_is_no_address_is_opaque),
        cmocka_unit_test(b188_requests_that_are_not_http_are_told_by_reason),
        cmocka_unit_test(b189_spaces_connect_absolute_and_old_requests),
        cmocka_unit_test(b191_midnights_of_months_and_years),
        cmocka_unit_test(bad_times_are_refused),
        cmocka_unit_test(every_day_is_the_one_the_c_library_means),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
