#include "sluiced/source.h"

#include "base/err.h"
#include "policy/file.h"
#include "sluiced/keep.h"
#include "store/url.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_LOG 0u
#define LOG_WARNINGS 1u /* of a good file */
#define LOG_ERRORS 2u   /* all there is to say of a broken one */

/* A policy, and the text it was compiled from. */
struct reading {
    struct sl_policy *policy;
    char *text;
    size_t len;
};

static bool same_secret(const struct sl_secret *a, const struct sl_secret *b)
{
    return a->k0 == b->k0 && a->k1 == b->k1;
}

int sl_source_init(struct sl_source *source, const struct sl_source_config *config, char *why, size_t why_size)
{
    const char *dir = config->state_dir;

    *source = (struct sl_source){.config = *config, .in_force = config->secret};
    pthread_mutex_init(&source->lock, NULL);
    if (!dir)
        return 0;
    if ((mkdir(dir, 0700) && errno != EEXIST) || access(dir, W_OK | X_OK)) {
        snprintf(why, why_size, "cannot write into the state folder %s: %s", dir, strerror(errno));
        return SL_EIO;
    }
    return 0;
}

void sl_source_fini(struct sl_source *source)
{
    struct sl_alloc alloc = sl_alloc_system();

    sl_free(&alloc, source->text);
    source->text = NULL;
    pthread_mutex_destroy(&source->lock);
}

void sl_source_attach(struct sl_source *source, struct sl_limiter *limiter)
{
    source->limiter = limiter;
}

static struct sl_policy_options policy_options(const struct sl_source *source)
{
    return (struct sl_policy_options){.secret = source->config.secret,
                                      .alloc = sl_alloc_system(),
                                      .has_store = source->config.has_store,
                                      .check_store = sl_store_url_check};
}

static void remember_text(struct sl_source *source, struct reading *reading)
{
    struct sl_alloc alloc = sl_alloc_system();

    if (!reading->text)
        return;
    sl_free(&alloc, source->text);
    source->text = reading->text;
    source->text_len = reading->len;
    reading->text = NULL;
}

/* Keeping is a service, not a condition: what goes wrong with it is logged, and the policy is in force all the same. */
static void keep(const struct sl_source *source, const struct sl_policy *policy)
{
    char why[256];

    const char *dir = source->config.state_dir;

    if (dir && sl_keep_save(dir, source->config.path, policy, why, sizeof why))
        sl_log(source->config.log, SL_LOG_ERROR, "the policy could not be kept in %s: %s", dir, why);
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

static int read_text(const struct sl_source *source, const struct sl_policy_options *options, struct reading *reading,
                     struct sl_diags *diags)
{
    char why[SL_FILE_WHY_MAX];
    int err =
        sl_file_read(source->config.path, SL_POLICY_BYTES_MAX, &options->alloc, &reading->text, &reading->len, why);

    if (err == SL_EIO)
        sl_diags_add(diags, SL_DIAG_ERROR, source->config.path, 0, 0, "", "cannot read the policy: %s", why);
    if (err)
        reading->text = NULL;
    return err == SL_EIO ? SL_EPOLICY : err;
}

/* Compiles the file. On failure nothing is left in *ret_reading. `logged`: LOG_... bits. */
static int load(struct sl_source *source, unsigned logged, struct reading *ret_reading, char *why, size_t why_size)
{
    struct sl_policy_options options = policy_options(source);
    struct sl_diags diags;
    int err;

    *ret_reading = (struct reading){.policy = NULL};
    sl_diags_init(&diags, options.alloc);
    err = read_text(source, &options, ret_reading, &diags);
    if (!err)
        err = sl_policy_parse(ret_reading->text, ret_reading->len, source->config.path, &options, &ret_reading->policy,
                              &diags);
    if (logged & (err ? LOG_ERRORS : LOG_WARNINGS))
        log_findings(source->config.log, &diags);
    if (err) {
        summarize(&diags, why, why_size);
        sl_free(&options.alloc, ret_reading->text);
        ret_reading->text = NULL;
    }
    sl_diags_fini(&diags);
    return err;
}

int sl_source_first(struct sl_source *source, struct sl_policy **ret_policy, bool *ret_fallen_back, char *why,
                    size_t why_size)
{
    const char *dir = source->config.state_dir;
    struct sl_policy_options options = policy_options(source);
    struct reading reading;
    int err = load(source, LOG_WARNINGS, &reading, why, why_size);

    *ret_fallen_back = false;
    if (!err) {
        remember_text(source, &reading);
        *ret_policy = reading.policy;
        keep(source, *ret_policy);
        return 0;
    }
    *ret_policy = dir ? sl_keep_load(dir, source->config.path, &options) : NULL;
    if (!*ret_policy)
        return err;
    sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    sl_log(source->config.log, SL_LOG_ERROR, "started on the last good policy, kept in %s", dir);
    *ret_fallen_back = true;
    return 0;
}

static void note_secret(struct sl_source *source)
{
    if (same_secret(&source->in_force, &source->config.secret))
        return;
    source->in_force = source->config.secret;
    if (source->config.keyed)
        source->config.keyed(source->config.ctx, &source->in_force);
}

/* Puts the policy in force unless it is the same; takes it in any case. On failure `why` says what is wrong. */
static enum sl_reload swap(struct sl_source *source, struct sl_policy *policy, const char *trigger, char *why,
                           size_t why_size)
{
    struct sl_policy *old = sl_limiter_policy(source->limiter);
    bool same =
        !strcmp(sl_policy_hash(old), sl_policy_hash(policy)) && same_secret(&source->in_force, &source->config.secret);
    enum sl_reload result = same ? SL_RELOAD_SAME : SL_RELOAD_DONE;
    int err = same ? 0 : sl_limiter_set_policy(source->limiter, sl_policy_ref(policy));

    sl_policy_unref(old);
    if (err) {
        sl_policy_unref(policy); /* the reference that was not taken */
        snprintf(why, why_size, "the policy cannot be put in force: %s", sl_err_text(err));
        result = SL_RELOAD_FAILED;
    } else if (same) {
        sl_log(source->config.log, SL_LOG_INFO, "%s: the policy is the one in force", trigger);
    } else {
        sl_log(source->config.log, SL_LOG_INFO, "%s: policy %.12s is in force, %zu limits", trigger,
               sl_policy_hash(policy), sl_policy_n_limits(policy));
        keep(source, policy);
        note_secret(source);
    }
    sl_policy_unref(policy);
    return result;
}

/* As swap, and what became of it is told. */
static enum sl_reload put_in_force(struct sl_source *source, struct reading *reading, const char *trigger, char *why,
                                   size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    enum sl_reload result = swap(source, reading->policy, trigger, why, why_size);

    if (result == SL_RELOAD_FAILED)
        sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    else
        remember_text(source, reading);
    sl_free(&alloc, reading->text);
    return result;
}

enum sl_reload sl_source_reload(struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    char reason[1024];
    struct reading reading;
    enum sl_reload result = SL_RELOAD_FAILED;

    pthread_mutex_lock(&source->lock);
    if (!load(source, LOG_WARNINGS | LOG_ERRORS, &reading, reason, sizeof reason))
        result = put_in_force(source, &reading, trigger, reason, sizeof reason);
    if (result == SL_RELOAD_FAILED) {
        sl_log(source->config.log, SL_LOG_ERROR, "%s: the policy was not taken; the one in force stays", trigger);
        if (why)
            snprintf(why, why_size, "%s", reason);
    }
    pthread_mutex_unlock(&source->lock);
    return result;
}

/* ---- another secret */

static struct sl_policy *recompile(const struct sl_source *source)
{
    struct sl_policy_options options = policy_options(source);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, options.alloc);
    if (source->text && sl_policy_parse(source->text, source->text_len, source->config.path, &options, &policy, &diags))
        policy = NULL;
    sl_diags_fini(&diags);
    if (!policy && source->config.state_dir)
        policy = sl_keep_load(source->config.state_dir, source->config.path, &options);
    return policy;
}

enum sl_reload sl_source_rekey(struct sl_source *source, const struct sl_secret *secret)
{
    static const char trigger[] = "the instances' secret is known";
    char why[1024];
    struct reading reading;
    enum sl_reload result = SL_RELOAD_FAILED;

    pthread_mutex_lock(&source->lock);
    source->config.secret = *secret;
    if (same_secret(&source->in_force, secret)) {
        result = SL_RELOAD_SAME;
    } else {
        if (load(source, NO_LOG, &reading, why, sizeof why))
            reading.policy = recompile(source);
        if (reading.policy)
            result = put_in_force(source, &reading, trigger, why, sizeof why);
        else
            sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    }
    if (result == SL_RELOAD_FAILED)
        sl_log(source->config.log, SL_LOG_ERROR,
               "%s, but the policy cannot be compiled under it: shared limits follow "
               "their failure modes until a reload succeeds",
               trigger);
    pthread_mutex_unlock(&source->lock);
    return result;
}
