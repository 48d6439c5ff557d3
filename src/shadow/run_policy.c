/* The candidate: compiled, exchanged, compiled anew under the fleet's secret. */
#include "shadow/run.h"

#include "base/clock.h"
#include "base/err.h"
#include "control/text.h"

#include <stdio.h>
#include <string.h>

static void first_finding(const struct sl_diags *diags, char *why, size_t why_size)
{
    for (size_t i = 0; i < diags->n; i++)
        if (diags->list[i].severity == SL_DIAG_ERROR) {
            sl_diag_format(&diags->list[i], why, why_size);
            return;
        }
    snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
}

static uint64_t wall_us(void)
{
    struct sl_clock clock = sl_clock_system();

    return clock.wall_us(clock.ctx);
}

/* Takes the policy, whatever comes of it. */
static int lay(struct sl_policy *policy, struct sl_overrides *overrides, struct sl_policy **ret_policy)
{
    int err = sl_policy_override(policy, overrides, wall_us(), ret_policy);

    sl_policy_unref(policy);
    return err;
}

int sl_shadow_compile(struct sl_shadow_run *run, const struct sl_version_text *text, const char *name,
                      const struct sl_secret *secret, struct sl_policy **ret_policy, char *why, size_t why_size)
{
    const struct sl_shadow_config *config = &run->shadow->config;
    const struct sl_policy_options options = {.secret = *secret,
                                              .alloc = run->alloc,
                                              .has_store = config->store != NULL,
                                              .region = config->region,
                                              .check_store = config->check_store};
    struct sl_policy *bare = NULL;
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, run->alloc);
    err = sl_version_text_compile(text, name, &options, &bare, &diags);
    if (!err)
        err = lay(bare, run->overrides, ret_policy);
    if (err)
        first_finding(&diags, why, why_size);
    sl_diags_fini(&diags);
    return err;
}

int sl_shadow_copy_text(const struct sl_alloc *alloc, const struct sl_version_text *text,
                        struct sl_version_text *ret_text)
{
    int err = sl_version_text_make(alloc, text->body_len, text->keys != NULL, text->keys_len, ret_text);

    if (err)
        return err;
    memcpy(ret_text->bytes, text->body, text->body_len);
    if (text->keys)
        memcpy(ret_text->bytes + text->body_len + 1, text->keys, text->keys_len);
    return 0;
}

/* With the lock held: the texts and the policy they make, both or neither. */
static int change(struct sl_shadow_run *run, struct sl_version_text *text, char *name, char *why, size_t why_size)
{
    struct sl_policy *policy;
    int err = sl_shadow_compile(run, text, name, &run->secret, &policy, why, why_size);

    if (err)
        return err;
    err = sl_limiter_set_policy(run->limiter, policy);
    if (err) {
        sl_policy_unref(policy);
        snprintf(why, why_size, "%s", sl_err_text(err));
        return err;
    }
    sl_version_text_free(&run->alloc, &run->text);
    sl_free(&run->alloc, run->name);
    run->text = *text;
    run->name = name;
    return 0;
}

int sl_shadow_run_change(struct sl_shadow_run *run, const struct sl_version_text *text, const char *name, char *why,
                         size_t why_size)
{
    struct sl_version_text copy = {.bytes = NULL};
    char *name_copy = sl_strndup(&run->alloc, name, strlen(name));
    int err = name_copy ? sl_shadow_copy_text(&run->alloc, text, &copy) : SL_ENOMEM;

    if (err) {
        snprintf(why, why_size, "%s", sl_err_text(err));
    } else {
        pthread_mutex_lock(&run->lock);
        err = change(run, &copy, name_copy, why, why_size);
        pthread_mutex_unlock(&run->lock);
    }
    if (err) {
        sl_version_text_free(&run->alloc, &copy);
        sl_free(&run->alloc, name_copy);
    }
    return err;
}

int sl_shadow_run_lay(struct sl_shadow_run *run, struct sl_overrides *overrides)
{
    struct sl_policy *policy;
    int err;

    pthread_mutex_lock(&run->lock);
    err = lay(sl_limiter_policy(run->limiter), overrides, &policy);
    if (!err) {
        err = sl_limiter_set_policy(run->limiter, policy);
        if (err)
            sl_policy_unref(policy);
    }
    if (!err) {
        sl_overrides_unref(run->overrides);
        run->overrides = overrides ? sl_overrides_ref(overrides) : NULL;
    }
    pthread_mutex_unlock(&run->lock);
    return err;
}

void sl_shadow_run_rekey(struct sl_shadow_run *run)
{
    struct sl_policy *policy = NULL;
    struct sl_secret secret;
    char why[512] = "";
    int err = 0;

    pthread_mutex_lock(&run->lock);
    if (!sl_fleet_secret(run->fleet, &secret))
        secret = run->secret;
    if (memcmp(&secret, &run->secret, sizeof secret) != 0) {
        err = sl_shadow_compile(run, &run->text, run->name, &secret, &policy, why, sizeof why);
        if (!err)
            err = sl_limiter_set_policy(run->limiter, policy);
        if (err)
            sl_policy_unref(policy);
    }
    if (!err) {
        run->secret = secret;
        sl_fleet_set_secret(run->fleet, &secret);
    }
    pthread_mutex_unlock(&run->lock);
    run->unkeyed = err != 0;
    if (err)
        sl_shadow_say(run->shadow, SL_SHADOW_ERROR, "the candidate cannot be compiled under the fleet's secret: %s",
                      why[0] ? why : sl_err_text(err));
}
