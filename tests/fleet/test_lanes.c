/* One instance with several loops: lanes on threads of their own share leases, known rejections and the table, and agree to
 * the token. */
#include "../store/redis.h"
#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 4u
#define WINDOW 32u /* decisions of one lane on their way at once */

static struct redis server;
static struct sl_limiter *limiter;
static struct sl_fleet *fleet;
static const char *policy_text;
static atomic_uint ready_lanes, stopped_lanes, secrets;

static struct sl_policy *compile(const struct sl_secret *secret)
{
    struct sl_policy_options options = {.secret = *secret, .alloc = sl_alloc_system(), .has_store = true};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, sl_alloc_system());
    if (sl_policy_parse(policy_text, strlen(policy_text), "test.yaml", &options, &policy, &diags) != 0)
        abort();
    sl_diags_fini(&diags);
    return policy;
}

static void on_secret(void *owner, const struct sl_secret *secret)
{
    (void)owner;
    secrets++;
    if (sl_limiter_set_policy(limiter, compile(secret)) != 0)
        abort();
    sl_fleet_set_secret(fleet, secret);
}

/* ---- one loop */

struct worker {
    pthread_t thread;
    uv_loop_t loop;
    uv_timer_t tick;
    struct sl_net_uv net;
    struct sl_alloc alloc;
    struct sl_lane *lane;
    unsigned keys, to_do, open;
    bool stopped;
    uint64_t allowed, degraded;
    struct decision {
        struct worker *worker;
        bool open;
        struct sluice_verdict verdict;
    } decisions[WINDOW];
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void count(struct worker *w, struct decision *d)
{
    w->allowed += d->verdict.allowed;
    w->degraded += d->verdict.source == SLUICE_DEGRADED;
}

static void on_done(void *ctx)
{
    struct decision *d = ctx;

    d->open = false;
    d->worker->open--;
    count(d->worker, d);
}

static void begin(struct worker *w, struct decision *d)
{
    char key[24];
    struct sluice_request request;
    int result;

    snprintf(key, sizeof key, "k%u", w->to_do-- % w->keys);
    request = fleet_request(key, NULL, 1);
    d->worker = w;
    result = sl_lane_check(w->lane, &request, &d->verdict, NULL, NULL, NULL, on_done, d);
    d->open = result == SL_PENDING;
    w->open += d->open;
    if (result == SL_DECIDED)
        count(w, d);
}

static void on_stopped(void *ctx)
{
    ((struct worker *)ctx)->stopped = true;
}

static void decide_all(struct worker *w)
{
    while (w->to_do > 0 || w->open > 0) {
        for (unsigned i = 0; i < WINDOW && w->to_do > 0; i++)
            if (!w->decisions[i].open)
                begin(w, &w->decisions[i]);
        uv_run(&w->loop, w->open ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    }
}

static void *run(void *ctx)
{
    struct worker *w = ctx;
    char why[256];

    w->alloc = sl_alloc_system();
    if (uv_loop_init(&w->loop) || uv_timer_init(&w->loop, &w->tick) || uv_timer_start(&w->tick, on_tick, 1, 1) ||
        sl_net_uv_init(&w->net, &w->loop, &w->alloc) || sl_lane_new(fleet, &w->net.net, &w->lane, why, sizeof why))
        abort();
    while (!sl_lane_ready(w->lane))
        uv_run(&w->loop, UV_RUN_ONCE);
    for (ready_lanes++; ready_lanes < LANES;)
        uv_run(&w->loop, UV_RUN_ONCE);
    decide_all(w);
    sl_lane_stop(w->lane, on_stopped, w);
    while (!w->stopped)
        uv_run(&w->loop, UV_RUN_ONCE);
    for (stopped_lanes++; stopped_lanes < LANES;) /* the fleet's others may still look at this lane's counters */
        uv_run(&w->loop, UV_RUN_ONCE);
    sl_lane_free(w->lane);
    while (w->net.n_open)
        uv_run(&w->loop, UV_RUN_ONCE);
    sl_net_uv_fini(&w->net);
    uv_close((uv_handle_t *)&w->tick, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    uv_loop_close(&w->loop);
    return NULL;
}

/* ---- the whole */

static void count_shard(void *ctx, const struct sl_shard_stats *stats)
{
    *(uint64_t *)ctx += stats->results[SL_RESULT_OK];
}

/* Decides `each` requests over `keys` keys on every lane; returns how many were allowed. */
static uint64_t decide(const char *yaml, const char *ns, unsigned keys, unsigned each)
{
    static struct worker workers[LANES];
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_table_options options = sl_table_defaults();
    struct sl_store_url url;
    struct sl_fleet_config config = {
        .alloc = &alloc, .store = &url, .ns = ns, .timeout_us = 5000000, .instances = 1, .secret = on_secret};
    struct sl_table *table;
    struct sl_secret secret;
    char why[256], text[256];
    uint64_t allowed = 0, calls = 0;

    policy_text = yaml;
    ready_lanes = stopped_lanes = secrets = 0;
    snprintf(text, sizeof text, "redis+unix://%s", server.socket);
    assert_int_equal(sl_store_url_parse(text, &url, why, sizeof why), 0);
    options.keys = 10000;
    assert_int_equal(sl_table_open(&options, &table, why, sizeof why), 0);
    secret = sl_table_secret(table);
    assert_int_equal(sl_limiter_new(table, compile(&secret), &alloc, &limiter), 0);
    config.limiter = limiter;
    assert_int_equal(sl_fleet_new(&config, &fleet, why, sizeof why), 0);
    sl_fleet_set_secret(fleet, &secret);
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < LANES; i++) {
        workers[i].keys = keys;
        workers[i].to_do = each;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    sl_fleet_shards(fleet, count_shard, &calls); /* at any time, from any thread */
    for (unsigned i = 0; i < LANES; i++) {
        pthread_join(workers[i].thread, NULL);
        allowed += workers[i].allowed;
        assert_int_equal(workers[i].degraded, 0);
    }
    sl_fleet_free(fleet);
    sl_limiter_free(limiter);
    sl_store_url_fini(&url);
    return allowed;
}

static void test_shared_is_exact_over_loops(void **state)
{
    (void)state;
    assert_int_equal(decide("version: 1\nlimits:\n  - {name: a, rate: 500/h, burst: 500, coordination: shared,"
                            " local_factor: 1000}\n",
                            "l1", 3, 1500),
                     1500);
}

static void test_leased_never_admits_more_over_loops(void **state)
{
    uint64_t allowed = decide("version: 1\nlimits:\n  - {name: a, rate: 2000/h, burst: 2000, coordination: leased,"
                              " lease: {block: 20}, local_factor: 1000}\n",
                              "l2", 1, 1500);

    (void)state;
    assert_in_range(allowed, 1980, 2000 + 20 + 5); /* the burst, a block, and what comes back meanwhile */
}

static void test_fixed_windows_leased_never_admit_more(void **state)
{
    uint64_t allowed = decide("version: 1\nlimits:\n  - {name: a, algorithm: fixed_window, rate: 2000/366d,"
                              " coordination: leased, lease: {block: 20}, local_factor: 1000}\n",
                              "l3", 1, 1500);

    (void)state;
    assert_in_range(allowed, 1980, 2000);
}

static void test_split_is_exact_over_loops(void **state)
{
    uint64_t allowed =
        decide("version: 1\nlimits:\n  - {name: a, rate: 1001/h, burst: 1001, coordination: split, split: 4,"
               " local_factor: 1000}\n",
               "l4", 1, 1500);

    (void)state;
    assert_in_range(allowed, 1001, 1003); /* and what drips in meanwhile */
}

static int start(void **state)
{
    (void)state;
    server = redis_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_is_exact_over_loops),
        cmocka_unit_test(test_leased_never_admits_more_over_loops),
        cmocka_unit_test(test_fixed_windows_leased_never_admit_more),
        cmocka_unit_test(test_split_is_exact_over_loops),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
