/* Who is hot, who is rejected: found among any number of others, told in any bytes, counted by many threads. */
#include "observe/top.h"

#include "base/err.h"

#include "../limiter/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000)

struct stage {
    struct kit kit;
    struct sl_alloc alloc;
    struct sl_top *top;
    uint64_t now_us;
};

static void open_stage(struct stage *s, const char *yaml)
{
    memset(s, 0, sizeof *s);
    kit_open(&s->kit, yaml);
    s->alloc = sl_alloc_system();
    s->now_us = 1000 * S;
    assert_int_equal(sl_top_new(&s->alloc, s->kit.limiter, &s->top), 0);
    assert_int_equal(sl_top_follow_rejections(s->top, 2), 0);
    sl_top_look(s->top, s->now_us);
}

static void close_stage(struct stage *s)
{
    sl_top_free(s->top);
    kit_close(&s->kit);
}

static void look(struct stage *s)
{
    s->now_us += S;
    sl_top_look(s->top, s->now_us);
}

static void ask(struct stage *s, const char *key, size_t len, const char *type, unsigned times)
{
    struct sluice_request r = kit_request("", NULL, 1);
    struct sluice_verdict verdict;

    r.key = key, r.key_len = len;
    if (type)
        r.key_type = type, r.key_type_len = strlen(type);
    for (unsigned i = 0; i < times; i++) {
        assert_int_equal(sl_limiter_check(s->kit.limiter, &r, &verdict, NULL, NULL, NULL), 0);
        if (!verdict.allowed) /* as the witness of a server does, on whatever loop */
            sl_top_rejected(s->top, i % 2, &r);
    }
}

static void expect_near(double value, double wanted, double part)
{
    if (value < wanted * (1 - part) || value > wanted * (1 + part))
        fail_msg("%g is not near %g", value, wanted);
}

#define OPEN "limits: [{name: all, rate: unlimited}]\n"

/* ---- the sketch */

static void a_sketch_bounds_every_count(void **state)
{
    struct sl_sketch *sketch = calloc(1, sizeof *sketch);
    struct sluice_request r = kit_request("k", NULL, 1);
    uint64_t random = 88172645463325252u;
    unsigned n_found = 0;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        sl_sketch_add(sketch, i % 100 == 0 ? UINT64_C(7) << 32 | 7 : random | 1,
                      &r); /* 1 in 100 among 198,000 others */
    }
    for (unsigned i = 0; i < SL_SKETCH_WAYS; i++)
        if (sketch->sets[7].hash[i] == (UINT64_C(7) << 32 | 7)) {
            n_found++;
            assert_true(sketch->sets[7].count[i] >= 2000);
            assert_true(sketch->sets[7].count[i] - sketch->sets[7].error[i] <= 2000);
            assert_true(sketch->sets[7].count[i] - sketch->sets[7].error[i] > 1900);
        }
    assert_int_equal(n_found, 1);
    sl_sketch_clear(sketch);
    assert_int_equal(sketch->sets[7].hash[0] | sketch->sets[7].count[0], 0);
    free(sketch);
}

/* ---- the tap */

struct tapped {
    unsigned n, n_rejected, by_key[16];
};

static void count_tap(void *ctx, unsigned slot, const struct sluice_request *request, bool rejected)
{
    struct tapped *tapped = ctx;

    (void)slot;
    tapped->n++;
    tapped->n_rejected += rejected;
    tapped->by_key[(unsigned)request->key[0] % 16]++;
}

/* Keys that come in turn, as many as the tap's step: each is seen as often as the others. */
static void the_tap_is_told_of_one_in_sixteen_at_random(void **state)
{
    struct kit k;
    struct tapped tapped = {0};
    char key[] = "a";

    (void)state;
    kit_open(&k, OPEN);
    sl_limiter_set_tap(k.limiter, count_tap, &tapped);
    for (unsigned i = 0; i < 160000; i++) {
        key[0] = (char)('a' + i % 16);
        kit_check(&k, key, NULL, 1);
    }
    assert_in_range(tapped.n, 9500, 10500);
    for (unsigned i = 0; i < 16; i++)
        assert_in_range(tapped.by_key[i], 450, 800);
    assert_int_equal(tapped.n_rejected, 0);
    sl_limiter_set_tap(k.limiter, NULL, NULL);
    tapped.n = 0;
    for (unsigned i = 0; i < 1000; i++)
        kit_check(&k, "a", NULL, 1);
    assert_int_equal(tapped.n, 0);
    kit_close(&k);
}

static void batches_are_tapped_alike(void **state)
{
    static struct sluice_request requests[64];
    static struct sluice_verdict verdicts[64];
    struct kit k;
    struct tapped tapped = {0};
    size_t bad;

    (void)state;
    kit_open(&k, "limits: [{name: all, rate: blocked}]\n");
    sl_limiter_set_tap(k.limiter, count_tap, &tapped);
    for (unsigned n = 0; n <= 64; n++)
        for (unsigned times = 0; times < 50; times++) {
            for (unsigned i = 0; i < n; i++)
                requests[i] = kit_request(i % 2 ? "a" : "b", NULL, 1);
            assert_int_equal(sl_limiter_check_batch(k.limiter, requests, n, verdicts, NULL, &bad, NULL, NULL), 0);
        }
    assert_in_range(tapped.n, 104000 / 16 - 500, 104000 / 16 + 500); /* 50 * (0 + ... + 64) */
    assert_int_equal(tapped.n_rejected, tapped.n);
    assert_in_range(tapped.by_key[1], tapped.n * 4 / 10, tapped.n * 6 / 10);
    requests[0].key_len = 0; /* nothing is decided, nothing is told */
    tapped.n = 0;
    for (unsigned times = 0; times < 100; times++)
        assert_int_not_equal(sl_limiter_check_batch(k.limiter, requests, 64, verdicts, NULL, &bad, NULL, NULL), 0);
    assert_int_equal(tapped.n, 0);
    sl_limiter_set_tap(k.limiter, NULL, NULL);
    kit_close(&k);
}

/* ---- rates */

static void the_hottest_come_first_with_their_rates(void **state)
{
    struct stage s;
    struct sl_top_key keys[10];

    (void)state;
    open_stage(&s, OPEN);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 10), 0);
    for (unsigned t = 0; t < 40; t++) {
        char rare[16];

        for (unsigned i = 0; i < 2000; i++) {
            int len = snprintf(rare, sizeof rare, "rare-%u-%u", t, i);

            ask(&s, rare, (size_t)len, NULL, 1);
        }
        ask(&s, "warm", 4, "user", 1000);
        ask(&s, "hot", 3, NULL, 3000);
        ask(&s, "hot", 3, "user", 500); /* another key: its type is part of it */
        look(&s);
    }
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 3), 3);
    assert_string_equal(keys[0].key, "hot");
    assert_string_equal(keys[0].key_type, "api_key");
    expect_near(keys[0].per_second, 3000, 0.25);
    assert_string_equal(keys[1].key, "warm");
    assert_string_equal(keys[1].key_type, "user");
    expect_near(keys[1].per_second, 1000, 0.35);
    assert_string_equal(keys[2].key, "hot");
    assert_string_equal(keys[2].key_type, "user");
    assert_int_equal(sl_top_read(s.top, SL_TOP_REJECTED, keys, 10), 0);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 0), 0);
    for (unsigned t = 0; t < 40; t++)
        look(&s);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 1), 1);
    assert_true(keys[0].per_second < 50); /* it was a while ago */
    for (unsigned t = 0; t < 100; t++)
        look(&s);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 10), 0);
    close_stage(&s);
}

static void the_most_rejected_have_a_list_of_their_own(void **state)
{
    struct stage s;
    struct sl_top_key keys[10];

    (void)state;
    open_stage(&s, "limits: [{name: a, key: a, rate: unlimited}, {name: b, rate: blocked}]\n");
    for (unsigned t = 0; t < 20; t++) {
        ask(&s, "a", 1, NULL, 5000);
        ask(&s, "b", 1, NULL, 600);
        ask(&s, "c", 1, NULL, 300);
        look(&s);
    }
    assert_int_equal(sl_top_read(s.top, SL_TOP_REJECTED, keys, 10), 2);
    assert_string_equal(keys[0].key, "b");
    assert_string_equal(keys[1].key, "c");
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 10), 3);
    assert_string_equal(keys[0].key, "a");
    close_stage(&s);
}

/* A rejection that the store told, long after the tap. */
static void rejections_count_whoever_told_them(void **state)
{
    struct sluice_request r = kit_request("late", NULL, 1);
    struct stage s;
    struct sl_top_key keys[10];

    (void)state;
    open_stage(&s, OPEN);
    for (unsigned t = 0; t < 20; t++) {
        for (unsigned i = 0; i < 800; i++)
            sl_top_rejected(s.top, 1, &r);
        look(&s);
    }
    assert_int_equal(sl_top_read(s.top, SL_TOP_REJECTED, keys, 10), 1);
    assert_string_equal(keys[0].key, "late");
    expect_near(keys[0].per_second, 800, 0.25);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 10), 0);
    close_stage(&s);
}

static void the_summary_is_of_the_last_ten_looks(void **state)
{
    struct stage s;
    struct sl_top_summary summary;

    (void)state;
    open_stage(&s, "limits: [{name: a, key: a, rate: unlimited}, {name: b, rate: blocked}]\n");
    sl_top_summarise(s.top, &summary);
    assert_true(summary.span_s == 0);
    for (unsigned t = 0; t < 30; t++) {
        ask(&s, "a", 1, NULL, t < 15 ? 5000 : 300);
        ask(&s, "b", 1, NULL, t < 15 ? 1 : 100);
        look(&s);
        if (t == 1) {
            sl_top_summarise(s.top, &summary);
            assert_true(summary.span_s == 2);
            assert_true(summary.allowed_per_second == 5000);
        }
    }
    sl_top_summarise(s.top, &summary);
    assert_true(summary.span_s == SL_TOP_SPAN);
    assert_true(summary.allowed_per_second == 300);
    assert_true(summary.rejected_per_second == 100);
    assert_true(summary.p50_us > 0);
    assert_true(summary.p99_us >= summary.p50_us);
    for (unsigned t = 0; t < SL_TOP_SPAN; t++)
        look(&s);
    sl_top_summarise(s.top, &summary);
    assert_true(summary.allowed_per_second == 0);
    assert_true(summary.p99_us == -1);
    close_stage(&s);
}

/* 100,000 keys of one request each a second, and none of them is hot. */
static void many_rare_keys_do_not_look_hot(void **state)
{
    struct stage s;
    struct sl_top_key keys[1];

    (void)state;
    open_stage(&s, OPEN);
    for (unsigned t = 0; t < 3; t++) {
        for (unsigned i = 0; i < 100000; i++) {
            char rare[16];
            int len = snprintf(rare, sizeof rare, "k%u", i);

            ask(&s, rare, (size_t)len, NULL, 1);
        }
        look(&s);
    }
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 1), 1);
    assert_true(keys[0].per_second < 100);
    close_stage(&s);
}

static void the_hottest_addresss_share(void **state)
{
    struct stage s;

    (void)state;
    open_stage(&s, OPEN);
    ask(&s, "k", 1, NULL, 5000);
    look(&s);
    assert_true(sl_top_hottest_address(s.top) == -1); /* no addresses to speak of */
    for (unsigned t = 0; t < 30; t++) {
        ask(&s, "k", 1, NULL, 5000); /* hotter, but no address */
        ask(&s, "192.0.2.1", 9, "address", 1500);
        ask(&s, "192.0.2.2", 9, "address", 500);
        look(&s);
    }
    expect_near(sl_top_hottest_address(s.top), 0.75, 0.15);
    close_stage(&s);
}

/* ---- what is shown */

static void expect_shown(const char *key, size_t len, const char *wanted)
{
    struct stage s;
    struct sl_top_key keys[2];

    open_stage(&s, OPEN);
    ask(&s, key, len, NULL, 100);
    look(&s);
    assert_int_equal(sl_top_read(s.top, SL_TOP_HOT, keys, 2), 1);
    assert_string_equal(keys[0].key, wanted);
    close_stage(&s);
}

#define TEN "0123456789"
#define SIXTY TEN TEN TEN TEN TEN TEN

static void keys_are_cut_and_made_readable(void **state)
{
    (void)state;
    expect_shown("plain \"quoted\" \\", 16, "plain \"quoted\" \\");
    expect_shown("na\xc3\xafve", 6, "na\xc3\xafve");
    expect_shown("a\xff"
                 "b\xc3",
                 4,
                 "a\xef\xbf\xbd"
                 "b\xef\xbf\xbd");
    expect_shown(SIXTY "1234", 64, SIXTY "1234");
    expect_shown(SIXTY "12345", 65, SIXTY "1234\xe2\x80\xa6");
    expect_shown(SIXTY "12\xe2\x82\xac", 65, SIXTY "12\xe2\x80\xa6"); /* no half of a character */
    expect_shown(SIXTY "1\xe2\x82\xac"
                       "x",
                 65, SIXTY "1\xe2\x82\xac\xe2\x80\xa6");
}

/* Nothing but what cannot be shown, at its longest: three bytes each. */
static void the_longest_fits(void **state)
{
    char key[512], wanted[3 * 64 + 4];

    (void)state;
    memset(key, 0xff, sizeof key);
    for (unsigned i = 0; i < 65; i++)
        memcpy(wanted + 3 * i, i < 64 ? "\xef\xbf\xbd" : "\xe2\x80\xa6", i < 64 ? 3 : 4);
    expect_shown(key, sizeof key, wanted);
}

/* ---- threads, memory */

static atomic_uint n_running;

struct thread {
    struct stage *stage;
    pthread_t id;
    char key[8];
};

static void *decide(void *ctx)
{
    struct thread *t = ctx;

    ask(t->stage, t->key, strlen(t->key), NULL, 20000);
    ask(t->stage, "all", 3, NULL, 20000);
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

static void threads_count_while_somebody_looks(void **state)
{
    struct stage s;
    struct thread threads[4];
    struct sl_top_key keys[10];
    unsigned n;

    (void)state;
    open_stage(&s, OPEN);
    atomic_store(&n_running, 4);
    for (unsigned i = 0; i < 4; i++) {
        threads[i].stage = &s;
        snprintf(threads[i].key, sizeof threads[i].key, "t%u", i);
        assert_int_equal(pthread_create(&threads[i].id, NULL, decide, &threads[i]), 0);
    }
    while (atomic_load(&n_running) > 0) {
        sl_top_look(s.top, s.now_us); /* time stands still: each look counts as a second */
        sl_top_read(s.top, SL_TOP_HOT, keys, 10);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i].id, NULL);
    sl_top_look(s.top, s.now_us);
    n = sl_top_read(s.top, SL_TOP_HOT, keys, 10);
    assert_in_range(n, 1, 5);
    for (unsigned i = 0; i < n; i++) {
        assert_true(keys[i].per_second > 0);
        assert_non_null(strstr("all t0 t1 t2 t3", keys[i].key));
    }
    close_stage(&s);
}

static void *refuse(void *ctx, void *p, size_t size)
{
    unsigned *left = ctx;
    struct sl_alloc system = sl_alloc_system();

    if (size > 0 && *left == 0)
        return NULL;
    *left -= size > 0;
    return system.realloc(system.ctx, p, size);
}

static void without_memory_there_is_no_tap(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, OPEN);
    for (unsigned n = 0; n < 3; n++) {
        unsigned left = n;
        struct sl_alloc failing = {.realloc = refuse, .ctx = &left};
        struct sl_top *top = NULL;

        assert_int_equal(sl_top_new(&failing, k.limiter, &top), SL_ENOMEM);
        assert_null(top);
        for (unsigned i = 0; i < 100; i++)
            kit_check(&k, "a", NULL, 1);
    }
    sl_top_free(NULL);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sketch_bounds_every_count),
        cmocka_unit_test(the_tap_is_told_of_one_in_sixteen_at_random),
        cmocka_unit_test(batches_are_tapped_alike),
        cmocka_unit_test(the_hottest_come_first_with_their_rates),
        cmocka_unit_test(the_most_rejected_have_a_list_of_their_own),
        cmocka_unit_test(rejections_count_whoever_told_them),
        cmocka_unit_test(the_summary_is_of_the_last_ten_looks),
        cmocka_unit_test(many_rare_keys_do_not_look_hot),
        cmocka_unit_test(the_hottest_addresss_share),
        cmocka_unit_test(keys_are_cut_and_made_readable),
        cmocka_unit_test(the_longest_fits),
        cmocka_unit_test(threads_count_while_somebody_looks),
        cmocka_unit_test(without_memory_there_is_no_tap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
