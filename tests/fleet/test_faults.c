/* Faults that other limiters have had where several instances share a store, each by its number. */
#include "../store/redis.h"
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct redis server;
static struct fleet_kit kit;

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

static void open_fleet(const char *yaml, unsigned n)
{
    char address[160];

    snprintf(address, sizeof address, "redis+unix://%s", server.socket);
    fleet_open(&kit, address, yaml, n, 0, true);
}

static int64_t remaining(unsigned i, const char *key)
{
    return fleet_check(&kit.instances[i], key, NULL, 0).remaining;
}

static bool all_know_of_all(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < kit.n; i++)
        if (sl_fleet_instances(kit.instances[i].fleet) != kit.n)
            return false;
    return true;
}

static void meet(void)
{
    assert_true(fleet_wait(&kit, all_know_of_all, NULL));
}

/* Reading, deciding and then writing lets through whoever reads in between. */
static void test_b109_read_then_increment_race(void **state)
{
    static struct decided decided[4][250];
    struct sluice_request request = fleet_request("k", NULL, 1);
    unsigned allowed = 0;

    (void)state;
    open_fleet("limits:\n  - {name: a, algorithm: fixed_window, rate: 100/366d, coordination: shared,"
               " local_factor: 1000}\n",
               4);
    for (unsigned n = 0; n < 250; n++) /* all of them at once, from four instances */
        for (unsigned i = 0; i < 4; i++)
            fleet_begin(&kit.instances[i], &request, &decided[i][n]);
    for (unsigned n = 0; n < 250; n++)
        for (unsigned i = 0; i < 4; i++) {
            fleet_finish(&kit, &decided[i][n]);
            allowed += decided[i][n].verdict.allowed;
        }
    assert_int_equal(allowed, 100);
    fleet_close(&kit);
}

/* What was spent between two reconciliations is told to the store once. */
static void test_b111_batched_sync_increments_twice(void **state)
{
    unsigned allowed = 0;

    (void)state;
    open_fleet("limits:\n  - {name: a, algorithm: fixed_window, rate: 1000/366d, coordination: synced,"
               " sync: {interval: 100ms}}\n",
               1);
    for (unsigned i = 0; i < 20; i++) {
        allowed += fleet_check(&kit.instances[0], "k", NULL, 1).allowed;
        fleet_run_ms(&kit, 150);
    }
    assert_int_equal(allowed, 20);
    fleet_stop(&kit.instances[0]); /* gives back what it holds */
    fleet_join(&kit);
    fleet_wait_ready(&kit);
    assert_int_equal(remaining(1, "k"), 980);
    fleet_close(&kit);
}

static void count_noauth(void *ctx, const struct sl_shard_stats *stats)
{
    *(uint64_t *)ctx +=
        stats->results[SL_RESULT_NOAUTH] + stats->results[SL_RESULT_WRONGPASS] + stats->results[SL_RESULT_UNREACHABLE];
}

/* A limit that fails open is counted by cause and told of; one that fails to `local` still limits. */
static void test_b135_fail_open_is_silent(void **state)
{
    struct redis own = redis_start_bare(NULL);
    char address[160];
    unsigned allowed = 0;
    uint64_t causes = 0;

    (void)state;
    redis_run(own.c, "CONFIG SET requirepass first");
    snprintf(address, sizeof address, "redis+unix://:first@%s", own.socket);
    fleet_open(&kit, address,
               "limits:\n  - {name: a, key_type: o, rate: 10/h, coordination: shared, on_store_failure: open}\n"
               "  - {name: b, rate: 10/h, coordination: shared, local_factor: 1000}\n",
               1, 20000, true);
    redis_run(own.c, "CONFIG SET requirepass second");
    redis_run(own.c, "CLIENT KILL TYPE normal SKIPME yes");
    fleet_run_ms(&kit, 100);
    for (unsigned i = 0; i < 50; i++)
        allowed += fleet_check(&kit.instances[0], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 10);
    assert_true(fleet_stats(&kit.instances[0]).degraded >= 50);
    sl_fleet_shards(kit.instances[0].fleet, count_noauth, &causes);
    assert_true(causes > 0);
    assert_true(kit.instances[0].lost > 0);
    fleet_close(&kit);
    redis_stop(&own);
}

/* Leased tokens do not outlive the window that granted them. */
static void test_b142_batching_exceeds_the_global_limit(void **state)
{
    uint64_t until, admitted[64] = {0};
    int64_t first = 0;

    (void)state;
    open_fleet("limits:\n  - {name: a, algorithm: fixed_window, rate: 500/s, coordination: leased, lease: {block: 10},"
               " local_factor: 1000}\n",
               10);
    meet();
    uv_update_time(&kit.loop);
    until = uv_now(&kit.loop) + 3000;
    while (uv_now(&kit.loop) < until)
        for (unsigned i = 0; i < kit.n; i++) {
            struct sluice_verdict v = fleet_check(&kit.instances[i], "k", NULL, 1);
            int64_t window = (v.reset_at_ms + 500) / 1000; /* told to the millisecond, by clocks that agree to one */

            if (!v.allowed)
                continue;
            first = first ? first : window;
            assert_in_range(window - first, 0, 63);
            admitted[window - first]++;
        }
    for (unsigned w = 0; w < 64; w++)
        assert_in_range(admitted[w], 0, 500);
    assert_true(admitted[1] > 400); /* a whole window was used well */
    fleet_close(&kit);
}

static bool second_is_served(void *ctx)
{
    unsigned *served = ctx;

    *served += fleet_check(&kit.instances[1], "k", NULL, 1).allowed;
    return *served == 90;
}

/* Tokens that an idle instance holds come back within its ttl, by a real timer. */
static void test_b144_return_of_unused_tokens_never_runs(void **state)
{
    unsigned served = 0;

    (void)state;
    open_fleet("limits:\n  - {name: a, algorithm: fixed_window, rate: 100/366d, coordination: leased,"
               " lease: {block: 50, ttl: 200ms}, local_factor: 1000}\n",
               2);
    meet();
    assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 10), 10);
    assert_true(fleet_wait(&kit, second_is_served, &served));
    /* And no more than the limit: what came back twice, or late, would show. */
    fleet_run_ms(&kit, 500);
    assert_int_equal(
        fleet_admitted(&kit.instances[1], "k", NULL, 30) + fleet_admitted(&kit.instances[0], "k", NULL, 30), 0);
    fleet_close(&kit);
}

/* Both instances tell the same reset, and a remaining that differs by what they hold at most. */
static void test_b145_remote_part_of_the_quota_drifts(void **state)
{
    int64_t reset = 0;

    (void)state;
    open_fleet("limits:\n  - {name: a, algorithm: fixed_window, rate: 1000/366d, coordination: synced,"
               " sync: {interval: 100ms}, local_factor: 1000}\n",
               2);
    meet();
    for (unsigned i = 0; i < 60; i++) {
        struct sluice_verdict v = fleet_check(&kit.instances[i % 2], "k", NULL, 1);

        assert_true(v.allowed);
        reset = reset ? reset : v.reset_at_ms;
        assert_in_range(v.reset_at_ms, reset - 1000, reset + 1000);
        assert_in_range(v.remaining, 1000 - (i + 1) - 20, 1000 - (i + 1) + 20);
        fleet_run_ms(&kit, 20);
    }
    fleet_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b109_read_then_increment_race),
        cmocka_unit_test(test_b111_batched_sync_increments_twice),
        cmocka_unit_test(test_b135_fail_open_is_silent),
        cmocka_unit_test(test_b142_batching_exceeds_the_global_limit),
        cmocka_unit_test(test_b144_return_of_unused_tokens_never_runs),
        cmocka_unit_test(test_b145_remote_part_of_the_quota_drifts),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
