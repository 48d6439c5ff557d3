/* All or nothing with 64 threads, and policies swapped under load. */
#include "kit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define THREADS 64

struct hammer {
    struct kit *kit;
    const char *key;
    pthread_barrier_t *start;
    unsigned rounds;
    unsigned cost_max; /* costs 1 ... cost_max in turn */
    uint64_t admitted, spent;
};

static void *hammer(void *arg)
{
    struct hammer *h = arg;

    pthread_barrier_wait(h->start);
    for (unsigned i = 0; i < h->rounds; i++) {
        struct sluice_verdict verdict;
        unsigned cost = 1 + i % h->cost_max;
        struct sluice_request request = kit_request(h->key, NULL, cost);

        if (sl_limiter_check(h->kit->limiter, &request, &verdict, NULL, NULL, NULL) == 0 && verdict.allowed) {
            h->admitted++;
            h->spent += cost;
        }
    }
    return NULL;
}

/* Runs 64 threads of it; returns the sums. keys: one or two, taken in turn. */
static struct hammer hammer_all(struct kit *kit, const char *const keys[2], unsigned rounds, unsigned cost_max)
{
    struct hammer hammers[THREADS], sum = {.kit = kit};
    pthread_t threads[THREADS];
    pthread_barrier_t start;

    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        hammers[i] =
            (struct hammer){.kit = kit, .key = keys[i % 2], .start = &start, .rounds = rounds, .cost_max = cost_max};
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &hammers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum.admitted += hammers[i].admitted;
        sum.spent += hammers[i].spent;
    }
    pthread_barrier_destroy(&start);
    return sum;
}

static const char *const one_key[2] = {"k", "k"}, *const two_keys[2] = {"a", "b"};

static void many_threads_on_one_key_get_exactly_the_smallest_rate(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct kit k;

        kit_open(&k, "limits:\n  - {name: three, rates: [400/s, 300/m, 500/h]}\n");
        assert_int_equal(hammer_all(&k, one_key, 20, 1).admitted, 300);
        for (unsigned i = 0; i < 3; i++) {
            static struct sl_report report;
            struct sluice_request request = kit_request("k", NULL, 0);
            struct sluice_verdict verdict;

            assert_int_equal(sl_limiter_check(k.limiter, &request, &verdict, &report, NULL, NULL), 0);
            assert_int_equal(report.items[i].remaining, report.items[i].quota - 300);
        }
        kit_close(&k);
    }
}

static void costs_of_many_sizes_never_spend_more_than_there_is(void **state)
{
    static struct sl_report report;

    (void)state;
    for (int round = 0; round < 5; round++) {
        struct kit k;
        struct sluice_request request = kit_request("k", NULL, 0);
        struct sluice_verdict verdict;

        kit_open(&k, "limits:\n"
                     "  - {name: three, rates: [400/s, 300/m]}\n"
                     "  - {name: window, layer: w, algorithm: fixed_window, rate: 500/h}\n");
        struct hammer sum = hammer_all(&k, one_key, 20, 3);

        assert_in_range(sum.spent, 298, 300); /* two tokens may be left over that no cost of 3 fits */
        assert_int_equal(sl_limiter_check(k.limiter, &request, &verdict, &report, NULL, NULL), 0);
        assert_int_equal(report.n, 3);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(report.items[i].remaining, report.items[i].quota - (int64_t)sum.spent);
        kit_close(&k);
    }
}

static void a_shared_bucket_behind_own_ones_is_spent_to_the_last_token(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct kit k;

        kit_open(&k, "limits:\n"
                     "  - {name: all, layer: backend, per: [], rate: 150/h}\n"
                     "  - {name: mine, rate: 100/h}\n");
        uint64_t admitted = hammer_all(&k, two_keys, 20, 1).admitted;

        assert_int_equal(admitted, 150);
        kit_reload(&k, "limits:\n  - {name: mine, rate: 100/h}\n");
        assert_int_equal(kit_check(&k, "a", NULL, 0).remaining + kit_check(&k, "b", NULL, 0).remaining, 50);
        kit_close(&k);
    }
}

#define LOADERS 4
#define RELOADS 60

struct loader {
    struct kit *kit;
    const bool *stop;
    unsigned wrong;
    uint64_t decisions;
};

/* Each verdict must come whole from one of the two policies. */
static void *load(void *arg)
{
    struct loader *l = arg;
    struct sluice_request requests[20];

    for (unsigned i = 0; i < 20; i++)
        requests[i] = kit_request(i % 2 ? "k1" : "k2", NULL, 1);
    while (!__atomic_load_n(l->stop, __ATOMIC_RELAXED)) {
        struct sluice_verdict v[20];
        bool first;

        if (sl_limiter_check_batch(l->kit->limiter, requests, 20, v, NULL, NULL, NULL, NULL) != 0)
            l->wrong++;
        first = v[0].limit == 1000000;
        for (unsigned i = 0; i < 20; i++)
            l->wrong += strcmp(v[i].policy, first ? "first" : "second") != 0 || v[i].limit != (first ? 1000000 : 999);
        l->decisions += 20;
        if (sl_limiter_check(l->kit->limiter, &requests[0], v, NULL, NULL, NULL) != 0)
            l->wrong++;
        l->decisions++;
    }
    return NULL;
}

static void every_decision_sees_one_policy_whole(void **state)
{
    struct kit k;
    struct loader loaders[LOADERS];
    pthread_t threads[LOADERS];
    bool stop = false;
    uint64_t decisions = 0;
    struct sl_limiter_stats stats;

    (void)state;
    kit_open(&k, "limits:\n  - {name: first, rate: 1000000/s}\n");
    for (int i = 0; i < LOADERS; i++) {
        loaders[i] = (struct loader){.kit = &k, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, load, &loaders[i]), 0);
    }
    for (int i = 0; i < RELOADS; i++) {
        kit_reload(&k, i % 2 ? "limits:\n  - {name: first, rate: 1000000/s}\n"
                             : "limits:\n  - {name: second, rate: 999/s}\n");
        struct sl_policy *policy = sl_limiter_policy(k.limiter);

        assert_int_equal(sl_policy_n_limits(policy), 1);
        sl_policy_unref(policy);
        kit_count(&k, "first");
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < LOADERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(loaders[i].wrong, 0);
        decisions += loaders[i].decisions;
    }
    sl_limiter_stats(k.limiter, &stats);
    assert_int_equal(stats.allowed + stats.rejected, decisions);
    assert_int_equal(stats.reloads, RELOADS);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_on_one_key_get_exactly_the_smallest_rate),
        cmocka_unit_test(costs_of_many_sizes_never_spend_more_than_there_is),
        cmocka_unit_test(a_shared_bucket_behind_own_ones_is_spent_to_the_last_token),
        cmocka_unit_test(every_decision_sees_one_policy_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
