/* What a decision of the shared tier costs the instance, apart from any HTTP: an accepted `shared` decision beside a
 * rejection that the deny cache answers and one that the pre-filter answers.
 *
 *     bench_fleet_cost STORE [ROUNDS]        prints {"accepted": [us ...], "deny_cache": [...], "pre_filter": [...]}
 *
 * One loop, one lane, CPU time of the whole process (its reading and writing of sockets included, the store's own not).
 * Accepted decisions are asked 64 at a time, so that they share turns and calls as much as they ever will: alone they
 * cost more. The three take turns. */
#include "fleet/fleet.h"
#include "store/net_uv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEYS 1000u
#define KEY_SIZE 16u
#define IN_FLIGHT 64u
#define ROUND_NS UINT64_C(300000000)
#define ROUNDS_MAX 99u
#define SHUT_BURST 1000

/* `shut` is spent by one request; its pre-filter has room for a million more of each key, so that the deny cache
 * answers. `flooded` ends in the pre-filter, which is as narrow as the limit. */
static const char policy_text[] = "version: 1\n"
                                  "endpoints:\n"
                                  "  open: {match: [open]}\n"
                                  "  shut: {match: [shut]}\n"
                                  "  flooded: {match: [flooded]}\n"
                                  "limits:\n"
                                  "  - {name: open, endpoint: open, rate: 1000000/s, burst: 1000000000, coordination: "
                                  "shared, on_store_failure: closed}\n"
                                  "  - {name: shut, endpoint: shut, rate: 1000/366d, burst: 1000, local_factor: 1000, "
                                  "coordination: shared, on_store_failure: closed}\n"
                                  "  - {name: flooded, endpoint: flooded, rate: 1/366d, burst: 1, local_factor: 1, "
                                  "coordination: shared, on_store_failure: closed}\n";

enum way { ACCEPTED, DENY_CACHE, PRE_FILTER, WAYS };
static const char *const way_names[WAYS] = {"accepted", "deny_cache", "pre_filter"};

struct bench;

/* One request under way, with room for its answer. */
struct seat {
    struct bench *bench;
    struct sluice_verdict verdict;
};

struct bench {
    uv_loop_t loop;
    struct sl_net_uv net;
    struct sl_alloc alloc;
    struct sl_limiter *limiter;
    struct sl_fleet *fleet;
    struct sl_lane *lane;
    bool stopped;
    char keys[KEYS][KEY_SIZE];
    struct seat seats[IN_FLIGHT];
    const char *scope;
    uint64_t random;
    uint64_t until_ns; /* no further request is sent after this */
    uint64_t wanted;   /* ... or after so many */
    uint64_t n_sent, n_answered, n_allowed, n_pending;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_fleet_cost: %s: %s\n", what, why);
    exit(1);
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct sl_policy *compile(const struct sl_secret *secret, const struct sl_alloc *alloc)
{
    const struct sl_policy_options options = {.secret = *secret, .alloc = *alloc, .has_store = true};
    struct sl_diags diags;
    struct sl_policy *policy = NULL;

    sl_diags_init(&diags, *alloc);
    if (sl_policy_parse(policy_text, sizeof policy_text - 1, "bench", &options, &policy, &diags) != 0)
        fail("policy", diags.n ? diags.list[0].message : "cannot be compiled");
    sl_diags_fini(&diags);
    return policy;
}

static void on_secret(void *owner, const struct sl_secret *secret)
{
    struct bench *bench = owner;

    if (sl_limiter_set_policy(bench->limiter, compile(secret, &bench->alloc)) != 0)
        fail("policy", "out of memory");
    sl_fleet_set_secret(bench->fleet, secret);
}

static void open_bench(struct bench *bench, const struct sl_store_url *url)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_table *table;
    struct sl_secret secret;
    char why[256] = "out of memory";

    bench->alloc = sl_alloc_system();
    if (sl_table_open(&options, &table, why, sizeof why) != 0)
        fail("table", why);
    secret = sl_table_secret(table);
    if (sl_limiter_new(table, compile(&secret, &bench->alloc), &bench->alloc, &bench->limiter) != 0)
        fail("limiter", why);
    const struct sl_fleet_config config = {.limiter = bench->limiter,
                                           .alloc = &bench->alloc,
                                           .store = url,
                                           .ns = "bench",
                                           .timeout_us = 2000000,
                                           .instances = 1,
                                           .secret = on_secret,
                                           .owner = bench};
    if (sl_fleet_new(&config, &bench->fleet, why, sizeof why) != 0)
        fail("fleet", why);
    if (uv_loop_init(&bench->loop) != 0 || sl_net_uv_init(&bench->net, &bench->loop, &bench->alloc) != 0)
        fail("loop", why);
    if (sl_lane_new(bench->fleet, &bench->net.net, &bench->lane, why, sizeof why) != 0)
        fail("lane", why);
    for (unsigned i = 0; i < KEYS; i++)
        snprintf(bench->keys[i], KEY_SIZE, "acct_%u", i);
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        bench->seats[i].bench = bench;
    bench->random = 88172645463325252;
}

static void on_stopped(void *ctx)
{
    *(bool *)ctx = true;
}

static void close_bench(struct bench *bench)
{
    sl_lane_stop(bench->lane, on_stopped, &bench->stopped);
    while (!bench->stopped)
        uv_run(&bench->loop, UV_RUN_ONCE);
    sl_lane_free(bench->lane);
    while (bench->net.n_open)
        uv_run(&bench->loop, UV_RUN_ONCE);
    sl_net_uv_fini(&bench->net);
    uv_loop_close(&bench->loop);
    sl_fleet_free(bench->fleet);
    sl_limiter_free(bench->limiter);
}

/* ---- the stream of requests */

static const char *next_key(struct bench *bench)
{
    bench->random ^= bench->random << 13;
    bench->random ^= bench->random >> 7;
    bench->random ^= bench->random << 17;
    return bench->keys[bench->random % KEYS];
}

static void count(struct bench *bench, const struct sluice_verdict *verdict)
{
    bench->n_answered++;
    bench->n_allowed += verdict->allowed;
}

static void send_on(struct seat *seat);

static void on_done(void *ctx)
{
    struct seat *seat = ctx;

    seat->bench->n_pending--;
    count(seat->bench, &seat->verdict);
    send_on(seat);
}

/* Asks from this seat until a request has to wait for the store, or the stream is over. */
static void send_on(struct seat *seat)
{
    struct bench *bench = seat->bench;
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.scope = bench->scope;
    request.scope_len = strlen(bench->scope);
    while (bench->n_sent < bench->wanted) {
        /* The clock is read once in 64: it is not what is measured. */
        if (bench->n_sent % 64 == 0 && clock_ns(CLOCK_MONOTONIC) >= bench->until_ns)
            bench->wanted = bench->n_sent;
        if (bench->n_sent++ >= bench->wanted)
            break;
        request.key = next_key(bench);
        request.key_len = strlen(request.key);
        int got = sl_lane_check(bench->lane, &request, &seat->verdict, NULL, NULL, NULL, on_done, seat);

        if (got == SL_PENDING) {
            bench->n_pending++;
            return;
        }
        if (got != SL_DECIDED)
            fail("check", "the request is refused");
        count(bench, &seat->verdict);
    }
}

/* Runs the stream of one scope for ROUND_NS; returns CPU microseconds a decision. */
static double run_way(struct bench *bench, enum way way)
{
    static const char *const scopes[WAYS] = {"open", "shut", "flooded"};
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    bench->scope = scopes[way];
    bench->n_sent = bench->n_answered = bench->n_allowed = 0;
    bench->wanted = UINT64_MAX;
    bench->until_ns = clock_ns(CLOCK_MONOTONIC) + ROUND_NS;
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        send_on(&bench->seats[i]);
    while (bench->n_pending > 0)
        uv_run(&bench->loop, UV_RUN_ONCE);
    cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    if (bench->n_allowed != (way == ACCEPTED ? bench->n_answered : 0))
        fail(way_names[way], "decided otherwise than it should");
    return (double)cpu_ns / (double)bench->n_answered / 1000;
}

/* ---- set-up and report */

/* Sends one request of each key in turn and waits for its answer. */
static void send_each(struct bench *bench, const char *scope, int64_t cost)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct seat *seat = &bench->seats[0];

    request.scope = scope;
    request.scope_len = strlen(scope);
    request.cost = cost;
    bench->scope = scope;
    bench->wanted = 0; /* an answer is not followed by another request */
    for (unsigned i = 0; i < KEYS; i++) {
        request.key = bench->keys[i];
        request.key_len = strlen(request.key);
        if (sl_lane_check(bench->lane, &request, &seat->verdict, NULL, NULL, NULL, on_done, seat) == SL_PENDING)
            bench->n_pending++;
        while (bench->n_pending > 0)
            uv_run(&bench->loop, UV_RUN_ONCE);
    }
}

static void prepare(struct bench *bench)
{
    uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + UINT64_C(10000000000);

    while (!sl_lane_ready(bench->lane)) {
        uv_run(&bench->loop, UV_RUN_ONCE);
        if (clock_ns(CLOCK_MONOTONIC) > end_ns)
            fail("store", "not reached within 10 s");
    }
    send_each(bench, "shut", SHUT_BURST);
    send_each(bench, "shut", 1); /* rejected by the store, and remembered */
    send_each(bench, "flooded", 1);
    for (enum way way = 0; way < WAYS; way++)
        run_way(bench, way);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static double us[WAYS][ROUNDS_MAX];
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;
    struct sl_store_url url;
    struct sl_fleet_stats before, after;
    char why[256];

    if (argc < 2 || argc > 3 || rounds < 1 || rounds > ROUNDS_MAX)
        fail("usage", "bench_fleet_cost STORE [ROUNDS, 1 to 99]");
    if (sl_store_url_parse(argv[1], &url, why, sizeof why) != 0)
        fail(argv[1], why);
    signal(SIGPIPE, SIG_IGN);
    open_bench(&bench, &url);
    prepare(&bench);
    sl_fleet_stats(bench.fleet, &before);
    for (unsigned round = 0; round < rounds; round++)
        for (enum way way = 0; way < WAYS; way++)
            us[way][round] = run_way(&bench, way);
    sl_fleet_stats(bench.fleet, &after);
    if (after.degraded != 0)
        fail("store", "some decisions had no answer in time");
    printf("{");
    for (enum way way = 0; way < WAYS; way++) {
        printf("%s\"%s\": [", way ? ", " : "", way_names[way]);
        for (unsigned round = 0; round < rounds; round++)
            printf("%s%.4f", round ? ", " : "", us[way][round]);
        printf("]");
    }
    printf("}\n");
    close_bench(&bench);
    sl_store_url_fini(&url);
    return 0;
}
