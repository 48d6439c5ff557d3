/* What decides is the policy with the overrides of the store laid over it: whichever of the two changes, both are put in
 * force together. */
#include "lib/tier.h"

#include "base/err.h"
#include "policy/override.h"

#include <inttypes.h>

static uint64_t now_us(struct sl_tier *tier)
{
    return sl_table_now(sl_limiter_table(tier->handle->limiter));
}

static int set(struct sl_tier *tier, struct sl_policy *policy)
{
    int err = sl_limiter_set_policy(tier->handle->limiter, sl_policy_ref(policy));

    if (err != 0)
        sl_policy_unref(policy); /* the reference that was not taken */
    return err;
}

int sl_tier_put(struct sl_tier *tier, struct sl_policy *policy)
{
    struct sl_kept *kept = &tier->kept;
    struct sl_policy *over;
    uint64_t now;
    int err;

    if (!kept->overrides)
        return set(tier, policy);
    now = now_us(tier);
    err = sl_policy_override(policy, kept->overrides, now, &over);
    if (err != 0)
        return err;
    err = set(tier, over);
    sl_policy_unref(over);
    if (err == 0)
        kept->overrides_end_us = sl_overrides_next_end(kept->overrides, now);
    return err;
}

/* With the lock held. */
static int lay(struct sl_tier *tier)
{
    struct sl_policy *policy = sl_limiter_policy(tier->handle->limiter);
    int err = sl_tier_put(tier, policy);

    sl_policy_unref(policy);
    return err;
}

static void say(const struct sl_tier *tier, const struct sl_overrides *overrides)
{
    const struct sluice *handle = tier->handle;
    struct sl_policy *policy = sl_limiter_policy(handle->limiter);

    sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_INFO,
               "overrides of revision %" PRIu64 ": %zu, of which %zu have an effect here", overrides->revision,
               overrides->n, sl_policy_n_active_overrides(policy));
    sl_policy_unref(policy);
}

bool sl_tier_lay(struct sl_tier *tier, struct sl_overrides *overrides)
{
    struct sl_kept *kept = &tier->kept;
    struct sl_overrides *old;
    int err;

    pthread_mutex_lock(&kept->lock);
    old = kept->overrides;
    kept->overrides = overrides;
    err = lay(tier);
    if (err != 0)
        kept->overrides = old;
    pthread_mutex_unlock(&kept->lock);
    if (err == 0)
        say(tier, overrides);
    sl_overrides_unref(err != 0 ? overrides : old);
    return err == 0;
}

void sl_tier_end_overrides(struct sl_tier *tier)
{
    struct sl_kept *kept = &tier->kept;

    pthread_mutex_lock(&kept->lock);
    if (kept->overrides && now_us(tier) >= kept->overrides_end_us)
        lay(tier); /* one that fails is tried again */
    pthread_mutex_unlock(&kept->lock);
}
