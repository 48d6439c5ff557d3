/* Follows the overrides in the store. */
#include "control/overrides.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

#define REFUSED_TOLD 3u

struct sl_overrides_follow {
    struct sl_overrides_follow_config config;
    struct sl_alloc alloc;
    struct sl_timer *timer;
    struct sl_revision revision; /* of what was taken */
    uint64_t look_us;
    bool busy, looked;
    unsigned refused, failed; /* looks, fetches in a row */
    char odd[SL_CONTROL_WHY_MAX];
};

static uint64_t now_us(const struct sl_overrides_follow *follow)
{
    const struct sl_net *net = follow->config.place.net;

    return net->now_us(net->ctx);
}

static void note(struct sl_overrides_follow *follow, const char *text)
{
    if (!strcmp(follow->odd, text))
        return;
    snprintf(follow->odd, sizeof follow->odd, "%s", text);
    if (text[0])
        follow->config.odd(follow->config.owner, text);
}

/* What the store says is done, or is not to be had now. */
static void settle(struct sl_overrides_follow *follow, enum sl_control outcome)
{
    follow->busy = false;
    if (!follow->looked && outcome != SL_CONTROL_AWAY) {
        follow->looked = true;
        if (follow->config.looked)
            follow->config.looked(follow->config.owner);
    }
    follow->config.place.net->timer_set(follow->timer, follow->look_us);
}

static void on_fetched(void *ctx, enum sl_control outcome, struct sl_overrides *overrides,
                       const struct sl_revision *revision, const char *why)
{
    struct sl_overrides_follow *follow = ctx;

    follow->failed = outcome == SL_CONTROL_OK ? 0 : follow->failed + 1;
    if (outcome == SL_CONTROL_OK) {
        if (follow->config.take(follow->config.owner, overrides, revision))
            follow->revision = *revision;
        note(follow, why);
    } else if (outcome == SL_CONTROL_FOREIGN || follow->failed >= REFUSED_TOLD) {
        note(follow, why);
    }
    settle(follow, outcome);
}

/* A store that has lost its data takes no override away: nobody has said so. */
static void note_lost(struct sl_overrides_follow *follow)
{
    char text[160];

    snprintf(text, sizeof text,
             "the store knows of no overrides any more: those of revision %.15s stay until it does, or until they end",
             follow->revision.text);
    note(follow, text);
}

static void on_looked(void *ctx, enum sl_control outcome, const struct sl_revision *revision, const char *why)
{
    struct sl_overrides_follow *follow = ctx;
    bool other = outcome == SL_CONTROL_OK && strcmp(revision->text, follow->revision.text) != 0;

    follow->refused = outcome == SL_CONTROL_REFUSED ? follow->refused + 1 : 0;
    if (other && revision->text[0]) {
        if (sl_overrides_fetch(&follow->config.place, on_fetched, follow) == SL_CONTROL_OK)
            return;
        outcome = SL_CONTROL_AWAY;
    } else if (other) {
        note_lost(follow);
    } else if (outcome == SL_CONTROL_FOREIGN || follow->refused >= REFUSED_TOLD) {
        note(follow, why);
    }
    settle(follow, outcome);
}

static void on_timer(void *owner)
{
    struct sl_overrides_follow *follow = owner;
    const struct sl_net *net = follow->config.place.net;
    uint64_t now = now_us(follow);

    if (follow->busy)
        return;
    follow->look_us = now + sl_net_between(net, SL_OVERRIDES_LOOK_US - SL_OVERRIDES_LOOK_US / 10,
                                           SL_OVERRIDES_LOOK_US + SL_OVERRIDES_LOOK_US / 10);
    follow->busy = sl_overrides_look(&follow->config.place, on_looked, follow) == SL_CONTROL_OK;
    if (!follow->busy)
        net->timer_set(follow->timer, follow->look_us);
}

int sl_overrides_follow_new(const struct sl_overrides_follow_config *config, const struct sl_revision *revision,
                            struct sl_overrides_follow **ret_follow)
{
    struct sl_overrides_follow *follow = sl_calloc(config->place.alloc, 1, sizeof *follow);

    if (!follow)
        return SL_ENOMEM;
    follow->config = *config;
    follow->alloc = *config->place.alloc;
    follow->revision = *revision;
    follow->timer = config->place.net->timer_new(config->place.net->ctx, on_timer, follow);
    if (!follow->timer) {
        sl_free(&follow->alloc, follow);
        return SL_ENOMEM;
    }
    config->place.net->timer_set(follow->timer, 0);
    *ret_follow = follow;
    return 0;
}

void sl_overrides_follow_free(struct sl_overrides_follow *follow)
{
    struct sl_alloc alloc;

    if (!follow)
        return;
    alloc = follow->alloc;
    follow->config.place.net->timer_free(follow->timer);
    sl_free(&alloc, follow);
}

void sl_overrides_follow_hurry(struct sl_overrides_follow *follow)
{
    if (!follow->busy)
        follow->config.place.net->timer_set(follow->timer, 0);
}
