#include "notify/notifier_internal.h"

#include "base/err.h"
#include "notify/claim.h"
#include "store/script.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t sl_notifier_now_us(const struct sl_notifier *notifier)
{
    return notifier->clock.mono_us(notifier->clock.ctx);
}

struct sl_notice_counts *sl_notifier_counts(struct sl_notifier *notifier)
{
    return &notifier->counts;
}

/* ---- the queue */

/* How many messages there may be in the queue for one of this kind to be let in. */
static unsigned room_for(enum sl_notice_kind kind)
{
    return kind == SL_NOTICE_LIMIT_WARNING ? SL_NOTIFIER_QUEUE - SL_NOTIFIER_RESERVED : SL_NOTIFIER_QUEUE;
}

bool sl_notifier_wants(struct sl_notifier *notifier, struct sl_hash128 fp, uint64_t window_us)
{
    uint64_t now_us = sl_notifier_now_us(notifier);

    if (atomic_load_explicit(&notifier->n, memory_order_relaxed) >= room_for(SL_NOTICE_LIMIT_WARNING)) {
        sl_notice_count(&notifier->counts, SL_NOTICE_LIMIT_WARNING, SL_NOTICE_DROPPED);
        return false;
    }
    return sl_recent_claim(notifier->recent, fp, now_us, now_us + window_us);
}

static bool append(struct sl_notifier *notifier, struct sl_message *message)
{
    bool fits;
    unsigned n;

    pthread_mutex_lock(&notifier->lock);
    n = atomic_load(&notifier->n);
    fits = n < room_for(message->kind);
    if (fits) {
        notifier->queue[(notifier->first + n) % SL_NOTIFIER_QUEUE] = message;
        atomic_store(&notifier->n, n + 1);
    }
    pthread_mutex_unlock(&notifier->lock);
    return fits;
}

void sl_notifier_put(struct sl_notifier *notifier, struct sl_message *message, enum sl_notice_kind kind)
{
    if (message && append(notifier, message)) {
        atomic_fetch_add(&notifier->counts.queued, 1);
        uv_async_send(&notifier->wake);
        return;
    }
    sl_notice_count(&notifier->counts, kind, SL_NOTICE_DROPPED);
    if (message && message->window_us) /* the next request may tell */
        sl_recent_set(notifier->recent, message->fp, sl_notifier_now_us(notifier));
    sl_message_unref(message);
}

static struct sl_message *take(struct sl_notifier *notifier)
{
    struct sl_message *message = NULL;
    unsigned n;

    pthread_mutex_lock(&notifier->lock);
    n = atomic_load(&notifier->n);
    if (n > 0) {
        message = notifier->queue[notifier->first];
        notifier->first = (notifier->first + 1) % SL_NOTIFIER_QUEUE;
        atomic_store(&notifier->n, n - 1);
    }
    pthread_mutex_unlock(&notifier->lock);
    return message;
}

/* ---- who tells */

static void take_all(struct sl_notifier *notifier);

struct claiming {
    struct sl_notifier *notifier;
    struct sl_message *message;
};

/* It is not in the queue any more. Takes the reference. */
static void go_on(struct sl_notifier *notifier, struct sl_message *message)
{
    atomic_fetch_sub(&notifier->counts.queued, 1);
    sl_notifier_distribute(notifier, message);
    sl_message_unref(message);
}

static void on_claim(void *ctx, enum sl_claim claim, uint64_t left_us)
{
    struct claiming claiming = *(struct claiming *)ctx;
    struct sl_notifier *notifier = claiming.notifier;
    struct sl_message *message = claiming.message;

    free(ctx);
    notifier->claims--;
    if (claim != SL_CLAIM_LOST) {
        go_on(notifier, message);
    } else {
        atomic_fetch_sub(&notifier->counts.queued, 1);
        sl_recent_set(notifier->recent, message->fp, sl_notifier_now_us(notifier) + left_us);
        sl_notice_count(&notifier->counts, message->kind, SL_NOTICE_DEDUPLICATED);
        sl_message_unref(message);
    }
    if (!notifier->ended)
        take_all(notifier);
}

static bool start_claim(struct sl_notifier *notifier, struct sl_message *message)
{
    const struct sl_notifier_config *config = &notifier->config;
    struct claiming *claiming;

    if (!message->window_us || !notifier->client || (config->in_common && !config->in_common(config->owner)))
        return false;
    claiming = malloc(sizeof *claiming);
    if (!claiming)
        return false;
    *claiming = (struct claiming){.notifier = notifier, .message = message};
    if (!sl_claim_start(notifier->client, config->ns, message->fp, message->window_us, on_claim, claiming)) {
        free(claiming);
        return false;
    }
    notifier->claims++;
    return true;
}

/* Will an outbox have room for a warning when the claims under way have been won? */
static bool has_room(const struct sl_notifier *notifier)
{
    for (unsigned i = 0; i < notifier->config.n_urls; i++)
        if (notifier->webhooks[i].box.n + notifier->claims < SL_OUTBOX_MAX - SL_OUTBOX_RESERVED)
            return true;
    return false;
}

/* Nobody can be told: then nobody is kept from telling later, neither here nor elsewhere. */
static void give_back(struct sl_notifier *notifier, struct sl_message *message)
{
    sl_recent_set(notifier->recent, message->fp, sl_notifier_now_us(notifier) + SL_NOTIFIER_AGAIN_US);
    for (unsigned i = 0; i < notifier->config.n_urls; i++)
        sl_notice_count(&notifier->counts, message->kind, SL_NOTICE_DROPPED);
    atomic_fetch_sub(&notifier->counts.queued, 1);
    sl_message_unref(message);
}

static void take_all(struct sl_notifier *notifier)
{
    struct sl_message *message;

    while (notifier->claims < SL_NOTIFIER_CLAIMS && (message = take(notifier))) {
        if (message->window_us && !has_room(notifier))
            give_back(notifier, message);
        else if (!start_claim(notifier, message))
            go_on(notifier, message);
    }
    sl_notifier_pump(notifier);
}

/* ---- the thread */

static void on_grace_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void on_wake(uv_async_t *async)
{
    struct sl_notifier *notifier = async->data;

    if (atomic_load(&notifier->stopping) && !uv_is_active((uv_handle_t *)&notifier->grace)) {
        uv_timer_start(&notifier->grace, on_grace_over, notifier->grace_ms, 0);
        for (unsigned i = 0; i < notifier->config.n_urls; i++)
            sl_outbox_hurry(&notifier->webhooks[i].box);
    }
    take_all(notifier);
}

static void *run(void *ctx)
{
    struct sl_notifier *notifier = ctx;

    uv_run(&notifier->loop, UV_RUN_DEFAULT);
    return NULL;
}

static int start_thread(struct sl_notifier *notifier)
{
    sigset_t all, before;
    int err;

    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&notifier->thread, NULL, run, notifier);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? SL_ENOMEM : 0;
}

/* ---- life */

static int open_client(struct sl_notifier *notifier, char *why, size_t why_size)
{
    size_t len;
    struct sl_client_config client = {
        .net = &notifier->net.net,
        .alloc = &notifier->alloc,
        .url = notifier->config.store,
        .script = sl_script_text(&len),
        .script_sha1 = sl_script_sha1(),
        .timeout_us = SL_CLAIM_TIMEOUT_US,
    };

    return sl_client_new(&client, &notifier->client, why, why_size);
}

static int open_loop(struct sl_notifier *notifier)
{
    if (uv_loop_init(&notifier->loop))
        return SL_ENOMEM;
    notifier->has_loop = true;
    if (uv_async_init(&notifier->loop, &notifier->wake, on_wake) || uv_timer_init(&notifier->loop, &notifier->due) ||
        uv_timer_init(&notifier->loop, &notifier->grace))
        return SL_ENOMEM;
    notifier->wake.data = notifier->due.data = notifier;
    return 0;
}

static int open_webhooks(struct sl_notifier *notifier)
{
    notifier->webhooks = sl_calloc(&notifier->alloc, notifier->config.n_urls, sizeof *notifier->webhooks);
    if (!notifier->webhooks)
        return SL_ENOMEM;
    for (unsigned i = 0; i < notifier->config.n_urls; i++) {
        notifier->webhooks[i].notifier = notifier;
        notifier->webhooks[i].url = notifier->config.urls[i];
        sl_target_text(notifier->config.urls[i], notifier->webhooks[i].shown);
    }
    return sl_poster_new(&notifier->loop, notifier->config.ca_file, &notifier->poster);
}

static int open_all(struct sl_notifier *notifier, char *why, size_t why_size)
{
    int err = sl_recent_new(&notifier->alloc, &notifier->recent);

    if (!err)
        err = open_loop(notifier);
    if (!err)
        err = open_webhooks(notifier);
    if (!err && notifier->config.store) {
        err = sl_net_uv_init(&notifier->net, &notifier->loop, &notifier->alloc);
        notifier->has_net = !err;
        if (!err)
            err = open_client(notifier, why, why_size);
    }
    return err;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
    struct sl_notifier *notifier = ctx;

    if (handle == (uv_handle_t *)&notifier->wake || handle == (uv_handle_t *)&notifier->due ||
        handle == (uv_handle_t *)&notifier->grace)
        uv_close(handle, NULL);
}

/* What was not looked at, and what is in the outboxes. */
static unsigned drop_rest(struct sl_notifier *notifier)
{
    struct sl_message *message;
    unsigned n = 0;

    for (; (message = take(notifier)); n++) {
        sl_notice_count(&notifier->counts, message->kind, SL_NOTICE_DROPPED);
        sl_message_unref(message);
    }
    for (unsigned i = 0; notifier->webhooks && i < notifier->config.n_urls; i++) {
        n += notifier->webhooks[i].box.n;
        sl_outbox_fini(&notifier->webhooks[i].box);
    }
    return n;
}

/* Without its thread; of whatever was opened. */
static void close_all(struct sl_notifier *notifier)
{
    char line[120];
    unsigned lost = notifier->claims;

    notifier->ended = true;
    sl_client_free(notifier->client); /* its claims end now */
    sl_poster_free(notifier->poster);
    lost += drop_rest(notifier);
    if (lost && notifier->config.say) {
        snprintf(line, sizeof line, "%u notifications were not delivered before the end", lost);
        notifier->config.say(notifier->config.owner, true, line);
    }
    if (notifier->has_loop) {
        uv_walk(&notifier->loop, close_handle, notifier);
        uv_run(&notifier->loop, UV_RUN_DEFAULT);
    }
    if (notifier->has_net)
        sl_net_uv_fini(&notifier->net);
    if (notifier->has_loop)
        uv_loop_close(&notifier->loop);
    sl_recent_free(notifier->recent);
    sl_free(&notifier->alloc, notifier->webhooks);
    pthread_mutex_destroy(&notifier->lock);
    sl_free(&notifier->alloc, notifier);
}

int sl_notifier_new(const struct sl_notifier_config *config, struct sl_notifier **ret_notifier, char *why,
                    size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_notifier *notifier = sl_calloc(&alloc, 1, sizeof *notifier);
    int err;

    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (!notifier)
        return SL_ENOMEM;
    notifier->config = *config;
    notifier->alloc = alloc;
    notifier->clock = config->clock ? *config->clock : sl_clock_system();
    pthread_mutex_init(&notifier->lock, NULL);
    err = getrandom(&notifier->random, sizeof notifier->random, 0) == sizeof notifier->random ? 0 : SL_EIO;
    if (!err)
        err = open_all(notifier, why, why_size);
    if (!err)
        err = start_thread(notifier);
    if (err) {
        close_all(notifier);
        return err;
    }
    *ret_notifier = notifier;
    return 0;
}

void sl_notifier_free(struct sl_notifier *notifier, uint64_t grace_ms)
{
    if (!notifier)
        return;
    notifier->grace_ms = grace_ms;
    atomic_store(&notifier->stopping, true);
    uv_async_send(&notifier->wake);
    pthread_join(notifier->thread, NULL);
    close_all(notifier);
}
