#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_policy *compile(const struct sl_secret *secret, const char *yaml)
{
    struct sl_policy_options options = {.secret = *secret, .alloc = sl_alloc_system(), .has_store = true};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    char *text;

    assert_true(asprintf(&text, "version: 1\n%s", yaml) > 0);
    sl_diags_init(&diags, sl_alloc_system());
    if (sl_policy_parse(text, strlen(text), "test.yaml", &options, &policy, &diags) != 0) {
        sl_diags_print(&diags, stderr);
        fail_msg("the policy is refused:\n%s", text);
    }
    sl_diags_fini(&diags);
    free(text);
    return policy;
}

/* ---- the loop */

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void fleet_turn(struct fleet_kit *kit)
{
    uv_run(&kit->loop, UV_RUN_NOWAIT);
}

bool fleet_wait(struct fleet_kit *kit, bool (*reached)(void *ctx), void *ctx)
{
    uint64_t until = uv_now(&kit->loop) + PATIENCE_MS;

    while (!reached(ctx) && uv_now(&kit->loop) < until)
        uv_run(&kit->loop, UV_RUN_ONCE);
    return reached(ctx);
}

void fleet_run_ms(struct fleet_kit *kit, unsigned ms)
{
    uint64_t until;

    uv_update_time(&kit->loop);
    until = uv_now(&kit->loop) + ms;
    while (uv_now(&kit->loop) < until)
        uv_run(&kit->loop, UV_RUN_ONCE);
}

static bool all_ready(void *ctx)
{
    struct fleet_kit *kit = ctx;

    for (unsigned i = 0; i < kit->n; i++)
        if (kit->instances[i].lane && !kit->instances[i].stopped && !sl_lane_ready(kit->instances[i].lane))
            return false;
    return true;
}

void fleet_wait_ready(struct fleet_kit *kit)
{
    assert_true(fleet_wait(kit, all_ready, kit));
}

/* ---- instances */

static void on_secret(void *owner, const struct sl_secret *secret)
{
    struct instance *instance = owner;

    instance->told_secret++;
    assert_int_equal(sl_limiter_set_policy(instance->limiter, compile(secret, instance->kit->yaml)), 0);
    sl_fleet_set_secret(instance->fleet, secret);
}

static void on_event(void *owner, const struct sl_fleet_event *event)
{
    struct instance *instance = owner;

    if (event->client->happening == SL_CLIENT_DISCONNECTED)
        instance->lost++;
    if (event->client->happening == SL_CLIENT_BREAKER) {
        instance->opened += event->client->breaker == SL_BREAKER_OPEN;
        instance->closed += event->client->breaker == SL_BREAKER_CLOSED;
    }
}

static void on_odd(void *owner, const char *text)
{
    struct instance *instance = owner;

    instance->n_odd++;
    snprintf(instance->odd, sizeof instance->odd, "%s", text);
}

static uint64_t timeout;
uint64_t fleet_ahead_us, fleet_tier_ttl_us;

static uint64_t wall_us(void *ctx)
{
    struct sl_clock clock = sl_clock_system();

    (void)ctx;
    return clock.wall_us(clock.ctx) + fleet_ahead_us;
}

static uint64_t mono_us(void *ctx)
{
    struct sl_clock clock = sl_clock_system();

    (void)ctx;
    return clock.mono_us(clock.ctx) + fleet_ahead_us;
}

struct instance *fleet_join(struct fleet_kit *kit)
{
    struct instance *instance = &kit->instances[kit->n++];
    struct sl_table_options options = sl_table_defaults();
    struct sl_fleet_config config = {.alloc = &kit->alloc,
                                     .store = &kit->url,
                                     .ns = kit->ns,
                                     .timeout_us = timeout,
                                     .instances = 1,
                                     .secret = on_secret,
                                     .event = on_event,
                                     .odd = on_odd,
                                     .tier_ttl_us = fleet_tier_ttl_us,
                                     .owner = instance};
    struct sl_secret secret;
    struct sl_table *table;
    char why[256];

    assert_true(kit->n <= FLEET_MAX);
    *instance = (struct instance){.kit = kit};
    options.keys = 10000;
    options.clock = (struct sl_clock){.wall_us = wall_us, .mono_us = mono_us};
    assert_int_equal(sl_table_open(&options, &table, why, sizeof why), 0);
    secret = sl_table_secret(table);
    assert_int_equal(sl_limiter_new(table, compile(&secret, kit->yaml), &kit->alloc, &instance->limiter), 0);
    config.limiter = instance->limiter;
    if (sl_fleet_new(&config, &instance->fleet, why, sizeof why) != 0)
        fail_msg("%s", why);
    sl_fleet_set_secret(instance->fleet, &secret);
    if (sl_lane_new(instance->fleet, &kit->net.net, &instance->lane, why, sizeof why) != 0)
        fail_msg("%s", why);
    return instance;
}

static void on_stopped(void *ctx)
{
    ((struct instance *)ctx)->stopped = true;
}

static bool has_stopped(void *ctx)
{
    return ((struct instance *)ctx)->stopped;
}

void fleet_stop(struct instance *instance)
{
    if (!instance->lane)
        return;
    sl_lane_stop(instance->lane, on_stopped, instance);
    assert_true(fleet_wait(instance->kit, has_stopped, instance));
    fleet_crash(instance);
}

void fleet_crash(struct instance *instance)
{
    sl_lane_free(instance->lane);
    sl_fleet_free(instance->fleet);
    sl_limiter_free(instance->limiter);
    instance->lane = NULL;
}

void fleet_open(struct fleet_kit *kit, const char *url, const char *yaml, unsigned n, uint64_t timeout_us, bool wait)
{
    static unsigned spaces;
    char why[256];

    memset(kit, 0, sizeof *kit);
    timeout = timeout_us ? timeout_us : 1000000;
    kit->alloc = sl_alloc_system();
    kit->yaml = strdup(yaml);
    snprintf(kit->ns, sizeof kit->ns, "t%u", spaces++);
    assert_int_equal(uv_loop_init(&kit->loop), 0);
    uv_timer_init(&kit->loop, &kit->tick);
    uv_timer_start(&kit->tick, on_tick, 1, 1);
    assert_int_equal(sl_net_uv_init(&kit->net, &kit->loop, &kit->alloc), 0);
    if (sl_store_url_parse(url, &kit->url, why, sizeof why) != 0)
        fail_msg("%s", why);
    for (unsigned i = 0; i < n; i++)
        fleet_join(kit);
    if (wait)
        fleet_wait_ready(kit);
}

void fleet_close(struct fleet_kit *kit)
{
    for (unsigned i = 0; i < kit->n; i++)
        fleet_stop(&kit->instances[i]);
    while (kit->net.n_open)
        uv_run(&kit->loop, UV_RUN_ONCE);
    sl_net_uv_fini(&kit->net);
    uv_close((uv_handle_t *)&kit->tick, NULL);
    uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit->loop), 0);
    sl_store_url_fini(&kit->url);
    free(kit->yaml);
}

void fleet_reload(struct fleet_kit *kit, const char *yaml)
{
    free(kit->yaml);
    kit->yaml = strdup(yaml);
    for (unsigned i = 0; i < kit->n; i++) {
        struct instance *instance = &kit->instances[i];
        struct sl_secret secret;

        if (!instance->lane)
            continue;
        assert_true(sl_fleet_secret(instance->fleet, &secret));
        assert_int_equal(sl_limiter_set_policy(instance->limiter, compile(&secret, yaml)), 0);
    }
}

/* ---- decisions */

struct sluice_request fleet_request(const char *key, const char *scope, int64_t cost)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    request.scope = scope;
    request.scope_len = scope ? strlen(scope) : 0;
    request.cost = cost;
    return request;
}

static void on_done(void *ctx)
{
    struct decided *decided = ctx;

    decided->done = true;
    decided->times++;
}

void fleet_begin(struct instance *instance, const struct sluice_request *request, struct decided *decided)
{
    const char *field = "", *why = "";
    int result;

    decided->done = false;
    decided->times = 0;
    result =
        sl_lane_check(instance->lane, request, &decided->verdict, &decided->report, &field, &why, on_done, decided);
    if (result < 0)
        fail_msg("%s: %s", field, why);
    decided->done = result == SL_DECIDED;
}

static bool is_decided(void *ctx)
{
    return ((struct decided *)ctx)->done;
}

void fleet_finish(struct fleet_kit *kit, struct decided *decided)
{
    assert_true(fleet_wait(kit, is_decided, decided));
    assert_true(decided->times <= 1);
}

struct sluice_verdict fleet_check(struct instance *instance, const char *key, const char *scope, int64_t cost)
{
    struct sluice_request request = fleet_request(key, scope, cost);
    struct decided decided;

    fleet_begin(instance, &request, &decided);
    fleet_finish(instance->kit, &decided);
    return decided.verdict;
}

unsigned fleet_admitted(struct instance *instance, const char *key, const char *scope, unsigned m)
{
    unsigned allowed = 0;

    for (unsigned i = 0; i < m; i++)
        allowed += fleet_check(instance, key, scope, 1).allowed;
    return allowed;
}

static void on_bucket(void *ctx, const struct sl_bucket_info *info)
{
    ((struct found *)ctx)->remaining = info->numbers.remaining;
}

static void on_inspected(void *ctx, size_t n, size_t unknown)
{
    struct found *found = ctx;

    found->n = n;
    found->unknown = unknown;
    found->done = true;
}

static bool is_found(void *ctx)
{
    return ((struct found *)ctx)->done;
}

struct found fleet_look(struct instance *instance, const struct sluice_request *request, bool reset)
{
    struct found found = {.remaining = -1};
    struct sl_lane_visitor visitor = {on_bucket, on_inspected, &found};

    assert_int_equal(sl_lane_inspect(instance->lane, request, reset, &visitor, NULL, NULL), 0);
    assert_true(fleet_wait(instance->kit, is_found, &found));
    return found;
}

struct sl_fleet_stats fleet_stats(struct instance *instance)
{
    struct sl_fleet_stats stats;

    sl_fleet_stats(instance->fleet, &stats);
    return stats;
}
