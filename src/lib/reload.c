#include "lib/handle.h"
#include "lib/tier.h"

#include "base/err.h"

#include <inttypes.h>
#include <string.h>

/* The caller keeps its reference. */
static int put_in_force(struct sluice *handle, struct sl_policy *policy)
{
    int err = sl_limiter_set_policy(handle->limiter, sl_policy_ref(policy));

    if (err != 0)
        sl_policy_unref(policy);
    return err;
}

static int reload_alone(struct sluice *handle, const struct policy_text *text, const struct finding_sink *sink,
                        struct sl_policy **ret_policy)
{
    const struct sl_policy_options options = {
        .secret = sl_table_secret(sl_limiter_table(handle->limiter)), .alloc = handle->alloc, .region = handle->region};
    int err = sl_lib_compile(text, &options, sink, ret_policy, NULL, 0);

    return err != 0 ? err : put_in_force(handle, *ret_policy);
}

/* With the lock held: the policy is compiled from `text` under `secret`, which is the one that is wanted. */
static int put_and_keep(struct sluice *handle, struct sl_policy *policy, struct policy_text *text,
                        const struct sl_secret *secret)
{
    struct sl_kept *kept = &handle->tier->kept;
    struct sl_kept_text next;
    int err = kept->version.number ? SL_EBUSY : sl_kept_copy(text, &handle->alloc, &next);

    if (err != 0)
        return err;
    err = sl_tier_put(handle->tier, policy);
    sl_kept_text_free(err != 0 ? &next : &kept->text, &handle->alloc);
    if (err != 0)
        return err;
    kept->text = next;
    kept->secret = *secret;
    sl_fleet_set_secret(handle->tier->fleet, secret);
    atomic_store(&handle->tier->reloaded, true);
    return 0;
}

/* A version of the store is in force: it stays, and the program's policy is not even looked at. */
static bool is_overruled(struct sluice *handle)
{
    struct sl_pointer runs = {.number = 0};

    if (handle->tier)
        runs = sl_tier_runs(handle->tier);
    if (runs.number == 0)
        return false;
    sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_WARNING,
               "version %" PRIu64 " of the store is in force, and the program's policy is not taken", runs.number);
    return true;
}

/* Compiles without the lock, as the findings are the caller's to look at; anew when the fleet's secret was heard
 * meanwhile. */
static int reload_shared(struct sluice *handle, struct policy_text *text, const struct finding_sink *sink,
                         struct sl_policy **ret_policy)
{
    struct sl_tier *tier = handle->tier;
    struct sl_policy_options options = {.alloc = handle->alloc, .has_store = true, .region = handle->region};
    struct sl_secret secret;
    int err;

    pthread_mutex_lock(&tier->kept.lock);
    secret = sl_tier_secret(tier);
    do {
        pthread_mutex_unlock(&tier->kept.lock);
        sl_policy_unref(*ret_policy);
        *ret_policy = NULL;
        options.secret = secret;
        err = sl_lib_compile(text, &options, sink, ret_policy, NULL, 0);
        if (err != 0)
            return err;
        sink = NULL;
        pthread_mutex_lock(&tier->kept.lock);
        secret = sl_tier_secret(tier);
    } while (memcmp(&secret, &options.secret, sizeof secret) != 0);
    err = put_and_keep(handle, *ret_policy, text, &secret);
    pthread_mutex_unlock(&tier->kept.lock);
    return err;
}

static int reload(struct sluice *handle, const struct policy_source *source, sluice_finding_fn *finding,
                  void *finding_ctx)
{
    const struct finding_sink sink = {
        .finding = finding, .finding_ctx = finding_ctx, .log = handle->log, .log_ctx = handle->log_ctx};
    struct sl_policy *policy = NULL;
    struct policy_text text;
    int err;

    if (is_overruled(handle))
        return SL_EBUSY;
    err = sl_lib_read(source, &handle->alloc, &sink, &text, NULL, 0);

    if (err == 0)
        err = handle->tier ? reload_shared(handle, &text, &sink, &policy) : reload_alone(handle, &text, &sink, &policy);
    if (err == 0)
        sl_lib_log_policy(handle->log, handle->log_ctx, policy);
    sl_policy_unref(policy);
    sl_lib_text_free(&text, &handle->alloc);
    return err;
}

int sluice_reload_file(struct sluice *limiter, const char *path, sluice_finding_fn *finding, void *finding_ctx)
{
    return reload(limiter, &(struct policy_source){.file = path}, finding, finding_ctx);
}

int sluice_reload_text(struct sluice *limiter, const char *text, size_t text_len, const char *name,
                       sluice_finding_fn *finding, void *finding_ctx)
{
    const struct policy_source source = {.text = text, .text_len = text_len, .name = name};

    return reload(limiter, &source, finding, finding_ctx);
}
