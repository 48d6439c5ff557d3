/* Heartbeats and the fleet's secret, against a real redis-server: who joins, leaves, falls silent; a store that loses
 * everything, goes away, is full, or holds something else under our names. */
#include "../store/rig.h"
#include "base/err.h"
#include "fleet/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define INSTANCES "test:{fleet}:instances"
#define SECRET "test:{fleet}:secret"

struct party {
    struct sl_members *members;
    struct sl_secret secret;
    unsigned heard, changes, odds;
    unsigned count;
    bool left;
    char odd[512];
    /* what is waited for */
    unsigned want_count, want_heard, want_odds;
};

static struct rig rig;
static struct server server;

static void on_heard(void *owner, unsigned count, const struct sl_secret *secret, bool changed)
{
    struct party *party = owner;

    party->heard++;
    party->changes += changed;
    party->count = count;
    party->secret = *secret;
}

static void on_odd(void *owner, const char *text)
{
    struct party *party = owner;

    party->odds++;
    snprintf(party->odd, sizeof party->odd, "%s", text);
}

static void on_left(void *owner)
{
    struct party *party = owner;

    assert_false(party->left);
    party->left = true;
}

static struct sl_members_config config_of(struct party *party, uint64_t id)
{
    return (struct sl_members_config){.net = &rig.net.net,
                                      .alloc = &rig.alloc,
                                      .client = rig.client,
                                      .ns = "test",
                                      .id = id,
                                      .heard = on_heard,
                                      .odd = on_odd,
                                      .owner = party};
}

static void join_knowing(struct party *party, uint64_t id, const struct sl_secret *secret)
{
    struct sl_members_config config = config_of(party, id);

    *party = (struct party){.members = NULL};
    config.secret = secret;
    assert_int_equal(sl_members_new(&config, &party->members), 0);
}

static void join(struct party *party, uint64_t id)
{
    join_knowing(party, id, NULL);
}

static bool has_count(void *ctx)
{
    const struct party *party = ctx;

    return party->count == party->want_count;
}

static void wait_count(struct party *party, unsigned count)
{
    party->want_count = count;
    if (!rig_wait_until(&rig, has_count, party))
        fail_msg("counted %u instead of %u after %u beats", party->count, count, party->heard);
}

static bool has_heard(void *ctx)
{
    const struct party *party = ctx;

    return party->heard >= party->want_heard;
}

/* Whole beats begun from now on: the one that may be on its way does not count. */
static void wait_beats(struct party *party, unsigned beats)
{
    party->want_heard = party->heard + beats + 1;
    assert_true(rig_wait_until(&rig, has_heard, party));
}

static bool has_odds(void *ctx)
{
    const struct party *party = ctx;

    return party->odds >= party->want_odds;
}

static void wait_odds(struct party *party, unsigned odds)
{
    party->want_odds = odds;
    assert_true(rig_wait_until(&rig, has_odds, party));
}

static bool same_secret(const struct party *a, const struct party *b)
{
    return a->secret.k0 == b->secret.k0 && a->secret.k1 == b->secret.k1;
}

static struct answer ask(const char *const *words)
{
    return rig_command(&rig, words[1], words);
}

static int64_t integer(const char *const *words)
{
    struct answer answer = ask(words);

    assert_int_equal(answer.result, SL_RESULT_OK);
    return answer.integer;
}

static void open_at_socket(const char *path)
{
    char address[192];

    snprintf(address, sizeof address, "redis+unix://%s", path);
    rig_init(&rig, address);
}

static void open_at_server(void)
{
    char path[96];

    snprintf(path, sizeof path, "%s/socket", server.folder);
    open_at_socket(path);
    rig_open(&rig);
}

static const char *puppet_path(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/sluice-members-%d", (int)getpid());
    return path;
}

static void set_up(void)
{
    server_start(&server, NULL);
    open_at_server();
}

static void tear_down(void)
{
    rig_close(&rig);
    server_remove(&server);
}

/* ---- joining and going */

static void test_first_one_makes_the_secret(void **state)
{
    struct party a;
    struct answer answer;
    char text[SL_MEMBERS_SECRET_LEN + 1];
    struct sl_members_stats stats;

    (void)state;
    set_up();
    join(&a, 1);
    wait_count(&a, 1);
    assert_int_equal(a.changes, 1);
    assert_int_equal(a.odds, 0);
    sl_members_write_secret(&a.secret, text);
    answer = ask(WORDS("GET", SECRET));
    assert_string_equal(answer.text, text);
    assert_int_equal(integer(WORDS("PTTL", SECRET)), -1);
    assert_in_range(integer(WORDS("PTTL", INSTANCES)), 1, SL_MEMBERS_SILENT_US / 1000);
    assert_string_equal(ask(WORDS("ZSCORE", INSTANCES, "0000000000000002")).text, "");
    assert_true(strlen(ask(WORDS("ZSCORE", INSTANCES, "0000000000000001")).text) > 0);
    sl_members_stats(a.members, &stats);
    assert_int_equal(stats.beats, a.heard);
    assert_int_equal(stats.foreign, 0);
    assert_true(stats.store_us > UINT64_C(1700000000000000));
    sl_members_free(a.members);
    tear_down();
}

static void test_those_who_join_agree_on_count_and_secret(void **state)
{
    struct party parties[4];

    (void)state;
    set_up();
    for (unsigned i = 0; i < 4; i++)
        join(&parties[i], 100 + i);
    for (unsigned i = 0; i < 4; i++) {
        wait_count(&parties[i], 4);
        assert_true(same_secret(&parties[i], &parties[0]));
        assert_int_equal(parties[i].changes, 1);
        assert_int_equal(parties[i].odds, 0);
    }
    for (unsigned i = 0; i < 4; i++)
        sl_members_free(parties[i].members);
    tear_down();
}

static void test_who_leaves_is_gone_at_once_and_hears_nothing(void **state)
{
    struct party stays, leaves;
    unsigned heard;

    (void)state;
    set_up();
    join(&stays, 1);
    join(&leaves, 2);
    wait_count(&stays, 2);
    wait_count(&leaves, 2);
    heard = leaves.heard;
    sl_members_leave(leaves.members, on_left, &leaves);
    assert_false(leaves.left); /* never from inside */
    assert_true(rig_wait(&rig, &leaves.left));
    assert_string_equal(ask(WORDS("ZSCORE", INSTANCES, "0000000000000002")).text, "");
    sl_members_free(leaves.members);
    wait_beats(&stays, 1);
    assert_int_equal(stays.count, 1);
    assert_int_equal(leaves.heard, heard);
    sl_members_free(stays.members);
    tear_down();
}

static void test_who_crashes_is_missed_after_the_silence(void **state)
{
    struct party stays, dies;

    (void)state;
    set_up();
    join(&stays, 1);
    join(&dies, 2);
    wait_count(&stays, 2);
    sl_members_free(dies.members);
    wait_beats(&stays, 1);
    assert_int_equal(stays.count, 2); /* still within the silence */
    wait_count(&stays, 1);
    sl_members_free(stays.members);
    tear_down();
}

static void test_a_dead_fleet_leaves_its_secret_alone(void **state)
{
    struct party a, b;

    (void)state;
    set_up();
    join(&a, 1);
    join(&b, 2);
    wait_count(&a, 2);
    sl_members_free(a.members);
    sl_members_free(b.members);
    while (integer(WORDS("EXISTS", INSTANCES)))
        rig_run_ms(&rig, 50);
    assert_int_equal(integer(WORDS("DBSIZE")), 1);
    assert_int_equal(integer(WORDS("EXISTS", SECRET)), 1);
    tear_down();
}

static void test_who_is_freed_with_a_beat_on_its_way_hears_nothing(void **state)
{
    struct party a;

    (void)state;
    set_up();
    rig_until_ok(&rig, "k");
    join(&a, 1);
    server_signal(&server, SIGSTOP);
    rig_run_ms(&rig, 20); /* its first beat goes out */
    sl_members_free(a.members);
    server_signal(&server, SIGCONT);
    while (!integer(WORDS("EXISTS", INSTANCES))) /* the beat has arrived */
        rig_run_ms(&rig, 5);
    assert_int_equal(a.heard, 0);
    tear_down();
}

static void test_leaving_a_store_that_is_gone_ends_too(void **state)
{
    struct party a;

    (void)state;
    set_up();
    join(&a, 1);
    wait_count(&a, 1);
    server_kill(&server);
    sl_members_leave(a.members, on_left, &a);
    assert_true(rig_wait(&rig, &a.left));
    sl_members_free(a.members);
    tear_down();
}

/* ---- secrets */

static void test_a_known_secret_is_given_to_an_empty_store(void **state)
{
    struct sl_secret known = {.k0 = UINT64_C(0x0123456789abcdef), .k1 = 7};
    struct party a, b;

    (void)state;
    set_up();
    join_knowing(&a, 1, &known);
    wait_count(&a, 1);
    assert_int_equal(a.changes, 1);
    assert_int_equal(a.secret.k0, known.k0);
    assert_int_equal(a.secret.k1, known.k1);
    assert_string_equal(ask(WORDS("GET", SECRET)).text, "0123456789abcdef0000000000000007");
    join(&b, 2);
    wait_count(&b, 2);
    assert_true(same_secret(&a, &b));
    sl_members_free(a.members);
    sl_members_free(b.members);
    tear_down();
}

static void test_the_store_wins_over_a_known_secret(void **state)
{
    struct sl_secret known = {.k0 = 1, .k1 = 2};
    struct party a;

    (void)state;
    set_up();
    assert_int_equal(ask(WORDS("SET", SECRET, "00000000000000ff00000000000000fe")).result, SL_RESULT_OK);
    join_knowing(&a, 1, &known);
    wait_count(&a, 1);
    assert_int_equal(a.secret.k0, 0xff);
    assert_int_equal(a.secret.k1, 0xfe);
    /* ... and over one that was in force. */
    assert_int_equal(ask(WORDS("SET", SECRET, "00000000000000ff00000000000000fd")).result, SL_RESULT_OK);
    wait_beats(&a, 1);
    assert_int_equal(a.secret.k1, 0xfd);
    assert_int_equal(a.changes, 2);
    sl_members_free(a.members);
    tear_down();
}

static void test_a_lost_secret_is_put_back_by_those_who_know_it(void **state)
{
    struct party a, b;
    struct sl_secret before;
    char text[SL_MEMBERS_SECRET_LEN + 1];

    (void)state;
    set_up();
    join(&a, 1);
    join(&b, 2);
    wait_count(&a, 2);
    wait_count(&b, 2);
    before = a.secret;
    assert_int_equal(ask(WORDS("FLUSHALL")).result, SL_RESULT_OK);
    wait_beats(&a, 2);
    wait_beats(&b, 2);
    assert_int_equal(a.count, 2);
    assert_int_equal(b.count, 2);
    assert_int_equal(a.changes + b.changes, 2); /* each once, at the start */
    sl_members_write_secret(&before, text);
    assert_string_equal(ask(WORDS("GET", SECRET)).text, text);
    sl_members_free(a.members);
    sl_members_free(b.members);
    tear_down();
}

static void test_secrets_as_text(void **state)
{
    static const char *const wrong[] = {"",
                                        "0123456789abcdef0123456789abcde",
                                        "0123456789abcdef0123456789abcdef0",
                                        "0123456789ABCDEF0123456789abcdef",
                                        "0123456789abcdeg0123456789abcdef",
                                        " 123456789abcdef0123456789abcdef"};
    struct sl_secret secret = {.k0 = 3, .k1 = 4};
    char text[SL_MEMBERS_SECRET_LEN + 1];

    (void)state;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(sl_members_read_secret(wrong[i], strlen(wrong[i]), &secret), SL_EFORMAT);
    assert_int_equal(sl_members_read_secret("0123456789abcdef\000123456789abcde", 32, &secret), SL_EFORMAT);
    assert_int_equal(secret.k0, 3); /* untouched */
    assert_int_equal(sl_members_read_secret("fedcba9876543210ffffffffffffffff", 32, &secret), 0);
    assert_true(secret.k0 == UINT64_C(0xfedcba9876543210) && secret.k1 == UINT64_MAX);
    sl_members_write_secret(&secret, text);
    assert_string_equal(text, "fedcba9876543210ffffffffffffffff");
}

/* ---- a store in trouble */

static void test_count_and_secret_outlive_an_outage(void **state)
{
    struct party a, b;
    struct sl_secret before;
    struct sl_members_stats stats;
    unsigned heard;

    (void)state;
    set_up();
    join(&a, 1);
    join(&b, 2);
    wait_count(&a, 2);
    wait_count(&b, 2);
    before = a.secret;
    server_kill(&server);
    heard = a.heard;
    rig_run_ms(&rig, 2500);
    assert_int_equal(a.heard, heard);
    sl_members_stats(a.members, &stats);
    assert_in_range(stats.failed, 1, 4); /* one a beat, not more */
    assert_int_equal(a.odds, 0);         /* the client tells of connections */
    server_launch(&server);
    server_wait(&server);
    rig_until_ok(&rig, "k");
    wait_beats(&a, 2);
    wait_count(&a, 2);
    wait_count(&b, 2);
    assert_true(same_secret(&a, &b));
    assert_true(a.secret.k0 == before.k0 && a.secret.k1 == before.k1);
    assert_int_equal(a.changes + b.changes, 2);
    sl_members_free(a.members);
    sl_members_free(b.members);
    tear_down();
}

static void test_b181_a_store_that_comes_late_is_joined(void **state)
{
    struct party a;

    (void)state;
    set_up();
    rig_close(&rig);
    server_kill(&server);
    open_at_server();
    join(&a, 1);
    rig_run_ms(&rig, 300);
    assert_int_equal(a.heard, 0);
    server_launch(&server);
    server_wait(&server);
    wait_count(&a, 1);
    sl_members_free(a.members);
    tear_down();
}

static int answer_nothing(struct puppet *puppet, const char *command, char *reply, size_t size)
{
    (void)puppet;
    if (strstr(command, "EVAL"))
        return 0;
    return puppet_politely(command, reply, size);
}

static unsigned evals;

static int count_evals(struct puppet *puppet, const char *command, char *reply, size_t size)
{
    evals += strstr(command, "EVAL\r\n") != NULL;
    return answer_nothing(puppet, command, reply, size);
}

static void test_a_slow_store_gets_one_beat_at_a_time(void **state)
{
    struct puppet puppet = {.speak = count_evals};
    struct sl_members_config config;
    struct party a = {.members = NULL};

    (void)state;
    evals = 0;
    open_at_socket(puppet_path());
    puppet_start(&puppet, &rig, puppet_path());
    rig.config.stall_us = 60000000;
    rig_open(&rig);
    config = config_of(&a, 1);
    config.timeout_us = 30000000;
    assert_int_equal(sl_members_new(&config, &a.members), 0);
    rig_run_ms(&rig, 3500);
    assert_int_equal(evals, 1);
    assert_int_equal(a.heard, 0);
    sl_members_free(a.members);
    puppet_stop(&puppet);
    rig_close(&rig);
}

static int answer_garbage(struct puppet *puppet, const char *command, char *reply, size_t size)
{
    static const char *const garbage[] = {"*0\r\n", ":7\r\n", "$-1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n",
                                          "*2\r\n:1\r\n$1\r\nx\r\n"};
    const char *text = garbage[evals % 5];

    if (!strstr(command, "EVAL\r\n"))
        return puppet_politely(command, reply, size);
    (void)puppet;
    evals++;
    return snprintf(reply, size, "%s", text);
}

static void test_garbage_instead_of_an_answer_is_told_once(void **state)
{
    struct puppet puppet = {.speak = answer_garbage};
    struct sl_members_stats stats = {0};
    struct party a;

    (void)state;
    evals = 0;
    open_at_socket(puppet_path());
    puppet_start(&puppet, &rig, puppet_path());
    rig_open(&rig);
    join(&a, 1);
    for (unsigned i = 0; i < 600 && stats.foreign < 5; i++) {
        rig_run_ms(&rig, 50);
        sl_members_stats(a.members, &stats);
    }
    assert_int_equal(stats.foreign, 5);
    assert_int_equal(a.odds, 1);
    assert_int_equal(a.heard, 0);
    sl_members_free(a.members);
    puppet_stop(&puppet);
    rig_close(&rig);
}

static void test_b124_a_full_store_still_tells_the_secret(void **state)
{
    struct party a, b;

    (void)state;
    set_up();
    join(&a, 1);
    wait_count(&a, 1);
    assert_int_equal(ask(WORDS("CONFIG", "SET", "maxmemory", "1")).result, SL_RESULT_OK);
    join(&b, 2);
    wait_beats(&b, 1);
    assert_true(same_secret(&a, &b));
    assert_int_equal(ask(WORDS("CONFIG", "SET", "maxmemory", "0")).result, SL_RESULT_OK);
    wait_count(&b, 2);
    sl_members_free(a.members);
    sl_members_free(b.members);
    tear_down();
}

/* ---- foreign data under our names */

/* What stands there is told of once, stays as it is, and is no trouble any more when it is gone. */
static void check_foreign(const char *key, const char *const *create, const char *word)
{
    struct party a;
    struct answer before, after;
    struct sl_members_stats stats;

    set_up();
    assert_int_equal(ask(create).result, SL_RESULT_OK);
    before = ask(WORDS("DUMP", key));
    join(&a, 1);
    wait_odds(&a, 1);
    rig_run_ms(&rig, 2300);
    assert_int_equal(a.odds, 1);
    assert_non_null(strstr(a.odd, key));
    assert_non_null(strstr(a.odd, word));
    after = ask(WORDS("DUMP", key));
    assert_memory_equal(before.text, after.text, sizeof before.text);
    assert_int_equal(integer(WORDS("PTTL", key)), -1);
    sl_members_stats(a.members, &stats);
    assert_in_range(stats.foreign, 2, 5);
    assert_int_equal(integer(WORDS("DEL", key)), 1);
    wait_beats(&a, 1);
    assert_int_equal(a.count, 1);
    assert_int_equal(integer(WORDS("ZCARD", INSTANCES)), 1);
    sl_members_free(a.members);
    tear_down();
}

static void test_a_foreign_secret_is_left_alone(void **state)
{
    (void)state;
    check_foreign(SECRET, WORDS("RPUSH", SECRET, "x"), "secret");
    check_foreign(SECRET, WORDS("SET", SECRET, "0123456789abcdef0123456789abcdef0"), "secret");
    check_foreign(SECRET, WORDS("SET", SECRET, ""), "secret");
    check_foreign(SECRET, WORDS("SET", SECRET, "0123456789ABCDEF0123456789ABCDEF"), "secret");
}

static void test_a_foreign_set_is_left_alone(void **state)
{
    (void)state;
    check_foreign(INSTANCES, WORDS("SET", INSTANCES, "0123456789abcdef"), "instances");
    check_foreign(INSTANCES, WORDS("ZADD", INSTANCES, "5", "somebody's", "6", "0123456789abcdef"), "instances");
    check_foreign(INSTANCES, WORDS("SADD", INSTANCES, "0123456789abcdef"), "instances");
}

/* The secret is still shared, and the number of instances is the configured one. */
static void test_a_foreign_set_does_not_hide_the_secret(void **state)
{
    struct sl_members_config config;
    struct party a = {.members = NULL};

    (void)state;
    set_up();
    assert_int_equal(ask(WORDS("SET", INSTANCES, "x")).result, SL_RESULT_OK);
    config = config_of(&a, 1);
    config.instances = 5;
    assert_int_equal(sl_members_new(&config, &a.members), 0);
    wait_count(&a, 5);
    assert_int_equal(a.changes, 1);
    sl_members_free(a.members);
    tear_down();
}

static void test_a_member_from_the_future_is_dropped(void **state)
{
    struct party a;

    (void)state;
    set_up();
    assert_int_equal(integer(WORDS("ZADD", INSTANCES, "9000000000000000", "00000000000000aa")), 1);
    join(&a, 1);
    wait_count(&a, 1);
    assert_string_equal(ask(WORDS("ZSCORE", INSTANCES, "00000000000000aa")).text, "");
    sl_members_free(a.members);
    tear_down();
}

static void test_a_store_that_keeps_refusing_is_told_of_once(void **state)
{
    struct party a;

    (void)state;
    set_up();
    join(&a, 1);
    wait_count(&a, 1);
    assert_int_equal(ask(WORDS("ACL", "SETUSER", "default", "-eval")).result, SL_RESULT_OK);
    wait_odds(&a, 1);
    rig_run_ms(&rig, 2300);
    assert_int_equal(a.odds, 1);
    assert_non_null(strstr(a.odd, "noperm"));
    assert_int_equal(ask(WORDS("ACL", "SETUSER", "default", "+eval")).result, SL_RESULT_OK);
    wait_beats(&a, 1);
    sl_members_free(a.members);
    tear_down();
}

/* ---- a Cluster */

static void test_both_keys_are_in_one_slot_of_a_cluster(void **state)
{
    struct party a, b;
    char address[64];

    (void)state;
    server_start(&server, WORDS("--cluster-enabled", "yes"));
    server_cli(&server, WORDS("CLUSTER", "ADDSLOTSRANGE", "0", "16383"));
    snprintf(address, sizeof address, "redis+cluster://127.0.0.1:%d", server.port);
    rig_init(&rig, address);
    rig_open(&rig);
    rig_until_ok(&rig, "k"); /* a new Cluster takes a moment */
    join(&a, 1);
    join(&b, 2);
    wait_count(&a, 2);
    wait_count(&b, 2);
    assert_true(same_secret(&a, &b));
    assert_int_equal(a.odds + b.odds, 0);
    sl_members_free(a.members);
    sl_members_free(b.members);
    tear_down();
}

/* ---- memory */

static void *never(void *ctx, void *p, size_t size)
{
    (void)ctx;
    (void)p;
    (void)size;
    return NULL;
}

static void test_no_memory_is_an_error(void **state)
{
    const struct sl_alloc none = {.realloc = never};
    struct sl_members_config config;
    struct party a = {.members = NULL};

    (void)state;
    set_up();
    config = config_of(&a, 1);
    config.alloc = &none;
    assert_int_equal(sl_members_new(&config, &a.members), SL_ENOMEM);
    assert_null(a.members);
    sl_members_free(NULL);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_one_makes_the_secret),
        cmocka_unit_test(test_those_who_join_agree_on_count_and_secret),
        cmocka_unit_test(test_who_leaves_is_gone_at_once_and_hears_nothing),
        cmocka_unit_test(test_who_crashes_is_missed_after_the_silence),
        cmocka_unit_test(test_a_dead_fleet_leaves_its_secret_alone),
        cmocka_unit_test(test_who_is_freed_with_a_beat_on_its_way_hears_nothing),
        cmocka_unit_test(test_leaving_a_store_that_is_gone_ends_too),
        cmocka_unit_test(test_a_known_secret_is_given_to_an_empty_store),
        cmocka_unit_test(test_the_store_wins_over_a_known_secret),
        cmocka_unit_test(test_a_lost_secret_is_put_back_by_those_who_know_it),
        cmocka_unit_test(test_secrets_as_text),
        cmocka_unit_test(test_count_and_secret_outlive_an_outage),
        cmocka_unit_test(test_b181_a_store_that_comes_late_is_joined),
        cmocka_unit_test(test_a_slow_store_gets_one_beat_at_a_time),
        cmocka_unit_test(test_garbage_instead_of_an_answer_is_told_once),
        cmocka_unit_test(test_b124_a_full_store_still_tells_the_secret),
        cmocka_unit_test(test_a_foreign_secret_is_left_alone),
        cmocka_unit_test(test_a_foreign_set_is_left_alone),
        cmocka_unit_test(test_a_foreign_set_does_not_hide_the_secret),
        cmocka_unit_test(test_a_member_from_the_future_is_dropped),
        cmocka_unit_test(test_a_store_that_keeps_refusing_is_told_of_once),
        cmocka_unit_test(test_both_keys_are_in_one_slot_of_a_cluster),
        cmocka_unit_test(test_no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
