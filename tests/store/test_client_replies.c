/* Replies: what is read, what is refused and how much memory that may take; error classes; the slots of a Cluster. */
#include "base/err.h"
#include "store/command.h"
#include "store/reply.h"
#include "store/result.h"
#include "store/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An allocator that knows how much is out, and how much at most was. */
static size_t out_now, out_most;

static void *counting_realloc(void *ctx, void *p, size_t size)
{
    size_t *block = p ? (size_t *)p - 2 : NULL, *moved;

    (void)ctx;
    if (block)
        out_now -= *block;
    if (!size) {
        free(block);
        return NULL;
    }
    moved = realloc(block, size + 2 * sizeof *block);
    assert_non_null(moved);
    *moved = size;
    out_now += size;
    out_most = out_now > out_most ? out_now : out_most;
    return moved + 2;
}

static const struct sl_alloc alloc = {counting_realloc, NULL};

/* Feeds all of it in pieces of `piece` bytes; returns what the last sl_reply_next said. */
static int feed(struct sl_reply_reader *reader, const char *bytes, size_t len, size_t piece,
                const struct sl_reply **ret_reply)
{
    const char *why = "";
    int found = 0;

    for (size_t i = 0; i < len && found == 0; i += piece) {
        assert_int_equal(sl_reply_feed(reader, bytes + i, len - i < piece ? len - i : piece), 0);
        found = sl_reply_next(reader, ret_reply, &why);
        assert_true(found >= 0 || why[0]);
    }
    return found;
}

static void test_every_type_in_every_cut(void **state)
{
    static const char bytes[] = "*6\r\n+OK\r\n-ERR no\r\n:-42\r\n$3\r\na\0b\r\n$-1\r\n*2\r\n:1\r\n*0\r\n";

    (void)state;
    for (size_t piece = 1; piece < sizeof bytes; piece++) {
        struct sl_reply_reader *reader = sl_reply_reader_new(&alloc, 0);
        const struct sl_reply *r = NULL;

        assert_int_equal(feed(reader, bytes, sizeof bytes - 1, piece, &r), 1);
        assert_true(sl_reply_is_array(r, 6));
        assert_true(sl_reply_is(r->elements[0], "OK"));
        assert_int_equal(r->elements[1]->type, SL_REPLY_ERROR);
        assert_string_equal(r->elements[1]->text, "ERR no");
        assert_true(r->elements[2]->integer == -42);
        assert_int_equal(r->elements[3]->n, 3);
        assert_memory_equal(r->elements[3]->text, "a\0b", 3);
        assert_int_equal(r->elements[4]->type, SL_REPLY_NIL);
        assert_true(sl_reply_is_array(r->elements[5], 2));
        assert_int_equal(r->elements[5]->elements[1]->n, 0);
        sl_reply_reader_free(reader);
    }
    assert_int_equal(out_now, 0);
}

/* B132: 34 GB were allocated, or the stack overflowed, or the replies after it were shifted. */
static void test_b132_hostile_replies_are_refused(void **state)
{
    static const char one[] = {'*', '1', '\r', '\n'};
    static char nested[8000], endless[SL_REPLY_LINE_MAX + 10], filler[SL_REPLY_BYTES_MAX];
    const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"*4294967295\r\n", 13},
        {"*2147483647\r\n", 13},
        {"*100000\r\n", 9},
        {nested, sizeof nested},
        {"$4294967296\r\n", 13},
        {"$600000\r\n", 9},
        {"$9223372036854775807\r\n", 22},
        {"$99999999999999999999\r\n", 23},
        {"$0:\r\n", 5},
        {"$-5\r\n", 5},
        {"%9223372036854775807\r\n", 22},
        {"%1\r\n", 4},
        {"HTTP/1.1 400 Bad Request\r\n", 26},
        {"\r\n", 2},
        {":99999999999999999999\r\n", 23},
        {":1x\r\n", 5},
        {endless, sizeof endless},
    };

    (void)state;
    for (size_t i = 0; i < sizeof nested; i += 4)
        memcpy(nested + i, one, sizeof one);
    memset(endless, 'x', sizeof endless);
    endless[0] = '+';
    memset(filler, 'x', sizeof filler);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sl_reply_reader *reader;
        const struct sl_reply *r = NULL;
        const char *why;

        out_most = 0;
        reader = sl_reply_reader_new(&alloc, 0);
        if (feed(reader, cases[i].bytes, cases[i].len, 4096, &r) != SL_EFORMAT)
            fail_msg("case %zu was not refused: %.30s", i, cases[i].bytes);
        assert_true(out_most < 1000000);
        assert_int_equal(sl_reply_next(reader, &r, &why), SL_EFORMAT); /* and stays so */
        sl_reply_reader_free(reader);
    }
    assert_int_equal(out_now, 0);
}

static void test_large_replies_within_the_bound(void **state)
{
    static char bytes[400100];
    struct sl_reply_reader *reader = sl_reply_reader_new(&alloc, 0);
    int head = snprintf(bytes, sizeof bytes, "$400000\r\n");
    const struct sl_reply *r = NULL;

    (void)state;
    memset(bytes + head, 'y', 400000);
    bytes[head + 400000] = '\r';
    bytes[head + 400001] = '\n';
    for (int i = 0; i < 20; i++) { /* memory is reused, not gathered */
        assert_int_equal(feed(reader, bytes, (size_t)head + 400002, 65536, &r), 1);
        assert_int_equal(r->n, 400000);
    }
    assert_true(out_most < 1000000);
    sl_reply_reader_free(reader);
}

static void test_many_replies_in_one_piece(void **state)
{
    struct sl_reply_reader *reader = sl_reply_reader_new(&alloc, 0);
    const struct sl_reply *r;
    const char *why;

    (void)state;
    for (int round = 0; round < 1000; round++) {
        assert_int_equal(sl_reply_feed(reader, ":1\r\n$2\r\nab\r\n+OK\r\n:2", 19), 0);
        for (int i = 0; i < 3; i++)
            assert_int_equal(sl_reply_next(reader, &r, &why), 1);
        assert_true(sl_reply_is(r, "OK"));
        assert_int_equal(sl_reply_next(reader, &r, &why), 0);
        assert_int_equal(sl_reply_feed(reader, "3\r\n", 3), 0);
        assert_int_equal(sl_reply_next(reader, &r, &why), 1);
        assert_true(r->integer == 23);
    }
    sl_reply_reader_free(reader);
}

static void test_error_classes(void **state)
{
    static const struct {
        const char *text;
        enum sl_result result;
        enum sl_breaker_result breaker;
        bool ambiguous;
    } cases[] = {
        {"READONLY You can't write against a read only replica.", SL_RESULT_READONLY, SL_BREAKER_FAILED, false},
        {"LOADING Redis is loading the dataset in memory", SL_RESULT_LOADING, SL_BREAKER_FAILED, false},
        {"OOM command not allowed when used memory > 'maxmemory'.", SL_RESULT_OOM, SL_BREAKER_GOOD, false},
        {"BUSY Redis is busy running a script.", SL_RESULT_BUSY, SL_BREAKER_FAILED, false},
        {"NOSCRIPT No matching script. Please use EVAL.", SL_RESULT_NOSCRIPT, SL_BREAKER_FAILED, false},
        {"NOAUTH Authentication required.", SL_RESULT_NOAUTH, SL_BREAKER_FAILED, false},
        {"WRONGPASS invalid username-password pair or user is disabled.", SL_RESULT_WRONGPASS, SL_BREAKER_FAILED,
         false},
        {"NOPERM this user has no permissions", SL_RESULT_NOPERM, SL_BREAKER_FAILED, false},
        {"CLUSTERDOWN The cluster is down", SL_RESULT_CLUSTERDOWN, SL_BREAKER_FAILED, false},
        {"MASTERDOWN Link with MASTER is down", SL_RESULT_MASTERDOWN, SL_BREAKER_FAILED, false},
        {"MOVED 3999 127.0.0.1:6381", SL_RESULT_MOVED, SL_BREAKER_GOOD, false},
        {"ASK 3999 127.0.0.1:6381", SL_RESULT_ASK, SL_BREAKER_GOOD, false},
        {"TRYAGAIN Multiple keys request during rehashing of slot", SL_RESULT_TRYAGAIN, SL_BREAKER_GOOD, false},
        {"CROSSSLOT Keys in request don't hash to the same slot", SL_RESULT_CROSSSLOT, SL_BREAKER_GOOD, false},
        {"WRONGTYPE Operation against a key", SL_RESULT_WRONGTYPE, SL_BREAKER_GOOD, true},
        {"ERR anything", SL_RESULT_ERROR, SL_BREAKER_GOOD, true},
        {"READONLYX", SL_RESULT_ERROR, SL_BREAKER_GOOD, true},
        {"SOMETHING new", SL_RESULT_ERROR, SL_BREAKER_GOOD, true},
        {"", SL_RESULT_ERROR, SL_BREAKER_GOOD, true},
        {"OOM", SL_RESULT_OOM, SL_BREAKER_GOOD, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum sl_result result = sl_result_of_error(cases[i].text, strlen(cases[i].text));

        assert_string_equal(sl_result_name(result), sl_result_name(cases[i].result));
        assert_int_equal(sl_result_breaker(result), cases[i].breaker);
        assert_int_equal(sl_result_ambiguous(result), cases[i].ambiguous);
    }
    /* B114: what may have been executed is never safe to send again. */
    assert_true(sl_result_ambiguous(SL_RESULT_TIMEOUT) && sl_result_ambiguous(SL_RESULT_LOST));
    assert_false(sl_result_ambiguous(SL_RESULT_UNREACHABLE));
}

static void test_commands_carry_any_bytes(void **state)
{
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n";
    struct sl_out out = sl_out_make(&alloc, 50);
    const struct sl_word words[] = {SL_WORD("SET"), {"a\r\n\0b", 5}, {"", 0}};

    (void)state;
    sl_out_command(&out, words, 3);
    assert_int_equal(out.len, sizeof expected - 1);
    assert_memory_equal(out.bytes, expected, out.len);
    sl_out_command(&out, words, 3);
    assert_true(out.failed); /* beyond the bound: nothing half */
    sl_out_clear(&out);
    assert_false(out.failed);
    sl_out_fini(&out);
    assert_int_equal(out_now, 0);
}

/* ---- Cluster */

static const struct sl_endpoint asked = {.port = 7000, .host = "10.0.0.9"};

static int read_slots(const char *text, struct sl_slot_range **ret_ranges)
{
    struct sl_reply_reader *reader = sl_reply_reader_new(&alloc, 0);
    const struct sl_reply *r = NULL;
    int n;

    assert_int_equal(feed(reader, text, strlen(text), 4096, &r), 1);
    n = sl_slots_read(r, &asked, &alloc, ret_ranges);
    sl_reply_reader_free(reader);
    return n;
}

static void host_is(const char *text, const char *host, unsigned port)
{
    struct sl_slot_range *ranges;

    assert_int_equal(read_slots(text, &ranges), 1);
    assert_string_equal(ranges[0].master.host, host);
    assert_int_equal(ranges[0].master.port, port);
    assert_int_equal(ranges[0].to, 16383);
    sl_free(&alloc, ranges);
}

/* B133: an array where a string used to be made the client panic at its start. */
static void test_b133_topology_with_new_fields(void **state)
{
    (void)state;
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:7001\r\n", "10.0.0.1", 7001);
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7001\r\n$2\r\nid\r\n", "10.0.0.1", 7001);
    /* metadata, and elements nobody knows yet */
    host_is("*1\r\n*4\r\n:0\r\n:16383\r\n*5\r\n$5\r\nnode1\r\n:7001\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$8\r\n10.0.0."
            "1\r\n:9\r\n"
            "*1\r\n+new\r\n",
            "node1", 7001);
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$0\r\n\r\n:7001\r\n$2\r\nid\r\n*0\r\n", "10.0.0.9", 7001); /* empty */
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$-1\r\n:7001\r\n$2\r\nid\r\n*0\r\n", "10.0.0.9", 7001);    /* null */
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$11\r\n2001:db8::1\r\n:7001\r\n", "2001:db8::1", 7001);
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n",
            "10.0.0.1", 7001);
    host_is("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*0\r\n", "", 7001); /* nobody can tell */
}

static void test_broken_topology_is_refused_whole(void **state)
{
    static const char *const cases[] = {
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n$1\r\n9\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:65536\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n*0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n+h\r\n",
    };
    struct sl_slot_range *ranges = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(read_slots(cases[i], &ranges), SL_EFORMAT);
    assert_int_equal(out_now, 0);
}

static void test_redirections(void **state)
{
    static const char *const wrong[] = {"MOVED",         "MOVED 1",    "MOVED x h:1",          "MOVED 16384 h:1",
                                        "MOVED 1 h",     "MOVED 1 h:", "MOVED 1 h:0",          "MOVED 1 h:65536",
                                        "MOVED 1 h:1 x", "MOVED  h:1", "MOVED 99999999999 h:1"};
    struct sl_endpoint to;
    unsigned slot;

    (void)state;
    assert_int_equal(sl_slots_redirect("MOVED 3999 10.1.1.1:6381", 24, &asked, &slot, &to), 0);
    assert_int_equal(slot, 3999);
    assert_string_equal(to.host, "10.1.1.1");
    assert_int_equal(to.port, 6381);
    assert_int_equal(sl_slots_redirect("ASK 16383 2001:db8::1:7", 23, &asked, &slot, &to), 0);
    assert_string_equal(to.host, "2001:db8::1");
    assert_int_equal(sl_slots_redirect("MOVED 0 :7", 10, &asked, &slot, &to), 0);
    assert_string_equal(to.host, "10.0.0.9");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sl_slots_redirect(wrong[i], strlen(wrong[i]), &asked, &slot, &to), SL_EFORMAT);
}

static void test_slots_of_keys(void **state)
{
    (void)state;
    assert_int_equal(sl_slot_of("123456789", 9), 0x31c3); /* the check value of this CRC */
    assert_int_equal(sl_slot_of("foo", 3), 12182);
    assert_int_equal(sl_slot_of("", 0), 0);
    assert_int_equal(sl_slot_of("sl:{foo}:x", 10), 12182);
    assert_int_equal(sl_slot_of("{foo}{bar}", 10), 12182);
    assert_true(sl_slot_of("a{}b", 4) != sl_slot_of("", 0)); /* empty braces: all of the key */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_in_every_cut),
        cmocka_unit_test(test_b132_hostile_replies_are_refused),
        cmocka_unit_test(test_large_replies_within_the_bound),
        cmocka_unit_test(test_many_replies_in_one_piece),
        cmocka_unit_test(test_error_classes),
        cmocka_unit_test(test_commands_carry_any_bytes),
        cmocka_unit_test(test_b133_topology_with_new_fields),
        cmocka_unit_test(test_broken_topology_is_refused_whole),
        cmocka_unit_test(test_redirections),
        cmocka_unit_test(test_slots_of_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
