/* The public API on a real store: waiting, called back, by descriptor, in batches; looking in; reloading. */
#include "store.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_TEN "version: 1\nlimits:\n  - {name: ten, rate: 10/d, coordination: shared}\n"
#define DAY_HUNDRED "version: 1\nlimits:\n  - {name: hundred, rate: 100/d, coordination: shared}\n"

static struct store store;

static int start_store(void **state)
{
    (void)state;
    store_open(&store);
    return 0;
}

static int end_store(void **state)
{
    (void)state;
    store_close(&store);
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    next_namespace();
    return 0;
}

static void a_check_asks_the_store_and_limiters_agree(void **state)
{
    struct sluice *a = open_shared(&store, DAY_TEN), *b = open_shared(&store, DAY_TEN);

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct sluice_verdict verdict = check_key(i % 2 ? a : b, "one", 1);

        assert_true(verdict.allowed);
        assert_int_equal(verdict.source, SLUICE_SHARED);
        assert_int_equal(verdict.remaining, 9 - i);
        assert_int_equal(verdict.limit, 10);
        assert_string_equal(verdict.policy, "ten");
    }
    assert_false(check_key(a, "one", 1).allowed);
    struct sluice_verdict verdict = check_key(b, "one", 1);

    assert_false(verdict.allowed);
    assert_int_equal(verdict.reason, SLUICE_REASON_RATE_LIMITED);
    assert_in_range(verdict.retry_after_ms, 8600000, 8640000);
    assert_true(check_key(a, "two", 10).allowed);
    sluice_close(&a);
    assert_int_equal(check_key(b, "two", 0).remaining, 0); /* the count outlives who made it */
    sluice_close(&b);
}

#define DIVIDED "version: 1\nlimits: [{name: a, rate: 10/d, coordination: shared, regions: {eu: 60%, us: 40%}}]\n"

/* Also for the one that finds another secret in the store and compiles its policy anew. */
static void regions_count_apart_on_one_store(void **state)
{
    struct sluice_options options = shared_options(&store, DIVIDED);
    struct sluice *eu, *us, *again;

    (void)state;
    options.region = "eu";
    eu = open_with(&options);
    again = open_with(&options);
    options.region = "us";
    us = open_with(&options);
    assert_int_equal(check_key(eu, "one", 6).limit, 6);
    assert_false(check_key(again, "one", 1).allowed);
    assert_int_equal(check_key(us, "one", 0).remaining, 4);
    assert_int_equal(check_key(us, "one", 4).source, SLUICE_SHARED);
    assert_int_equal(sluice_reload_text(us, DIVIDED "# anew\n", sizeof DIVIDED "# anew\n" - 1, NULL, NULL, NULL), 0);
    assert_int_equal(check_key(us, "one", 0).limit, 4);
    assert_int_equal(check_key(us, "one", 0).remaining, 0);
    sluice_close(&eu);
    sluice_close(&us);
    sluice_close(&again);
}

/* The store's rejection is remembered: a flood ends in the program. */
static void a_known_rejection_does_not_ask_again(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_TEN);

    (void)state;
    assert_true(check_key(limiter, "one", 10).allowed);
    assert_false(check_key(limiter, "one", 1).allowed);
    uint64_t operations = stats_of(limiter).store_operations;

    for (int i = 0; i < 100; i++)
        assert_int_equal(check_key(limiter, "one", 1).source, SLUICE_LOCAL);
    struct sluice_stats stats = stats_of(limiter);

    assert_int_equal(stats.store_operations, operations);
    assert_int_equal(stats.near_rejected, 100);
    assert_int_equal(stats.asked, 2);
    assert_int_equal(stats.rejected, 101);
    assert_int_equal(stats.degraded, 0);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.store_breaker, 0);
    wait_reached(limiter, true);
    sluice_close(&limiter);
}

struct told {
    pthread_t by;
    atomic_uint done;
};

static void note_thread(void *ctx)
{
    struct told *told = ctx;

    told->by = pthread_self();
    atomic_fetch_add(&told->done, 1);
}

static void a_callback_comes_once_on_another_thread(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);
    struct sluice_verdict verdict;
    struct told told = {.done = 0};

    (void)state;
    assert_int_equal(sluice_check_async(limiter, &request, &verdict, note_thread, &told), SLUICE_PENDING);
    sluice_close(&limiter); /* waits for it */
    assert_int_equal(atomic_load(&told.done), 1);
    assert_false(pthread_equal(told.by, pthread_self()));
    assert_true(verdict.allowed);
    assert_int_equal(verdict.source, SLUICE_SHARED);
}

static void callbacks_admit_exactly_the_limit(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_HUNDRED);
    static struct later list[400];
    unsigned allowed = 0;

    (void)state;
    for (int i = 0; i < 400; i++)
        begin_later(limiter, i % 2 ? "one" : "two", &list[i]);
    wait_later(list, 400);
    for (int i = 0; i < 400; i++) {
        allowed += list[i].verdict.allowed;
        assert_int_not_equal(list[i].verdict.source, SLUICE_DEGRADED);
    }
    assert_int_equal(allowed, 200);
    assert_int_equal(stats_of(limiter).pending, 0);
    sluice_close(&limiter);
}

static void an_answer_at_once_calls_nobody(void **state)
{
    struct sluice *limiter = open_shared(&store, "version: 1\nlimits:\n"
                                                 "  - {name: here, rate: 5/d, coordination: local}\n"
                                                 "  - {name: no, key: no, rate: blocked}\n");
    struct later later;
    struct sluice_request bad = request_of("", 1);

    (void)state;
    begin_later(limiter, "one", &later);
    assert_int_equal(later.result, SLUICE_OK);
    assert_int_equal(later.verdict.remaining, 4);
    assert_int_equal(later.verdict.source, SLUICE_LOCAL);
    begin_later(limiter, "no", &later);
    assert_int_equal(later.result, SLUICE_OK);
    assert_int_equal(later.verdict.reason, SLUICE_REASON_BLOCKED);
    assert_int_equal(sluice_check_async(limiter, &bad, &later.verdict, later_done, &later), SLUICE_EINVALID);
    assert_int_equal(sluice_check_queued(limiter, &bad, &later.verdict, &later), SLUICE_EINVALID);
    sluice_close(&limiter);
    assert_int_equal(atomic_load(&later.done), 0);
}

/* A plain loop of poll(2): completions arrive where they are taken. */
static void a_poll_loop_takes_its_completions(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_HUNDRED);
    struct sluice_completion list[16];
    static struct sluice_verdict verdicts[300];
    struct pollfd fd = {.fd = sluice_completions_fd(limiter), .events = POLLIN};
    unsigned allowed = 0, open = 0;

    (void)state;
    assert_true(fd.fd >= 0);
    assert_int_equal(sluice_completions_fd(limiter), fd.fd);
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (int i = 0; i < 300; i++) {
        struct sluice_request request = request_of("one", 1);
        int result = sluice_check_queued(limiter, &request, &verdicts[i], &verdicts[i]);

        assert_true(result == SLUICE_OK || result == SLUICE_PENDING);
        open += result == SLUICE_PENDING;
        allowed += result == SLUICE_OK && verdicts[i].allowed;
    }
    while (open > 0) {
        assert_int_equal(poll(&fd, 1, 20000), 1);
        size_t n = sluice_completions_take(limiter, list, 16);

        assert_in_range(n, 1, 16);
        for (size_t i = 0; i < n; i++) {
            assert_ptr_equal(list[i].ctx, list[i].verdict);
            allowed += list[i].verdict->allowed;
        }
        open -= (unsigned)n;
    }
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(sluice_completions_take(limiter, list, 16), 0);
    assert_int_equal(allowed, 100);
    assert_int_equal(stats_of(limiter).pending, 0);
    sluice_close(&limiter);
}

static void a_descriptor_asked_for_late_is_readable(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);
    struct sluice_completion completion;
    struct sluice_verdict verdict;

    (void)state;
    assert_int_equal(sluice_check_queued(limiter, &request, &verdict, &request), SLUICE_PENDING);
    struct pollfd fd = {.fd = sluice_completions_fd(limiter), .events = POLLIN};

    assert_int_equal(poll(&fd, 1, 20000), 1);
    assert_int_equal(sluice_completions_take(limiter, &completion, 0), 0);
    assert_int_equal(poll(&fd, 1, 0), 1); /* nothing was taken */
    assert_int_equal(sluice_completions_take(limiter, &completion, 1), 1);
    assert_ptr_equal(completion.ctx, &request);
    assert_int_equal(poll(&fd, 1, 0), 0);
    sluice_close(&limiter);
}

/* The same calls with memory: are answered at once. */
static void without_a_store_nothing_is_pending(void **state)
{
    uint64_t now_us = T0_US;
    struct sluice *limiter = open_for(DAY_TEN, &now_us);
    struct sluice_request request = request_of("one", 1);
    struct sluice_completion completion;
    struct later later;

    (void)state;
    begin_later(limiter, "one", &later);
    assert_int_equal(later.result, SLUICE_OK);
    assert_int_equal(sluice_check_queued(limiter, &request, &later.verdict, NULL), SLUICE_OK);
    assert_int_equal(later.verdict.remaining, 8);
    struct pollfd fd = {.fd = sluice_completions_fd(limiter), .events = POLLIN};

    assert_true(fd.fd >= 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(sluice_completions_take(limiter, &completion, 1), 0);
    assert_int_equal(stats_of(limiter).store_reached, 0);
    sluice_close(&limiter);
}

/* Requests of a batch that meet one bucket are one operation, and admit what one after another would. */
static void b142_a_batch_admits_exactly_the_limit(void **state)
{
    struct sluice *a = open_shared(&store, DAY_HUNDRED), *b = open_shared(&store, DAY_HUNDRED);
    static struct sluice_request requests[SLUICE_BATCH_MAX];
    static struct sluice_verdict verdicts[SLUICE_BATCH_MAX];
    unsigned allowed = 0;
    size_t bad = 0;

    (void)state;
    for (int i = 0; i < SLUICE_BATCH_MAX; i++)
        requests[i] = request_of(i % 2 ? "one" : "two", 1);
    requests[40].cost = -7;
    assert_int_equal(sluice_check_batch(a, requests, 50, verdicts, &bad), SLUICE_EINVALID);
    assert_int_equal(bad, 40);
    assert_int_equal(check_key(a, "one", 0).remaining, 100); /* nothing was charged */
    requests[40].cost = 1;
    assert_true(check_key(b, "one", 30).allowed);
    uint64_t operations = stats_of(a).store_operations;

    assert_int_equal(sluice_check_batch(a, requests, 300, verdicts, &bad), 0);
    assert_int_equal(stats_of(a).store_operations - operations, 2);
    for (int i = 0; i < 300; i++) {
        allowed += verdicts[i].allowed;
        assert_int_equal(verdicts[i].allowed, i < 140 || (i < 200 && i % 2 == 0));
    }
    assert_int_equal(allowed, 170);
    assert_int_equal(sluice_check_batch(a, NULL, 0, NULL, NULL), 0);
    assert_int_equal(sluice_check_batch(a, requests, SLUICE_BATCH_MAX + 1, verdicts, &bad), SLUICE_EINVALID);
    sluice_close(&a);
    sluice_close(&b);
}

static void find_mine(void *ctx, const struct sluice_bucket *bucket)
{
    if (strcmp(bucket->policy, "mine") == 0)
        *(int64_t *)ctx = bucket->remaining;
}

/* One layer refuses: the other, in another slot, keeps nothing of the request. */
static void b154_a_denial_charges_nothing_else(void **state)
{
    struct sluice *limiter = open_shared(&store, "version: 1\ndefaults: {coordination: shared}\nlimits:\n"
                                                 "  - {name: mine, rate: 5/d}\n"
                                                 "  - {name: all, layer: all, per: [], rate: 3/d}\n");
    struct sluice_request request = request_of("one", 1);
    int64_t left = -1;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(check_key(limiter, "one", 1).allowed);
    struct sluice_verdict verdict = check_key(limiter, "one", 1);

    assert_false(verdict.allowed);
    assert_string_equal(verdict.policy, "all");
    assert_int_equal(verdict.source, SLUICE_SHARED);
    for (int i = 0; i < 5000 && left != 2; i++) /* what was charged is given back in the background */
        assert_int_equal(sluice_inspect(limiter, &request, find_mine, &left, NULL), 0);
    assert_int_equal(left, 2);
    assert_int_equal(stats_of(limiter).refunds_lost, 0);
    sluice_close(&limiter);
}

static void add_left(void *ctx, const struct sluice_bucket *bucket)
{
    assert_string_equal(bucket->policy, "ten");
    assert_string_equal(bucket->endpoint, "");
    assert_int_equal(bucket->limit, 10);
    assert_int_equal(bucket->period_ms, 86400000);
    *(int64_t *)ctx += bucket->remaining;
}

static void buckets_of_the_store_are_shown_and_reset(void **state)
{
    struct sluice *a = open_shared(&store, DAY_TEN), *b = open_shared(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);
    int64_t left = 0;
    size_t n = 99;

    (void)state;
    assert_int_equal(sluice_inspect(b, &request, add_left, &left, &n), 0);
    assert_int_equal(n, 0);
    assert_true(check_key(a, "one", 4).allowed);
    assert_int_equal(sluice_inspect(b, &request, add_left, &left, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(left, 6);
    assert_int_equal(sluice_reset(b, &request, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(sluice_reset(b, &request, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(check_key(a, "one", 1).remaining, 9);
    sluice_close(&a);
    sluice_close(&b);
}

/* A reset ends also what the limiter remembers of a rejection. */
static void a_reset_forgets_a_known_rejection(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);

    (void)state;
    check_key(limiter, "one", 10);
    assert_false(check_key(limiter, "one", 1).allowed);
    assert_int_equal(sluice_reset(limiter, &request, NULL), 0);
    assert_true(check_key(limiter, "one", 1).allowed);
    sluice_close(&limiter);
}

/* Whoever comes later takes over the fleet's secret, and keeps it over reloads: else it would count elsewhere. */
static void b98_a_reload_takes_effect_at_once_and_keeps_the_count(void **state)
{
    static const char twenty[] = "version: 1\nlimits:\n  - {name: ten, rate: 10/d, burst: 20, coordination: shared}\n";
    struct sluice *a = open_shared(&store, DAY_TEN), *b = open_shared(&store, DAY_TEN);

    (void)state;
    assert_true(check_key(a, "one", 7).allowed);
    assert_int_equal(sluice_reload_text(b, twenty, strlen(twenty), NULL, NULL, NULL), 0);
    assert_int_equal(check_key(b, "one", 1).remaining, 12);
    assert_int_equal(sluice_reload_text(a, twenty, strlen(twenty), NULL, NULL, NULL), 0);
    assert_int_equal(check_key(a, "one", 1).remaining, 11);
    assert_int_equal(sluice_reload_text(a, "limits: [", 9, NULL, NULL, NULL), SLUICE_EPOLICY);
    assert_int_equal(check_key(a, "one", 1).remaining, 10);
    sluice_close(&a);
    sluice_close(&b);
}

/* Unspent leased tokens go back when the limiter closes. */
static void b144_leased_tokens_are_returned_at_close(void **state)
{
    static const char yaml[] = "version: 1\nlimits:\n  - {name: l, rate: 1000/d, coordination: leased, "
                               "lease: {block: 100, ttl: 60s}}\n";
    struct sluice *a = open_shared(&store, yaml), *b;
    unsigned spent = 0;

    (void)state;
    for (int i = 0; i < 100000 && stats_of(a).leased < 50; i++) {
        struct sluice_verdict verdict = check_key(a, "one", 1);

        assert_true(verdict.allowed || verdict.retry_after_ms > 0);
        spent += verdict.allowed;
    }
    assert_true(stats_of(a).leased >= 50);
    assert_true(stats_of(a).leases >= 1);
    sluice_close(&a);
    b = open_shared(&store, "version: 1\nlimits:\n  - {name: l, rate: 1000/d, coordination: shared}\n");
    assert_int_equal(check_key(b, "one", 0).remaining, 1000 - spent);
    sluice_close(&b);
}

/* ---- in a callback */

struct nested {
    struct sluice *limiter;
    struct later later;
    struct sluice_verdict verdict;
    int waiting, batch, inspect;
    atomic_bool done;
};

static void use_the_library(void *ctx)
{
    struct nested *nested = ctx;
    struct sluice_request request = request_of("two", 1);

    nested->waiting = sluice_check(nested->limiter, &request, &nested->verdict);
    nested->batch = sluice_check_batch(nested->limiter, &request, 1, &nested->verdict, NULL);
    nested->inspect = sluice_inspect(nested->limiter, &request, add_left, NULL, NULL);
    begin_later(nested->limiter, "two", &nested->later);
    atomic_store(&nested->done, true);
}

static void a_callback_may_ask_on_but_not_wait(void **state)
{
    struct sluice *limiter = open_shared(&store, DAY_TEN);
    struct sluice_request request = request_of("one", 1);
    struct nested nested = {.limiter = limiter};
    struct sluice_verdict verdict;

    (void)state;
    assert_int_equal(sluice_check_async(limiter, &request, &verdict, use_the_library, &nested), SLUICE_PENDING);
    while (!atomic_load(&nested.done))
        sched_yield();
    wait_later(&nested.later, 1);
    assert_int_equal(nested.waiting, SLUICE_EBUSY);
    assert_int_equal(nested.batch, SLUICE_EBUSY);
    assert_int_equal(nested.inspect, SLUICE_EBUSY);
    assert_int_equal(nested.later.result, SLUICE_PENDING);
    assert_int_equal(nested.later.verdict.remaining, 9); /* what was refused as busy has charged nothing */
    sluice_close(&limiter);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_check_asks_the_store_and_limiters_agree), TEST(regions_count_apart_on_one_store),
        TEST(a_known_rejection_does_not_ask_again),      TEST(a_callback_comes_once_on_another_thread),
        TEST(callbacks_admit_exactly_the_limit),         TEST(an_answer_at_once_calls_nobody),
        TEST(a_poll_loop_takes_its_completions),         TEST(a_descriptor_asked_for_late_is_readable),
        TEST(without_a_store_nothing_is_pending),        TEST(b142_a_batch_admits_exactly_the_limit),
        TEST(b154_a_denial_charges_nothing_else),        TEST(buckets_of_the_store_are_shown_and_reset),
        TEST(a_reset_forgets_a_known_rejection),         TEST(b98_a_reload_takes_effect_at_once_and_keeps_the_count),
        TEST(b144_leased_tokens_are_returned_at_close),  TEST(a_callback_may_ask_on_but_not_wait),
    };
    return cmocka_run_group_tests(tests, start_store, end_store);
}
