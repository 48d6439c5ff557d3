/* What the notifier's files share. Everything but the queue belongs to its thread. */
#ifndef SL_NOTIFY_NOTIFIER_INTERNAL_H
#define SL_NOTIFY_NOTIFIER_INTERNAL_H

#include "notify/notifier.h"
#include "notify/outbox.h"
#include "notify/post.h"
#include "notify/recent.h"
#include "notify/target.h"
#include "store/net_uv.h"

#include <pthread.h>

struct webhook {
    struct sl_notifier *notifier;
    const char *url;
    char shown[SL_TARGET_TEXT_MAX];
    struct sl_outbox box;
    bool failing;        /* as it was last said */
    uint64_t failing_us; /* when it was last said that it fails; 0: never */
    uint64_t told_us;    /* when it was last said that one was given up; 0: never */
    unsigned given_up;   /* since then */
};

struct sl_notifier {
    struct sl_notifier_config config;
    struct sl_alloc alloc;
    struct sl_clock clock;
    struct sl_notice_counts counts;
    struct sl_recent *recent;
    pthread_t thread;
    uint64_t grace_ms;
    uint64_t random; /* for waits: no secret */

    pthread_mutex_t lock; /* the queue, a ring */
    struct sl_message *queue[SL_NOTIFIER_QUEUE];
    unsigned first;
    atomic_uint n; /* written with the lock held */
    atomic_bool stopping;

    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t due, grace;
    bool has_loop, has_net, ended;
    struct sl_net_uv net;
    struct sl_client *client; /* NULL: no store */
    unsigned claims;
    struct sl_poster *poster;
    struct webhook *webhooks; /* config.n_urls */
};

uint64_t sl_notifier_now_us(const struct sl_notifier *notifier);

/* ---- notifier_send.c */

/* Puts the message into every outbox, and sends what can be sent. */
void sl_notifier_distribute(struct sl_notifier *notifier, struct sl_message *message);

/* Sends what is due, and sets the timer for the rest. */
void sl_notifier_pump(struct sl_notifier *notifier);

/* Nothing waits in any outbox. */
bool sl_notifier_is_sent(const struct sl_notifier *notifier);

#endif
