/* The module as a citizen of Redis: replication, the append-only file, its command table, and what it refuses. */
#include "door.h"
#include "redis.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define KEYS 40
#define NOW_US UINT64_C(1754049600000000)

static struct redis primary, replica;
static struct sl_shape shapes[KEYS];
static char keys[KEYS][24];

static void random_traffic(uint64_t *seed, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned k = (unsigned)world_below(seed, KEYS);
        struct subject s = subject_of(keys[k], &shapes[k]);
        enum door door = (enum door)world_below(seed, DOORS);
        uint32_t cost = (uint32_t)world_below(seed, 4);
        struct sl_decision d;

        if (door_decide(primary.c, door, &s, 0, &cost, &d) && world_below(seed, 8) == 0 && cost)
            door_refund(primary.c, door, &s, 0, &d);
        if (world_below(seed, 50) == 0)
            redis_run(primary.c, "PERSIST %s", keys[k]);
    }
}

static bool same_everywhere(const char *key)
{
    redisReply *here = redis_do(primary.c, "DUMP %s", key), *there = redis_do(replica.c, "DUMP %s", key);
    bool same = here->type == there->type && here->len == there->len &&
                (here->len == 0 || memcmp(here->str, there->str, (size_t)here->len) == 0);

    freeReplyObject(here);
    freeReplyObject(there);
    return same && redis_integer(primary.c, "PEXPIRETIME %s", key) == redis_integer(replica.c, "PEXPIRETIME %s", key);
}

/* A replica that has no module holds the same bytes, with the same expiry. */
static void a_replica_without_the_module_holds_the_same(void **state)
{
    uint64_t seed = world_seed();
    unsigned n_keys = 0;

    (void)state;
    redis_run(replica.c, "REPLICAOF 127.0.0.1 %d", primary.port);
    random_traffic(&seed, 200); /* some of it while the replica is still being filled */
    for (int i = 0; i < 2000 && redis_integer(primary.c, "WAIT 1 10") < 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    random_traffic(&seed, 3000);
    assert_int_equal(redis_integer(primary.c, "WAIT 1 20000"), 1);
    for (int k = 0; k < KEYS; k++) {
        int looks = 0;

        while (!same_everywhere(keys[k]) && looks < 3)
            looks++; /* a key may expire between two looks; it is then gone from both */
        if (looks == 3)
            fail_msg("%s of %s differs", sl_algorithm_name((enum sl_algorithm)shapes[k].algorithm), keys[k]);
        n_keys += redis_integer(primary.c, "EXISTS %s", keys[k]) == 1;
    }
    assert_true(n_keys > KEYS / 2);
    redis_run(replica.c, "REPLICAOF NO ONE");
}

static void the_append_only_file_rebuilds_the_same(void **state)
{
    uint64_t seed = world_seed();
    redisReply *before, *after;

    (void)state;
    redis_run(primary.c, "DEBUG SET-ACTIVE-EXPIRE 0"); /* or keys would expire between the two digests */
    random_traffic(&seed, 2000);
    before = redis_do(primary.c, "DEBUG DIGEST");
    redis_run(primary.c, "DEBUG LOADAOF");
    after = redis_do(primary.c, "DEBUG DIGEST");
    assert_string_equal(before->str, after->str);
    assert_string_not_equal(before->str, "0000000000000000000000000000000000000000");
    freeReplyObject(before);
    freeReplyObject(after);
    redis_run(primary.c, "DEBUG SET-ACTIVE-EXPIRE 1");
    door_open(primary.c);
}

static void commands_tell_their_keys(void **state)
{
    redisReply *reply = redis_do(primary.c, "COMMAND GETKEYS SLUICE.DECIDE 2 {a}1 {a}2 ask");

    (void)state;
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[0]->str, "{a}1");
    assert_string_equal(reply->element[1]->str, "{a}2");
    freeReplyObject(reply);
    assert_int_equal(redis_integer(primary.c, "SLUICE.WIRE"), SL_WIRE_VERSION);
}

static void refused(const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(primary.c, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ERROR)
        fail_msg("%s is not refused", format);
    freeReplyObject(reply);
}

static void malformed_calls_are_refused(void **state)
{
    uint8_t buf[256];
    struct sl_ask ask;
    const struct sl_shape *shape = &shapes[0];
    uint32_t cost = 1;
    uint64_t seed = world_seed();
    long long keys_before = redis_integer(primary.c, "DBSIZE");

    (void)state;
    sl_ask_start_at(&ask, buf, sizeof buf, NOW_US);
    assert_int_equal(sl_ask_group(&ask, &shape, 1), 0);
    assert_int_equal(sl_ask_request(&ask, &cost), 0);
    refused("SLUICE.DECIDE");
    refused("SLUICE.DECIDE 1 {new}");
    refused("SLUICE.DECIDE 0 %b", buf, ask.len);
    refused("SLUICE.DECIDE 1 {new} %b", buf, (size_t)0);
    refused("SLUICE.DECIDE 2 {new} %b", buf, ask.len);
    refused("SLUICE.DECIDE x {new} %b", buf, ask.len);
    refused("SLUICE.DECIDE -1 {new} %b", buf, ask.len);
    refused("SLUICE.DECIDE 2 {new} {new}2 %b", buf, ask.len);
    refused("SLUICE.WIRE 1");
    for (size_t len = 0; len < ask.len; len++) {
        if (len != SL_ASK_HEADER_MAX)
            refused("SLUICE.DECIDE 1 {new} %b", buf, len);
    }
    for (int i = 0; i < 20000; i++) {
        uint8_t bad[sizeof buf];
        redisReply *reply;

        memcpy(bad, buf, ask.len);
        for (uint64_t n = 1 + world_below(&seed, 3); n; n--)
            bad[world_below(&seed, ask.len)] = (uint8_t)world_random(&seed);
        reply = redisCommand(primary.c, "SLUICE.DECIDE 1 {new} %b", bad, ask.len);
        assert_non_null(reply); /* still there */
        freeReplyObject(reply);
    }
    redis_run(primary.c, "DEL {new}");
    assert_true(redis_integer(primary.c, "DBSIZE") <= keys_before);
}

/* The script refuses what it does not know, too. */
static void the_script_refuses_another_wire_version(void **state)
{
    uint8_t buf[SL_ASK_HEADER_MAX] = {0};
    struct sl_ask ask;
    redisReply *reply;
    const char *key = "{new}";

    (void)state;
    sl_ask_start_at(&ask, buf, sizeof buf, NOW_US);
    buf[0] = SL_WIRE_VERSION + 1;
    reply = door_send(primary.c, DOOR_SCRIPT, &key, 1, &ask);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "sluice"));
    freeReplyObject(reply);
    sl_ask_start_at(&ask, buf, sizeof buf, SL_STORE_TIME_MAX_US + 1);
    for (int door = 0; door < DOORS; door++) {
        reply = door_send(primary.c, (enum door)door, &key, 1, &ask);
        assert_int_equal(reply->type, REDIS_REPLY_ERROR);
        freeReplyObject(reply);
    }
}

static void it_loads_once_and_takes_no_arguments(void **state)
{
    (void)state;
    refused("MODULE LOAD %s", SLUICE_REDIS_MODULE);
    redis_run(primary.c, "MODULE UNLOAD sluice");
    refused("MODULE LOAD %s 1", SLUICE_REDIS_MODULE);
    refused("SLUICE.WIRE");
    redis_run(primary.c, "MODULE LOAD %s", SLUICE_REDIS_MODULE);
    assert_int_equal(redis_integer(primary.c, "SLUICE.WIRE"), SL_WIRE_VERSION);
}

static int set_up(void **state)
{
    static const char *const options[] = {"--appendonly",
                                          "yes",
                                          "--appendfsync",
                                          "no",
                                          "--enable-module-command",
                                          "yes",
                                          "--repl-diskless-sync-delay",
                                          "0",
                                          NULL};
    static const char *const rates[] = {"3/h", "100/m", "1000000/d", "7/s", "2/250ms"};

    (void)state;
    primary = redis_start(options);
    replica = redis_start_bare(NULL);
    door_open(primary.c);
    for (unsigned k = 0; k < KEYS; k++) {
        enum sl_algorithm algorithm = (enum sl_algorithm)(k % SL_ALGORITHMS);
        const char *rate = rates[(k / SL_ALGORITHMS) % 5];

        if (algorithm == SL_SLIDING_WINDOW_LOG && strcmp(rate, "1000000/d") == 0)
            rate = "50/d";
        shapes[k] = world_shape(algorithm, rate, 0);
        snprintf(keys[k], sizeof keys[k], "{%u}:k", k);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&primary);
    redis_stop(&replica);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_without_the_module_holds_the_same),
        cmocka_unit_test(the_append_only_file_rebuilds_the_same),
        cmocka_unit_test(commands_tell_their_keys),
        cmocka_unit_test(malformed_calls_are_refused),
        cmocka_unit_test(the_script_refuses_another_wire_version),
        cmocka_unit_test(it_loads_once_and_takes_no_arguments),
    };

    return cmocka_run_group_tests_name("store module", tests, set_up, tear_down);
}
