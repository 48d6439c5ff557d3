/* Buckets of all instances have the same names when their policies are compiled under the same secret: the fleet's,
 * which is in the store and is heard some time after the limiter is open. */
#include "lib/tier.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

struct sl_secret sl_tier_secret(struct sl_tier *tier)
{
    struct sl_secret secret;

    return sl_fleet_secret(tier->fleet, &secret) ? secret : tier->kept.secret;
}

/* Called with the lock held. *ret_same: the policy is what it was, but for the secret. */
static int compile_kept(struct sl_tier *tier, const struct sl_secret *secret, bool *ret_same, char *why,
                        size_t why_size)
{
    struct sl_limiter *limiter = tier->handle->limiter;
    const struct sl_kept_text *kept = &tier->kept.text;
    const struct policy_text text = {.bytes = kept->bytes, .len = kept->len, .name = kept->name};
    const struct sl_policy_options options = {
        .secret = *secret, .alloc = tier->alloc, .has_store = true, .region = tier->handle->region};
    struct sl_policy *policy, *old;
    const struct sl_version version = {.number = tier->kept.version.number};
    int err = version.number ? sl_kept_compile_version(&version, &tier->kept.version_text, tier->handle, secret, NULL,
                                                       &policy, why, why_size)
                             : sl_lib_compile(&text, &options, NULL, &policy, why, why_size);

    if (err != 0)
        return err;
    old = sl_limiter_policy(limiter);
    *ret_same = strcmp(sl_policy_hash(old), sl_policy_hash(policy)) == 0;
    sl_policy_unref(old);
    err = sl_tier_put(tier, policy);
    sl_policy_unref(policy);
    if (err != 0)
        snprintf(why, why_size, "%s", sl_err_text(err));
    return err;
}

bool sl_tier_adopt(struct sl_tier *tier)
{
    struct sluice *handle = tier->handle;
    char why[SLUICE_WHY_MAX];
    struct sl_secret secret;
    bool same = true;
    int err = 0;

    pthread_mutex_lock(&tier->kept.lock);
    secret = sl_tier_secret(tier);
    if (memcmp(&secret, &tier->kept.secret, sizeof secret) != 0)
        err = compile_kept(tier, &secret, &same, why, sizeof why);
    if (err == 0) {
        tier->kept.secret = secret;
        sl_fleet_set_secret(tier->fleet, &secret);
    }
    pthread_mutex_unlock(&tier->kept.lock);
    if (err != 0 && !tier->unadopted) /* once, not at each try */
        sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_ERROR,
                   "shared limits are degraded: the policy cannot be compiled under the fleet's secret: %s", why);
    if (err == 0 && !same)
        sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_WARNING,
                   "the policy's keys_file has changed since it was read, and is in force as it is now");
    tier->unadopted = err != 0;
    return err == 0;
}

int sl_tier_take_version(struct sl_tier *tier, const struct sl_version *version, struct sl_version_text *text,
                         struct sl_policy *policy, const struct sl_secret *secret, bool *ret_stale)
{
    struct sl_kept *kept = &tier->kept;
    struct sl_secret wanted;
    int err = 0;

    pthread_mutex_lock(&kept->lock);
    wanted = sl_tier_secret(tier);
    *ret_stale = memcmp(&wanted, secret, sizeof wanted) != 0;
    if (!*ret_stale)
        err = sl_tier_put(tier, policy);
    if (err == 0 && !*ret_stale) {
        kept->secret = *secret;
        kept->version.number = version->number;
        memcpy(kept->version.hash, version->hash, sizeof kept->version.hash);
        sl_version_text_free(&tier->alloc, &kept->version_text);
        kept->version_text = *text;
        *text = (struct sl_version_text){.bytes = NULL};
        sl_fleet_set_secret(tier->fleet, secret);
    }
    pthread_mutex_unlock(&kept->lock);
    return err;
}

struct sl_pointer sl_tier_runs(struct sl_tier *tier)
{
    struct sl_pointer runs;
    struct sl_policy *policy;

    pthread_mutex_lock(&tier->kept.lock);
    runs = tier->kept.version;
    if (runs.number == 0) {
        policy = sl_limiter_policy(tier->handle->limiter);
        snprintf(runs.hash, sizeof runs.hash, "%s", sl_policy_hash(policy));
        sl_policy_unref(policy);
    }
    pthread_mutex_unlock(&tier->kept.lock);
    return runs;
}
