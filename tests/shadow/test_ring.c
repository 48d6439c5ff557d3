/* The ring between a serving loop and the shadow's thread. */
#include "shadow/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 32768u

static struct sl_ring *make(void)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_ring *ring = sl_ring_new(&alloc, BYTES);

    assert_non_null(ring);
    return ring;
}

static struct sluice_request request_of(const char *key)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    return request;
}

static bool put(struct sl_ring *ring, const struct sluice_request *request, uint64_t t_us)
{
    const struct sl_seen seen = {
        .t_us = t_us, .request = request, .allowed = t_us % 2, .source = SLUICE_SHARED, .policy = "free"};

    return sl_ring_put(ring, &seen);
}

static void assert_text(const char *text, size_t len, const char *wanted)
{
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(text, wanted, len);
}

static void comes_out_as_it_went_in(void **state)
{
    struct sl_ring *ring = make();
    const struct sluice_label labels[] = {{"region", 6, "eu", 2}, {"empty", 5, "", 0}};
    struct sluice_request request = request_of("acct");
    struct sl_told told;
    uint64_t t_us;

    (void)state;
    request.scope = "api:search", request.scope_len = 10;
    request.tier = "", request.tier_len = 0;
    request.labels = labels, request.n_labels = 2;
    request.cost = 7;
    assert_false(sl_ring_next_at(ring, &t_us));
    assert_true(put(ring, &request, 41));
    assert_true(sl_ring_next_at(ring, &t_us));
    assert_int_equal(t_us, 41);
    assert_true(sl_ring_peek(ring, &told));
    assert_int_equal(told.t_us, 41);
    assert_true(told.allowed);
    assert_int_equal(told.source, SLUICE_SHARED);
    assert_string_equal(told.policy, "free");
    assert_text(told.request.key, told.request.key_len, "acct");
    assert_text(told.request.scope, told.request.scope_len, "api:search");
    assert_null(told.request.key_type);
    assert_non_null(told.request.tier); /* an empty one is not an absent one */
    assert_int_equal(told.request.tier_len, 0);
    assert_null(told.request.address);
    assert_int_equal(told.request.cost, 7);
    assert_int_equal(told.request.n_labels, 2);
    assert_text(told.request.labels[0].name, told.request.labels[0].name_len, "region");
    assert_text(told.request.labels[0].value, told.request.labels[0].value_len, "eu");
    assert_text(told.request.labels[1].name, told.request.labels[1].name_len, "empty");
    assert_int_equal(told.request.labels[1].value_len, 0);
    sl_ring_drop(ring);
    assert_false(sl_ring_peek(ring, &told));
    sl_ring_free(ring);
}

/* The longest request there is, next to the shortest, many times round. */
static void goes_round(void **state)
{
    struct sl_ring *ring = make();
    static char long_text[SLUICE_SCOPE_MAX + 1], value[SLUICE_LABEL_VALUE_MAX + 1];
    struct sluice_label labels[SLUICE_LABELS_MAX];
    struct sluice_request small = request_of("k"), large;
    struct sl_told told;

    (void)state;
    memset(long_text, 'x', SLUICE_SCOPE_MAX);
    memset(value, 'v', SLUICE_LABEL_VALUE_MAX);
    large = request_of(long_text);
    large.key_len = SLUICE_KEY_MAX;
    large.scope = long_text, large.scope_len = SLUICE_SCOPE_MAX;
    for (size_t i = 0; i < SLUICE_LABELS_MAX; i++)
        labels[i] = (struct sluice_label){value, SLUICE_LABEL_NAME_MAX, value, SLUICE_LABEL_VALUE_MAX};
    large.labels = labels, large.n_labels = SLUICE_LABELS_MAX;
    for (uint64_t i = 0; i < 2000; i++) {
        bool is_large = i % 3 == 0;

        assert_true(put(ring, is_large ? &large : &small, i));
        assert_true(put(ring, &small, i));
        for (int twice = 0; twice < 2; twice++) {
            assert_true(sl_ring_peek(ring, &told));
            assert_int_equal(told.t_us, i);
            assert_int_equal(told.request.key_len, is_large && !twice ? SLUICE_KEY_MAX : 1);
            assert_int_equal(told.request.n_labels, is_large && !twice ? SLUICE_LABELS_MAX : 0);
            sl_ring_drop(ring);
        }
    }
    sl_ring_free(ring);
}

static void a_full_ring_drops_the_newest(void **state)
{
    struct sl_ring *ring = make();
    struct sluice_request request = request_of("acct_8812");
    struct sl_told told;
    uint64_t n = 0;

    (void)state;
    while (put(ring, &request, n))
        n++;
    assert_in_range(n, BYTES / 128, BYTES / 48);
    assert_false(put(ring, &request, n));
    for (uint64_t i = 0; i < n; i++) {
        assert_true(sl_ring_peek(ring, &told));
        assert_int_equal(told.t_us, i);
        sl_ring_drop(ring);
    }
    assert_true(put(ring, &request, n));
    sl_ring_clear(ring);
    assert_false(sl_ring_peek(ring, &told));
    sl_ring_free(ring);
}

struct pair {
    struct sl_ring *ring;
    uint64_t n, n_put;
};

static void *write_all(void *ctx)
{
    struct pair *pair = ctx;
    char key[32];

    for (uint64_t i = 0; i < pair->n; i++) {
        struct sluice_request request;

        snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
        request = request_of(key);
        pair->n_put += put(pair->ring, &request, i);
    }
    return NULL;
}

/* One writes, another reads; what comes out is whole, in order, and as much as went in. */
static void two_threads(void **state)
{
    struct pair pair = {.ring = make(), .n = 20000};
    struct sl_told told;
    pthread_t thread;
    uint64_t n_read = 0, last = 0;
    bool ended = false;
    char key[32];

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &pair), 0);
    while (true) {
        if (sl_ring_peek(pair.ring, &told)) {
            assert_true(n_read == 0 || told.t_us > last);
            last = told.t_us;
            snprintf(key, sizeof key, "key-%llu", (unsigned long long)last);
            assert_text(told.request.key, told.request.key_len, key);
            sl_ring_drop(pair.ring);
            n_read++;
        } else if (ended) {
            break;
        } else if (pthread_tryjoin_np(thread, NULL) == 0) {
            ended = true;
        }
    }
    assert_int_equal(n_read, pair.n_put);
    sl_ring_free(pair.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_out_as_it_went_in),
        cmocka_unit_test(goes_round),
        cmocka_unit_test(a_full_ring_drops_the_newest),
        cmocka_unit_test(two_threads),
    };

    return cmocka_run_group_tests_name("shadow ring", tests, NULL, NULL);
}
