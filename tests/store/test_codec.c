/* The codec by itself: keys, stored bytes, asks and answers. No server. */
#include "store/codec.h"
#include "store/script.h"

#include "base/err.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <ctype.h>
#include <string.h>

#define NOW_US UINT64_C(1754006400000000)

static void key_has_no_byte_of_a_client(void **state)
{
    char key[SL_STORE_KEY_MAX], other[SL_STORE_KEY_MAX];
    size_t len = sl_store_key(key, "sluice", 6, (struct sl_hash128){0, UINT64_MAX}, 0x0123456789abcdef);

    (void)state;
    assert_int_equal(len, 6 + 37);
    assert_memory_equal(key, "sluice:{AAAAAAAAAAA__________8}:ASNFZ4mrze8", len);
    for (size_t i = 0; i < len; i++)
        assert_true(isalnum((unsigned char)key[i]) || strchr(":{}-_", key[i]));
    len = sl_store_key(other, "0123456789abcdef0123456789abcdef", 32, (struct sl_hash128){1, 2}, 3);
    assert_int_equal(len, SL_STORE_KEY_MAX);
}

/* One hash tag for all keys of one caller, so that one script may have them all. */
static void test_b115_keys_of_one_caller_share_a_slot(void **state)
{
    struct sl_hash128 who = {0xfeedfacecafebeef, 0x0102030405060708};
    char a[SL_STORE_KEY_MAX], b[SL_STORE_KEY_MAX];
    size_t a_len = sl_store_key(a, "ns", 2, who, 1), b_len = sl_store_key(b, "ns", 2, who, UINT64_MAX);
    const char *open = memchr(a, '{', a_len), *close = memchr(a, '}', a_len);

    (void)state;
    assert_int_equal(a_len, b_len);
    assert_true(open && close && close > open + 1);
    assert_memory_equal(a, b, (size_t)(close - a) + 1);
    assert_memory_not_equal(a, b, a_len);
}

static void values_are_as_documented(void **state)
{
    struct sl_state s = {.lo = UINT64_C(0x15) << SL_STATE_VERSION_SHIFT | UINT64_C(0x63b4c9a6b2000), .hi = 0x2345678};
    uint8_t bytes[SL_VALUE_MAX];

    (void)state;
    assert_int_equal(sl_value_write(SL_TOKEN_BUCKET, s, bytes), 12);
    assert_memory_equal(bytes, "\x80\x55\x82\x34\x56\x78\x3b\x4c\x9a\x6b\x20\x00", 12);
    s.hi |= UINT64_C(0x11223344) << 32;
    assert_int_equal(sl_value_write(SL_SLIDING_WINDOW_COUNTER, s, bytes), 16);
    assert_memory_equal(bytes, "\x84\x55\x82\x34\x56\x78\x3b\x4c\x9a\x6b\x20\x00\x11\x22\x33\x44", 16);
    s.lo |= UINT64_C(1) << 52;
    assert_int_equal(sl_value_write(SL_FIXED_WINDOW, s, bytes), 12);
    assert_int_equal(bytes[0], 0x8a);
}

static void values_come_back_as_they_were(void **state)
{
    static const enum sl_algorithm algorithms[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW,
                                                   SL_SLIDING_WINDOW_COUNTER};
    uint64_t seed = world_seed();

    (void)state;
    for (int i = 0; i < 100000; i++) {
        enum sl_algorithm algorithm = algorithms[world_below(&seed, 4)];
        struct sl_state s = {.lo = (world_random(&seed) & ~SL_STATE_CLAIM & ~SL_STATE_LOG) & ~(UINT64_C(7) << 53),
                             .hi = world_random(&seed) >> 34},
                        back;
        uint8_t bytes[SL_VALUE_MAX];
        size_t len;

        if (algorithm == SL_SLIDING_WINDOW_COUNTER)
            s.hi |= world_random(&seed) >> 32 << 32;
        len = sl_value_write(algorithm, s, bytes);
        assert_int_equal(sl_value_read(algorithm, bytes, len, &back), 0);
        assert_int_equal(back.lo, s.lo);
        assert_int_equal(back.hi, s.hi);
    }
}

static void what_is_not_ours_is_foreign(void **state)
{
    struct sl_state s = {.lo = 5, .hi = 7}, back = {.lo = 99};
    uint8_t bytes[SL_VALUE_MAX + 1] = {0};
    size_t len = sl_value_write(SL_TOKEN_BUCKET, s, bytes);

    (void)state;
    for (size_t other = 0; other <= SL_VALUE_MAX; other++)
        assert_int_equal(sl_value_read(SL_TOKEN_BUCKET, bytes, other, &back), other == len ? 0 : SL_EFORMAT);
    for (unsigned tag = 0; tag < 256; tag++) {
        bytes[0] = (uint8_t)tag;
        assert_int_equal(sl_value_read(SL_TOKEN_BUCKET, bytes, len, &back),
                         tag == 0x80 || tag == 0x88 ? 0 : SL_EFORMAT);
    }
}

static void a_whole_bucket_expires_at_the_next_millisecond(void **state)
{
    struct sl_state s = {.lo = 5000};

    (void)state;
    assert_int_equal(sl_value_expires_ms(SL_TOKEN_BUCKET, s), 5);
    s.hi = 1; /* a fraction of a microsecond */
    assert_int_equal(sl_value_expires_ms(SL_TOKEN_BUCKET, s), 6);
    assert_int_equal(sl_value_expires_ms(SL_FIXED_WINDOW, s), 5);
    s.lo = 5001;
    assert_int_equal(sl_value_expires_ms(SL_FIXED_WINDOW, s), 6);
}

/* What the module reads is what was written, for any shape and any costs. */
static void asks_are_read_as_they_were_written(void **state)
{
    static uint8_t buf[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(3, 8)];
    static struct sl_ask_part part;
    uint64_t seed = world_seed();

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct sl_shape shapes[3] = {world_some_shape(&seed), world_some_shape(&seed), world_some_shape(&seed)};
        const struct sl_shape *pointers[3] = {&shapes[0], &shapes[1], &shapes[2]};
        struct sl_ask ask;
        struct sl_ask_reader reader;
        uint32_t costs[8][3], got[SL_GROUP_BUCKETS_MAX];
        unsigned repeat, runs = 1 + (unsigned)world_below(&seed, 8);

        sl_ask_start_at(&ask, buf, sizeof buf, NOW_US);
        assert_int_equal(sl_ask_group(&ask, pointers, 3), 0);
        for (unsigned k = 0; k < runs; k++) {
            for (int i = 0; i < 3; i++)
                costs[k][i] =
                    (uint32_t)world_below(&seed, 2) * (uint32_t)world_below(&seed, shapes[i].limit + 2ull) + k;
            for (unsigned twice = 0; twice < 2; twice++)
                assert_int_equal(sl_ask_request(&ask, costs[k]), 0);
        }
        assert_int_equal(sl_ask_open(&reader, buf, ask.len), 0);
        assert_true(reader.virtual_clock && reader.now_us == NOW_US);
        assert_int_equal(sl_ask_next(&reader, &part), 1);
        assert_int_equal(part.n, 3);
        for (int i = 0; i < 3; i++) {
            struct sl_decision x, y;

            if (shapes[i].algorithm == SL_SLIDING_WINDOW_LOG)
                continue;
            sl_decide(&shapes[i], (struct sl_state){0}, NOW_US, 1, &x);
            sl_decide(&part.shapes[i], (struct sl_state){0}, NOW_US, 1, &y);
            assert_memory_equal(&x, &y, sizeof x);
        }
        unsigned k = 0; /* neighbours with equal costs are one run */
        for (unsigned run = 0; run < part.runs; run++) {
            assert_int_equal(sl_ask_run(&reader, &part, &repeat, got), 0);
            assert_int_equal(repeat % 2, 0);
            for (; repeat; repeat -= 2, k++) {
                assert_true(k < runs);
                assert_memory_equal(got, costs[k], sizeof costs[k]);
            }
        }
        assert_int_equal(k, runs);
        assert_int_equal(sl_ask_next(&reader, &part), 0);
    }
}

/* A full buffer refuses, and what is in it stays whole. */
static void a_full_ask_refuses_and_stays_as_it_was(void **state)
{
    uint8_t buf[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(1, 1) + 8], copy[sizeof buf];
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "100/s", 0);
    const struct sl_shape *pointer = &shape;
    struct sl_ask ask;
    uint32_t one = 1, two = 2;
    size_t len;

    (void)state;
    sl_ask_start_at(&ask, buf, sizeof buf, NOW_US);
    assert_int_equal(sl_ask_group(&ask, &pointer, 0), SL_EINVALID);
    assert_int_equal(sl_ask_group(&ask, &pointer, SL_GROUP_BUCKETS_MAX + 1), SL_EINVALID);
    assert_int_equal(sl_ask_group(&ask, &pointer, 1), 0);
    assert_int_equal(sl_ask_request(&ask, &one), 0);
    len = ask.len;
    memcpy(copy, buf, sizeof copy);
    assert_int_equal(sl_ask_request(&ask, &two), SL_EBUSY);
    assert_int_equal(sl_ask_group(&ask, &pointer, 1), SL_EBUSY);
    assert_int_equal(ask.len, len);
    assert_memory_equal(buf, copy, len);
    for (unsigned i = 1; i < SL_GROUP_REQUESTS_MAX; i++)
        assert_int_equal(sl_ask_request(&ask, &one), 0);
    assert_int_equal(sl_ask_request(&ask, &one), SL_EBUSY);
    assert_int_equal(ask.len, len);
}

/* Cut anywhere, an ask or an answer is refused, never read past its end. */
static void what_is_cut_short_is_refused(void **state)
{
    uint8_t buf[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(2, 1) + SL_REFUND_SIZE(2)], *cut;
    static struct sl_ask_part part;
    struct sl_shape shapes[2] = {world_shape(SL_SLIDING_WINDOW_COUNTER, "100/s", 0),
                                 world_shape(SL_SLIDING_WINDOW_LOG, "100/s", 0)};
    const struct sl_shape *pointers[2] = {&shapes[0], &shapes[1]};
    struct sl_decision charges[2] = {{.cost = 1, .now_us = NOW_US}, {.cost = 1, .now_us = NOW_US}};
    struct sl_ask ask;
    uint32_t costs[2] = {1, 1}, got[SL_GROUP_BUCKETS_MAX];
    unsigned repeat;

    (void)state;
    sl_ask_start_at(&ask, buf, sizeof buf, NOW_US);
    assert_int_equal(sl_ask_group(&ask, pointers, 2), 0);
    assert_int_equal(sl_ask_request(&ask, costs), 0);
    assert_int_equal(sl_ask_refund(&ask, pointers, charges, 2), 0);
    for (size_t len = 0; len <= ask.len; len++) {
        struct sl_ask_reader reader;
        bool whole = true;
        int more = 0;

        cut = test_malloc(len + 1); /* so that a sanitizer sees the end */
        memcpy(cut, buf, len);
        if (sl_ask_open(&reader, cut, len) == 0) {
            while (whole && (more = sl_ask_next(&reader, &part)) == 1) {
                for (unsigned i = 0; i < part.runs && whole; i++)
                    whole = sl_ask_run(&reader, &part, &repeat, got) == 0;
            }
            whole = whole && more == 0;
        } else {
            whole = false;
        }
        /* also whole between the groups, and with none */
        assert_int_equal(whole, len == ask.len || len == 10 || len == 10 + SL_GROUP_SIZE(2, 1));
        test_free(cut);
    }
}

/* Script or module that do not belong to this library are found out. */
static void an_answer_that_core_does_not_confirm_is_refused(void **state)
{
    uint8_t reply[8 + 2 + 1] = {0};
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "1/d", 1);
    const struct sl_shape *pointer = &shape;
    struct sl_answer answer;
    struct sl_answer_group group;
    struct sl_decision d;
    uint32_t cost = 1;

    (void)state;
    for (unsigned claimed = 0; claimed < 3; claimed++) {
        reply[9] = (uint8_t)claimed;
        assert_int_equal(sl_answer_open(&answer, reply, sizeof reply), 0);
        assert_int_equal(sl_answer_next(&answer, &pointer, 1, &group), 0);
        assert_int_equal(sl_answer_decide(&group, &cost, &d), 1);
        assert_int_equal(sl_answer_end(&group), claimed == 1 ? 0 : SL_EFORMAT);
    }
    for (size_t len = 0; len < sizeof reply; len++) {
        bool refused = sl_answer_open(&answer, reply, len) || sl_answer_next(&answer, &pointer, 1, &group);

        assert_true(refused);
    }
}

static void the_script_is_built_in_with_its_hash(void **state)
{
    size_t len;
    const char *text = sl_script_text(&len);

    (void)state;
    assert_int_equal(strlen(sl_script_sha1()), 40);
    assert_true(len > 1000);
    assert_int_equal(strlen(text), len);
    /* constants that the script has in common with core */
    assert_int_equal(SL_STALE_MAX_US, 1000000);
    assert_non_null(strstr(text, "tolerated = 1000000 "));
    assert_int_equal(SL_LOG_COUNT_MAX_LOCAL, 100000);
    assert_non_null(strstr(text, "100000, 100\n"));
    assert_non_null(strstr(text, "5800000000000000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_has_no_byte_of_a_client),
        cmocka_unit_test(test_b115_keys_of_one_caller_share_a_slot),
        cmocka_unit_test(values_are_as_documented),
        cmocka_unit_test(values_come_back_as_they_were),
        cmocka_unit_test(what_is_not_ours_is_foreign),
        cmocka_unit_test(a_whole_bucket_expires_at_the_next_millisecond),
        cmocka_unit_test(asks_are_read_as_they_were_written),
        cmocka_unit_test(a_full_ask_refuses_and_stays_as_it_was),
        cmocka_unit_test(what_is_cut_short_is_refused),
        cmocka_unit_test(an_answer_that_core_does_not_confirm_is_refused),
        cmocka_unit_test(the_script_is_built_in_with_its_hash),
    };

    return cmocka_run_group_tests_name("store codec", tests, NULL, NULL);
}
