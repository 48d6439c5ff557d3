#include "lib/tier.h"

#include "base/err.h"
#include "lib/loop.h"
#include "store/codec.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMESPACE_DEFAULT "sluice"
#define WAIT_DEFAULT_MS 2000
#define WAIT_MAX_MS 60000

#define FAIL(err, ...) (sl_lib_why(ret_why, why_size, __VA_ARGS__), (err))

/* ---- what the lane tells */

static void on_secret(void *owner, const struct sl_secret *secret)
{
    (void)secret; /* the fleet knows the latest one */
    sl_tier_adopt(owner);
}

static void on_event(void *owner, const struct sl_fleet_event *event)
{
    struct sl_tier *tier = owner;

    if (tier->watch)
        sl_store_watch_event(tier->watch, event, uv_hrtime() / 1000);
}

static void on_odd(void *owner, const char *text)
{
    const struct sluice *handle = ((struct sl_tier *)owner)->handle;

    sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_WARNING, "store: %s", text);
}

static void on_say(void *ctx, enum sl_store_say severity, const char *line)
{
    static const int levels[] = {[SL_STORE_SAY_ERROR] = SLUICE_LOG_ERROR,
                                 [SL_STORE_SAY_WARNING] = SLUICE_LOG_WARNING,
                                 [SL_STORE_SAY_INFO] = SLUICE_LOG_INFO};
    const struct sluice *handle = ((struct sl_tier *)ctx)->handle;

    sl_lib_log(handle->log, handle->log_ctx, levels[severity], "%s", line);
}

/* ---- life */

static int check_options(const struct sluice_options *o, char *ret_why, size_t why_size)
{
    const char *ns = o->store_namespace ? o->store_namespace : NAMESPACE_DEFAULT;

    if (strlen(ns) < 1 || strlen(ns) > SL_NAMESPACE_MAX || strpbrk(ns, "{}"))
        return FAIL(SL_EINVALID, "store_namespace must have 1 to %u bytes and no braces", SL_NAMESPACE_MAX);
    if (o->timeout_us && (o->timeout_us < SL_CLIENT_TIMEOUT_MIN_US || o->timeout_us > SL_CLIENT_TIMEOUT_MAX_US))
        return FAIL(SL_EINVALID, "timeout_us must be from %u to %u", (unsigned)SL_CLIENT_TIMEOUT_MIN_US,
                    (unsigned)SL_CLIENT_TIMEOUT_MAX_US);
    if (o->instances > SL_FLEET_INSTANCES_MAX)
        return FAIL(SL_EINVALID, "instances must be from 1 to %u", SL_FLEET_INSTANCES_MAX);
    if (o->policy_source < SLUICE_POLICY_STORE || o->policy_source > SLUICE_POLICY_OWN)
        return FAIL(SL_EINVALID, "policy_source must be SLUICE_POLICY_STORE or SLUICE_POLICY_OWN");
    if (o->store_wait_ms < SLUICE_NO_WAIT || o->store_wait_ms > WAIT_MAX_MS)
        return FAIL(SL_EINVALID, "store_wait_ms must be SLUICE_NO_WAIT or from 0 to %d", WAIT_MAX_MS);
    return 0;
}

/* Reads certificates and keys now, as whoever opens is told what is wrong with them; connections read them anew. */
static int try_certificates(const struct sl_store_url *url, char *why, size_t why_size)
{
    const struct sl_tls_options options = {
        .ca = url->ca, .cert = url->cert, .key = url->key, .insecure = url->insecure};
    struct sl_tls_keys *keys = url->tls ? sl_tls_keys_new(&options, why, why_size) : NULL;

    if (url->tls && !keys)
        return SL_EINVALID;
    sl_tls_keys_free(keys);
    return 0;
}

static int read_store(struct sl_tier *tier, const char *store, char *ret_why, size_t why_size)
{
    char why[256] = "";
    int err = sl_store_url_parse(store, &tier->url, why, sizeof why);

    if (err == 0)
        err = sl_store_url_read_files(&tier->url, why, sizeof why);
    if (err == 0)
        err = try_certificates(&tier->url, why, sizeof why);
    return err == 0 ? 0 : FAIL(err, "store: %s", why);
}

int sl_tier_new(const struct sluice_options *options, const struct sl_alloc *alloc, struct sl_tier **ret_tier,
                char *ret_why, size_t why_size)
{
    struct sl_tier *tier;
    int err = check_options(options, ret_why, why_size);

    *ret_tier = NULL;
    if (err != 0 || !options->store || strcmp(options->store, "memory:") == 0)
        return err;
    tier = sl_calloc(alloc, 1, sizeof *tier);
    if (!tier)
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    tier->alloc = *alloc;
    tier->pid = getpid();
    tier->own_policy = options->policy_source == SLUICE_POLICY_OWN;
    snprintf(tier->ns, sizeof tier->ns, "%s", options->store_namespace ? options->store_namespace : NAMESPACE_DEFAULT);
    sl_mailbox_init(&tier->mailbox);
    sl_kept_init(&tier->kept);
    sl_alarms_init(&tier->alarms);
    err = read_store(tier, options->store, ret_why, why_size);
    if (err != 0 || tier->url.kind == SL_STORE_MEMORY) {
        sl_tier_free(tier);
        return err;
    }
    *ret_tier = tier;
    return 0;
}

void sl_tier_free(struct sl_tier *tier)
{
    struct sl_alloc alloc;

    if (!tier)
        return;
    alloc = tier->alloc;
    sl_fleet_free(tier->fleet);
    sl_store_watch_free(tier->watch);
    sl_alarms_fini(&tier->alarms);
    sl_kept_fini(&tier->kept, &alloc);
    sl_mailbox_fini(&tier->mailbox);
    sl_store_url_fini(&tier->url);
    sl_free(&alloc, tier);
}

static int make_watch(struct sl_tier *tier)
{
    const struct sl_store_watch_config config = {
        .alloc = &tier->alloc, .alarms = &tier->alarms, .say = on_say, .ctx = tier, .now_us = uv_hrtime() / 1000};

    return tier->handle->log ? sl_store_watch_new(&config, &tier->watch) : 0;
}

static int make_fleet(struct sl_tier *tier, const struct sluice_options *options, char *ret_why, size_t why_size)
{
    const struct sl_fleet_config config = {
        .limiter = tier->handle->limiter,
        .alloc = &tier->alloc,
        .store = &tier->url,
        .ns = tier->ns,
        .timeout_us = tier->timeout_us,
        .instances = options->instances ? options->instances : 1,
        .secret = on_secret,
        .event = on_event,
        .odd = on_odd,
        .owner = tier,
    };
    char why[256] = "";
    int err = sl_fleet_new(&config, &tier->fleet, why, sizeof why);

    return err == 0 ? 0 : FAIL(err, "store: %s", why);
}

/* A program that decides as soon as it has opened the limiter expects that all instances count. */
static void wait_for_store(const struct sl_tier *tier, unsigned wait_ms)
{
    const struct sluice *handle = tier->handle;
    char store[SL_ENDPOINT_TEXT_MAX * 2];

    if (wait_ms > 0 && !sl_loop_wait_ready(tier->loop, wait_ms))
        sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_WARNING,
                   "the store %s was not reached within %u ms: shared limits are degraded until it is",
                   sl_store_url_text(&tier->url, store, sizeof store), wait_ms);
}

int sl_tier_start(struct sl_tier *tier, struct sluice *handle, const struct sluice_options *options,
                  struct policy_text *text, const struct sl_secret *secret, char *ret_why, size_t why_size)
{
    unsigned wait_ms = options->store_wait_ms > 0    ? (unsigned)options->store_wait_ms
                       : options->store_wait_ms == 0 ? WAIT_DEFAULT_MS
                                                     : 0;
    int err;

    tier->handle = handle;
    tier->timeout_us = options->timeout_us ? options->timeout_us : SL_CLIENT_TIMEOUT_US;
    tier->kept.secret = *secret;
    if (sl_kept_copy(text, &tier->alloc, &tier->kept.text) != 0 || make_watch(tier) != 0)
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    err = make_fleet(tier, options, ret_why, why_size);
    if (err == 0) {
        sl_fleet_set_secret(tier->fleet, secret);
        err = sl_loop_new(tier, &tier->loop, ret_why, why_size);
    }
    if (err == 0) {
        tier->loop->hurry = wait_ms > 0;
        err = sl_loop_start(tier->loop, ret_why, why_size);
    }
    if (err == 0)
        wait_for_store(tier, wait_ms);
    return err;
}

void sl_tier_stop(struct sl_tier *tier)
{
    assert(!sl_tier_is_here(tier)); /* it would wait for itself */
    sl_mailbox_close(&tier->mailbox);
    sl_loop_stop(tier->loop);
    tier->loop = NULL;
}

bool sl_tier_is_inherited(const struct sl_tier *tier)
{
    return tier->pid != getpid();
}

/* What the background thread was in the middle of stays as it was at the fork: the loop, the lane and its sockets,
 * decisions on their way. The fleet's own memory is whole at any time. */
void sl_tier_abandon(struct sl_tier *tier)
{
    struct sl_alloc alloc = tier->alloc;

    sl_fleet_free(tier->fleet);
    sl_store_url_fini(&tier->url);
    sl_free(&alloc, tier);
}

bool sl_tier_is_here(const struct sl_tier *tier)
{
    return pthread_equal(pthread_self(), tier->loop->thread);
}

bool sl_tier_post(struct sl_tier *tier, struct sl_ticket *ticket)
{
    bool wake = false;

    if (sl_tier_is_inherited(tier) || !sl_mailbox_post(&tier->mailbox, ticket, &wake))
        return false;
    if (wake)
        sl_loop_wake(tier->loop);
    return true;
}

void sl_tier_tend(struct sl_tier *tier)
{
    if (sl_fleet_has_errands(tier->fleet))
        sl_loop_wake(tier->loop);
}
