/* The client against a server that misbehaves on purpose. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-puppet-XXXXXX", path[64], address[96];
static struct rig rig;
static struct puppet puppet;

static int make_folder(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/s", mkdtemp(folder));
    snprintf(address, sizeof address, "redis+unix://%s", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void start(int (*speak)(struct puppet *, const char *, char *, size_t))
{
    rig_init(&rig, address);
    puppet = (struct puppet){.speak = speak};
    puppet_start(&puppet, &rig, path);
}

static void stop(void)
{
    sl_client_free(rig.client);
    rig.client = NULL;
    puppet_stop(&puppet);
    rig_close(&rig);
}

/* ---- B132 */

static const char *hostile;
static size_t hostile_len;

static int speak_hostile(struct puppet *p, const char *command, char *reply, size_t size)
{
    (void)p;
    if (!hostile || !strstr(command, "EVALSHA"))
        return puppet_politely(command, reply, size);
    memcpy(reply, hostile, hostile_len);
    hostile = NULL; /* the next one is answered well */
    return (int)hostile_len;
}

static void refuses(const char *bytes, size_t len, enum sl_result expected)
{
    struct answer answer;

    rig_until_ok(&rig, "k");
    hostile = bytes;
    hostile_len = len;
    answer = rig_count(&rig, "k");
    if (answer.result != expected)
        fail_msg("%.20s: %s", bytes, sl_result_name(answer.result));
    assert_int_equal(answer.times, 1);
    rig_until_ok(&rig, "k"); /* the next connection works */
}

static void test_b132_hostile_replies(void **state)
{
    static const char one[] = {'*', '1', '\r', '\n'};
    static char nested[8000];
    struct mallinfo2 before, after;

    (void)state;
    for (size_t i = 0; i < sizeof nested; i += 4)
        memcpy(nested + i, one, sizeof one);
    start(speak_hostile);
    rig_open(&rig);
    refuses("*4294967295\r\n", 13, SL_RESULT_PROTOCOL);
    before = mallinfo2();
    refuses(nested, sizeof nested, SL_RESULT_PROTOCOL);
    refuses("$4294967296\r\n", 13, SL_RESULT_PROTOCOL);
    refuses("$0:\r\n", 5, SL_RESULT_PROTOCOL);
    refuses("$-5\r\n", 5, SL_RESULT_PROTOCOL);
    refuses("%9223372036854775807\r\n", 22, SL_RESULT_PROTOCOL);
    refuses("*2147483647\r\n", 13, SL_RESULT_PROTOCOL);
    after = mallinfo2();
    assert_true(after.uordblks < before.uordblks + 1000000);
    stop();
}

/* An unasked reply behind the one that was asked for: the call has its answer, the connection is given up. */
static void test_b132_unasked_reply(void **state)
{
    unsigned accepted;

    (void)state;
    start(speak_hostile);
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    accepted = puppet.accepted;
    refuses(":1\r\n:2\r\n", 8, SL_RESULT_OK);
    assert_true(puppet.accepted > accepted);
    assert_non_null(strstr(rig.said, "nobody asked for"));
    stop();
}

static int speak_half(struct puppet *p, const char *command, char *reply, size_t size)
{
    if (!strstr(command, "EVALSHA") || p->received > 1)
        return puppet_politely(command, reply, size);
    uv_try_write((uv_stream_t *)(void *)p->strings, &(uv_buf_t){.base = (char[]){"$10\r\nabc"}, .len = 8}, 1);
    return -1;
}

static void test_b132_half_a_reply_then_close(void **state)
{
    struct answer answer;

    (void)state;
    start(speak_half);
    rig_open(&rig);
    answer = rig_count(&rig, "k");
    assert_int_equal(answer.result, SL_RESULT_LOST);
    rig_until_ok(&rig, "k");
    stop();
}

/* ---- B114: a script was committed, its reply dropped, and it was sent again: counted twice */

static int speak_nothing(struct puppet *p, const char *command, char *reply, size_t size)
{
    (void)p;
    if (!strstr(command, "EVALSHA"))
        return puppet_politely(command, reply, size);
    return p->received % 3 == 0 ? -1 : 0;
}

static void test_b114_an_unknown_outcome_is_not_sent_again(void **state)
{
    struct answer answers[100];
    unsigned sent = 0;

    (void)state;
    start(speak_nothing);
    rig.config.timeout_us = 20000;
    rig.config.stall_us = 50000;
    rig_open(&rig);
    for (int i = 0; i < 100; i++) {
        rig_count_later(&rig, "k", &answers[i]);
        assert_true(rig_wait(&rig, &answers[i].done));
        assert_int_equal(answers[i].times, 1);
        assert_true(answers[i].result != SL_RESULT_OK);
        sent += sl_result_ambiguous(answers[i].result);
        if (!sl_result_ambiguous(answers[i].result))
            rig_run_ms(&rig, 20);
    }
    rig_run_ms(&rig, 100);
    assert_true(sent > 5);
    assert_int_equal(puppet.received, sent); /* not one more than was said to have gone out */
    stop();
}

/* ---- the deadline: late replies are matched to their place and dropped */

static bool holding;
static unsigned held, number;

static int speak_late(struct puppet *p, const char *command, char *reply, size_t size)
{
    char *at = reply;

    (void)p;
    if (!strstr(command, "EVALSHA"))
        return puppet_politely(command, reply, size);
    held++;
    if (holding)
        return 0;
    for (; held; held--)
        at += snprintf(at, size - (size_t)(at - reply), ":%u\r\n", ++number);
    return (int)(at - reply);
}

static void test_late_replies_are_dropped(void **state)
{
    struct answer answers[3], answer;

    (void)state;
    holding = true;
    held = number = 0;
    start(speak_late);
    rig.config.timeout_us = 15000;
    rig_open(&rig);
    for (int i = 0; i < 3; i++)
        rig_count_later(&rig, "k", &answers[i]);
    for (int i = 0; i < 3; i++) {
        assert_true(rig_wait(&rig, &answers[i].done));
        assert_int_equal(answers[i].result, SL_RESULT_TIMEOUT);
    }
    holding = false;
    do /* the first may come too late as well, on a busy machine; it has its own number then */
        answer = rig_count(&rig, "k");
    while (answer.result == SL_RESULT_TIMEOUT && number < 50);
    assert_int_equal(answer.result, SL_RESULT_OK);
    assert_int_equal(answer.integer, number); /* the newest: none of the earlier ones */
    assert_true(number >= 4);
    assert_int_equal(puppet.accepted, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(answers[i].times, 1);
    assert_int_equal(rig_total(&rig, SL_RESULT_OK), 1);
    stop();
}

static void test_queue_is_bounded(void **state)
{
    static struct answer answers[40];
    unsigned full = 0;

    (void)state;
    holding = true;
    held = number = 0;
    start(speak_late);
    rig.config.timeout_us = 50000;
    rig.config.calls_max = 32;
    rig_open(&rig);
    for (int i = 0; i < 40; i++) {
        rig_count_later(&rig, "k", &answers[i]);
        full += answers[i].result == SL_RESULT_FULL;
    }
    assert_int_equal(full, 8);
    for (int i = 0; i < 40; i++) {
        assert_true(rig_wait(&rig, &answers[i].done));
        assert_int_equal(answers[i].times, 1);
    }
    stop();
    holding = false;
}

/* ---- B138, B136: with a thousand calls waiting for it */

static bool silent;

static int speak_or_not(struct puppet *p, const char *command, char *reply, size_t size)
{
    (void)p;
    return silent ? 0 : puppet_politely(command, reply, size);
}

static bool breaker_is_shut(void *ctx)
{
    (void)ctx;
    return rig.closed > 0;
}

static void test_b138_one_probe(void **state)
{
    static struct answer answers[1000];
    unsigned passed = 0, refused = 0, before;

    (void)state;
    silent = false;
    start(speak_or_not);
    rig.config.timeout_us = 20000;
    rig.config.stall_us = 60000000;
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    silent = true;
    while (!rig.opened)
        rig_count(&rig, "k");
    before = puppet.received;
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_BREAKER);
    assert_true(sl_client_wait_us(rig.client, "k", 1) > 0);
    while (sl_client_wait_us(rig.client, "k", 1) > 0)
        rig_run_ms(&rig, 5);
    assert_int_equal(puppet.received, before); /* nothing went out meanwhile */
    for (int i = 0; i < 1000; i++) {
        rig_count_later(&rig, "k", &answers[i]);
        refused += answers[i].result == SL_RESULT_BREAKER;
        passed += answers[i].result == SL_RESULT_OK;
    }
    assert_int_equal(passed, 1);
    assert_int_equal(refused, 999);
    rig_run_ms(&rig, 100);
    assert_int_equal(puppet.received, before + 1);
    /* It answers again: closed by itself, with whoever calls next. */
    silent = false;
    puppet_stop(&puppet);
    puppet_start(&puppet, &rig, path);
    rig_until_ok(&rig, "k");
    assert_true(rig_wait_until(&rig, breaker_is_shut, NULL));
    assert_int_equal(rig_total(&rig, SL_RESULT_BREAKER) >= 1000, 1);
    stop();
}

/* A shard that nobody asks any more would never be found well again: we ask for ourselves. */
static void test_b136_an_idle_shard_is_found_well_again(void **state)
{
    unsigned before, refused;

    (void)state;
    silent = false;
    start(speak_or_not);
    rig.config.timeout_us = 20000;
    rig.config.stall_us = 60000000;
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    silent = true;
    while (!rig.opened)
        rig_count(&rig, "k");
    rig_run_ms(&rig, 2500);
    assert_int_equal(rig.closed, 0); /* asked, more than once, and not answered */
    silent = false;
    puppet_stop(&puppet);
    puppet_start(&puppet, &rig, path);
    before = puppet.received;
    refused = (unsigned)rig_total(&rig, SL_RESULT_BREAKER);
    assert_true(rig_wait_until(&rig, breaker_is_shut, NULL));
    assert_int_equal(puppet.received, before + 1); /* none of them a call of ours */
    assert_int_equal(rig_total(&rig, SL_RESULT_BREAKER), refused);
    assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_OK);
    stop();
}

/* ---- error classes, as a server sends them in the middle of things */

static const char *error_text;

static int speak_error(struct puppet *p, const char *command, char *reply, size_t size)
{
    (void)p;
    if (!error_text || !strstr(command, "EVALSHA"))
        return puppet_politely(command, reply, size);
    return snprintf(reply, size, "-%s\r\n", error_text);
}

static void test_errors_are_told_apart_and_counted(void **state)
{
    static const struct {
        const char *text;
        enum sl_result result;
        bool redialled;
    } cases[] = {
        {"LOADING x", SL_RESULT_LOADING, false},
        {"OOM x", SL_RESULT_OOM, false},
        {"BUSY x", SL_RESULT_BUSY, false},
        {"MISCONF x", SL_RESULT_MISCONF, false},
        {"NOREPLICAS x", SL_RESULT_NOREPLICAS, false},
        {"CLUSTERDOWN x", SL_RESULT_CLUSTERDOWN, false},
        {"MASTERDOWN x", SL_RESULT_MASTERDOWN, false},
        {"MOVED 1 127.0.0.1:1", SL_RESULT_MOVED, false}, /* not a Cluster by our address: not followed */
        {"TRYAGAIN x", SL_RESULT_TRYAGAIN, false},
        {"ERR x", SL_RESULT_ERROR, false},
        {"NOSCRIPT x", SL_RESULT_NOSCRIPT, false}, /* for ever: loaded once, then said */
        {"READONLY x", SL_RESULT_READONLY, true},
        {"NOAUTH x", SL_RESULT_NOAUTH, true},
    };

    (void)state;
    error_text = NULL;
    start(speak_error);
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t counted = rig_total(&rig, cases[i].result);
        unsigned accepted = puppet.accepted;
        struct answer answer;

        rig_until_ok(&rig, "k");
        error_text = cases[i].text;
        answer = rig_count(&rig, "k");
        error_text = NULL;
        if (answer.result != cases[i].result)
            fail_msg("%s: %s", cases[i].text, sl_result_name(answer.result));
        assert_true(rig_total(&rig, cases[i].result) > counted);
        rig_until_ok(&rig, "k");
        assert_int_equal(puppet.accepted > accepted, cases[i].redialled);
    }
    stop();
}

/* ---- B128: the server goes away at every moment there is, a thousand times */

static unsigned countdown;

static int speak_until(struct puppet *p, const char *command, char *reply, size_t size)
{
    (void)p;
    if (countdown && --countdown == 0)
        return -1;
    return puppet_politely(command, reply, size);
}

static void test_b128_a_thousand_losses(void **state)
{
    enum { CALLS = 20 };
    static struct answer answers[CALLS];
    unsigned random = 12345, good = 0, lost = 0;

    (void)state;
    snprintf(address, sizeof address, "redis+unix://user:pass@%s?db=3", path);
    start(speak_until);
    rig.config.backoff_base_us = 1000;
    rig.config.backoff_cap_us = 2000;
    rig_open(&rig);
    for (int cycle = 0; cycle < 1000; cycle++) {
        random = random * 1103515245 + 12345;
        countdown = 1 + (random >> 16) % 24;
        for (int i = 0; i < CALLS; i++)
            rig_count_later(&rig, "k", &answers[i]);
        if (cycle % 5 == 0) { /* not only from inside: the listener goes as well, during the connect too */
            if (cycle % 2)
                uv_run(&rig.loop, UV_RUN_NOWAIT);
            puppet_stop(&puppet);
            puppet_start(&puppet, &rig, path);
        }
        for (int i = 0; i < CALLS; i++) {
            assert_true(rig_wait(&rig, &answers[i].done));
            assert_int_equal(answers[i].times, 1);
            good += answers[i].result == SL_RESULT_OK;
            lost += answers[i].result == SL_RESULT_LOST;
        }
        rig.ahead_us += 700000; /* an open breaker lets the next one through */
    }
    assert_true(good > 1000);
    assert_true(lost > 1000);
    countdown = 0;
    stop();
    snprintf(address, sizeof address, "redis+unix://%s", path);
}

static void test_freeing_answers_what_is_open(void **state)
{
    static struct answer answers[50];

    (void)state;
    silent = true;
    start(speak_or_not);
    rig_open(&rig);
    for (int i = 0; i < 50; i++)
        rig_count_later(&rig, "k", &answers[i]);
    rig_run_ms(&rig, 20);
    stop();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(answers[i].times, 1);
        assert_int_equal(answers[i].result, SL_RESULT_CLOSED);
    }
    silent = false;
}

/* ---- memory that runs out at every place, one after the other */

static unsigned allocations_left;

static void *failing_realloc(void *ctx, void *p, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(p);
        return NULL;
    }
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return realloc(p, size);
}

static void one_life_with(unsigned allocations)
{
    static const struct sl_alloc failing = {failing_realloc, NULL};
    struct answer answers[8];
    char why[256];

    start(NULL);
    allocations_left = allocations;
    rig.config.alloc = &failing;
    rig.net.alloc = failing; /* its buffer was allocated by the same functions */
    rig.config.timeout_us = 20000;
    if (sl_client_new(&rig.config, &rig.client, why, sizeof why) == 0) {
        for (int i = 0; i < 8; i++)
            rig_count_later(&rig, "k", &answers[i]);
        for (int i = 0; i < 8; i++) {
            assert_true(rig_wait(&rig, &answers[i].done));
            assert_int_equal(answers[i].times, 1);
        }
    } else {
        assert_non_null(strstr(why, "out of memory"));
        rig.client = NULL;
    }
    stop();
}

static void test_memory_runs_out_anywhere(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 60; n++)
        one_life_with(n);
    strcpy(address, "redis+cluster://127.0.0.1:1");
    for (unsigned n = 0; n < 30; n++)
        one_life_with(n);
    strcpy(address, "redis+sentinel://127.0.0.1:1/m");
    for (unsigned n = 0; n < 30; n++)
        one_life_with(n);
    snprintf(address, sizeof address, "redis+unix://%s", path);
}

/* ---- counters, from another thread */

static atomic_bool reading;
static uint64_t last_seen;

static void look(void *ctx, const struct sl_shard_stats *stats)
{
    (void)ctx;
    assert_true(stats->results[SL_RESULT_OK] >= last_seen);
    last_seen = stats->results[SL_RESULT_OK];
}

static void *read_counters(void *client)
{
    while (atomic_load(&reading))
        sl_client_stats(client, look, NULL);
    return NULL;
}

static void test_counters_are_read_from_any_thread(void **state)
{
    pthread_t thread;

    (void)state;
    last_seen = 0;
    start(NULL);
    rig_open(&rig);
    rig_until_ok(&rig, "k");
    atomic_store(&reading, true);
    assert_int_equal(pthread_create(&thread, NULL, read_counters, rig.client), 0);
    for (int i = 1; i < 2000; i++)
        assert_int_equal(rig_count(&rig, "k").result, SL_RESULT_OK);
    atomic_store(&reading, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rig_total(&rig, SL_RESULT_OK), 2000);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b132_hostile_replies),
        cmocka_unit_test(test_b132_unasked_reply),
        cmocka_unit_test(test_b132_half_a_reply_then_close),
        cmocka_unit_test(test_b114_an_unknown_outcome_is_not_sent_again),
        cmocka_unit_test(test_late_replies_are_dropped),
        cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_b138_one_probe),
        cmocka_unit_test(test_b136_an_idle_shard_is_found_well_again),
        cmocka_unit_test(test_errors_are_told_apart_and_counted),
        cmocka_unit_test(test_b128_a_thousand_losses),
        cmocka_unit_test(test_freeing_answers_what_is_open),
        cmocka_unit_test(test_memory_runs_out_anywhere),
        cmocka_unit_test(test_counters_are_read_from_any_thread),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
