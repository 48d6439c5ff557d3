/* Versions of the policy in a real redis-server: pushed, fetched, told of, brought back; two who push at once; a pusher that
 * dies; a store that is lost, full, or holds something else under our names. */
#include "kit.h"

#include "policy/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int set_up(void **state)
{
    (void)state;
    kit_set_up(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_tear_down();
    return 0;
}

static void test_an_empty_store_has_no_version(void **state)
{
    struct fetched fetched = fetch(0);
    struct told told = history(0, 10);

    (void)state;
    assert_int_equal(fetched.outcome, SL_CONTROL_NONE);
    assert_int_equal(told.outcome, SL_CONTROL_OK);
    assert_int_equal(told.current.number, 0);
    assert_int_equal(told.n_versions, 0);
    assert_int_equal(fetch(7).outcome, SL_CONTROL_NONE);
}

static void test_what_is_pushed_is_fetched(void **state)
{
    struct sl_version_draft draft = draft_of("version: 1\n", "ann", 0);
    struct fetched fetched;
    struct pushed pushed;
    char hash[65];

    (void)state;
    draft.keys = "a,b\n";
    draft.keys_len = 4;
    draft.comment = "größer, \"schöner\"";
    sl_digest(draft.body, draft.body_len, draft.keys, draft.keys_len, hash);
    pushed = push(&draft);
    assert_int_equal(pushed.outcome, SL_CONTROL_OK);
    assert_int_equal(pushed.version.number, 1);
    assert_string_equal(pushed.version.hash, hash);
    assert_true(pushed.version.time_us > UINT64_C(1500000000000000));
    for (uint64_t number = 0; number < 2; number++) {
        fetched = fetch(number);
        assert_int_equal(fetched.outcome, SL_CONTROL_OK);
        assert_int_equal(fetched.version.number, 1);
        assert_string_equal(fetched.version.author, "ann");
        assert_string_equal(fetched.version.comment, draft.comment);
        assert_string_equal(fetched.text.body, draft.body);
        assert_int_equal(fetched.text.keys_len, 4);
        assert_string_equal(fetched.text.keys, "a,b\n");
        fetched_free(&fetched);
    }
    /* Nothing of it ever goes by itself, and no draft is left. */
    assert_int_equal(ask(WORDS("TTL", CURRENT)).integer, -1);
    assert_int_equal(ask(WORDS("TTL", VERSIONS)).integer, -1);
    assert_int_equal(
        ask(WORDS("EVAL",
                  "local n = 0 for _, k in ipairs(redis.call('KEYS', 'test:*')) do if redis.call('TTL', k) ~= -1 "
                  "then n = n + 1 end end return n",
                  "0"))
            .integer,
        0);
}

/* Larger than one piece, with the seam between body and keys_file inside a piece, and at its edges. */
static void test_texts_of_many_pieces(void **state)
{
    static const size_t bodies[] = {SL_PIECE_BYTES - 1, SL_PIECE_BYTES, SL_PIECE_BYTES + 1, 3 * SL_PIECE_BYTES + 77};
    size_t keys_len = 2 * SL_PIECE_BYTES;
    char *body = malloc(4 * SL_PIECE_BYTES), *keys = malloc(keys_len);

    (void)state;
    for (size_t i = 0; i < 4 * SL_PIECE_BYTES; i++)
        body[i] = (char)('a' + i % 23);
    for (size_t i = 0; i < keys_len; i++)
        keys[i] = (char)('A' + i % 19);
    for (unsigned i = 0; i < 4; i++) {
        struct sl_version_draft draft = {.body = body,
                                         .body_len = bodies[i],
                                         .keys = keys,
                                         .keys_len = keys_len - i,
                                         .author = "ann",
                                         .comment = "",
                                         .expected = i};
        struct fetched fetched;

        assert_int_equal(push(&draft).outcome, SL_CONTROL_OK);
        fetched = fetch(0);
        assert_int_equal(fetched.outcome, SL_CONTROL_OK);
        assert_int_equal(fetched.version.number, i + 1);
        assert_int_equal(fetched.text.body_len, bodies[i]);
        assert_memory_equal(fetched.text.body, body, bodies[i]);
        assert_int_equal(fetched.text.keys_len, keys_len - i);
        assert_memory_equal(fetched.text.keys, keys, keys_len - i);
        fetched_free(&fetched);
    }
    free(body);
    free(keys);
}

static void test_a_push_that_expected_another_version_loses(void **state)
{
    struct sl_version_draft late = draft_of("b", "bob", 0);
    struct pushed pushed;

    (void)state;
    push_text("a", 0);
    pushed = push(&late);
    assert_int_equal(pushed.outcome, SL_CONTROL_CONFLICT);
    assert_int_equal(pushed.version.number, 1);
    assert_string_equal(pushed.version.author, "ann");
    assert_non_null(strstr(pushed.why, "version 1 by ann"));
    late.expected = 7;
    assert_int_equal(push(&late).outcome, SL_CONTROL_CONFLICT);
    assert_int_equal(history(0, 10).n_versions, 1);
    late.expected = 1;
    assert_int_equal(push(&late).version.number, 2);
}

static void test_two_who_push_at_once(void **state)
{
    struct sl_client *second;
    struct sl_versions_place other = place;
    char why[256];

    (void)state;
    assert_int_equal(sl_client_new(&rig.config, &second, why, sizeof why), 0);
    other.client = second;
    for (uint64_t round = 0; round < 20; round++) {
        char mine[32], his[32];
        struct sl_version_draft a, b;
        struct pushed first, then;
        struct told told;

        snprintf(mine, sizeof mine, "mine %d", (int)round);
        snprintf(his, sizeof his, "his %d", (int)round);
        a = draft_of(mine, "ann", round);
        b = draft_of(his, "bob", round);
        push_later(round % 2 ? &place : &other, round % 2 ? &a : &b, &first);
        push_later(round % 2 ? &other : &place, round % 2 ? &b : &a, &then);
        assert_true(rig_wait(&rig, &first.done));
        assert_true(rig_wait(&rig, &then.done));
        assert_int_equal((first.outcome == SL_CONTROL_OK) + (then.outcome == SL_CONTROL_OK), 1);
        assert_int_equal((first.outcome == SL_CONTROL_CONFLICT) + (then.outcome == SL_CONTROL_CONFLICT), 1);
        told = history(0, 8);
        assert_int_equal(told.current.number, round + 1);
        /* The loser is told who won. */
        assert_string_equal((first.outcome == SL_CONTROL_OK ? then : first).version.author, told.versions[0].author);
    }
    sl_client_free(second);
}

static void test_an_old_version_comes_back_as_a_new_one(void **state)
{
    struct sl_version_draft draft;
    struct fetched old;
    struct told told;

    (void)state;
    push_text("first", 0);
    push_text("second", 1);
    old = fetch(1);
    draft = draft_of(old.text.body, "carl", 2);
    draft.from = 1;
    assert_int_equal(push(&draft).version.number, 3);
    fetched_free(&old);
    told = history(0, 8);
    assert_int_equal(told.n_versions, 3);
    assert_int_equal(told.versions[0].number, 3);
    assert_int_equal(told.versions[0].from, 1);
    assert_string_equal(told.versions[0].hash, told.versions[2].hash);
    assert_string_equal(told.current.hash, told.versions[2].hash);
    old = fetch(0);
    assert_string_equal(old.text.body, "first");
    fetched_free(&old);
}

static void test_histories_have_pages(void **state)
{
    struct told told;
    char body[32];

    (void)state;
    for (uint64_t i = 0; i < 150; i++) {
        snprintf(body, sizeof body, "body %d", (int)i);
        assert_int_equal(push_text(body, i), i + 1);
    }
    told = history(0, 1000);
    assert_int_equal(told.n_versions, 150);
    assert_int_equal(told.versions[0].number, 150);
    told = history(70, 3);
    assert_int_equal(told.n_versions, 3);
    assert_int_equal(told.versions[0].number, 70);
    assert_int_equal(told.versions[2].number, 68);
    told = history(2, 1000);
    assert_int_equal(told.n_versions, 2);
    assert_int_equal(told.versions[1].number, 1);
}

/* A pusher that dies in mid-push leaves a draft that goes by itself, and no version. */
static void test_a_pusher_that_dies(void **state)
{
    size_t len = 3 * SL_PIECE_BYTES;
    char *body = malloc(len + 1);
    struct sl_client *doomed;
    struct sl_versions_place other = place;
    struct sl_version_draft draft;
    struct pushed pushed;
    struct answer drafts;
    char why[256];

    (void)state;
    memset(body, 'x', len);
    body[len] = '\0';
    push_text("good", 0);
    assert_int_equal(sl_client_new(&rig.config, &doomed, why, sizeof why), 0);
    other.client = doomed;
    draft = draft_of(body, "bob", 1);
    push_later(&other, &draft, &pushed);
    do {
        rig_run_ms(&rig, 1);
        drafts = ask(WORDS("EVAL", "return #redis.call('KEYS', 'test:*:draft:*')", "0"));
    } while (!drafts.integer && !pushed.done);
    sl_client_free(doomed);
    assert_true(pushed.done);
    if (pushed.outcome != SL_CONTROL_OK) { /* the store may have been faster than the death */
        struct told told = history(0, 8);

        assert_int_equal(told.n_versions, 1);
        assert_int_equal(told.current.number, 1);
        assert_true(
            ask(WORDS("EVAL", "return redis.call('PTTL', redis.call('KEYS', 'test:*:draft:*')[1])", "0")).integer > 0);
    }
    draft.expected = history(0, 1).current.number;
    assert_int_equal(push(&draft).outcome, SL_CONTROL_OK);
    free(body);
}

static void test_versions_survive_a_crash_of_the_store(void **state)
{
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    struct told told;

    (void)state;
    kit_tear_down();
    kit_set_up(options);
    push_text("first", 0);
    push_text("second", 1);
    server_kill(&server);
    server_launch(&server);
    server_wait(&server);
    rig_until_ok(&rig, "k");
    told = history(0, 8);
    assert_int_equal(told.outcome, SL_CONTROL_OK);
    assert_int_equal(told.current.number, 2);
    assert_int_equal(told.n_versions, 2);
    assert_string_equal(told.versions[1].author, "ann");
    assert_int_equal(push_text("third", 2), 3);
}

static void test_a_store_that_is_gone(void **state)
{
    struct sl_version_draft draft = draft_of("a", "ann", 0);
    struct pushed pushed;

    (void)state;
    server_signal(&server, SIGSTOP);
    place.timeout_us = 50000;
    pushed = push(&draft);
    assert_int_equal(pushed.outcome, SL_CONTROL_AWAY);
    assert_true(strlen(pushed.why) > 0);
    server_signal(&server, SIGCONT);
    place.timeout_us = 0;
    rig_until_ok(&rig, "k");
    assert_int_equal(history(0, 8).n_versions, 0);
}

static void test_a_store_that_is_full(void **state)
{
    struct sl_version_draft draft = draft_of("b", "bob", 1);
    struct pushed pushed;

    (void)state;
    push_text("a", 0);
    ask(WORDS("CONFIG", "SET", "maxmemory", "1"));
    pushed = push(&draft);
    assert_int_equal(pushed.outcome, SL_CONTROL_REFUSED);
    assert_non_null(strstr(pushed.why, "oom"));
    ask(WORDS("CONFIG", "SET", "maxmemory", "0"));
    assert_int_equal(history(0, 8).n_versions, 1);
    assert_int_equal(push_text("b", 1), 2);
}

static void expect_foreign(const char *key)
{
    struct sl_version_draft draft = draft_of("new", "bob", 1);
    struct pushed pushed = push(&draft);

    if (pushed.outcome != SL_CONTROL_FOREIGN || !strstr(pushed.why, key))
        fail_msg("%s: outcome %d: %s", key, (int)pushed.outcome, pushed.why);
}

static void test_foreign_things_are_left_alone(void **state)
{
    struct fetched fetched;

    (void)state;
    push_text("a", 0);
    ask(WORDS("RENAME", CURRENT, "kept"));
    ask(WORDS("SADD", CURRENT, "x"));
    expect_foreign(CURRENT);
    assert_int_equal(fetch(0).outcome, SL_CONTROL_FOREIGN);
    assert_int_equal(history(0, 8).outcome, SL_CONTROL_FOREIGN);
    assert_int_equal(ask(WORDS("SCARD", CURRENT)).integer, 1);
    ask(WORDS("SET", CURRENT, "1 nonsense"));
    expect_foreign(CURRENT);
    assert_int_equal(fetch(0).outcome, SL_CONTROL_FOREIGN);
    assert_string_equal(ask(WORDS("GET", CURRENT)).text, "1 nonsense");
    ask(WORDS("RENAME", "kept", CURRENT));

    ask(WORDS("RENAME", VERSIONS, "kept"));
    ask(WORDS("SET", VERSIONS, "x"));
    expect_foreign(VERSIONS);
    assert_int_equal(fetch(0).outcome, SL_CONTROL_FOREIGN);
    assert_int_equal(history(0, 8).outcome, SL_CONTROL_FOREIGN);
    assert_string_equal(ask(WORDS("GET", VERSIONS)).text, "x");
    ask(WORDS("RENAME", "kept", VERSIONS));

    ask(WORDS("HSET", VERSIONS, "1", "garbage"));
    fetched = fetch(0);
    assert_int_equal(fetched.outcome, SL_CONTROL_FOREIGN);
    assert_non_null(strstr(fetched.why, "version 1"));
    assert_string_equal(history(0, 8).versions[0].hash, "");
}

static void body_key(const char *body, char *buf, size_t size)
{
    char hash[65];

    sl_digest(body, strlen(body), NULL, 0, hash);
    snprintf(buf, size, "test:{fleet}:policy:body:%s", hash);
}

static void test_damaged_bodies_are_not_believed(void **state)
{
    struct fetched fetched;
    char key[128];

    (void)state;
    body_key("first", key, sizeof key);
    push_text("first", 0);
    ask(WORDS("HSET", key, "0", "FIRST"));
    fetched = fetch(0);
    assert_int_equal(fetched.outcome, SL_CONTROL_DAMAGED);
    assert_non_null(strstr(fetched.why, "not what its hash says"));
    ask(WORDS("HSET", key, "0", "fir"));
    assert_int_equal(fetch(0).outcome, SL_CONTROL_DAMAGED);
    ask(WORDS("DEL", key));
    assert_int_equal(fetch(0).outcome, SL_CONTROL_DAMAGED);
    ask(WORDS("SET", key, "first"));
    assert_int_equal(fetch(0).outcome, SL_CONTROL_FOREIGN);
    /* Nor is it taken for the body of a new version. */
    body_key("new", key, sizeof key);
    ask(WORDS("HSET", key, "0", "nEw"));
    expect_foreign(key);
    assert_string_equal(ask(WORDS("HGET", key, "0")).text, "nEw");
    ask(WORDS("DEL", key));
    ask(WORDS("SET", key, "new"));
    expect_foreign(key);
}

/* The pointer is lost, the versions are not: none of them is written over. */
static void test_a_lost_pointer_does_not_cost_a_version(void **state)
{
    struct told told;

    (void)state;
    push_text("a", 0);
    push_text("b", 1);
    ask(WORDS("DEL", CURRENT));
    told = history(0, 8);
    assert_int_equal(told.current.number, 0);
    assert_int_equal(told.n_versions, 2);
    assert_int_equal(push_text("c", 0), 3);
    told = history(0, 8);
    assert_int_equal(told.n_versions, 3);
    assert_string_not_equal(told.versions[2].hash, told.versions[0].hash);
}

/* Reads go on while the store holds writes back, so that of this push only the last step, the commit, is not answered. */
static struct pushed bring_back_slowly(const char *pause_ms)
{
    struct sl_version_draft draft = draft_of("a", "bob", 2);

    push_text("a", 0);
    push_text("b", 1);
    ask(WORDS("CLIENT", "PAUSE", pause_ms, "WRITE"));
    place.timeout_us = 300000;
    return push(&draft);
}

/* The answer to the commit comes too late, not the commit: it is asked for again, and not made twice. */
static void test_a_push_whose_answer_is_late(void **state)
{
    struct pushed pushed = bring_back_slowly("700");
    struct told told = history(0, 8);

    (void)state;
    assert_int_equal(pushed.outcome, SL_CONTROL_OK);
    assert_int_equal(pushed.version.number, 3);
    assert_int_equal(told.n_versions, 3);
}

static void test_a_push_that_is_never_answered(void **state)
{
    struct pushed pushed = bring_back_slowly("1500");
    struct told told;

    (void)state;
    assert_int_equal(pushed.outcome, SL_CONTROL_UNKNOWN);
    assert_non_null(strstr(pushed.why, "history"));
    place.timeout_us = 0;
    rig_until_ok(&rig, "k"); /* a write: the pause is over */
    told = history(0, 8);
    assert_int_equal(told.n_versions, 3);
    assert_string_equal(told.versions[0].author, "bob");
}

static void test_bounds(void **state)
{
    struct sl_version_draft draft = draft_of("a", "ann", 0);
    struct pushed pushed;
    char comment[SL_COMMENT_MAX + 2], author[SL_AUTHOR_MAX + 2];
    const char *why = NULL;

#define REFUSED()                                                                                         \
    assert_int_equal(sl_versions_push(&place, &draft, kit_on_pushed, &pushed, &why), SL_CONTROL_INVALID); \
    assert_non_null(why)
    (void)state;
    memset(comment, 'c', sizeof comment);
    memset(author, 'a', sizeof author);
    comment[SL_COMMENT_MAX + 1] = author[SL_AUTHOR_MAX + 1] = '\0';
    draft.comment = comment;
    REFUSED();
    draft.comment = "two\nlines";
    REFUSED();
    draft.comment = "\xff";
    REFUSED();
    draft.comment = "";
    draft.author = "";
    REFUSED();
    draft.author = author;
    REFUSED();
    draft.author = "ann";
    draft.body_len = 0;
    REFUSED();
    draft.body_len = 2; /* with its NUL */
    REFUSED();
    draft.body_len = 1;
    draft.expected = UINT64_MAX;
    REFUSED();
#undef REFUSED
    draft.expected = 0;
    comment[SL_COMMENT_MAX] = author[SL_AUTHOR_MAX] = '\0';
    draft.comment = comment;
    draft.author = author;
    assert_int_equal(push(&draft).outcome, SL_CONTROL_OK);
    assert_string_equal(history(0, 1).versions[0].comment, comment);
}

static void test_instances_say_what_they_run(void **state)
{
    static const char *const id = "00000000000000ab", *const key = "test:{fleet}:policy:running:00000000000000ab";
    struct sl_running running = {.id = 0xab,
                                 .version = {.number = 3},
                                 .refused = 4,
                                 .host = "one\nhost",
                                 .why = "bad",
                                 .region = "eu-west",
                                 .address = "10.0.0.7:8080"};
    struct told told;

    (void)state;
    memset(running.version.hash, 'e', SL_HASH_HEX);
    ask(WORDS("ZADD", "test:{fleet}:instances", "1", id, "1", "00000000000000cd", "1", "garbage"));
    assert_int_equal(sl_versions_report(&place, &running, NULL, NULL), SL_CONTROL_OK);
    told = history(0, 8);
    assert_int_equal(told.n_instances, 2);
    assert_int_equal(told.n_running, 1);
    assert_int_equal(told.running[0].id, 0xab);
    assert_int_equal(told.running[0].version.number, 3);
    assert_int_equal(told.running[0].refused, 4);
    assert_string_equal(told.running[0].host, "one host");
    assert_string_equal(told.running[0].why, "bad");
    assert_string_equal(told.running[0].region, "eu-west");
    assert_string_equal(told.running[0].address, "10.0.0.7:8080");
    assert_true(ask(WORDS("PTTL", key)).integer > 0);
    /* What is not ours is neither told of nor replaced. */
    ask(WORDS("SET", key, "something else"));
    assert_int_equal(sl_versions_report(&place, &running, NULL, NULL), SL_CONTROL_OK);
    assert_int_equal(history(0, 8).n_running, 0);
    assert_string_equal(ask(WORDS("GET", key)).text, "something else");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_an_empty_store_has_no_version),
        TEST(test_what_is_pushed_is_fetched),
        TEST(test_texts_of_many_pieces),
        TEST(test_a_push_that_expected_another_version_loses),
        TEST(test_two_who_push_at_once),
        TEST(test_an_old_version_comes_back_as_a_new_one),
        TEST(test_histories_have_pages),
        TEST(test_a_pusher_that_dies),
        TEST(test_versions_survive_a_crash_of_the_store),
        TEST(test_a_store_that_is_gone),
        TEST(test_a_store_that_is_full),
        TEST(test_foreign_things_are_left_alone),
        TEST(test_damaged_bodies_are_not_believed),
        TEST(test_a_lost_pointer_does_not_cost_a_version),
        TEST(test_a_push_whose_answer_is_late),
        TEST(test_a_push_that_is_never_answered),
        TEST(test_bounds),
        TEST(test_instances_say_what_they_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
