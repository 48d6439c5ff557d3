#include "sluiced/tier.h"

#include "base/err.h"
#include "sluiced/keep.h"

#include <string.h>

#define LOOK_MS 250

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

static void on_alarm(void *ctx, bool serious, const char *line)
{
    struct sl_tier *tier = ctx;

    sl_log(tier->log, serious ? SL_LOG_ERROR : SL_LOG_INFO, "%s", line);
}

/* ---- set-up */

int sl_tier_init(struct sl_tier *tier, const struct sl_config *config, struct sl_log *log, char *why, size_t why_size)
{
    char reason[512];
    int err;

    *tier = (struct sl_tier){.config = config, .log = log, .alloc = sl_alloc_system()};
    err = sl_store_url_parse(config->store, &tier->url, reason, sizeof reason);
    if (!err)
        err = sl_store_url_read_files(&tier->url, reason, sizeof reason);
    if (err) {
        snprintf(why, why_size, "--store: %s", reason);
        sl_store_url_fini(&tier->url);
        return err;
    }
    sl_store_url_text(&tier->url, tier->store, sizeof tier->store);
    sl_alarms_init(&tier->alarms);
    sl_policy_watch_init(&tier->policies, &(struct sl_teller){.alarms = &tier->alarms, .say = on_alarm, .ctx = tier});
    pthread_mutex_init(&tier->lock, NULL);
    return 0;
}

void sl_tier_fini(struct sl_tier *tier)
{
    pthread_mutex_destroy(&tier->lock);
    sl_policy_watch_fini(&tier->policies);
    sl_alarms_fini(&tier->alarms);
    sl_store_url_fini(&tier->url);
}

bool sl_tier_is_shared(const struct sl_tier *tier)
{
    return tier->url.kind != SL_STORE_MEMORY;
}

/* ---- secrets */

struct sl_secret sl_tier_secret(struct sl_tier *tier, struct sl_secret own)
{
    const struct sl_config *config = tier->config;
    struct sl_secret kept;
    char why[512];
    int err;

    if (!sl_tier_is_shared(tier) || !config->state)
        return own;
    err = sl_keep_find_secret(config->state, &tier->url, config->namespace, &kept, why, sizeof why);
    if (!err)
        return kept;
    if (err != SL_ENOTFOUND)
        sl_log(tier->log, SL_LOG_WARNING, "the instances' secret that was kept cannot be used: %s", why);
    return own;
}

/* Keeping is a service: what goes wrong with it is logged, and costs the next start a moment of failure modes. */
static void keep(struct sl_tier *tier, const struct sl_secret *secret)
{
    const struct sl_config *config = tier->config;
    char why[512];

    if (config->state && sl_keep_secret(config->state, &tier->url, config->namespace, secret, why, sizeof why))
        sl_log(tier->log, SL_LOG_ERROR, "the instances' secret could not be kept in %s: %s", config->state, why);
}

void sl_tier_keyed(void *ctx, const struct sl_secret *secret)
{
    struct sl_tier *tier = ctx;

    if (!tier->fleet)
        return;
    sl_fleet_set_secret(tier->fleet, secret);
    keep(tier, secret);
}

/* On a lane's thread: compiling a policy takes a while, and belongs to the daemon's loop. */
static void on_secret(void *owner, const struct sl_secret *secret)
{
    struct sl_tier *tier = owner;

    pthread_mutex_lock(&tier->lock);
    tier->told_secret = *secret;
    pthread_mutex_unlock(&tier->lock);
    uv_async_send(&tier->told);
}

static void on_told(uv_async_t *handle)
{
    struct sl_tier *tier = handle->data;
    struct sl_secret secret;

    pthread_mutex_lock(&tier->lock);
    secret = tier->told_secret;
    pthread_mutex_unlock(&tier->lock);
    sl_source_rekey(tier->source, &secret);
}

/* ---- log lines and alarms */

void sl_tier_judged(void *ctx, bool of_store, const char *finding)
{
    struct sl_tier *tier = ctx;
    enum sl_policy_origin origin = of_store ? SL_POLICY_OF_STORE : SL_POLICY_OF_FILE;

    if (finding)
        sl_policy_watch_refused(&tier->policies, origin, finding, now_us());
    else
        sl_policy_watch_taken(&tier->policies, origin, now_us());
}

static void on_say(void *ctx, enum sl_store_say severity, const char *line)
{
    static const enum sl_log_level levels[] = {[SL_STORE_SAY_ERROR] = SL_LOG_ERROR,
                                               [SL_STORE_SAY_WARNING] = SL_LOG_WARNING,
                                               [SL_STORE_SAY_INFO] = SL_LOG_INFO};
    struct sl_tier *tier = ctx;

    sl_log(tier->log, levels[severity], "%s", line);
}

static void on_event(void *owner, const struct sl_fleet_event *event)
{
    struct sl_tier *tier = owner;

    sl_store_watch_event(tier->watch, event, now_us());
}

static void on_odd(void *owner, const char *text)
{
    struct sl_tier *tier = owner;
    struct sl_fleet_event event = {.finding = text, .serious = true, .store = tier->store};

    sl_store_watch_event(tier->watch, &event, now_us());
}

static void take_worst(void *ctx, const struct sl_shard_stats *stats)
{
    struct sl_store_health *health = ctx;

    if (stats->breaker > health->breaker)
        health->breaker = stats->breaker;
}

static void on_look(uv_timer_t *handle)
{
    struct sl_tier *tier = handle->data;
    struct sl_fleet_stats stats;
    struct sl_store_health health = {.breaker = SL_BREAKER_CLOSED};

    sl_fleet_stats(tier->fleet, &stats);
    sl_fleet_shards(tier->fleet, take_worst, &health);
    health.reached = stats.reached;
    health.secret_known = stats.secret_known;
    health.answered = stats.answered;
    health.refused = stats.refused;
    sl_store_watch_look(tier->watch, &health, now_us());
}

/* ---- life */

static int start_watch(struct sl_tier *tier)
{
    struct sl_store_watch_config config = {
        .alloc = &tier->alloc, .alarms = &tier->alarms, .say = on_say, .ctx = tier, .now_us = now_us()};

    return sl_store_watch_new(&config, &tier->watch);
}

static int start_fleet(struct sl_tier *tier, struct sl_limiter *limiter, char *why, size_t why_size)
{
    const struct sl_config *config = tier->config;
    struct sl_fleet_config fleet = {.limiter = limiter,
                                    .alloc = &tier->alloc,
                                    .store = &tier->url,
                                    .ns = config->namespace,
                                    .timeout_us = config->timeout_us,
                                    .instances = (unsigned)config->instances,
                                    .secret = on_secret,
                                    .event = on_event,
                                    .odd = on_odd,
                                    .owner = tier};

    return sl_fleet_new(&fleet, &tier->fleet, why, why_size);
}

int sl_tier_start(struct sl_tier *tier, struct sl_limiter *limiter, struct sl_source *source, uv_loop_t *loop,
                  char *why, size_t why_size)
{
    int err;

    if (!sl_tier_is_shared(tier))
        return 0;
    tier->source = source;
    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (uv_async_init(loop, &tier->told, on_told) || uv_timer_init(loop, &tier->look))
        return SL_ENOMEM;
    tier->told.data = tier->look.data = tier;
    err = start_watch(tier);
    if (!err)
        err = start_fleet(tier, limiter, why, why_size);
    if (err) {
        sl_tier_stop(tier);
        return err;
    }
    sl_tier_keyed(tier, &source->in_force);
    uv_timer_start(&tier->look, on_look, LOOK_MS, LOOK_MS);
    return 0;
}

void sl_tier_stop(struct sl_tier *tier)
{
    sl_fleet_free(tier->fleet);
    tier->fleet = NULL;
    sl_store_watch_free(tier->watch);
    tier->watch = NULL;
}
