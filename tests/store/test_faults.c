/* Faults that limiters on Redis have had, each with the right answer, through script and module. */
#include "door.h"
#include "redis.h"

#include "base/err.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define NOON UINT64_C(1754049600000000) /* 2025-08-01T12:00:00Z */
#define HOUR_MS 3600000

static struct redis server;

static const enum sl_algorithm all[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                        SL_SLIDING_WINDOW_COUNTER};
#define N_ALL (sizeof all / sizeof *all)

static void afresh(void)
{
    redis_run(server.c, "FLUSHALL");
}

static bool allowed_at(enum door door, const char *key, const struct sl_shape *shape, uint64_t now_us, uint32_t cost)
{
    bool allowed;

    door_check(server.c, door, key, shape, now_us, cost, &allowed);
    return allowed;
}

/* Old counts do not reach into the next window. */
static void test_b43_whole_second_ttl_leaks_counts_into_the_next_window(void **state)
{
    struct sl_shape shape = world_shape(SL_FIXED_WINDOW, "5/m", 0);

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        for (int i = 0; i < 5; i++)
            assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + 58 * SECOND + SECOND * 7 / 10, 1));
        assert_false(allowed_at((enum door)door, "{k}", &shape, NOON + 59 * SECOND, 1));
        for (int i = 0; i < 5; i++)
            assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + MINUTE + SECOND / 10, 1));
        assert_false(allowed_at((enum door)door, "{k}", &shape, NOON + MINUTE + SECOND / 10, 1));
    }
}

/* On the store's own clock, at every edge: the old window with its old end, or a count of one with a new end. */
static void test_b45_counter_survives_while_its_window_is_renewed(void **state)
{
    struct sl_shape shape = world_shape(SL_FIXED_WINDOW, "1000000/2ms", 0);
    struct subject s = subject_of("{k}", &shape);
    struct sl_state last = {0};
    unsigned renewed = 0;
    uint32_t cost = 1;

    (void)state;
    afresh();
    for (int i = 0; i < 10000; i++) {
        struct sl_decision d;

        assert_true(door_decide(server.c, (enum door)(i % DOORS), &s, 0, &cost, &d));
        if (sl_state_whole_us(d.after) == sl_state_whole_us(last)) {
            assert_int_equal(d.after.hi, last.hi + 1);
        } else {
            assert_int_equal(d.after.hi, 1);
            assert_true(sl_state_whole_us(d.after) > d.now_us);
            renewed++;
        }
        last = d.after;
    }
    assert_true(renewed > 10);
}

/* One reading decides, names the window and sets the time to live. */
static void test_b47_two_clock_reads_straddle_a_boundary(void **state)
{
    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        for (size_t a = 0; a < N_ALL; a++) {
            struct sl_shape shape = world_shape(all[a], "10000/366d", 0);
            struct subject s = subject_of("{k}", &shape);

            redis_run(server.c, "DEL {k}");
            for (uint32_t i = 0; i < 50; i++) {
                struct sl_decision d;
                uint32_t cost = 1 + i % 3;
                long long expires;

                assert_true(door_decide(server.c, (enum door)door, &s, 0, &cost, &d));
                expires = redis_integer(server.c, "PEXPIRETIME {k}");
                if (all[a] == SL_SLIDING_WINDOW_LOG)
                    assert_int_equal(expires, (d.now_us + shape.period_us + 999) / 1000);
                else
                    assert_int_equal(expires, sl_value_expires_ms(all[a], d.after));
                if (all[a] == SL_FIXED_WINDOW)
                    assert_int_equal(sl_state_whole_us(d.after),
                                     d.now_us - d.now_us % shape.period_us + shape.period_us);
            }
        }
    }
}

static void put_state(const struct sl_shape *shape, struct sl_state s)
{
    uint8_t bytes[SL_VALUE_MAX];
    size_t len;

    s.lo |= (uint64_t)shape->version << SL_STATE_VERSION_SHIFT;
    len = sl_value_write((enum sl_algorithm)shape->algorithm, s, bytes);
    redis_run(server.c, "SET {k} %b", bytes, len);
}

/* A value without a time to live, over its limit and from the future: one rejected request heals it. */
static void test_b48_key_without_expiry_blocks_for_ever(void **state)
{
    static const enum sl_algorithm algorithms[] = {SL_TOKEN_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_COUNTER};
    const uint64_t day = 86400 * SECOND;

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        for (size_t a = 0; a < 3; a++) {
            struct sl_shape shape = world_shape(algorithms[a], "5/m", 0);
            bool bucket = algorithms[a] == SL_TOKEN_BUCKET;
            long long ttl;

            afresh();
            put_state(&shape, (struct sl_state){.lo = NOON + day, .hi = bucket ? 0 : 10});
            assert_false(allowed_at((enum door)door, "{k}", &shape, NOON, 1));
            ttl = redis_integer(server.c, "PTTL {k}") - HOUR_MS;
            assert_in_range(ttl + 1000, 1000, 121000);
            assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + (bucket ? MINUTE : 2 * MINUTE), 1));

            /* in range, only its time to live lost: a rejection gives it back without touching the value */
            afresh();
            put_state(&shape, (struct sl_state){.lo = NOON + (a == 2 ? 2 : 1) * MINUTE, .hi = bucket ? 0 : 10});
            assert_int_equal(redis_integer(server.c, "PTTL {k}"), -1);
            assert_false(allowed_at((enum door)door, "{k}", &shape, NOON, 1));
            ttl = redis_integer(server.c, "PTTL {k}") - HOUR_MS;
            assert_in_range(ttl, 1, 120000);
        }
    }
}

static void test_b48_log_without_expiry_heals(void **state)
{
    struct sl_shape shape = world_shape(SL_SLIDING_WINDOW_LOG, "2/m", 0);

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + 86400 * SECOND, 2));
        redis_run(server.c, "PERSIST {k}");
        /* the clock came back: both count as of now, and are gone a minute later */
        assert_false(allowed_at((enum door)door, "{k}", &shape, NOON, 1));
        assert_in_range(redis_integer(server.c, "PTTL {k}"), HOUR_MS + 1, HOUR_MS + 60000);
        assert_false(allowed_at((enum door)door, "{k}", &shape, NOON + MINUTE - 1, 1));
        redis_run(server.c, "PERSIST {k}");
        assert_false(allowed_at((enum door)door, "{k}", &shape, NOON + MINUTE - 1, 1));
        assert_in_range(redis_integer(server.c, "PTTL {k}"), HOUR_MS - 10000, HOUR_MS + 1);
        assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + MINUTE, 1));
    }
}

/* Milliseconds are milliseconds, also when the key was deleted in between. */
static void test_b50_milliseconds_where_seconds_are_wanted(void **state)
{
    (void)state;
    for (int door = 0; door < DOORS; door++) {
        for (size_t a = 0; a < N_ALL; a++) {
            struct sl_shape shape = world_shape(all[a], "60/m", 0);
            bool sliding = all[a] == SL_SLIDING_WINDOW_COUNTER || all[a] == SL_SLIDING_WINDOW_LOG;

            afresh();
            for (int i = 0; i < 3; i++) {
                long long ttl = -2;

                for (int tries = 0; tries < 3 && ttl == -2; tries++) { /* -2: the window has just ended */
                    assert_true(allowed_at((enum door)door, "{k}", &shape, 0, 20));
                    ttl = redis_integer(server.c, "PTTL {k}");
                }
                assert_in_range(ttl, 1, sliding ? 120000 : 60000);
                redis_run(server.c, "DEL {k}");
            }
        }
    }
}

static void test_b52_every_hit_renews_the_ttl(void **state)
{
    struct sl_shape shape = world_shape(SL_FIXED_WINDOW, "5/m", 0);

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        for (unsigned i = 0; i < 60; i++)
            assert_int_equal(allowed_at((enum door)door, "{k}", &shape, NOON + i * 10 * SECOND, 1), i % 6 != 5);
    }
}

static void test_b53_sub_second_window_yields_an_invalid_expire(void **state)
{
    struct sl_shape shape = world_shape(SL_FIXED_WINDOW, "10/200ms", 0),
                    tiny = world_shape(SL_FIXED_WINDOW, "10/ms", 0);
    bool allowed;

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        for (int i = 0; i < 10; i++)
            assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + 199000, 1));
        assert_int_equal(
            door_check(server.c, (enum door)door, "{k}", &shape, NOON + 199000, 1, &allowed).retry_after_ms, 1);
        assert_false(allowed);
        assert_in_range(redis_integer(server.c, "PTTL {k}"), HOUR_MS - 60000, HOUR_MS + 200);
        for (int i = 0; i < 500; i++) {
            long long ttl;

            assert_true(allowed_at((enum door)door, "{real}", i % 2 ? &shape : &tiny, 0, 1));
            ttl = redis_integer(server.c, "PTTL {real}");
            assert_true(ttl == -2 || (ttl >= 0 && ttl <= 200));
            redis_run(server.c, "DEL {real}");
        }
    }
}

/* Every algorithm, every operation. */
static void test_b55_release_drops_the_ttl_on_one_algorithm(void **state)
{
    (void)state;
    for (int door = 0; door < DOORS; door++) {
        for (size_t a = 0; a < N_ALL; a++) {
            struct sl_shape shape = world_shape(all[a], "10/m", 0);
            struct subject s = subject_of("{k}", &shape);
            struct sl_decision d[2];
            const uint32_t costs[] = {0, 3, 4, 9, 0};

            afresh();
            for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
                bool allowed = door_decide(server.c, (enum door)door, &s, NOON, &costs[i], &d[i == 1]);

                assert_int_equal(allowed, costs[i] != 9);
                assert_int_equal(redis_integer(server.c, "EXISTS {k}"), i > 0);
                if (i > 0)
                    assert_in_range(redis_integer(server.c, "PTTL {k}"), 1, HOUR_MS + 120000);
            }
            assert_int_equal(door_refund(server.c, (enum door)door, &s, NOON + SECOND, &d[1]), 1);
            assert_in_range(redis_integer(server.c, "PTTL {k}"), 1, HOUR_MS + 120000);
        }
    }
}

/* The store forgot the script: an error with its own name that charged nothing, so that
 * sending it all again is safe. */
static void test_b112_noscript_after_a_restart(void **state)
{
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "2/h", 0);
    struct subject s = subject_of("{k}", &shape);
    uint32_t cost = 1;
    uint8_t buf[256];
    struct sl_ask ask;
    redisReply *reply;

    (void)state;
    afresh();
    assert_true(allowed_at(DOOR_SCRIPT, "{k}", &shape, NOON, 1));
    redis_run(server.c, "SCRIPT FLUSH");
    sl_ask_start_at(&ask, buf, sizeof buf, NOON);
    assert_int_equal(sl_ask_group(&ask, s.shapes, 1), 0);
    assert_int_equal(sl_ask_request(&ask, &cost), 0);
    reply = door_send(server.c, DOOR_SCRIPT, s.keys, 1, &ask);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_int_equal(strncmp(reply->str, "NOSCRIPT", 8), 0);
    freeReplyObject(reply);
    door_open(server.c);
    assert_true(allowed_at(DOOR_SCRIPT, "{k}", &shape, NOON, 1));
    assert_false(allowed_at(DOOR_SCRIPT, "{k}", &shape, NOON, 1));
}

/* A user that may touch only the keys it names can run everything. */
static void test_b117_key_built_inside_the_script(void **state)
{
    redisContext *c = redis_connect(&server);

    (void)state;
    afresh();
    redis_run(server.c, "ACL SETUSER narrow reset on >word ~{k}:only* +@all");
    redis_run(c, "AUTH narrow word");
    for (int door = 0; door < DOORS; door++) {
        for (size_t a = 0; a < N_ALL; a++) {
            struct sl_shape shape = world_shape(all[a], "2/m", 0);
            struct subject s = {.n = 2, .keys = {"{k}:only1", "{k}:only2"}, .shapes = {&shape, &shape}};
            struct subject other = {.n = 1, .keys = {"{k}:other"}, .shapes = {&shape}};
            uint32_t costs[2] = {1, 2};
            struct sl_decision d[2];
            redisReply *reply;
            uint8_t buf[256];
            struct sl_ask ask;

            redis_run(server.c, "FLUSHALL");
            assert_true(door_decide(c, (enum door)door, &s, NOON, costs, d));
            assert_false(door_decide(c, (enum door)door, &s, NOON, costs, d + 0));
            assert_int_equal(redis_integer(server.c, "DBSIZE"), 2);
            sl_ask_start_at(&ask, buf, sizeof buf, NOON);
            assert_int_equal(sl_ask_group(&ask, other.shapes, 1), 0);
            assert_int_equal(sl_ask_request(&ask, costs), 0);
            reply = door_send(c, (enum door)door, other.keys, 1, &ask);
            assert_int_equal(reply->type, REDIS_REPLY_ERROR);
            freeReplyObject(reply);
        }
    }
    redisFree(c);
}

static void test_b122_fraction_lost_when_lua_returns_a_number(void **state)
{
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "1/s", 0);
    bool allowed;

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        assert_true(allowed_at((enum door)door, "{k}", &shape, NOON, 1));
        assert_int_equal(
            door_check(server.c, (enum door)door, "{k}", &shape, NOON + 600000, 1, &allowed).retry_after_ms, 400);
        assert_false(allowed);
    }
}

/* Times and totals near 2^53 keep their last digit: the latest clock with the longest debt, and a log whose running
 * total wraps. */
static void test_b123_counters_above_2_53_lose_digits(void **state)
{
    const uint64_t late = SL_STORE_TIME_MAX_US;
    struct sl_shape century = world_shape(SL_TOKEN_BUCKET, "1/366d", 99),
                    log = world_shape(SL_SLIDING_WINDOW_LOG, "10/m", 0);
    uint8_t member[SL_LOG_MEMBER_LEN] = {0x83, 0x0f, 0xff, 0xff, 0xff, 0xff,
                                         0xff, 0xff, 0,    0,    0,    4}; /* total 2^52 - 1 */

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        struct subject s = subject_of("{k}", &century);
        uint32_t costs = 98, one = 1;
        struct sl_decision d;

        afresh();
        assert_true(door_decide(server.c, (enum door)door, &s, late - 1, &costs, &d));
        assert_int_equal(sl_state_whole_us(d.after), late - 1 + 98 * century.token_us);
        assert_true(door_decide(server.c, (enum door)door, &s, late, &one, &d));
        assert_int_equal(sl_state_whole_us(d.before), late - 1 + 98 * century.token_us);
        assert_false(door_decide(server.c, (enum door)door, &s, late, &one, &d));
        assert_int_equal(sl_state_whole_us(d.after), late - 1 + 99 * century.token_us);

        redis_run(server.c, "ZADD {log} %llu %b", (unsigned long long)NOON, member, sizeof member);
        assert_true(allowed_at((enum door)door, "{log}", &log, NOON + 1, 5));
        assert_false(allowed_at((enum door)door, "{log}", &log, NOON + 2, 2));
        assert_true(allowed_at((enum door)door, "{log}", &log, NOON + 3, 1));
        assert_false(allowed_at((enum door)door, "{log}", &log, NOON + 4, 1));
        assert_true(allowed_at((enum door)door, "{log}", &log, NOON + MINUTE, 4));
        assert_false(allowed_at((enum door)door, "{log}", &log, NOON + MINUTE, 1));
    }
}

/* A full store says so, in one way, and charges nothing; with room again everything goes on. */
static void test_b124_redis_full(void **state)
{
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "10/m", 0);
    struct subject s = subject_of("{k}", &shape);
    uint32_t cost = 1;
    uint8_t buf[256];
    struct sl_ask ask;

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        struct sl_decision d;
        redisReply *reply;

        afresh();
        assert_true(door_decide(server.c, (enum door)door, &s, NOON, &cost, &d));
        redis_run(server.c, "CONFIG SET maxmemory 1");
        sl_ask_start_at(&ask, buf, sizeof buf, NOON);
        assert_int_equal(sl_ask_group(&ask, s.shapes, 1), 0);
        assert_int_equal(sl_ask_request(&ask, &cost), 0);
        reply = door_send(server.c, (enum door)door, s.keys, 1, &ask);
        redis_run(server.c, "CONFIG SET maxmemory 0");
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        assert_non_null(strstr(reply->str, "OOM"));
        freeReplyObject(reply);
        assert_int_equal(door_check(server.c, (enum door)door, "{k}", &shape, NOON, 0, &(bool){0}).remaining, 9);
    }
}

/* Another limiter's data under our key: an error, whatever it is, and not one byte of it or of the other buckets
 * changes. */
static void foreign_values_are_errors_and_stay_untouched(void **state)
{
    static const char *const commands[] = {
        "SET {k}:1 105",    "SET {k}:1 0123456789ab", "HSET {k}:1 tokens 5 time 7", "ZADD {k}:1 1 a 2 b",
        "LPUSH {k}:1 a",    "SADD {k}:1 a",           "SET {k}:1 0123456789abcdef", "XADD {k}:1 * a b",
        "SETBIT {k}:1 7 1",
    };

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
            for (size_t a = 0; a < N_ALL; a++) {
                struct sl_shape mine = world_shape(all[a], "9/h", 0), other = world_shape(SL_TOKEN_BUCKET, "9/h", 0);
                struct subject s = {.n = 2, .keys = {"{k}:0", "{k}:1"}, .shapes = {&other, &mine}};
                struct sl_decision charges[2] = {{.allowed = true, .cost = 1, .now_us = NOON},
                                                 {.allowed = true, .cost = 1, .now_us = NOON}};
                redisReply *before, *after;

                afresh();
                redis_run(server.c, commands[i]);
                before = redis_do(server.c, "DUMP {k}:1");
                assert_true(door_is_foreign(server.c, (enum door)door, &s, NOON, 1));
                assert_true(door_is_foreign(server.c, (enum door)door, &s, NOON, 0));
                assert_int_equal(door_refund(server.c, (enum door)door, &s, NOON, charges), 0);
                after = redis_do(server.c, "DUMP {k}:1");
                assert_int_equal(before->len, after->len);
                assert_memory_equal(before->str, after->str, before->len);
                assert_int_equal(redis_integer(server.c, "EXISTS {k}:0"), 0);
                assert_int_equal(redis_integer(server.c, "PTTL {k}:1"), -1);
                freeReplyObject(before);
                freeReplyObject(after);
            }
        }
    }
}

/* Two layers of one key: the one that rejects spares the other. */
static void a_request_is_charged_on_all_its_buckets_or_on_none(void **state)
{
    struct sl_shape narrow = world_shape(SL_FIXED_WINDOW, "3/m", 0), wide = world_shape(SL_TOKEN_BUCKET, "100/h", 0);
    struct subject s = {.n = 2, .keys = {"{k}:wide", "{k}:narrow"}, .shapes = {&wide, &narrow}};
    uint32_t costs[2] = {1, 1};
    struct sl_decision d[2];

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        afresh();
        for (int i = 0; i < 10; i++) {
            assert_int_equal(door_decide(server.c, (enum door)door, &s, NOON, costs, d), i < 3);
            assert_true(d[0].allowed); /* had room itself, whatever the other said */
            assert_int_equal(sl_decision_remaining(&wide, &d[0]), i < 3 ? 99 - i : 97);
        }
    }
}

/* A token bucket takes at most 120 bytes with its key, whoever wrote it last. */
static void a_token_bucket_takes_at_most_120_bytes(void **state)
{
    char key[SL_STORE_KEY_MAX + 1];
    struct sl_shape shape = world_shape(SL_TOKEN_BUCKET, "999999937/366d", 0);

    (void)state;
    for (size_t ns_len = 1; ns_len <= 23; ns_len++) {
        size_t len = sl_store_key(key, "abcdefghijklmnopqrstuvwxyz", ns_len, (struct sl_hash128){7, 9}, UINT64_MAX);

        key[len] = '\0';
        for (int i = 0; i < 4; i++) {
            assert_true(allowed_at((enum door)(i % DOORS), key, &shape, 0, 1));
            assert_in_range(redis_integer(server.c, "MEMORY USAGE %s", key), 1, 120);
        }
    }
}

static void rejections_and_peeks_write_nothing(void **state)
{
    (void)state;
    for (int door = 0; door < DOORS; door++) {
        for (size_t a = 0; a < N_ALL; a++) {
            struct sl_shape shape = world_shape(all[a], "5/h", 0);
            long long dirty;
            redisReply *info;

            afresh();
            assert_true(allowed_at((enum door)door, "{k}", &shape, NOON, 5));
            info = redis_do(server.c, "INFO persistence");
            dirty = strtoll(strstr(info->str, "rdb_changes_since_last_save:") + 28, NULL, 10);
            freeReplyObject(info);
            for (int i = 0; i < 20; i++) {
                assert_false(allowed_at((enum door)door, "{k}", &shape, NOON + (uint64_t)i, 1 + (uint32_t)i));
                assert_true(allowed_at((enum door)door, "{k}", &shape, NOON + (uint64_t)i, 0));
                assert_true(allowed_at((enum door)door, "{none}", &shape, NOON + (uint64_t)i, 0));
                assert_false(allowed_at((enum door)door, "{none}", &shape, NOON + (uint64_t)i, 6));
            }
            info = redis_do(server.c, "INFO persistence");
            assert_int_equal(strtoll(strstr(info->str, "rdb_changes_since_last_save:") + 28, NULL, 10), dirty);
            freeReplyObject(info);
            assert_int_equal(redis_integer(server.c, "DBSIZE"), 1);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    server = redis_start(NULL);
    door_open(server.c);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b43_whole_second_ttl_leaks_counts_into_the_next_window),
        cmocka_unit_test(test_b45_counter_survives_while_its_window_is_renewed),
        cmocka_unit_test(test_b47_two_clock_reads_straddle_a_boundary),
        cmocka_unit_test(test_b48_key_without_expiry_blocks_for_ever),
        cmocka_unit_test(test_b48_log_without_expiry_heals),
        cmocka_unit_test(test_b50_milliseconds_where_seconds_are_wanted),
        cmocka_unit_test(test_b52_every_hit_renews_the_ttl),
        cmocka_unit_test(test_b53_sub_second_window_yields_an_invalid_expire),
        cmocka_unit_test(test_b55_release_drops_the_ttl_on_one_algorithm),
        cmocka_unit_test(test_b112_noscript_after_a_restart),
        cmocka_unit_test(test_b117_key_built_inside_the_script),
        cmocka_unit_test(test_b122_fraction_lost_when_lua_returns_a_number),
        cmocka_unit_test(test_b123_counters_above_2_53_lose_digits),
        cmocka_unit_test(test_b124_redis_full),
        cmocka_unit_test(foreign_values_are_errors_and_stay_untouched),
        cmocka_unit_test(a_request_is_charged_on_all_its_buckets_or_on_none),
        cmocka_unit_test(a_token_bucket_takes_at_most_120_bytes),
        cmocka_unit_test(rejections_and_peeks_write_nothing),
    };

    return cmocka_run_group_tests_name("store faults", tests, set_up, tear_down);
}
