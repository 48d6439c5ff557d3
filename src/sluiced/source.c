#include "sluiced/source.h"

#include "base/err.h"
#include "sluiced/keep.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sl_source_init(struct sl_source *source, const char *path, const char *state_dir, struct sl_secret secret,
                   struct sl_log *log, char *why, size_t why_size)
{
    *source = (struct sl_source){.path = path, .state_dir = state_dir, .secret = secret, .log = log};
    pthread_mutex_init(&source->lock, NULL);
    if (!state_dir)
        return 0;
    if ((mkdir(state_dir, 0700) && errno != EEXIST) || access(state_dir, W_OK | X_OK)) {
        snprintf(why, why_size, "cannot write into the state folder %s: %s", state_dir, strerror(errno));
        return SL_EIO;
    }
    return 0;
}

void sl_source_fini(struct sl_source *source)
{
    pthread_mutex_destroy(&source->lock);
}

void sl_source_attach(struct sl_source *source, struct sl_limiter *limiter)
{
    source->limiter = limiter;
}

static struct sl_policy_options policy_options(const struct sl_source *source)
{
    return (struct sl_policy_options){.secret = source->secret, .alloc = sl_alloc_system(), .has_store = false};
}

/* Keeping is a service, not a condition: what goes wrong with it is logged, and the policy is in force all the same. */
static void keep(const struct sl_source *source, const struct sl_policy *policy)
{
    char why[256];

    if (source->state_dir && sl_keep_save(source->state_dir, source->path, policy, why, sizeof why))
        sl_log(source->log, SL_LOG_ERROR, "the policy could not be kept in %s: %s", source->state_dir, why);
}

/* The first error (or finding, when there is no error) as one sentence. */
static void summarize(const struct sl_diags *diags, char *why, size_t why_size)
{
    const struct sl_diag *first = NULL;
    size_t used;

    for (size_t i = 0; i < diags->n && !first; i++) {
        if (diags->list[i].severity == SL_DIAG_ERROR)
            first = &diags->list[i];
    }
    if (!first) {
        snprintf(why, why_size, "the policy cannot be loaded: %s", sl_err_text(SL_ENOMEM));
        return;
    }
    sl_diag_format(first, why, why_size);
    used = strlen(why);
    if (diags->n_errors > 1 && used < why_size)
        snprintf(why + used, why_size - used, " (and %zu more; `sluice policy check` lists them)", diags->n_errors - 1);
}

static void log_findings(struct sl_log *log, const struct sl_diags *diags)
{
    size_t n = diags->n < SL_SOURCE_FINDINGS_MAX ? diags->n : SL_SOURCE_FINDINGS_MAX;
    char line[1024];

    for (size_t i = 0; i < n; i++) {
        sl_diag_format(&diags->list[i], line, sizeof line);
        sl_log(log, diags->list[i].severity == SL_DIAG_ERROR ? SL_LOG_ERROR : SL_LOG_WARNING, "%s", line);
    }
    if (diags->n + diags->n_dropped > n)
        sl_log(log, SL_LOG_WARNING, "%zu more findings; `sluice policy check` lists them",
               diags->n + diags->n_dropped - n);
}

/* Compiles the file. Logs warnings of a good one; a broken one's findings are logged only when `log_errors`. */
static int load(struct sl_source *source, bool log_errors, struct sl_policy **ret_policy, char *why, size_t why_size)
{
    struct sl_policy_options options = policy_options(source);
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, options.alloc);
    err = sl_policy_load(source->path, &options, ret_policy, &diags);
    if (!err || log_errors)
        log_findings(source->log, &diags);
    if (err)
        summarize(&diags, why, why_size);
    sl_diags_fini(&diags);
    return err;
}

int sl_source_first(struct sl_source *source, struct sl_policy **ret_policy, bool *ret_fallen_back, char *why,
                    size_t why_size)
{
    struct sl_policy_options options = policy_options(source);
    int err = load(source, false, ret_policy, why, why_size);

    *ret_fallen_back = false;
    if (!err) {
        keep(source, *ret_policy);
        return 0;
    }
    *ret_policy = source->state_dir ? sl_keep_load(source->state_dir, source->path, &options) : NULL;
    if (!*ret_policy)
        return err;
    sl_log(source->log, SL_LOG_ERROR, "%s", why);
    sl_log(source->log, SL_LOG_ERROR, "started on the last good policy, kept in %s", source->state_dir);
    *ret_fallen_back = true;
    return 0;
}

/* Puts the policy in force unless it is the same; takes it in any case. On failure `why` says what is wrong. */
static enum sl_reload swap(struct sl_source *source, struct sl_policy *policy, const char *trigger, char *why,
                           size_t why_size)
{
    struct sl_policy *old = sl_limiter_policy(source->limiter);
    bool same = !strcmp(sl_policy_hash(old), sl_policy_hash(policy));
    enum sl_reload result = same ? SL_RELOAD_SAME : SL_RELOAD_DONE;
    int err = same ? 0 : sl_limiter_set_policy(source->limiter, sl_policy_ref(policy));

    sl_policy_unref(old);
    if (err) {
        sl_policy_unref(policy); /* the reference that was not taken */
        snprintf(why, why_size, "the policy cannot be put in force: %s", sl_err_text(err));
        result = SL_RELOAD_FAILED;
    } else if (same) {
        sl_log(source->log, SL_LOG_INFO, "%s: the policy is the one in force", trigger);
    } else {
        sl_log(source->log, SL_LOG_INFO, "%s: policy %.12s is in force, %zu limits", trigger, sl_policy_hash(policy),
               sl_policy_n_limits(policy));
        keep(source, policy);
    }
    sl_policy_unref(policy);
    return result;
}

enum sl_reload sl_source_reload(struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    char reason[1024];
    struct sl_policy *policy;
    enum sl_reload result;

    pthread_mutex_lock(&source->lock);
    if (load(source, true, &policy, reason, sizeof reason)) {
        result = SL_RELOAD_FAILED;
    } else {
        result = swap(source, policy, trigger, reason, sizeof reason);
        if (result == SL_RELOAD_FAILED)
            sl_log(source->log, SL_LOG_ERROR, "%s", reason);
    }
    if (result == SL_RELOAD_FAILED) {
        sl_log(source->log, SL_LOG_ERROR, "%s: the policy was not taken; the one in force stays", trigger);
        if (why)
            snprintf(why, why_size, "%s", reason);
    }
    pthread_mutex_unlock(&source->lock);
    return result;
}
