/* From the outboxes to the webhooks. */
#include "notify/notifier_internal.h"
#include "notify/sign.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TOLD_US UINT64_C(60000000) /* a failure is told of so often at most, for each webhook */

static uint64_t random_number(struct sl_notifier *notifier)
{
    notifier->random += UINT64_C(0x9E3779B97F4A7C15);
    return notifier->random ^ notifier->random >> 31;
}

/* ---- lines for the log: of changes, and not of every attempt */

static void __attribute__((format(printf, 3, 4)))
say(const struct sl_notifier *notifier, bool bad, const char *format, ...)
{
    char line[SL_TARGET_TEXT_MAX + SL_POST_WHY_MAX + 200];
    va_list args;

    if (!notifier->config.say)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    notifier->config.say(notifier->config.owner, bad, line);
}

static void describe(const struct sl_posted *posted, char *buf, size_t size)
{
    if (posted->status)
        snprintf(buf, size, "it answered with status %u", posted->status);
    else
        snprintf(buf, size, "%s", posted->why);
}

static void tell(struct webhook *webhook, enum sl_fate fate, const struct sl_posted *posted)
{
    struct sl_notifier *notifier = webhook->notifier;
    uint64_t now_us = sl_notifier_now_us(notifier);
    bool failing = fate != SL_FATE_DELIVERED;
    char what[SL_POST_WHY_MAX];

    describe(posted, what, sizeof what);
    if (failing && !webhook->failing && (!webhook->failing_us || now_us - webhook->failing_us >= TOLD_US)) {
        say(notifier, true, "webhook %s takes no notifications: %s", webhook->shown, what);
        webhook->failing = true;
        webhook->failing_us = now_us;
    } else if (!failing && webhook->failing) {
        say(notifier, false, "webhook %s takes notifications again", webhook->shown);
        webhook->failing = false;
    }
    if (fate != SL_FATE_FAILED)
        return;
    webhook->given_up++;
    if (webhook->told_us && now_us - webhook->told_us < TOLD_US)
        return;
    say(notifier, true, "webhook %s: %u notifications were given up, the last because %s", webhook->shown,
        webhook->given_up, what);
    webhook->told_us = now_us;
    webhook->given_up = 0;
}

/* ---- one delivery */

struct sending {
    struct webhook *webhook;
    struct sl_delivery *delivery;
};

static void settle(struct webhook *webhook, struct sl_delivery *delivery, const struct sl_posted *posted)
{
    static const enum sl_notice_result results[] = {[SL_FATE_DELIVERED] = SL_NOTICE_DELIVERED,
                                                    [SL_FATE_RETRIED] = SL_NOTICE_RETRIED,
                                                    [SL_FATE_FAILED] = SL_NOTICE_FAILED};
    struct sl_notifier *notifier = webhook->notifier;
    enum sl_notice_kind kind = delivery->message->kind;
    struct sl_attempt attempt = {.status = posted->status};
    enum sl_fate fate;

    attempt.retry_after_us = posted->retry_after_s > SL_OUTBOX_ASKED_MAX_US / 1000000 ? SL_OUTBOX_ASKED_MAX_US
                                                                                      : posted->retry_after_s * 1000000;
    fate = sl_outbox_done(&webhook->box, delivery, &attempt, sl_notifier_now_us(notifier), random_number(notifier));
    sl_notice_count(&notifier->counts, kind, results[fate]);
    if (fate != SL_FATE_RETRIED)
        atomic_fetch_sub(&notifier->counts.queued, 1);
    tell(webhook, fate, posted);
}

static void on_posted(void *ctx, const struct sl_posted *posted)
{
    struct sending sending = *(struct sending *)ctx;

    free(ctx);
    if (sending.webhook->notifier->ended) /* it stays in its outbox, and is counted with the rest */
        return;
    settle(sending.webhook, sending.delivery, posted);
    sl_notifier_pump(sending.webhook->notifier);
}

/* Returns false when there was no memory to begin. */
static bool begin(struct webhook *webhook, struct sl_delivery *delivery)
{
    struct sl_notifier *notifier = webhook->notifier;
    const struct sl_message *message = delivery->message;
    struct sending *sending = malloc(sizeof *sending);
    char signature[SL_SIGNATURE_MAX], lines[3][160];
    const char *const headers[] = {"Content-Type: application/json", "User-Agent: sluiced", lines[0], lines[1],
                                   lines[2]};
    struct sl_post post = {.url = webhook->url,
                           .headers = headers,
                           .n_headers = sizeof headers / sizeof *headers,
                           .body = message->body,
                           .len = message->len};
    uint64_t unix_s = notifier->clock.wall_us(notifier->clock.ctx) / 1000000;

    if (!sending)
        return false;
    *sending = (struct sending){.webhook = webhook, .delivery = delivery};
    if (sl_sign(notifier->config.secret, unix_s, message->body, message->len, signature) == 0) {
        snprintf(lines[0], sizeof lines[0], "Sluice-Signature: %s", signature);
        snprintf(lines[1], sizeof lines[1], "Sluice-Event: %s", sl_notice_name(message->kind));
        snprintf(lines[2], sizeof lines[2], "Sluice-Delivery: %s", message->id);
        if (sl_poster_post(notifier->poster, &post, on_posted, sending) == 0)
            return true;
    }
    free(sending);
    return false;
}

static void pump_one(struct webhook *webhook)
{
    static const struct sl_posted unsent = {.why = "out of memory"};
    uint64_t now_us = sl_notifier_now_us(webhook->notifier);
    struct sl_delivery *delivery;

    while ((delivery = sl_outbox_next(&webhook->box, now_us)))
        if (!begin(webhook, delivery))
            settle(webhook, delivery, &unsent);
}

/* ---- all of them */

static void on_due(uv_timer_t *timer)
{
    sl_notifier_pump(timer->data);
}

void sl_notifier_pump(struct sl_notifier *notifier)
{
    uint64_t soonest_us = UINT64_MAX, now_us;

    if (notifier->ended)
        return;
    for (unsigned i = 0; i < notifier->config.n_urls; i++) {
        uint64_t due_us;

        pump_one(&notifier->webhooks[i]);
        due_us = sl_outbox_due_us(&notifier->webhooks[i].box);
        soonest_us = due_us < soonest_us ? due_us : soonest_us;
    }
    now_us = sl_notifier_now_us(notifier);
    if (soonest_us == UINT64_MAX)
        uv_timer_stop(&notifier->due);
    else
        uv_timer_start(&notifier->due, on_due, soonest_us > now_us ? (soonest_us - now_us) / 1000 + 1 : 0, 0);
    if (atomic_load(&notifier->stopping) && notifier->claims == 0 && atomic_load(&notifier->n) == 0 &&
        sl_notifier_is_sent(notifier))
        uv_stop(&notifier->loop);
}

void sl_notifier_distribute(struct sl_notifier *notifier, struct sl_message *message)
{
    uint64_t now_us = sl_notifier_now_us(notifier);

    for (unsigned i = 0; i < notifier->config.n_urls; i++) {
        if (!notifier->ended && sl_outbox_put(&notifier->webhooks[i].box, message, now_us))
            atomic_fetch_add(&notifier->counts.queued, 1);
        else
            sl_notice_count(&notifier->counts, message->kind, SL_NOTICE_DROPPED);
    }
    sl_notifier_pump(notifier);
}

bool sl_notifier_is_sent(const struct sl_notifier *notifier)
{
    for (unsigned i = 0; i < notifier->config.n_urls; i++)
        if (notifier->webhooks[i].box.n > 0)
            return false;
    return true;
}
