/* HTTP/1 framing: what is a request, what is refused, and that it does not matter how the bytes are cut. */
#include "http1_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sl_http1_limits limits = {.header_bytes = 1024, .body_bytes = 64};
static char whole[READER_OUT_MAX], cut[READER_OUT_MAX];

/* The outcome, the same for every size of read from one byte to all. */
static const char *outcome_bytes(const char *bytes, size_t len)
{
    read_stream(bytes, len, 0, &limits, whole);
    for (size_t step = 1; step < len; step = step < 64 ? step + 1 : step * 2) {
        read_stream(bytes, len, step, &limits, cut);
        if (strcmp(whole, cut) != 0)
            fail_msg("reads of %zu bytes: %s instead of %s for %s", step, cut, whole, bytes);
    }
    return whole;
}

static const char *outcome(const char *bytes)
{
    return outcome_bytes(bytes, strlen(bytes));
}

#define HOST "Host: x\r\n"

static const struct {
    const char *bytes, *want;
} good[] = {
    {"GET /a?b=c HTTP/1.1\r\n" HOST "\r\n", "GET /a?b=c keep Host=x\nend\n"},
    {"\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET / keep Host=x\nend\n"},
    {"GET / HTTP/1.0\r\n\r\n", "GET / close\nend\n"},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / keep Connection=keep-alive\nend\n"},
    {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "GET / close Host=x Connection=close\nend\n"},
    {"GET / HTTP/1.1\r\n" HOST "A:\r\nB: \t two  words \t\r\nC:\r\n\r\n",
     "GET / keep Host=x A= B=two  words C=\nend\n"},
    {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
     "GET / keep Host=x Connection=Upgrade Upgrade=h2c\nend\n"},
    {"GET http://h/p HTTP/1.1\r\n" HOST "\r\n", "GET http://h/p keep Host=x\nend\n"},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\n" HOST "\r\n",
     "POST / keep Host=x Content-Length=3 body=abc\nGET /2 keep Host=x\nend\n"},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: t\r\n\r\n"
     "GET /2 HTTP/1.1\r\n" HOST "\r\n",
     "POST / keep Host=x Transfer-Encoding=chunked body=abcd\nGET /2 keep Host=x\nend\n"},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
     "POST / keep Host=x Transfer-Encoding=Chunked\nend\n"},
    {"GET / HTTP/1.1\r\n" HOST, "more\n"},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nab", "more\n"},
};

static void requests_are_read_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_string_equal(outcome(good[i].bytes), good[i].want);
}

static void expect_bad(const char *bytes, const char *want)
{
    const char *got = outcome(bytes);

    if (strcmp(got, want) != 0)
        fail_msg("%s instead of %s for %s", got, want, bytes);
}

static void b163_lengths_that_differ_or_are_malformed(void **state)
{
    static const char *const lengths[] = {
        "36\r\nContent-Length: 0",
        "5\r\nContent-Length: 5",
        "5, 5",
        "+5",
        "5 5",
        "-1",
        "99999999999999999999",
        "0x5",
        "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[256];

        snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Content-Length: %s\r\n\r\nabcde", lengths[i]);
        expect_bad(bytes, "bad 400\n");
    }
}

static void b165_length_and_coding_together(void **state)
{
    (void)state;
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzz\r\n", "bad 400\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               "bad 400\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "bad 501\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "bad 501\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "bad 501\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               "bad 400\n");
    expect_bad("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad 400\n");
}

static void b167_lines_that_two_readers_read_differently(void **state)
{
    static const char *const heads[] = {
        "Content-Length 10",
        "Host : x",
        " X: folded before any field",
        "X: a\r\n folded",
        "X:\r\n folded",
        "X: \r\n\t\r\nY: z",
        ": no name",
        "two words: x",
        "X: a\rb",
        "X: a\x01z",
        "Host: twice",
        "X\x80: y",
        "X: bare\nY: line end",
    };

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[256];

        snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\n" HOST "%s\r\n\r\n", heads[i]);
        expect_bad(bytes, "bad 400\n");
    }
    expect_bad("GET / HTTP/1.1\r\nX: no host\r\n\r\n", "bad 400\n");
    expect_bad("GET / HTTP/1.1\nHost: x\n\n", "bad 400\n");
    expect_bad("GET / HTTP/1.1\r\n" HOST "\n", "bad 400\n");
    expect_bad("GET  / HTTP/1.1\r\n" HOST "\r\n", "bad 400\n");
    expect_bad("GET /\x01 HTTP/1.1\r\n" HOST "\r\n", "bad 400\n");
    assert_string_equal(outcome_bytes("GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n", 29), "bad 400\n");
    expect_bad("GET / HTTP/1.1\r\n" HOST "\rX", "bad 400\n");
    expect_bad("GET / HTTP/1.1\r\n" HOST "X:\rY\r\n\r\n", "bad 400\n");
    expect_bad("GET /  HTTP/1.1\r\n" HOST "\r\n", "bad 400\n");
    expect_bad("GET / HTTP/1.0\n\n", "bad 400\n");
    expect_bad("GET / HTTP/1.0\r\n\rX", "bad 400\n");
    assert_string_equal(outcome_bytes("\x00\x01\x02\r\n\r\n", 7), "bad 501\n");
}

/* Chunk framing that parsers read differently: where the body ends must never be a matter of opinion. */
static void b165_chunks_are_framed_strictly(void **state)
{
    static const char *const bodies[] = {
        "3\nabc\r\n0\r\n\r\n",
        "3\rXabc\r\n0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc\r\n0\r\n\rX",
        "3;\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "\r\nabc",
        "3\r\nabc\n0\r\n\r\n",
        "00000003\r\nabc\r\n",
        "fffffffff\r\n",
        "3\r\nabc\r\n0\r\nX: \ny\r\n\r\n",
        "3;a=\x01\r\nabc\r\n0\r\n\r\n",
        "g\r\n",
        " 3\r\nabc\r\n",
        "3\r\nabc\r\n0\r\n\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char bytes[256];

        snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s", bodies[i]);
        expect_bad(bytes, "bad 400\n");
    }
    assert_string_equal(outcome("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                                "0A \t;q=\"x\"\r\n0123456789\r\n1\r\nz\r\n000\r\nA: b\r\nC: d\r\n\r\n"),
                        "POST / keep Host=x Transfer-Encoding=chunked body=0123456789z\nend\n");
}

static void versions(void **state)
{
    (void)state;
    expect_bad("GET / HTTP/9.9\r\n\r\n", "bad 505\n");
    expect_bad("GET / HTTP/1.2\r\n" HOST "\r\n", "bad 505\n");
    expect_bad("GET /\r\n\r\n", "bad 505\n");
    expect_bad("GET / FTP/1.1\r\n" HOST "\r\n", "bad 400\n");
}

/* Any token is a method; whether it is one for the path is not the parser's to say. */
static void unknown_methods_are_methods(void **state)
{
    char bytes[256], want[256];

    (void)state;
    assert_string_equal(outcome("FOO / HTTP/1.1\r\n" HOST "\r\n"), "FOO / keep Host=x\nend\n");
    assert_string_equal(outcome("\r\nGETS /a HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhiget /b HTTP/1.0\r\n\r\n"),
                        "GETS /a keep Host=x Content-Length=2 body=hi\nget /b close\nend\n");
    assert_string_equal(outcome("X /a HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST "\r\n"),
                        "X /a keep Host=x\nGET /b keep Host=x\nend\n");
    assert_string_equal(outcome("POSX /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n"),
                        "POSX /a keep Host=x Transfer-Encoding=chunked body=z\nend\n");
    snprintf(bytes, sizeof bytes, "%064d / HTTP/1.1\r\n" HOST "\r\n", 7);
    snprintf(want, sizeof want, "%064d / keep Host=x\nend\n", 7);
    assert_string_equal(outcome(bytes), want);
    snprintf(bytes, sizeof bytes, "%065d / HTTP/1.1\r\n" HOST "\r\n", 7);
    expect_bad(bytes, "bad 501\n");
    expect_bad("FO(O / HTTP/1.1\r\n" HOST "\r\n", "bad 501\n");
    expect_bad("FOO\t/ HTTP/1.1\r\n" HOST "\r\n", "bad 501\n");
    expect_bad("FOO\r\n" HOST "\r\n", "bad 501\n");
    expect_bad("FOO  / HTTP/1.1\r\n" HOST "\r\n", "bad 400\n");
    expect_bad("FOO bar HTTP/1.1\r\n" HOST "\r\n", "bad 400\n");
    expect_bad("FOO / HTTP/1.1\n" HOST "\r\n", "bad 400\n");
}

/* 65 bytes of body are one too many, whatever they are wrapped in. */
static void sizes_are_bounded(void **state)
{
    static char bytes[8192];
    int n;

    (void)state;
    snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Content-Length: 65\r\n\r\n");
    expect_bad(bytes, "bad 413\n");
    snprintf(bytes, sizeof bytes,
             "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n40\r\n%064d\r\n1\r\nx\r\n", 0);
    expect_bad(bytes, "bad 413\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n41\r\n", "bad 413\n"); /* announced */
    snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;%01100d\r\nx\r\n", 0);
    expect_bad(bytes, "bad 431\n");
    snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: %01100d\r\n",
             0);
    expect_bad(bytes, "bad 431\n");
    snprintf(bytes, sizeof bytes, "POST / HTTP/1.1\r\n" HOST "Content-Length: 64\r\n\r\n%064d", 0);
    assert_non_null(strstr(outcome(bytes), "body=0000"));
    snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\n" HOST "X: %01100d\r\n\r\n", 0);
    expect_bad(bytes, "bad 431\n");
    snprintf(bytes, sizeof bytes, "GET /%01100d", 0);
    expect_bad(bytes, "bad 431\n");
    n = snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < SL_HTTP_FIELDS_MAX; i++)
        n += snprintf(bytes + n, sizeof bytes - (size_t)n, "a:\r\n");
    snprintf(bytes + n, sizeof bytes - (size_t)n, "\r\n");
    expect_bad(bytes, "bad 431\n");
}

static void b161_expectations(void **state)
{
    struct sl_http1 h;
    char wait[] = "POST / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n";
    char old[] = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";

    (void)state;
    sl_http1_init(&h, &limits);
    assert_int_equal(sl_http1_parse(&h, wait, strlen(wait)), SL_HTTP1_MORE);
    assert_true(h.head_done && h.expects_continue);
    sl_http1_init(&h, &limits);
    assert_int_equal(sl_http1_parse(&h, old, strlen(old)), SL_HTTP1_MORE);
    assert_true(h.head_done && !h.expects_continue);
    expect_bad("POST / HTTP/1.1\r\n" HOST "Expect: bogus\r\nContent-Length: 3\r\n\r\n", "bad 417\n");
    expect_bad("POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 65\r\n\r\n", "bad 413\n");
}

/* A thousand requests, in one read and in reads of every small size: none lost, none shifted. */
static void b166_pipelined_requests_keep_their_order(void **state)
{
    static char bytes[128 * 1000], want[128 * 1000];
    size_t n = 0, w = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        if (i % 3) {
            n += (size_t)sprintf(bytes + n, "GET /%d HTTP/1.1\r\n" HOST "\r\n", i);
            w += (size_t)sprintf(want + w, "GET /%d keep Host=x\n", i);
        } else {
            n += (size_t)sprintf(
                bytes + n,
                "POST /%d HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", i);
            w += (size_t)sprintf(want + w, "POST /%d keep Host=x Transfer-Encoding=chunked body=abc\n", i);
        }
    }
    sprintf(want + w, "end\n");
    for (size_t step = 0; step < 9; step++) {
        read_stream(bytes, n, step, &limits, cut);
        assert_string_equal(cut, want);
    }
}

static void responses_are_written(void **state)
{
    struct sl_buf out = sl_buf_make(4096);
    struct sl_http_response r;
    struct sl_http1_reply reply = {.keep_alive = true, .date = "Sun, 06 Nov 1994 08:49:37 GMT"};

    (void)state;
    sl_http_response_init(&r, 4096);
    sl_http_header_int(&r, "RateLimit-Limit", 100);
    sl_http_header_text(&r, "Allow", "GET, POST");
    sl_http1_write(&out, &r, &reply);
    r.status = 429;
    r.content_type = "text/plain";
    r.n_headers = 0;
    sl_buf_text(&r.body, "no");
    reply.keep_alive = false;
    sl_http1_write(&out, &r, &reply);
    reply.head_only = reply.http_1_0 = reply.keep_alive = true;
    sl_http1_write(&out, &r, &reply);
    sl_buf_add(&out, "", 1);
    assert_string_equal(out.data, "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n"
                                  "RateLimit-Limit: 100\r\nAllow: GET, POST\r\n\r\n"
                                  "HTTP/1.1 429 Too Many Requests\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                  "Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
                                  "HTTP/1.1 429 Too Many Requests\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                  "Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n");
    sl_http_response_fini(&r);
    sl_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read_however_they_are_cut),
        cmocka_unit_test(b163_lengths_that_differ_or_are_malformed),
        cmocka_unit_test(b165_length_and_coding_together),
        cmocka_unit_test(b165_chunks_are_framed_strictly),
        cmocka_unit_test(b167_lines_that_two_readers_read_differently),
        cmocka_unit_test(versions),
        cmocka_unit_test(unknown_methods_are_methods),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(b161_expectations),
        cmocka_unit_test(b166_pipelined_requests_keep_their_order),
        cmocka_unit_test(responses_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
