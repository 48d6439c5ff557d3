/* `tiers.keys_store` of instances on a real store: the hash NAMESPACE:{keys}, and what becomes of it. */
#include "../store/redis.h"
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000)

static struct redis server;
static struct fleet_kit kit;
static struct instance *one;

#define HEAD "tiers: {default: free, anonymous: anon, keys: {k_table: silver}, keys_store: true}\n"
#define LOCAL(name, tier, rate) \
    "  - {name: " name ", tier: " tier ", rate: " rate ", algorithm: fixed_window, coordination: local}\n"
#define LIMITS                                                                       \
    "limits:\n" LOCAL("free", "free", "100/366d") LOCAL("gold", "gold", "1000/366d") \
        LOCAL("silver", "silver", "500/366d") LOCAL("anon", "anon", "10/366d")

static int start(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    server = redis_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&server);
    return 0;
}

static void open_fleet(const char *yaml)
{
    char address[160];

    snprintf(address, sizeof address, "redis+unix://%s", server.socket);
    fleet_open(&kit, address, yaml, 1, 0, true);
    one = &kit.instances[0];
}

static void set_tier(const char *key, const char *tier)
{
    redis_run(server.c, "HSET %s:{keys} %b %s", kit.ns, key, strlen(key), tier);
}

static const char *policy_of(const char *key)
{
    static struct sluice_verdict verdict;

    verdict = fleet_check(one, key, NULL, 1);
    return verdict.policy;
}

struct wish {
    const char *key, *policy;
};

static bool comes_true(void *ctx)
{
    const struct wish *wish = ctx;

    return strcmp(policy_of(wish->key), wish->policy) == 0;
}

static void wait_policy(const char *key, const char *policy)
{
    struct wish wish = {key, policy};

    assert_true(fleet_wait(&kit, comes_true, &wish));
}

static enum sl_tiers_count counted;
static uint64_t wanted;

static bool is_counted(void *ctx)
{
    (void)ctx;
    return fleet_stats(one).key_lookups[counted] >= wanted;
}

/* Waits until so many look-ups have come to this. */
static void wait_count(enum sl_tiers_count what, uint64_t n)
{
    counted = what;
    wanted = n;
    assert_true(fleet_wait(&kit, is_counted, NULL));
}

static bool has_told(void *ctx)
{
    return one->n_odd >= *(unsigned *)ctx;
}

static void wait_told(unsigned n)
{
    assert_true(fleet_wait(&kit, has_told, &n));
}

static void test_the_first_request_is_unknown_and_the_next_has_its_tier(void **state)
{
    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    assert_string_equal(policy_of("acme"), "free");
    wait_count(SL_TIERS_HIT, 1);
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(policy_of("acme"), "gold");
    assert_string_equal(policy_of("nobody"), "free");
    wait_count(SL_TIERS_MISS, 1);
    assert_string_equal(policy_of("nobody"), "free");
    assert_int_equal(fleet_stats(one).keys_cached, 2);
    assert_int_equal(fleet_stats(one).key_lookups[SL_TIERS_HIT], 1);
    assert_int_equal(fleet_stats(one).key_lookups[SL_TIERS_MISS], 1);
    fleet_close(&kit);
}

/* The request's own tier and the policy's tables come first, and are not looked up; the tables of addresses come after. */
static void test_the_order_of_who_says_the_tier(void **state)
{
    struct sluice_request request = fleet_request("acme", NULL, 1);
    struct decided decided;

    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    set_tier("k_table", "gold");
    set_tier("192.0.2.1", "gold");
    request.tier = "silver";
    request.tier_len = 6;
    fleet_begin(one, &request, &decided);
    fleet_finish(&kit, &decided);
    assert_string_equal(decided.verdict.policy, "silver");
    assert_string_equal(policy_of("k_table"), "silver");
    fleet_run_ms(&kit, 100);
    assert_int_equal(fleet_stats(one).keys_cached, 0);
    assert_string_equal(policy_of("k_table"), "silver");

    request = fleet_request("::ffff:192.0.2.1", NULL, 1);
    request.key_type = "address";
    request.key_type_len = 7;
    fleet_begin(one, &request, &decided);
    assert_string_equal(decided.verdict.policy, "anon");
    wait_count(SL_TIERS_HIT, 1);
    fleet_begin(one, &request, &decided);
    assert_string_equal(decided.verdict.policy, "gold");
    fleet_close(&kit);
}

static void test_unknown_deny_rejects_until_the_store_has_answered(void **state)
{
    (void)state;
    open_fleet("tiers: {unknown: deny, keys_store: true}\n" LIMITS);
    set_tier("acme", "gold");
    assert_false(fleet_check(one, "acme", NULL, 1).allowed);
    wait_count(SL_TIERS_HIT, 1);
    assert_true(fleet_check(one, "acme", NULL, 1).allowed);
    assert_false(fleet_check(one, "nobody", NULL, 1).allowed);
    wait_count(SL_TIERS_MISS, 1);
    assert_false(fleet_check(one, "nobody", NULL, 1).allowed);
    fleet_close(&kit);
}

/* A tier that changed counts within the minute, and no request in between is without one. */
static void test_a_changed_tier_counts_within_a_minute(void **state)
{
    unsigned s = 0;

    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    set_tier("acme", "silver");
    for (const char *policy; strcmp(policy = policy_of("acme"), "silver") != 0; s++) {
        assert_string_equal(policy, "gold");
        fleet_ahead_us += SECOND;
        fleet_run_ms(&kit, 3);
    }
    assert_in_range(s, 1, 60);
    redis_run(server.c, "HDEL %s:{keys} acme", kit.ns);
    fleet_ahead_us += 60 * SECOND;
    wait_policy("acme", "free");
    fleet_close(&kit);
}

/* The kit may have it sooner: then it is also sooner. */
static void test_the_time_it_counts_can_be_given(void **state)
{
    (void)state;
    fleet_tier_ttl_us = 1000;
    open_fleet(HEAD LIMITS);
    fleet_tier_ttl_us = 0;
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    set_tier("acme", "silver");
    wait_policy("acme", "silver");
    fleet_close(&kit);
}

static void test_limits_of_the_store_see_the_tier_too(void **state)
{
    struct sluice_request request = fleet_request("acme", NULL, 0);
    struct found found;

    (void)state;
    open_fleet(HEAD "limits:\n"
                    "  - {name: free, tier: free, rate: 100/366d, algorithm: fixed_window, coordination: shared}\n"
                    "  - {name: gold, tier: gold, per: [key, tier], rate: 1000/366d, algorithm: fixed_window,"
                    " coordination: shared}\n");
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    assert_int_equal(fleet_check(one, "acme", NULL, 1).source, SLUICE_SHARED);
    found = fleet_look(one, &request, false);
    assert_in_range(found.n, 1, 2);
    found = fleet_look(one, &request, true);
    assert_int_equal(fleet_check(one, "acme", NULL, 1).remaining, 999);
    fleet_close(&kit);
}

/* Requests of a batch that differ in their keys alone differ in their tiers too. */
static void test_a_batch_has_each_key_with_its_own_tier(void **state)
{
    struct sluice_request requests[40];
    struct sluice_verdict verdicts[40];
    char keys[40][8];

    (void)state;
    open_fleet(HEAD LIMITS);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        requests[i] = fleet_request(keys[i], NULL, 1);
        if (i % 2)
            set_tier(keys[i], i % 4 == 1 ? "gold" : "silver");
    }
    assert_int_equal(sl_limiter_check_batch(one->limiter, requests, 40, verdicts, NULL, NULL, NULL, NULL), 0);
    wait_count(SL_TIERS_HIT, 20);
    assert_int_equal(sl_limiter_check_batch(one->limiter, requests, 40, verdicts, NULL, NULL, NULL, NULL), 0);
    for (unsigned i = 0; i < 40; i++)
        assert_string_equal(verdicts[i].policy, i % 2 == 0 ? "free" : i % 4 == 1 ? "gold" : "silver");
    fleet_close(&kit);
}

static void test_a_tier_the_policy_does_not_name_is_none(void **state)
{
    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "platinum");
    set_tier("empty", "");
    set_tier("long", "0123456789012345678901234567890123456789012345678901234567890123");
    redis_run(server.c, "HSET %s:{keys} bytes %b", kit.ns, "a\0\n\xff", (size_t)4);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const keys[] = {"acme", "empty", "long", "bytes"};

        assert_string_equal(policy_of(keys[i]), "free");
        wait_count(SL_TIERS_UNKNOWN_TIER, i + 1);
        assert_string_equal(policy_of(keys[i]), "free");
    }
    assert_int_equal(one->n_odd, 1); /* a line a minute, not one a key */
    assert_non_null(strstr(one->odd, "`platinum`"));
    assert_null(strstr(one->odd, "acme")); /* keys are secrets */
    /* A policy that names it needs no new look-up. */
    fleet_reload(&kit, HEAD LIMITS LOCAL("platinum", "platinum", "9000/366d"));
    assert_string_equal(policy_of("acme"), "platinum");
    fleet_close(&kit);
}

static void test_another_type_under_the_name_is_left_alone(void **state)
{
    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    redis_run(server.c, "SET %s:{keys} mine", kit.ns);
    assert_string_equal(policy_of("new"), "free");
    wait_count(SL_TIERS_ERROR, 1);
    wait_told(1);
    assert_non_null(strstr(one->odd, "WRONGTYPE"));
    assert_string_equal(policy_of("new"), "free");
    assert_string_equal(policy_of("acme"), "gold");
    fleet_ahead_us += 2 * SECOND;
    policy_of("new");
    wait_count(SL_TIERS_ERROR, 2);
    assert_int_equal(one->n_odd, 1); /* once at each change */
    redis_run(server.c, "DEL %s:{keys}", kit.ns);
    set_tier("new", "silver");
    fleet_ahead_us += 2 * SECOND;
    wait_policy("new", "silver");
    assert_int_equal(fleet_stats(one).refused, 0); /* no breaker, no alarm */
    fleet_close(&kit);
}

static void test_an_outage_takes_no_tier_away(void **state)
{
    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    redis_stop(&server);
    fleet_ahead_us += 300 * SECOND;
    for (unsigned i = 0; i < 100; i++) {
        assert_string_equal(policy_of("acme"), "gold");
        assert_string_equal(policy_of("new"), "free");
        fleet_turn(&kit);
    }
    wait_count(SL_TIERS_ERROR, 2);
    fleet_close(&kit);
    start(NULL);
}

/* A flood of invented keys: look-ups are dropped and counted, and nothing waits for them. */
static void test_a_flood_is_bounded(void **state)
{
    struct sl_fleet_stats stats;
    uint64_t sum;

    (void)state;
    open_fleet(HEAD LIMITS);
    set_tier("acme", "gold");
    wait_policy("acme", "gold");
    for (unsigned i = 0; i < 20000; i++) {
        struct decided decided;
        struct sluice_request request;
        char key[16];

        snprintf(key, sizeof key, "f%u", i);
        request = fleet_request(key, NULL, 1);
        fleet_begin(one, &request, &decided);
        assert_true(decided.done);
    }
    assert_true(fleet_stats(one).key_lookups[SL_TIERS_DROPPED] >= 20000 - SL_TIERS_WANTS_MAX);
    wait_count(SL_TIERS_MISS, 20000 - fleet_stats(one).key_lookups[SL_TIERS_DROPPED]);
    stats = fleet_stats(one);
    sum = stats.key_lookups[SL_TIERS_MISS] + stats.key_lookups[SL_TIERS_DROPPED];
    assert_int_equal(sum, 20000);
    assert_string_equal(policy_of("acme"), "gold");
    fleet_close(&kit);
}

/* Without keys_store nothing is asked, and nothing is kept. */
static void test_policies_without_it_ask_nothing(void **state)
{
    (void)state;
    open_fleet("tiers: {default: free}\n" LIMITS);
    set_tier("acme", "gold");
    assert_string_equal(policy_of("acme"), "free");
    fleet_run_ms(&kit, 100);
    assert_string_equal(policy_of("acme"), "free");
    assert_int_equal(fleet_stats(one).keys_cached, 0);
    fleet_reload(&kit, HEAD LIMITS); /* until a policy has it */
    wait_policy("acme", "gold");
    fleet_close(&kit);
}

/* A lane that goes while look-ups are on their way, and others that wait. */
static void test_closing_while_look_ups_are_on_their_way(void **state)
{
    (void)state;
    open_fleet(HEAD LIMITS);
    for (unsigned i = 0; i < 2000; i++) {
        struct decided decided;
        struct sluice_request request;
        char key[16];

        snprintf(key, sizeof key, "k%u", i);
        request = fleet_request(key, NULL, 1);
        fleet_begin(one, &request, &decided);
        if (i == 500)
            fleet_turn(&kit);
    }
    fleet_crash(one);
    fleet_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_request_is_unknown_and_the_next_has_its_tier),
        cmocka_unit_test(test_the_order_of_who_says_the_tier),
        cmocka_unit_test(test_unknown_deny_rejects_until_the_store_has_answered),
        cmocka_unit_test(test_a_changed_tier_counts_within_a_minute),
        cmocka_unit_test(test_the_time_it_counts_can_be_given),
        cmocka_unit_test(test_limits_of_the_store_see_the_tier_too),
        cmocka_unit_test(test_a_batch_has_each_key_with_its_own_tier),
        cmocka_unit_test(test_a_tier_the_policy_does_not_name_is_none),
        cmocka_unit_test(test_another_type_under_the_name_is_left_alone),
        cmocka_unit_test(test_an_outage_takes_no_tier_away),
        cmocka_unit_test(test_a_flood_is_bounded),
        cmocka_unit_test(test_policies_without_it_ask_nothing),
        cmocka_unit_test(test_closing_while_look_ups_are_on_their_way),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
