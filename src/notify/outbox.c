#include "notify/outbox.h"

#include <assert.h>

static void drop(struct sl_outbox *box, struct sl_delivery *delivery)
{
    sl_message_unref(delivery->message);
    *delivery = (struct sl_delivery){.state = SL_DELIVERY_FREE};
    box->n--;
}

void sl_outbox_fini(struct sl_outbox *box)
{
    for (unsigned i = 0; i < SL_OUTBOX_MAX; i++)
        if (box->deliveries[i].state != SL_DELIVERY_FREE)
            drop(box, &box->deliveries[i]);
    box->flying = 0;
}

static bool has_room(const struct sl_outbox *box, enum sl_notice_kind kind)
{
    return box->n < (kind == SL_NOTICE_LIMIT_WARNING ? SL_OUTBOX_MAX - SL_OUTBOX_RESERVED : SL_OUTBOX_MAX);
}

bool sl_outbox_put(struct sl_outbox *box, struct sl_message *message, uint64_t now_us)
{
    struct sl_delivery *delivery = box->deliveries;

    if (!has_room(box, message->kind))
        return false;
    while (delivery->state != SL_DELIVERY_FREE)
        delivery++;
    *delivery = (struct sl_delivery){
        .state = SL_DELIVERY_WAITS,
        .message = sl_message_ref(message),
        .number = box->numbers++,
        .born_us = now_us,
        .due_us = now_us,
        .backoff = {.base_us = SL_OUTBOX_WAIT_US, .cap_us = SL_OUTBOX_WAIT_MAX_US},
    };
    box->n++;
    return true;
}

/* When it may be sent. */
static uint64_t due_us(const struct sl_outbox *box, const struct sl_delivery *delivery)
{
    if (box->hurried)
        return 0;
    return delivery->due_us > box->closed_until_us ? delivery->due_us : box->closed_until_us;
}

struct sl_delivery *sl_outbox_next(struct sl_outbox *box, uint64_t now_us)
{
    struct sl_delivery *oldest = NULL;

    if (box->flying == SL_OUTBOX_FLYING)
        return NULL;
    for (unsigned i = 0; i < SL_OUTBOX_MAX; i++) {
        struct sl_delivery *delivery = &box->deliveries[i];

        if (delivery->state == SL_DELIVERY_WAITS && due_us(box, delivery) <= now_us &&
            (!oldest || delivery->number < oldest->number))
            oldest = delivery;
    }
    if (oldest) {
        oldest->state = SL_DELIVERY_FLIES;
        oldest->tries++;
        box->flying++;
    }
    return oldest;
}

uint64_t sl_outbox_due_us(const struct sl_outbox *box)
{
    uint64_t soonest = UINT64_MAX;

    if (box->flying == SL_OUTBOX_FLYING)
        return UINT64_MAX;
    for (unsigned i = 0; i < SL_OUTBOX_MAX; i++) {
        const struct sl_delivery *delivery = &box->deliveries[i];

        if (delivery->state == SL_DELIVERY_WAITS && due_us(box, delivery) < soonest)
            soonest = due_us(box, delivery);
    }
    return soonest;
}

static bool may_become_better(unsigned status)
{
    return status == 0 || status == 408 || status == 429 || (status >= 500 && status <= 599);
}

/* How long it waits now. */
static uint64_t wait_us(struct sl_delivery *delivery, uint64_t asked_us, uint64_t random)
{
    uint64_t wait = sl_backoff_next_us(&delivery->backoff, random);

    if (asked_us > SL_OUTBOX_ASKED_MAX_US)
        asked_us = SL_OUTBOX_ASKED_MAX_US;
    return wait > asked_us ? wait : asked_us;
}

enum sl_fate sl_outbox_done(struct sl_outbox *box, struct sl_delivery *delivery, const struct sl_attempt *attempt,
                            uint64_t now_us, uint64_t random)
{
    enum sl_fate fate = SL_FATE_FAILED;

    assert(delivery->state == SL_DELIVERY_FLIES && box->flying > 0);
    box->flying--;
    if (attempt->status >= 200 && attempt->status <= 299) {
        fate = SL_FATE_DELIVERED;
    } else if (may_become_better(attempt->status) && !box->hurried && delivery->tries < SL_OUTBOX_TRIES) {
        uint64_t at_us = now_us + wait_us(delivery, attempt->retry_after_us, random);

        if (at_us - delivery->born_us <= SL_OUTBOX_AGE_US) {
            delivery->state = SL_DELIVERY_WAITS;
            delivery->due_us = at_us;
            if (attempt->retry_after_us && at_us > box->closed_until_us)
                box->closed_until_us = at_us;
            return SL_FATE_RETRIED;
        }
    }
    drop(box, delivery);
    return fate;
}

void sl_outbox_hurry(struct sl_outbox *box)
{
    box->hurried = true;
}
