#include "sluiced/webhooks.h"

#include "base/err.h"
#include "fleet/fleet.h"
#include "policy/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

static uint64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- buckets past their marks */

/* The bucket that the verdict warns of: the request's own way to it, and never a guess. NULL: the policy has changed. */
static const struct sl_item *bucket_of(const struct sl_resolution *resolution, const struct sluice_verdict *verdict)
{
    for (unsigned i = 0; i < resolution->n_items; i++) {
        const struct sl_item *item = &resolution->items[i];

        if (item->rate_idx == verdict->warning_rate_idx && strcmp(item->limit->name, verdict->warning_policy) == 0)
            return item;
    }
    return NULL;
}

static void saw_warning(void *ctx, const struct sl_witnessed *decision)
{
    struct sl_webhooks *webhooks = ctx;
    struct sl_service *service = decision->service;
    struct sl_message_source source = {.instance = webhooks->instance};
    struct sl_message_warning warning = {.verdict = decision->verdict};
    struct sl_resolved resolved;

    if (sl_limiter_resolve(service->shared->limiter, sl_service_policy(service), decision->request, &resolved))
        return;
    warning.item = bucket_of(&resolved.resolution, decision->verdict);
    if (!warning.item || !sl_notifier_wants(webhooks->notifier, warning.item->fp, sl_warning_window_us(warning.item)))
        return;
    warning.request = &resolved.request;
    warning.endpoint = resolved.resolution.endpoint;
    warning.tier = resolved.resolution.tier;
    sl_notifier_put(webhooks->notifier, sl_message_warning(&source, &warning, wall_ms()), SL_NOTICE_LIMIT_WARNING);
}

/* Fingerprints are made under a secret, which is the same for all instances once the store has told it. */
static bool in_common(void *owner)
{
    struct sl_webhooks *webhooks = owner;
    struct sl_fleet_stats stats;

    sl_fleet_stats(webhooks->tier->fleet, &stats);
    return stats.secret_known;
}

/* ---- alarms */

/* With the alarms' lock held. Their times are of another clock. */
static void on_alarm(void *ctx, const struct sl_alarm_news *news)
{
    struct sl_webhooks *webhooks = ctx;
    struct sl_message_source source = {.instance = webhooks->instance};
    uint64_t now_us = uv_hrtime() / 1000, now_ms = wall_ms();
    uint64_t at_ms = now_ms - (now_us > news->at_us ? (now_us - news->at_us) / 1000 : 0);

    sl_notifier_put(webhooks->notifier,
                    sl_message_alarm(&source, news, at_ms - (news->at_us - news->since_us) / 1000, at_ms),
                    SL_NOTICE_ALARM);
}

/* ---- life */

static void on_say(void *owner, bool bad, const char *line)
{
    struct sl_webhooks *webhooks = owner;

    sl_log(webhooks->log, bad ? SL_LOG_WARNING : SL_LOG_INFO, "%s", line);
}

static void name_instance(struct sl_webhooks *webhooks)
{
    char host[256] = "";

    if (gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "unknown");
    if (webhooks->tier->fleet)
        snprintf(webhooks->instance, sizeof webhooks->instance, "%s/%016" PRIx64, host,
                 sl_fleet_id(webhooks->tier->fleet));
    else
        snprintf(webhooks->instance, sizeof webhooks->instance, "%s/%ld", host, (long)getpid());
}

static int start_notifier(struct sl_webhooks *webhooks, const struct sl_config *config, char *why, size_t why_size)
{
    bool shared = sl_tier_is_shared(webhooks->tier) && config->webhook_events != SL_WEBHOOK_ALARMS;
    struct sl_notifier_config notifier = {.urls = (const char *const *)config->webhooks.items,
                                          .n_urls = (unsigned)config->webhooks.n,
                                          .secret = config->webhook_secret,
                                          .ca_file = config->webhook_ca,
                                          .store = shared ? &webhooks->tier->url : NULL,
                                          .ns = config->namespace,
                                          .in_common = in_common,
                                          .say = on_say,
                                          .owner = webhooks};

    return sl_notifier_new(&notifier, &webhooks->notifier, why, why_size);
}

int sl_webhooks_start(struct sl_webhooks *webhooks, const struct sl_config *config, struct sl_tier *tier,
                      struct sl_log *log, struct sl_witnesses *witnesses, char *why, size_t why_size)
{
    struct sl_witness *witness = NULL;
    int err;

    webhooks->tier = tier;
    webhooks->log = log;
    if (config->webhooks.n == 0)
        return 0;
    name_instance(webhooks);
    err = start_notifier(webhooks, config, why, why_size);
    if (err)
        return err;
    if (config->webhook_events != SL_WEBHOOK_ALARMS) {
        witness = sl_witness_add(witnesses, saw_warning, NULL, webhooks);
        if (!witness) {
            snprintf(why, why_size, "no room for a witness of warnings");
            sl_webhooks_stop(webhooks);
            return SL_ENOMEM;
        }
        sl_witness_set(witness, SL_SEE_WARNED);
    }
    webhooks->alarms = config->webhook_events != SL_WEBHOOK_WARNINGS;
    if (webhooks->alarms)
        sl_alarms_set_sink(&tier->alarms, on_alarm, webhooks);
    return 0;
}

struct sl_notice_counts *sl_webhooks_counts(struct sl_webhooks *webhooks)
{
    return webhooks->notifier ? sl_notifier_counts(webhooks->notifier) : &webhooks->none;
}

void sl_webhooks_stop(struct sl_webhooks *webhooks)
{
    if (!webhooks->notifier)
        return;
    if (webhooks->alarms)
        sl_alarms_set_sink(&webhooks->tier->alarms, NULL, NULL);
    sl_notifier_free(webhooks->notifier, SL_WEBHOOKS_GRACE_MS);
    webhooks->notifier = NULL;
}
