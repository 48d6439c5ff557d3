/* What one webhook has yet to be sent, and when: a bounded queue with retries. No socket, no clock, no chance: time and random
 * numbers are arguments.
 *
 *     sl_outbox_put(&box, message, now_us);                   false: full
 *     while ((delivery = sl_outbox_next(&box, now_us)))        one that is due, and for which there is room
 *         post(delivery);
 *     fate = sl_outbox_done(&box, delivery, &outcome, now_us, random);
 *     wake_at(sl_outbox_due_us(&box));
 *
 * A delivery that failed for now waits longer each time, at random between the least wait and three times its last one, at
 * most SL_OUTBOX_WAIT_MAX_US; one that waits keeps nobody else from being sent. It is given up when it is older than
 * SL_OUTBOX_AGE_US or has been tried SL_OUTBOX_TRIES times. What a receiver asks for with Retry-After holds for all
 * that is for it, within bounds. Belongs to one thread. */
#ifndef SL_NOTIFY_OUTBOX_H
#define SL_NOTIFY_OUTBOX_H

#include "notify/message.h"
#include "store/backoff.h"

#define SL_OUTBOX_RESERVED 32u /* of them not for warnings: a flood of those must not keep an alarm out */
#define SL_OUTBOX_MAX 256u     /* deliveries that wait or are under way */
#define SL_OUTBOX_FLYING 4u    /* under way at once */
#define SL_OUTBOX_TRIES 20u
#define SL_OUTBOX_AGE_US UINT64_C(3600000000)
#define SL_OUTBOX_WAIT_US UINT64_C(1000000)
#define SL_OUTBOX_WAIT_MAX_US UINT64_C(300000000)
#define SL_OUTBOX_ASKED_MAX_US UINT64_C(900000000) /* a Retry-After beyond counts as this */

enum sl_delivery_state { SL_DELIVERY_FREE, SL_DELIVERY_WAITS, SL_DELIVERY_FLIES };

struct sl_delivery {
    enum sl_delivery_state state;
    struct sl_message *message; /* a reference */
    unsigned tries;
    uint64_t number; /* in order of sl_outbox_put */
    uint64_t born_us, due_us;
    struct sl_backoff backoff;
};

struct sl_outbox {
    struct sl_delivery deliveries[SL_OUTBOX_MAX];
    unsigned n, flying;
    uint64_t numbers;
    uint64_t closed_until_us; /* the receiver asked for silence */
    bool hurried;             /* there is no time left to wait */
};

/* What came of an attempt. */
struct sl_attempt {
    unsigned status;         /* HTTP; 0: no answer */
    uint64_t retry_after_us; /* 0: not asked for */
};

enum sl_fate { SL_FATE_DELIVERED, SL_FATE_RETRIED, SL_FATE_FAILED };

/* Zeroed, an outbox is empty. Drops what is in it. */
void sl_outbox_fini(struct sl_outbox *box);

/* False: there is no room for a message of its kind. Else takes a reference of its own. */
bool sl_outbox_put(struct sl_outbox *box, struct sl_message *message, uint64_t now_us);

/* The oldest that is due; it is under way until sl_outbox_done. NULL: none, or enough are under way. */
struct sl_delivery *sl_outbox_next(struct sl_outbox *box, uint64_t now_us);

/* 2xx: delivered. No answer, 408, 429 and 5xx: tried again, if it is not too late. Everything else, redirects too, will not
 * become better: failed. The delivery is gone unless it is retried. random: any number. */
enum sl_fate sl_outbox_done(struct sl_outbox *box, struct sl_delivery *delivery, const struct sl_attempt *attempt,
                            uint64_t now_us, uint64_t random);

/* When sl_outbox_next may have one that it did not have before; UINT64_MAX: only after a put or a done. */
uint64_t sl_outbox_due_us(const struct sl_outbox *box);

/* The end is near: what waits is due at once, and what fails now has failed. */
void sl_outbox_hurry(struct sl_outbox *box);

#endif
