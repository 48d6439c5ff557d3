/* What a second reading of the shared tier has found: each test is one mistake that was there. */
#include "../store/redis.h"
#include "fleet/internal.h"
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct redis server;
static struct fleet_kit kit;

static const char *address(const struct redis *r)
{
    static char text[160];

    snprintf(text, sizeof text, "redis+unix://%s", r->socket);
    return text;
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

/* One instance whose store is not there. */
static void open_alone(const char *yaml)
{
    fleet_open(&kit, "redis://127.0.0.1:1", yaml, 1, 20000, false);
}

static struct decided check_type(const char *type, const char *key, int64_t cost)
{
    struct sluice_request request = fleet_request(key, NULL, cost);
    struct decided decided;

    request.key_type = type;
    request.key_type_len = strlen(type);
    fleet_begin(&kit.instances[0], &request, &decided);
    fleet_finish(&kit, &decided);
    return decided;
}

static const struct sl_report_item *item_of(const struct decided *decided, const char *name)
{
    for (unsigned i = 0; i < decided->report.n; i++)
        if (strcmp(decided->report.items[i].name, name) == 0)
            return &decided->report.items[i];
    fail_msg("%s is not in the report", name);
    return NULL;
}

/* ---- memory that fails */

/* The allocation after `after` others fails; negative: none does. */
struct failing {
    int after;
    unsigned failed;
};

static struct failing failing = {.after = -1};

static void *realloc_or_fail(void *ctx, void *p, size_t size)
{
    struct failing *f = ctx;

    if (size == 0) {
        free(p);
        return NULL;
    }
    if (f->after >= 0 && f->after-- == 0) {
        f->failed++;
        return NULL;
    }
    return realloc(p, size);
}

/* Instance 0 with memory that can fail. */
static void open_failing(const char *yaml)
{
    fleet_open(&kit, address(&server), yaml, 0, 0, false);
    failing = (struct failing){.after = -1};
    kit.alloc = (struct sl_alloc){.realloc = realloc_or_fail, .ctx = &failing};
    fleet_join(&kit);
    fleet_wait_ready(&kit);
}

/* ---- order */

/* More requests on one bucket than one call holds: those that were asked first are charged first. */
static void test_calls_of_a_turn_are_sent_in_order(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    static struct decided decided[6000];

    (void)state;
    open_fleet("limits: [{name: a, rate: 100/h, burst: 100, coordination: shared, local_factor: 1000}]\n", 1);
    for (unsigned i = 0; i < 6000; i++)
        fleet_begin(&kit.instances[0], &request, &decided[i]);
    for (unsigned i = 0; i < 6000; i++) {
        fleet_finish(&kit, &decided[i]);
        assert_int_equal(decided[i].verdict.allowed, i < 100);
    }
    fleet_close(&kit);
}

/* ---- failure modes */

static const char SPLIT_AND_CLOSED[] =
    "limits:\n"
    "  - {name: s, per: [], rate: 40/h, burst: 40, coordination: split, split: 2, local_factor: 1000}\n"
    "  - {name: c, layer: late, key_type: c, rate: 40/h, coordination: shared, on_store_failure: closed}\n";

/* A share of a split limit that an outage has charged and another limit refused comes back. */
static void test_split_charges_of_an_outage_are_given_back(void **state)
{
    unsigned allowed = 0;

    (void)state;
    open_alone(SPLIT_AND_CLOSED);
    for (unsigned i = 0; i < 30; i++)
        assert_false(check_type("c", "k", 1).verdict.allowed);
    for (unsigned i = 0; i < 60; i++)
        allowed += check_type("other", "k", 1).verdict.allowed;
    assert_int_equal(allowed, 40);
    fleet_close(&kit);
}

/* What was given back again is not missing in what is told. */
static void test_reports_are_without_charges_given_back(void **state)
{
    struct decided decided;

    (void)state;
    open_alone("limits:\n"
               "  - {name: l, rate: 40/h, burst: 40, coordination: shared}\n"
               "  - {name: c, layer: late, rate: 40/h, coordination: shared, on_store_failure: closed}\n");
    decided = check_type("user", "k", 7);
    assert_false(decided.verdict.allowed);
    assert_int_equal(item_of(&decided, "l")->quota, 40);
    assert_int_equal(item_of(&decided, "l")->remaining, 40);
    assert_int_equal(item_of(&decided, "l")->next_ms, 0);
    fleet_close(&kit);
}

/* A share that is nearly whole is not nearly used up, whatever part of the limit it is. */
static void test_a_share_warns_when_it_is_used(void **state)
{
    (void)state;
    open_alone("limits: [{name: l, rate: 40/h, burst: 40, coordination: shared, warn_at: 80%}]\n");
    atomic_store(&kit.instances[0].fleet->instances, 4);
    for (unsigned i = 0; i < 10; i++) {
        struct decided decided = check_type("user", "k", 1);

        assert_true(decided.verdict.allowed);
        assert_int_equal(decided.verdict.limit, 40);
        assert_int_equal(decided.verdict.remaining, 9 - i);
        assert_int_equal(decided.verdict.warning, i >= 7);
    }
    fleet_close(&kit);
}

/* ---- reports */

/* A split limit whose answer does not matter any more is told of as a whole. */
static void test_reports_tell_of_whole_split_limits(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: c, rate: 40/h, coordination: shared, on_store_failure: closed}\n"
                               "  - {name: s, layer: late, per: [], rate: 103/h, burst: 103, coordination: split,"
                               " split: 4}\n";
    struct decided decided;

    (void)state;
    open_alone(yaml);
    decided = check_type("user", "k", 1);
    assert_int_equal(decided.verdict.reason, SLUICE_REASON_STORE_UNAVAILABLE);
    assert_int_equal(item_of(&decided, "s")->quota, 103);
    fleet_close(&kit);
}

static void test_near_rejections_tell_of_whole_split_limits(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: s, per: [], rate: 103/h, burst: 103, coordination: split, split: 4}\n"
                               "  - {name: a, layer: late, rate: 1/h, coordination: shared, local_factor: 1000}\n";
    struct decided decided;

    (void)state;
    open_fleet(yaml, 1);
    for (unsigned i = 0; i < 3; i++)
        decided = check_type("user", "k", 1);
    assert_false(decided.verdict.allowed);
    assert_int_equal(decided.verdict.source, SLUICE_LOCAL);
    assert_int_equal(item_of(&decided, "s")->quota, 103);
    fleet_close(&kit);
}

/* Blocked whatever the buckets hold; but those of the store are not said to be whole. */
static void test_blocked_requests_tell_nothing_of_the_store(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: a, per: [], rate: 40/h, burst: 40, coordination: shared}\n"
                               "  - {name: never, layer: late, key_type: b, rate: blocked}\n"
                               "  - {name: trial, layer: trial, per: [], rate: 9/h, coordination: shared,"
                               " mode: dry_run}\n";
    struct decided decided;

    (void)state;
    open_fleet(yaml, 1);
    assert_true(check_type("user", "k", 30).verdict.allowed);
    decided = check_type("b", "k", 1);
    assert_false(decided.verdict.allowed);
    assert_int_equal(decided.verdict.reason, SLUICE_REASON_BLOCKED);
    assert_string_equal(decided.verdict.policy, "never");
    assert_int_equal(item_of(&decided, "a")->remaining, -1);
    assert_int_equal(item_of(&decided, "trial")->remaining, -1);
    assert_false(decided.verdict.dry_run);
    fleet_close(&kit);
}

/* What the table alone rejects is no rejection of the shared tier. */
static void test_local_rejections_are_not_counted_as_near_ones(void **state)
{
    static const char yaml[] = "limits:\n"
                               "  - {name: a, rate: 3/100d, coordination: shared, local_factor: 1000}\n"
                               "  - {name: t, layer: late, key_type: t, rate: 1/100d, coordination: local}\n";

    (void)state;
    open_fleet(yaml, 1);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(check_type("t", "k", 1).verdict.allowed, i < 1);
    assert_int_equal(fleet_stats(&kit.instances[0]).near_rejected, 0);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(check_type("user", "k", 1).verdict.allowed, i < 3);
    assert_int_equal(fleet_stats(&kit.instances[0]).near_rejected, 5);
    fleet_close(&kit);
}

/* ---- failing memory */

static void expect_no_empty_call(void)
{
    for (const struct sl_crate *crate = kit.instances[0].lane->crates; crate; crate = crate->next)
        assert_true(crate->n_loads > 0);
}

/* Whichever allocation of a decision fails, it is decided, and nothing half-made is left. */
static void test_memory_fails_at_any_place_of_a_decision(void **state)
{
    static const char yaml[] =
        "limits:\n"
        "  - {name: a, rate: 40/h, burst: 40, coordination: shared, local_factor: 1000}\n"
        "  - {name: all, layer: late, per: [], rate: 1000/h, coordination: shared, local_factor: 1000}\n";

    (void)state;
    open_failing(yaml);
    for (int after = 0; after < 12; after++) {
        struct sluice_request request = fleet_request("k", NULL, 1);
        struct decided decided;

        failing.after = after;
        fleet_begin(&kit.instances[0], &request, &decided);
        expect_no_empty_call();
        fleet_finish(&kit, &decided);
        failing.after = -1;
        assert_true(decided.verdict.allowed);
    }
    assert_true(failing.failed >= 3);
    assert_int_equal(fleet_check(&kit.instances[0], "fresh", NULL, 1).source, SLUICE_SHARED);
    fleet_close(&kit);
}

/* Without memory for a flight a decision is degraded, but dry-run limits that need no store go on. */
static void test_dry_run_goes_on_without_memory(void **state)
{
    static const char yaml[] =
        "limits:\n"
        "  - {name: a, rate: 40/h, burst: 40, coordination: shared}\n"
        "  - {name: trial, layer: late, rate: 5/h, burst: 5, coordination: local, mode: dry_run}\n";

    (void)state;
    open_failing(yaml);
    for (unsigned i = 0; i < 10; i++) {
        struct sluice_verdict v;

        failing.after = 0;
        v = fleet_check(&kit.instances[0], "k", NULL, 1);
        failing.after = -1;
        assert_true(v.allowed);
        assert_int_equal(v.source, SLUICE_DEGRADED);
        assert_int_equal(v.dry_run, i >= 5);
    }
    fleet_close(&kit);
}

static uint64_t tokens_held(void)
{
    struct sl_leases_stats stats;

    sl_leases_stats(kit.instances[0].fleet->leases, &stats);
    return stats.held;
}

static bool holds_tokens(void *ctx)
{
    (void)ctx;
    return tokens_held() > 0;
}

/* A request that is rejected for want of memory spends no leased tokens of a dry-run limit. */
static void test_leased_dry_run_is_not_charged_for_a_rejection(void **state)
{
    static const char yaml[] =
        "limits:\n"
        "  - {name: c, key_type: c, rate: 40/h, coordination: shared, on_store_failure: closed}\n"
        "  - {name: trial, layer: late, per: [], rate: 10000/h, burst: 10000, coordination: leased,"
        " lease: {block: 100, ttl: 1h}, mode: dry_run}\n";
    uint64_t before;

    (void)state;
    open_failing(yaml);
    assert_true(check_type("user", "k", 1).verdict.allowed);
    assert_true(fleet_wait(&kit, holds_tokens, NULL));
    before = tokens_held();
    failing.after = 0;
    assert_false(check_type("c", "k", 1).verdict.allowed);
    failing.after = -1;
    assert_int_equal(tokens_held(), before);
    fleet_close(&kit);
}

/* ---- stores */

/* A key that gets a store of its own takes no tokens along from the one before, nor gives them to the other. */
static void test_a_lease_does_not_move_to_another_store(void **state)
{
    static const char limit[] = "limits:\n  - {name: l, rate: 10000/h, burst: 10000, coordination: leased,"
                                " lease: {block: 100, ttl: 1h}, local_factor: 1000}\n";
    struct redis other = redis_start(NULL);
    char yaml[512];

    (void)state;
    open_fleet(limit, 1);
    assert_true(fleet_check(&kit.instances[0], "whale", NULL, 1).allowed);
    assert_true(fleet_wait(&kit, holds_tokens, NULL));
    snprintf(yaml, sizeof yaml, "%sdedicated:\n  - {keys: [whale], store: \"%s\"}\n", limit, address(&other));
    fleet_reload(&kit, yaml);
    assert_int_equal(fleet_admitted(&kit.instances[0], "whale", NULL, 150), 150);
    fleet_stop(&kit.instances[0]);
    fleet_join(&kit);
    fleet_wait_ready(&kit);
    assert_in_range(fleet_check(&kit.instances[1], "whale", NULL, 0).remaining, 9850, 9852);
    fleet_reload(&kit, limit);
    assert_in_range(fleet_check(&kit.instances[1], "whale", NULL, 0).remaining, 9999, 10000);
    fleet_close(&kit);
    redis_stop(&other);
}

/* Only buckets of the key lie in the key's own store. */
static void test_looks_for_an_address_in_the_main_store(void **state)
{
    struct redis other = redis_start(NULL);
    struct sluice_request request = fleet_request("whale", NULL, 10);
    struct found found;
    struct decided decided;
    char yaml[512];

    (void)state;
    snprintf(yaml, sizeof yaml,
             "limits: [{name: a, per: [address], rate: 40/h, burst: 40, coordination: shared}]\n"
             "dedicated:\n  - {keys: [whale], store: \"%s\"}\n",
             address(&other));
    open_fleet(yaml, 1);
    request.address = "192.0.2.1";
    request.address_len = 9;
    fleet_begin(&kit.instances[0], &request, &decided);
    fleet_finish(&kit, &decided);
    assert_int_equal(decided.verdict.remaining, 30);
    assert_int_equal(redis_integer(other.c, "DBSIZE"), 0);
    found = fleet_look(&kit.instances[0], &request, false);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.remaining, 30);
    fleet_close(&kit);
    redis_stop(&other);
}

/* ---- durations */

/* A decision that waits for the store has taken as long as it waited. */
static void test_durations_have_the_wait_in_them(void **state)
{
    struct redis own = redis_start(NULL);
    struct sl_limiter_stats stats;

    (void)state;
    fleet_open(&kit, address(&own), "limits: [{name: a, rate: 40/h, coordination: shared}]\n", 1, 20000, true);
    kill(own.pid, SIGSTOP);
    assert_int_equal(fleet_check(&kit.instances[0], "k", NULL, 1).source, SLUICE_DEGRADED);
    kill(own.pid, SIGCONT);
    sl_limiter_stats(kit.instances[0].limiter, &stats);
    assert_int_equal(stats.duration_count, 1);
    assert_true(stats.duration_sum_ns >= 15000000);
    fleet_close(&kit);
    redis_stop(&own);
}

/* ---- extremes */

static const char *const EXTREME[] = {
    "rate: 1000000000/366d, burst: 1000000000, coordination: shared",
    "rate: 1000000000/366d, burst: 1000000000, coordination: leased",
    "rate: 1000000000/366d, burst: 1000000000, coordination: leased, lease: {block: 1000000000, ttl: 1h}",
    "rate: 1000000000/366d, burst: 1000000000, coordination: synced",
    "rate: 1000000000/366d, burst: 1000000000",
    "rate: 1000000000/366d, burst: 1000000000, local_factor: per_instance",
    "rate: 1000000000/366d, algorithm: fixed_window, coordination: leased",
    "rate: 1000000000/366d, algorithm: sliding_window_counter, coordination: shared",
    "rate: 1000000000/366d, algorithm: leaky_bucket, coordination: shared",
};

/* The largest cost on the largest limit for the longest time: once, and then not. */
static void test_the_largest_limit_admits_its_burst_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof EXTREME / sizeof *EXTREME; i++) {
        struct sluice_verdict v;
        char yaml[256];

        snprintf(yaml, sizeof yaml, "limits: [{name: a, %s}]\n", EXTREME[i]);
        open_fleet(yaml, 1);
        v = fleet_check(&kit.instances[0], "k", NULL, 1000000000);
        assert_true(v.allowed);
        assert_int_equal(v.limit, 1000000000);
        assert_int_equal(v.remaining, 0);
        v = fleet_check(&kit.instances[0], "k", NULL, 1000000000);
        assert_false(v.allowed);
        assert_int_equal(v.reason, SLUICE_REASON_RATE_LIMITED);
        assert_true(v.retry_after_ms > 0 && v.retry_after_ms <= INT64_C(2) * 366 * 86400000);
        assert_true(v.reset_at_ms > 0 && v.reset_after_ms > 0);
        v = fleet_check(&kit.instances[0], "other", NULL, 1000000000 - 1);
        assert_true(v.allowed);
        assert_int_equal(v.remaining, 1);
        fleet_close(&kit);
    }
}

static void test_the_largest_limit_in_an_outage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof EXTREME / sizeof *EXTREME; i++) {
        struct sluice_verdict v;
        char yaml[256];

        snprintf(yaml, sizeof yaml, "limits: [{name: a, %s}]\n", EXTREME[i]);
        open_alone(yaml);
        atomic_store(&kit.instances[0].fleet->instances, 1000);
        v = fleet_check(&kit.instances[0], "k", NULL, 1000000);
        assert_true(v.allowed);
        assert_int_equal(v.limit, 1000000000);
        assert_int_equal(v.remaining, 0);
        assert_int_equal(v.source, SLUICE_DEGRADED);
        v = fleet_check(&kit.instances[0], "k", NULL, 1000000);
        assert_false(v.allowed);
        v = fleet_check(&kit.instances[0], "k", NULL, 1000000000); /* more than a share, but not than the limit */
        assert_false(v.allowed);
        assert_int_equal(v.reason, SLUICE_REASON_RATE_LIMITED);
        assert_true(v.retry_after_ms >= 1000);
        fleet_close(&kit);
    }
}

/* ---- leases */

/* What is debited for later must not be missing for those who ask now. */
static void test_a_first_request_finds_the_whole_bucket(void **state)
{
    struct sluice_verdict v;

    (void)state;
    open_fleet("limits: [{name: a, rate: 30/100d, burst: 30, coordination: leased, lease: {block: 30, ttl: 1h}}]\n", 1);
    v = fleet_check(&kit.instances[0], "k", NULL, 1);
    assert_true(v.allowed);
    assert_int_equal(v.remaining, 29);
    v = fleet_check(&kit.instances[0], "all", NULL, 30);
    assert_true(v.allowed);
    assert_int_equal(v.remaining, 0);
    fleet_close(&kit);
}

/* What lies here unspent is left as much as what lies in the store, whoever answers. */
static void test_leased_tokens_count_as_left_for_a_peek(void **state)
{
    struct sluice_verdict v;

    (void)state;
    open_fleet("limits: [{name: l, rate: 10000/100d, burst: 10000, coordination: leased, lease: {block: 100, ttl: 1h},"
               " local_factor: 1000}]\n",
               1);
    assert_true(fleet_check(&kit.instances[0], "k", NULL, 1).allowed);
    assert_true(fleet_wait(&kit, holds_tokens, NULL));
    v = fleet_check(&kit.instances[0], "k", NULL, 1);
    assert_int_equal(v.source, SLUICE_LOCAL);
    assert_int_equal(v.remaining, 9998);
    assert_int_equal(fleet_check(&kit.instances[0], "k", NULL, 0).remaining, 9998);
    v = fleet_check(&kit.instances[0], "k", NULL, 500); /* more than the lease holds */
    assert_int_equal(v.source, SLUICE_SHARED);
    assert_int_equal(v.remaining, 9498);
    assert_int_equal(fleet_check(&kit.instances[0], "k", NULL, 0).remaining, 9498);
    fleet_close(&kit);
}

/* Tokens that are granted while the instance goes are given back too. */
static void test_a_debit_on_its_way_goes_back_at_shutdown(void **state)
{
    struct sluice_request request = fleet_request("k", NULL, 1);
    struct decided decided;

    (void)state;
    open_fleet(
        "limits: [{name: l, rate: 10000/100d, burst: 10000, coordination: leased, lease: {block: 100, ttl: 1h}}]\n", 1);
    fleet_begin(&kit.instances[0], &request, &decided);
    fleet_stop(&kit.instances[0]);
    assert_true(decided.verdict.allowed);
    fleet_join(&kit);
    fleet_wait_ready(&kit);
    assert_int_equal(fleet_check(&kit.instances[1], "k", NULL, 0).remaining, 9999);
    fleet_close(&kit);
}

/* ---- several rates */

static int64_t store_remaining(struct instance *instance, const char *key, unsigned i)
{
    struct sluice_request request = fleet_request(key, NULL, 0);
    struct decided decided;

    fleet_begin(instance, &request, &decided);
    fleet_finish(&kit, &decided);
    assert_true(i < decided.report.n);
    return decided.report.items[i].remaining;
}

/* What the narrow rate rejects is not taken from the wide one, leased or not. */
static void test_several_rates_are_charged_alike(void **state)
{
    static const char *const how[] = {"coordination: shared", "coordination: leased, lease: {block: 5, ttl: 1h}",
                                      "coordination: leased, lease: {block: 25, ttl: 100ms}",
                                      "coordination: synced, sync: {interval: 100ms}"};

    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char yaml[256];

        snprintf(yaml, sizeof yaml,
                 "limits: [{name: a, rates: [30/100d, {rate: 1000/100d, burst: 1000}], %s, local_factor: 1000}]\n",
                 how[i]);
        open_fleet(yaml, 1);
        assert_int_equal(fleet_admitted(&kit.instances[0], "k", NULL, 200), 30);
        fleet_stop(&kit.instances[0]);
        fleet_join(&kit);
        fleet_wait_ready(&kit);
        assert_int_equal(store_remaining(&kit.instances[1], "k", 0), 0);
        assert_int_equal(store_remaining(&kit.instances[1], "k", 1), 970);
        fleet_close(&kit);
    }
}

static void test_several_rates_of_a_split_limit(void **state)
{
    unsigned allowed = 0;

    (void)state;
    open_fleet("limits: [{name: a, per: [], rates: [80/100d, {rate: 1000/100d, burst: 1000}], coordination: split,"
               " split: 4, local_factor: 1000}]\n",
               2);
    for (unsigned i = 0; i < 400; i++)
        allowed += fleet_check(&kit.instances[i % 2], "k", NULL, 1).allowed;
    assert_int_equal(allowed, 80);
    fleet_close(&kit);
}

/* ---- callbacks that ask again */

struct chain {
    struct instance *instance;
    struct sluice_request request;
    struct sluice_verdict verdict;
    struct sl_report report;
    unsigned left, done;
};

static void chain_on(void *ctx)
{
    struct chain *chain = ctx;
    const char *field, *why;

    chain->done++;
    while (chain->left > 0) {
        chain->left--;
        if (sl_lane_check(chain->instance->lane, &chain->request, &chain->verdict, &chain->report, &field, &why,
                          chain_on, chain) == SL_PENDING)
            return;
        chain->done++;
    }
}

static bool chain_is_over(void *ctx)
{
    return ((struct chain *)ctx)->left == 0;
}

static void begin_chains(struct chain *chains, unsigned n, unsigned length)
{
    for (unsigned i = 0; i < n; i++) {
        chains[i] =
            (struct chain){.instance = &kit.instances[0], .request = fleet_request("k", NULL, 1), .left = length};
        chain_on(&chains[i]);
    }
}

static const char ALL_SORTS[] =
    "limits:\n"
    "  - {name: a, rate: 1000/h, burst: 1000, coordination: shared, local_factor: 1000}\n"
    "  - {name: s, layer: b, per: [], rate: 400/h, burst: 400, coordination: split, split: 4, local_factor: 1000}\n"
    "  - {name: l, layer: c, rate: 900/h, burst: 900, coordination: leased, lease: {block: 20, ttl: 50ms},"
    " local_factor: 1000}\n"
    "  - {name: t, layer: d, rate: 5000/h, burst: 5000, coordination: local}\n"
    "  - {name: d, layer: e, rate: 30/h, burst: 30, coordination: shared, mode: dry_run}\n"
    "  - {name: dl, layer: f, rate: 300/h, burst: 300, coordination: leased, lease: {block: 9, ttl: 50ms},"
    " mode: dry_run}\n";

static void test_callbacks_ask_again(void **state)
{
    struct redis own = redis_start(NULL);
    static struct chain chains[40];

    (void)state;
    fleet_open(&kit, address(&own), ALL_SORTS, 1, 20000, true);
    begin_chains(chains, 40, 30);
    for (unsigned i = 0; i < 40; i++)
        assert_true(fleet_wait(&kit, chain_is_over, &chains[i]));
    fleet_run_ms(&kit, 50);
    kill(own.pid, SIGSTOP);
    begin_chains(chains, 40, 30);
    for (unsigned i = 0; i < 40; i++)
        assert_true(fleet_wait(&kit, chain_is_over, &chains[i]));
    kill(own.pid, SIGCONT);
    fleet_run_ms(&kit, 1200);
    begin_chains(chains, 40, 1000); /* and the lane goes in the midst of it */
    fleet_turn(&kit);
    sl_lane_free(kit.instances[0].lane);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(chains[i].left, 0);
        assert_int_equal(chains[i].done, 1001);
    }
    kit.instances[0].lane = NULL;
    sl_fleet_free(kit.instances[0].fleet);
    sl_limiter_free(kit.instances[0].limiter);
    fleet_close(&kit);
    redis_stop(&own);
}

/* ---- everything at once */

static const char OTHER_SORTS[] =
    "limits:\n"
    "  - {name: a, rate: 1000/h, burst: 1000, coordination: leased, lease: {block: 30, ttl: 50ms},"
    " local_factor: 1000}\n"
    "  - {name: s, layer: b, per: [], rate: 300/h, burst: 300, coordination: split, split: 3, local_factor: 1000}\n"
    "  - {name: l, layer: c, rate: 700/h, burst: 700, coordination: shared, algorithm: leaky_bucket}\n";

static struct decided flying[2000];

static unsigned random_below(unsigned n)
{
    static uint64_t x = 88172645463325252u;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return (unsigned)(x % n);
}

/* Reloads, resets and failing memory while many decisions are under way: each is decided once. */
static void test_reloads_resets_and_failing_memory_in_flight(void **state)
{
    struct sluice_request request;

    (void)state;
    open_failing(ALL_SORTS);
    for (unsigned round = 0; round < 30; round++) {
        for (unsigned i = 0; i < 2000; i++) {
            char key[2] = {(char)('a' + random_below(5)), 0};

            request = fleet_request(key, NULL, random_below(4));
            failing.after = random_below(8) ? -1 : (int)random_below(4);
            fleet_begin(&kit.instances[0], &request, &flying[i]);
            failing.after = -1;
            if (random_below(100) == 0)
                fleet_turn(&kit);
            if (random_below(500) == 0)
                fleet_reload(&kit, random_below(2) ? ALL_SORTS : OTHER_SORTS);
            if (random_below(500) == 0)
                fleet_look(&kit.instances[0], &request, random_below(2));
        }
        for (unsigned i = 0; i < 2000; i++)
            fleet_finish(&kit, &flying[i]);
    }
    assert_int_equal(kit.instances[0].lane->n_flights, 0);
    fleet_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_of_a_turn_are_sent_in_order),
        cmocka_unit_test(test_split_charges_of_an_outage_are_given_back),
        cmocka_unit_test(test_reports_are_without_charges_given_back),
        cmocka_unit_test(test_a_share_warns_when_it_is_used),
        cmocka_unit_test(test_reports_tell_of_whole_split_limits),
        cmocka_unit_test(test_near_rejections_tell_of_whole_split_limits),
        cmocka_unit_test(test_blocked_requests_tell_nothing_of_the_store),
        cmocka_unit_test(test_local_rejections_are_not_counted_as_near_ones),
        cmocka_unit_test(test_memory_fails_at_any_place_of_a_decision),
        cmocka_unit_test(test_dry_run_goes_on_without_memory),
        cmocka_unit_test(test_leased_dry_run_is_not_charged_for_a_rejection),
        cmocka_unit_test(test_a_lease_does_not_move_to_another_store),
        cmocka_unit_test(test_looks_for_an_address_in_the_main_store),
        cmocka_unit_test(test_durations_have_the_wait_in_them),
        cmocka_unit_test(test_the_largest_limit_admits_its_burst_once),
        cmocka_unit_test(test_the_largest_limit_in_an_outage),
        cmocka_unit_test(test_a_first_request_finds_the_whole_bucket),
        cmocka_unit_test(test_leased_tokens_count_as_left_for_a_peek),
        cmocka_unit_test(test_a_debit_on_its_way_goes_back_at_shutdown),
        cmocka_unit_test(test_several_rates_are_charged_alike),
        cmocka_unit_test(test_several_rates_of_a_split_limit),
        cmocka_unit_test(test_callbacks_ask_again),
        cmocka_unit_test(test_reloads_resets_and_failing_memory_in_flight),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
