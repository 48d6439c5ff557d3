/* Decisions of the shared tier, by several instances on a real server: exactness, merging, all or nothing over several
 * stores, what is answered near, failure modes, and what is given back. */
#include "../store/redis.h"
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct redis server;
static struct fleet_kit kit;

static const char *address(const struct redis *r)
{
    static char text[2][160];
    static unsigned turn;

    turn ^= 1;
    snprintf(text[turn], sizeof text[turn], "redis+unix://%s", r->socket);
    return text[turn];
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

static void open_fleet(const char *yaml, unsigned n)
{
    fleet_open(&kit, address(&server), yaml, n, 0, true);
}

static const char SHARED[] =
    "limits:\n  - {name: a, rate: 100/h, burst: 100, coordination: shared, local_factor: 1000}\n";

static void test_instances_admit_one_limit_together(void **state)
{
    unsigned allowed = 0;

    (void)state;
    open_fleet(SHARED, 4);
    for (unsigned i = 0; i < 400; i++)
        allowed += fleet_check(&kit.instances[i % 4], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 100);
    assert_int_equal(fleet_check(&kit.instances[0], "other", NULL, 1).remaining, 99);
    fleet_close(&kit);
}

static void test_verdict_is_the_stores(void **state)
{
    struct sluice_verdict v;

    (void)state;
    open_fleet(SHARED, 1);
    v = fleet_check(&kit.instances[0], "k", NULL, 30);
    assert_true(v.allowed);
    assert_int_equal(v.source, SLUICE_SHARED);
    assert_int_equal(v.limit, 100);
    assert_int_equal(v.remaining, 70);
    assert_string_equal(v.policy, "a");
    assert_int_equal(v.reset_after_ms, 30 * 36000);
    v = fleet_check(&kit.instances[0], "k", NULL, 0); /* a peek asks, and writes nothing */
    assert_int_equal(v.remaining, 70);
    v = fleet_check(&kit.instances[0], "k", NULL, 101);
    assert_false(v.allowed);
    assert_int_equal(v.reason, SLUICE_REASON_COST_EXCEEDS_LIMIT);
    assert_int_equal(v.retry_after_ms, -1);
    fleet_close(&kit);
}

/* The store runs on this machine, by the same clock. */
static void test_clocks_are_compared_at_each_heartbeat(void **state)
{
    int64_t apart_us;

    (void)state;
    open_fleet(SHARED, 1);
    apart_us = fleet_stats(&kit.instances[0]).clock_apart_us;
    assert_true(apart_us != 0);
    assert_true(llabs(apart_us) < INT64_C(60000000));
    fleet_close(&kit);
}

static void expect_anonymous(uint64_t allowed, uint64_t rejected)
{
    struct sl_limiter_stats stats;

    sl_limiter_stats(kit.instances[0].limiter, &stats);
    assert_int_equal(stats.anonymous_allowed, allowed);
    assert_int_equal(stats.anonymous_rejected, rejected);
}

/* Decisions of the store, of what is known of it here, and those that came back after a reload. */
static void test_anonymous_decisions_are_counted(void **state)
{
    struct sluice_request request;
    struct decided decided;

    (void)state;
    open_fleet("limits: [{name: a, coordination: shared, rate: 2/h}]\n", 1);
    request = fleet_request("192.0.2.1", NULL, 1);
    request.key_type = "address", request.key_type_len = 7;
    for (unsigned i = 0; i < 4; i++) {
        fleet_begin(&kit.instances[0], &request, &decided);
        fleet_finish(&kit, &decided);
        assert_int_equal(decided.verdict.allowed, i < 2);
    }
    fleet_check(&kit.instances[0], "k", NULL, 1);
    expect_anonymous(2, 2);
    request.key = "192.0.2.2";
    fleet_begin(&kit.instances[0], &request, &decided);
    fleet_reload(&kit, "limits: [{name: a, coordination: shared, rate: 3/h}]\n");
    fleet_finish(&kit, &decided);
    expect_anonymous(3, 2);
    fleet_close(&kit);
}

static void test_requests_of_a_turn_go_as_one(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    static struct decided decided[300];
    unsigned allowed = 0;
    int64_t remaining = 100;

    (void)state;
    open_fleet(SHARED, 1);
    for (unsigned i = 0; i < 300; i++)
        fleet_begin(&kit.instances[0], &request, &decided[i]);
    for (unsigned i = 0; i < 300; i++) {
        fleet_finish(&kit, &decided[i]);
        allowed += decided[i].verdict.allowed;
        /* exactly as if they had been sent one after another */
        assert_int_equal(decided[i].verdict.allowed, i < 100);
        if (i < 100)
            assert_int_equal(decided[i].verdict.remaining, --remaining);
    }
    assert_int_equal(allowed, 100);
    assert_int_equal(fleet_stats(&kit.instances[0]).operations, 1);
    fleet_close(&kit);
}

static void test_rejections_are_answered_here(void **state)
{
    struct sluice_verdict v;
    uint64_t operations;

    (void)state;
    open_fleet(SHARED, 1);
    assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 101), 100);
    operations = fleet_stats(&kit.instances[0]).operations;
    for (unsigned i = 0; i < 50; i++) {
        v = fleet_check(&kit.instances[0], "k", NULL, 1);
        assert_false(v.allowed);
        assert_int_equal(v.source, SLUICE_LOCAL);
        assert_int_equal(v.limit, 100);
        assert_in_range(v.retry_after_ms, 35000, 36000);
    }
    assert_int_equal(fleet_stats(&kit.instances[0]).operations, operations);
    assert_true(fleet_check(&kit.instances[0], "k", NULL, 0).allowed);
    fleet_close(&kit);
}

static void test_filter_ends_a_flood_before_the_store(void **state)
{
    static const char yaml[] = "limits:\n  - {name: a, rate: 10/h, burst: 10, coordination: shared, local_factor: 2}\n";
    static struct decided decided[100];
    struct sluice_request request = fleet_request("k", NULL, 1);
    unsigned near = 0;

    (void)state;
    open_fleet(yaml, 1);
    for (unsigned i = 0; i < 100; i++)
        fleet_begin(&kit.instances[0], &request, &decided[i]);
    for (unsigned i = 0; i < 100; i++)
        near += decided[i].done && !decided[i].verdict.allowed;
    assert_int_equal(near, 80); /* twice the limit passed */
    for (unsigned i = 0; i < 100; i++)
        fleet_finish(&kit, &decided[i]);
    fleet_close(&kit);
}

/* ---- several buckets */

static const char LAYERS[] = "limits:\n"
                             "  - {name: mine, rate: 50/h, burst: 50, coordination: shared, local_factor: 1000}\n"
                             "  - {name: all, layer: backend, per: [], rate: 20/h, burst: 20, coordination: shared,"
                             " local_factor: 1000}\n";

static void test_layers_are_charged_together_or_not_at_all(void **state)
{
    (void)state;
    open_fleet(LAYERS, 2);
    assert_int_equal(
        fleet_admitted(&kit.instances[0], "x", NULL, 15) + fleet_admitted(&kit.instances[1], "y", NULL, 15), 20);
    assert_int_equal(fleet_check(&kit.instances[1], "y", NULL, 1).limit, 20);
    /* What `all` refused was not taken from `mine`. */
    fleet_reload(&kit, "limits:\n  - {name: mine, rate: 50/h, burst: 50, coordination: shared, local_factor: 1000}\n");
    assert_int_equal(fleet_check(&kit.instances[0], "y", NULL, 0).remaining, 45);
    fleet_close(&kit);
}

static void test_a_local_layer_rejects_before_the_store_is_asked(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: mine, rate: 50/h, burst: 50, coordination: shared}\n"
                               "  - {name: edge, layer: edge, rate: 3/h, burst: 3, coordination: local}\n";

    (void)state;
    open_fleet(yaml, 1);
    assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 10), 3);
    assert_int_equal(fleet_stats(&kit.instances[0]).operations, 3);
    fleet_close(&kit);
}

static void test_charges_in_another_store_are_given_back(void **state)
{
    struct redis other = redis_start(NULL);
    char yaml[1024];
    unsigned allowed = 0;

    (void)state;
    snprintf(yaml, sizeof yaml, "%sdedicated:\n  - {keys: [whale], store: \"%s\"}\n", LAYERS, address(&other));
    open_fleet(yaml, 1);
    assert_int_equal(fleet_admitted(&kit.instances[0], "small", NULL, 19), 19);
    for (unsigned i = 0; i < 31; i++) {
        allowed += fleet_check(&kit.instances[0], "whale", NULL, 1).allowed;
        if (i == 0)
            assert_int_equal(redis_integer(other.c, "DBSIZE"), 1); /* the whale's own */
    }
    assert_int_equal(allowed, 1);
    snprintf(yaml, sizeof yaml,
             "limits:\n  - {name: mine, rate: 50/h, burst: 50, coordination: shared, local_factor: 1000}\n"
             "dedicated:\n  - {keys: [whale], store: \"%s\"}\n",
             address(&other));
    fleet_reload(&kit, yaml);
    assert_int_equal(fleet_check(&kit.instances[0], "whale", NULL, 0).remaining, 49);
    fleet_close(&kit);
    redis_stop(&other);
}

static void test_dry_run_asks_and_never_rejects(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: trial, rate: 5/h, burst: 5, coordination: shared, mode: dry_run}\n"
                               "  - {name: live, rate: 50/h, burst: 50, coordination: shared, local_factor: 1000}\n";
    struct sluice_verdict v;

    (void)state;
    open_fleet(yaml, 2);
    for (unsigned i = 0; i < 10; i++) {
        v = fleet_check(&kit.instances[i % 2], "k", NULL, 1);
        assert_true(v.allowed);
        assert_int_equal(v.dry_run, i >= 5);
        assert_int_equal(v.remaining, 49 - (int64_t)i);
    }
    assert_string_equal(v.dry_run_policy, "trial");
    fleet_close(&kit);
}

static void test_split_sums_exactly(void **state)
{
    static const char yaml[] = "limits:\n  - {name: s, per: [], rate: 103/h, burst: 103, coordination: split, split: 4,"
                               " local_factor: 1000}\n";
    unsigned allowed = 0;

    (void)state;
    open_fleet(yaml, 2);
    for (unsigned i = 0; i < 600; i++)
        allowed += fleet_check(&kit.instances[i % 2], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 103);
    assert_int_equal(redis_integer(server.c, "EVAL %s 0", "return #redis.call('KEYS', 't*:{*}:*')") >= 4, 1);
    fleet_close(&kit);
}

/* ---- leases */

static bool no_tokens_held(void *ctx)
{
    (void)ctx;
    return fleet_stats(&kit.instances[0]).leases_active == 0;
}

static void test_leases_are_spent_here_and_given_back(void **state)
{
    static const char yaml[] = "limits:\n  - {name: l, rate: 10000/h, burst: 10000, coordination: leased,"
                               " lease: {block: 100, ttl: 200ms}, local_factor: 1000}\n";
    struct sl_fleet_stats stats;
    unsigned allowed = 0;

    (void)state;
    open_fleet(yaml, 1);
    for (unsigned i = 0; i < 1000; i++)
        allowed += fleet_check(&kit.instances[0], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 1000);
    stats = fleet_stats(&kit.instances[0]);
    assert_true(stats.leased > 800);
    assert_true(stats.operations < 100);
    /* All of it comes back when nobody asks any more. */
    assert_true(fleet_wait(&kit, no_tokens_held, NULL));
    assert_in_range(fleet_check(&kit.instances[0], "k", NULL, 0).remaining, 9000, 9002);
    fleet_close(&kit);
}

static void test_leases_go_back_at_shutdown(void **state)
{
    static const char yaml[] = "limits:\n  - {name: l, rate: 10000/h, burst: 10000, coordination: leased,"
                               " lease: {block: 100, ttl: 1h}, local_factor: 1000}\n";

    (void)state;
    open_fleet(yaml, 2);
    assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 150), 150);
    fleet_stop(&kit.instances[0]);
    assert_in_range(fleet_check(&kit.instances[1], "k", NULL, 0).remaining, 9850, 9851);
    fleet_close(&kit);
}

static void test_auto_leases_what_is_hot(void **state)
{
    static const char yaml[] = "limits:\n  - {name: h, rate: 1000000/h, burst: 100000, local_factor: 1000}\n";
    unsigned allowed = 0;

    (void)state;
    open_fleet(yaml, 1);
    for (unsigned i = 0; i < 20000; i++)
        allowed += fleet_check(&kit.instances[0], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 20000);
    assert_true(fleet_stats(&kit.instances[0]).leased > 10000);
    fleet_close(&kit);
}

/* ---- failures */

static const char MODES[] =
    "limits:\n"
    "  - {name: open, key_type: o, rate: 40/h, burst: 40, coordination: shared, on_store_failure: open}\n"
    "  - {name: closed, key_type: c, rate: 40/h, burst: 40, coordination: shared, on_store_failure: closed,"
    " warn_at: 80%}\n"
    "  - {name: local, key_type: l, rate: 40/h, burst: 40, coordination: shared, on_store_failure: local}\n";

static struct sluice_verdict check_type(struct instance *instance, const char *type, const char *key)
{
    struct sluice_request request = fleet_request(key, NULL, 1);
    struct decided decided;

    request.key_type = type;
    request.key_type_len = strlen(type);
    fleet_begin(instance, &request, &decided);
    fleet_finish(&kit, &decided);
    return decided.verdict;
}

static void test_failure_modes(void **state)
{
    struct redis own = redis_start(NULL);
    unsigned allowed = 0;
    struct sluice_verdict v;

    (void)state;
    fleet_open(&kit, address(&own), MODES, 2, 20000, true);
    fleet_run_ms(&kit, 2500); /* two heartbeats: each knows of the other */
    assert_int_equal(sl_fleet_instances(kit.instances[0].fleet), 2);
    kill(own.pid, SIGSTOP);
    for (unsigned i = 0; i < 60; i++) { /* less than the pre-filter holds */
        v = check_type(&kit.instances[0], "o", "k");
        assert_true(v.allowed);
        assert_int_equal(v.source, SLUICE_DEGRADED);
        assert_int_equal(v.remaining, -1);
    }
    for (unsigned i = 0; i < 60; i++) {
        v = check_type(&kit.instances[0], "c", "k");
        assert_false(v.allowed);
        assert_int_equal(v.reason, SLUICE_REASON_STORE_UNAVAILABLE);
        assert_false(v.warning);
        assert_true(v.retry_after_ms >= 1000);
    }
    for (unsigned i = 0; i < 60; i++) {
        v = check_type(&kit.instances[0], "l", "k");
        allowed += v.allowed;
        assert_int_equal(v.source, SLUICE_DEGRADED);
        assert_int_equal(v.limit, 40);
    }
    assert_int_equal(allowed, 20); /* its half */
    kill(own.pid, SIGCONT);
    fleet_run_ms(&kit, 1500);
    assert_int_equal(check_type(&kit.instances[0], "o", "fresh").source, SLUICE_SHARED);
    fleet_close(&kit);
    redis_stop(&own);
}

static void test_without_a_store_from_the_start(void **state)
{
    (void)state;
    fleet_open(&kit, "redis://127.0.0.1:1", MODES, 1, 20000, false);
    assert_int_equal(check_type(&kit.instances[0], "o", "k").source, SLUICE_DEGRADED);
    assert_false(check_type(&kit.instances[0], "c", "k").allowed);
    assert_true(check_type(&kit.instances[0], "l", "k").allowed);
    fleet_close(&kit);
}

static void test_what_is_open_is_answered_when_the_lane_goes(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    static struct decided decided[10];

    (void)state;
    open_fleet(SHARED, 1);
    for (unsigned i = 0; i < 10; i++)
        fleet_begin(&kit.instances[0], &request, &decided[i]);
    sl_lane_free(kit.instances[0].lane);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(decided[i].done);
        assert_int_equal(decided[i].times, 1);
        assert_int_equal(decided[i].verdict.source, SLUICE_DEGRADED);
    }
    kit.instances[0].lane = NULL;
    sl_fleet_free(kit.instances[0].fleet);
    sl_limiter_free(kit.instances[0].limiter);
    fleet_close(&kit);
}

static void test_foreign_data_is_never_overwritten(void **state)
{
    redisReply *keys;
    struct sluice_verdict v;

    (void)state;
    open_fleet(SHARED, 1);
    fleet_check(&kit.instances[0], "k", NULL, 1);
    keys = redis_do(server.c, "KEYS %s", "t*:{????????????????*}:*");
    for (size_t i = 0; i < keys->elements; i++)
        if (strncmp(keys->element[i]->str, kit.ns, strlen(kit.ns)) == 0 && !strstr(keys->element[i]->str, "{fleet}"))
            redis_run(server.c, "SET %s %s", keys->element[i]->str, "another limiter's");
    v = fleet_check(&kit.instances[0], "k", NULL, 1);
    assert_int_equal(v.source, SLUICE_DEGRADED);
    assert_int_equal(fleet_stats(&kit.instances[0]).foreign, 1);
    freeReplyObject(keys);
    fleet_close(&kit);
}

/* ---- reload, looking in, resetting */

static void test_a_reload_overtakes_a_flight(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    struct decided decided;

    (void)state;
    open_fleet(SHARED, 1);
    fleet_begin(&kit.instances[0], &request, &decided);
    fleet_reload(&kit, "limits:\n  - {name: b, rate: 7/h, burst: 7, coordination: shared}\n");
    fleet_finish(&kit, &decided);
    assert_string_equal(decided.verdict.policy, "a");
    assert_int_equal(fleet_check(&kit.instances[0], "k", NULL, 1).limit, 7);
    fleet_close(&kit);
}

static struct found look_in(const char *key, bool reset)
{
    struct sluice_request request = fleet_request(key, NULL, 1);

    return fleet_look(&kit.instances[0], &request, reset);
}

static void test_looks_in_and_resets_in_the_store(void **state)
{
    struct found found;

    (void)state;
    open_fleet(SHARED, 1);
    assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 101), 100);
    found = look_in("k", false);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.remaining, 0);
    assert_int_equal(look_in("k", true).n, 1);
    assert_int_equal(look_in("k", false).n, 0);
    assert_true(fleet_check(&kit.instances[0], "k", NULL, 1).allowed); /* the known rejection is forgotten too */
    fleet_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_admit_one_limit_together),
        cmocka_unit_test(test_verdict_is_the_stores),
        cmocka_unit_test(test_clocks_are_compared_at_each_heartbeat),
        cmocka_unit_test(test_anonymous_decisions_are_counted),
        cmocka_unit_test(test_requests_of_a_turn_go_as_one),
        cmocka_unit_test(test_rejections_are_answered_here),
        cmocka_unit_test(test_filter_ends_a_flood_before_the_store),
        cmocka_unit_test(test_layers_are_charged_together_or_not_at_all),
        cmocka_unit_test(test_a_local_layer_rejects_before_the_store_is_asked),
        cmocka_unit_test(test_charges_in_another_store_are_given_back),
        cmocka_unit_test(test_dry_run_asks_and_never_rejects),
        cmocka_unit_test(test_split_sums_exactly),
        cmocka_unit_test(test_leases_are_spent_here_and_given_back),
        cmocka_unit_test(test_leases_go_back_at_shutdown),
        cmocka_unit_test(test_auto_leases_what_is_hot),
        cmocka_unit_test(test_failure_modes),
        cmocka_unit_test(test_without_a_store_from_the_start),
        cmocka_unit_test(test_what_is_open_is_answered_when_the_lane_goes),
        cmocka_unit_test(test_foreign_data_is_never_overwritten),
        cmocka_unit_test(test_a_reload_overtakes_a_flight),
        cmocka_unit_test(test_looks_in_and_resets_in_the_store),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
