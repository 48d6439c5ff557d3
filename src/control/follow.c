#include "control/follow.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REFUSED_TOLD \
    3u /* looks refused in a row before it is told: a server that starts, or was the master until now */

enum odd { ODD_VERSION, ODD_REPORT, N_ODD };

struct sl_follow {
    struct sl_follow_config config;
    struct sl_alloc alloc;
    struct sl_timer *timer;
    struct sl_pointer runs, passed; /* passed: was not taken, and is not fetched again before again_us */
    struct sl_pointer pending;      /* was offered, and the answer is still to come; number 0: none */
    uint64_t again_us, look_us, report_us;
    bool looking, reporting, looked;
    struct sl_running report;
    unsigned unanswered;                 /* looks refused in a row */
    char odd[N_ODD][SL_CONTROL_WHY_MAX]; /* the last one told of each; empty: all is well */
    struct sl_follow_stats stats;
};

static uint64_t now_us(const struct sl_follow *follow)
{
    const struct sl_net *net = follow->config.place.net;

    return net->now_us(net->ctx);
}

static void wake_at(struct sl_follow *follow, uint64_t at_us)
{
    follow->config.place.net->timer_set(follow->timer, at_us);
}

static void note(struct sl_follow *follow, enum odd which, const char *text)
{
    if (!strcmp(follow->odd[which], text))
        return;
    snprintf(follow->odd[which], sizeof follow->odd[which], "%s", text);
    if (text[0])
        follow->config.odd(follow->config.owner, text);
}

/* ---- versions */

static void refuse(struct sl_follow *follow, const struct sl_pointer *pointer, uint64_t again_us, const char *why)
{
    follow->passed = *pointer;
    follow->again_us = again_us;
    follow->report.refused = pointer->number;
    snprintf(follow->report.why, sizeof follow->report.why, "%.*s", (int)SL_REFUSAL_MAX, why);
    follow->report_us = 0; /* the history shall tell */
    follow->stats.refused++;
}

static void conclude(struct sl_follow *follow, const struct sl_pointer *pointer, enum sl_offer answer, const char *why)
{
    if (answer == SL_OFFER_TAKEN) {
        sl_follow_runs(follow, pointer);
        follow->stats.taken++;
    } else if (answer == SL_OFFER_REFUSED || answer == SL_OFFER_LATER) {
        refuse(follow, pointer, answer == SL_OFFER_LATER ? now_us(follow) + SL_FOLLOW_AGAIN_US : UINT64_MAX, why);
    } else {
        follow->passed = *pointer;
        follow->again_us = UINT64_MAX;
        follow->stats.ignored++;
    }
}

static void offer(struct sl_follow *follow, const struct sl_version *version, struct sl_version_text *text)
{
    const struct sl_follow_config *config = &follow->config;
    struct sl_pointer pointer = {.number = version->number};
    char why[SL_CONTROL_WHY_MAX] = "";
    enum sl_offer answer;

    memcpy(pointer.hash, version->hash, sizeof pointer.hash);
    answer = config->offer(config->owner, version, text, why, sizeof why);
    if (answer == SL_OFFER_PENDING)
        follow->pending = pointer;
    else
        conclude(follow, &pointer, answer, why);
}

/* The store has been heard of for the first time, and what it says is done. */
static void settle(struct sl_follow *follow, enum sl_control outcome)
{
    if (!follow->looked && !follow->looking && !follow->pending.number && outcome != SL_CONTROL_AWAY) {
        follow->looked = true;
        if (follow->config.looked)
            follow->config.looked(follow->config.owner);
    }
    wake_at(follow, 0);
}

void sl_follow_conclude(struct sl_follow *follow, enum sl_offer answer, const char *why)
{
    struct sl_pointer pointer = follow->pending;

    follow->pending.number = 0;
    conclude(follow, &pointer, answer, why);
    settle(follow, SL_CONTROL_OK);
}

static void on_fetched(void *ctx, enum sl_control outcome, const struct sl_version *version,
                       struct sl_version_text *text, const char *why)
{
    struct sl_follow *follow = ctx;

    follow->looking = false;
    if (outcome == SL_CONTROL_OK) {
        offer(follow, version, text);
        sl_version_text_free(&follow->alloc, text);
        note(follow, ODD_VERSION, "");
    } else if (outcome == SL_CONTROL_FOREIGN || outcome == SL_CONTROL_DAMAGED) {
        refuse(follow, &follow->stats.seen, now_us(follow) + SL_FOLLOW_AGAIN_US, why);
        note(follow, ODD_VERSION, why);
    }
    settle(follow, outcome);
}

/* Without its texts: nobody wants them. */
static void ignore(struct sl_follow *follow, const struct sl_pointer *pointer)
{
    struct sl_version version = {.number = pointer->number};

    memcpy(version.hash, pointer->hash, sizeof version.hash);
    offer(follow, &version, NULL);
}

static void fetch(struct sl_follow *follow)
{
    follow->looking = sl_versions_fetch(&follow->config.place, 0, on_fetched, follow) == SL_CONTROL_OK;
}

/* ---- the pointer */

static void note_none(struct sl_follow *follow)
{
    char text[160] = "";

    if (follow->runs.number)
        snprintf(text, sizeof text,
                 "the store has no version of the policy any more: version %" PRIu64 " stays in force",
                 follow->runs.number);
    note(follow, ODD_VERSION, text);
}

static void take_pointer(struct sl_follow *follow, const struct sl_pointer *pointer)
{
    follow->stats.seen = *pointer;
    if (follow->pending.number) {
        return; /* the next look sees to it */
    } else if (pointer->number == 0) {
        note_none(follow);
    } else if (sl_pointer_equal(pointer, &follow->runs)) {
        follow->passed.number = follow->report.refused = 0;
        note(follow, ODD_VERSION, "");
    } else if (sl_pointer_equal(pointer, &follow->passed) && now_us(follow) < follow->again_us) {
        return;
    } else if (follow->config.from_file) {
        ignore(follow, pointer);
    } else {
        fetch(follow);
    }
}

static void on_looked(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct sl_follow *follow = ctx;

    follow->looking = false;
    follow->unanswered = outcome == SL_CONTROL_REFUSED ? follow->unanswered + 1 : 0;
    if (outcome == SL_CONTROL_OK) {
        follow->stats.looks++;
        take_pointer(follow, pointer);
    } else {
        follow->stats.failed++;
        if (outcome == SL_CONTROL_FOREIGN || follow->unanswered >= REFUSED_TOLD)
            note(follow, ODD_VERSION, why);
    }
    settle(follow, outcome);
}

static void look(struct sl_follow *follow)
{
    if (sl_versions_look(&follow->config.place, on_looked, follow) == SL_CONTROL_OK)
        follow->looking = true;
    else
        follow->stats.failed++;
}

/* ---- what runs */

static void on_reported(void *ctx, enum sl_control outcome, const char *why)
{
    struct sl_follow *follow = ctx;

    follow->reporting = false;
    if (outcome == SL_CONTROL_OK || outcome == SL_CONTROL_FOREIGN)
        note(follow, ODD_REPORT, why);
}

static void report(struct sl_follow *follow)
{
    follow->report.version = follow->runs;
    follow->reporting =
        sl_versions_report(&follow->config.place, &follow->report, on_reported, follow) == SL_CONTROL_OK;
}

/* ---- time */

static uint64_t soon(struct sl_follow *follow, uint64_t us)
{
    return now_us(follow) + sl_net_between(follow->config.place.net, us - us / 10, us + us / 10);
}

static void on_timer(void *owner)
{
    struct sl_follow *follow = owner;
    uint64_t now = now_us(follow);

    if (!follow->looking && now >= follow->look_us) {
        follow->look_us = soon(follow, SL_FOLLOW_LOOK_US);
        look(follow);
    }
    if (!follow->reporting && !follow->config.mute && now >= follow->report_us) {
        follow->report_us = soon(follow, SL_FOLLOW_REPORT_US);
        report(follow);
    }
    now = now_us(follow);
    wake_at(follow, follow->look_us > now ? follow->look_us : now + SL_FOLLOW_LOOK_US);
}

/* ---- life */

int sl_follow_new(const struct sl_follow_config *config, const struct sl_pointer *runs, struct sl_follow **ret_follow)
{
    struct sl_follow *follow = sl_calloc(config->place.alloc, 1, sizeof *follow);

    if (!follow)
        return SL_ENOMEM;
    follow->config = *config;
    follow->alloc = *config->place.alloc;
    follow->runs = *runs;
    follow->report = (struct sl_running){.id = config->id, .from_file = config->from_file};
    snprintf(follow->report.host, sizeof follow->report.host, "%s", config->host);
    snprintf(follow->report.region, sizeof follow->report.region, "%s", config->region ? config->region : "");
    snprintf(follow->report.address, sizeof follow->report.address, "%s", config->address ? config->address : "");
    follow->timer = config->place.net->timer_new(config->place.net->ctx, on_timer, follow);
    if (!follow->timer) {
        sl_free(&follow->alloc, follow);
        return SL_ENOMEM;
    }
    wake_at(follow, 0);
    *ret_follow = follow;
    return 0;
}

void sl_follow_free(struct sl_follow *follow)
{
    struct sl_alloc alloc;

    if (!follow)
        return;
    alloc = follow->alloc;
    follow->config.place.net->timer_free(follow->timer);
    sl_free(&alloc, follow);
}

void sl_follow_runs(struct sl_follow *follow, const struct sl_pointer *runs)
{
    follow->runs = *runs;
    follow->passed.number = follow->report.refused = 0;
    follow->report_us = 0;
    wake_at(follow, 0);
}

void sl_follow_hurry(struct sl_follow *follow)
{
    follow->look_us = follow->report_us = follow->again_us = 0;
    wake_at(follow, 0);
}

void sl_follow_stats(const struct sl_follow *follow, struct sl_follow_stats *ret_stats)
{
    *ret_stats = follow->stats;
}
