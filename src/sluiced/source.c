#include "sluiced/source.h"

#include "base/err.h"
#include "policy/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sl_source_init(struct sl_source *source, const char *path, const char *state_dir, struct sl_secret secret,
                   struct sl_log *log, char *why, size_t why_size)
{
    *source = (struct sl_source){.path = path, .secret = secret, .log = log};
    pthread_mutex_init(&source->lock, NULL);
    if (!state_dir)
        return 0;
    if (mkdir(state_dir, 0700) && errno != EEXIST) {
        snprintf(why, why_size, "cannot make the state folder %s: %s", state_dir, strerror(errno));
        return SL_EIO;
    }
    if (access(state_dir, W_OK | X_OK)) {
        snprintf(why, why_size, "cannot write into the state folder %s: %s", state_dir, strerror(errno));
        return SL_EIO;
    }
    if (asprintf(&source->state_path, "%s/policy.yaml", state_dir) < 0) {
        source->state_path = NULL;
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
        return SL_ENOMEM;
    }
    return 0;
}

void sl_source_fini(struct sl_source *source)
{
    free(source->state_path);
    pthread_mutex_destroy(&source->lock);
}

void sl_source_attach(struct sl_source *source, struct sl_limiter *limiter)
{
    source->limiter = limiter;
}

/* The text of a policy, read once, so that what is kept is what was compiled. */
struct text {
    char *bytes;
    size_t len;
};

static int read_text(const char *path, struct text *ret_text)
{
    struct sl_alloc alloc = sl_alloc_system();
    char why[SL_FILE_WHY_MAX];

    return sl_file_read(path, SL_POLICY_BYTES_MAX, &alloc, &ret_text->bytes, &ret_text->len, why);
}

static struct sl_policy_options policy_options(const struct sl_source *source)
{
    return (struct sl_policy_options){.secret = source->secret, .alloc = sl_alloc_system(), .has_store = false};
}

/* Text that was read from anywhere, compiled as if it stood in the policy's own place: a relative keys_file is found. */
static struct sl_policy *compile(const struct sl_source *source, const struct text *text)
{
    struct sl_policy_options options = policy_options(source);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(text->bytes, text->len, source->path, &options, &policy, &diags))
        policy = NULL;
    sl_diags_fini(&diags);
    return policy;
}

static int write_all(int fd, const struct text *text)
{
    size_t done = 0;

    while (done < text->len) {
        ssize_t n = write(fd, text->bytes + done, text->len - done);

        if (n < 0 && errno != EINTR)
            return SL_EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd) ? SL_EIO : 0;
}

/* Renamed into place when it is on the disk, so that a crash leaves the old copy or the new one. */
static int write_copy(const struct sl_source *source, const struct text *text)
{
    char *next;
    int fd, err;

    if (asprintf(&next, "%s.next", source->state_path) < 0)
        return SL_ENOMEM;
    fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    err = fd < 0 ? SL_EIO : write_all(fd, text);
    if (fd >= 0)
        close(fd);
    if (!err && rename(next, source->state_path))
        err = SL_EIO;
    free(next);
    return err;
}

/* Keeps the text of `policy`. The file may have changed since it was compiled: then the next reload keeps that. */
static void keep(const struct sl_source *source, const struct sl_policy *policy)
{
    struct text text = {0};
    struct sl_policy *again = NULL;

    if (!source->state_path)
        return;
    if (read_text(source->path, &text) == 0)
        again = compile(source, &text);
    if (again && !strcmp(sl_policy_hash(again), sl_policy_hash(policy)) && write_copy(source, &text))
        sl_log(source->log, SL_LOG_ERROR, "cannot keep the policy in %s: %s", source->state_path, strerror(errno));
    sl_policy_unref(again);
    free(text.bytes);
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

static struct sl_policy *load_copy(const struct sl_source *source)
{
    struct text text = {0};
    struct sl_policy *policy;

    if (!source->state_path || read_text(source->state_path, &text))
        return NULL;
    policy = compile(source, &text);
    free(text.bytes);
    return policy;
}

int sl_source_first(struct sl_source *source, struct sl_policy **ret_policy, bool *ret_fallen_back, char *why,
                    size_t why_size)
{
    int err = load(source, false, ret_policy, why, why_size);

    *ret_fallen_back = false;
    if (!err) {
        keep(source, *ret_policy);
        return 0;
    }
    *ret_policy = load_copy(source);
    if (!*ret_policy)
        return err;
    sl_log(source->log, SL_LOG_ERROR, "%s", why);
    sl_log(source->log, SL_LOG_ERROR, "started on the last good policy, kept in %s", source->state_path);
    *ret_fallen_back = true;
    return 0;
}

static enum sl_reload swap(struct sl_source *source, struct sl_policy *policy, const char *trigger)
{
    struct sl_policy *old = sl_limiter_policy(source->limiter);
    bool same = !strcmp(sl_policy_hash(old), sl_policy_hash(policy));

    sl_policy_unref(old);
    if (same) {
        sl_log(source->log, SL_LOG_INFO, "%s: the policy is the one in force", trigger);
        sl_policy_unref(policy);
        return SL_RELOAD_SAME;
    }
    keep(source, policy);
    sl_log(source->log, SL_LOG_INFO, "%s: policy %.12s is in force, %zu limits", trigger, sl_policy_hash(policy),
           sl_policy_n_limits(policy));
    sl_limiter_set_policy(source->limiter, policy);
    return SL_RELOAD_DONE;
}

enum sl_reload sl_source_reload(struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    char reason[1024];
    struct sl_policy *policy;
    enum sl_reload result;

    pthread_mutex_lock(&source->lock);
    if (load(source, true, &policy, reason, sizeof reason)) {
        sl_log(source->log, SL_LOG_ERROR, "%s: the policy was not taken; the one in force stays", trigger);
        if (why)
            snprintf(why, why_size, "%s", reason);
        result = SL_RELOAD_FAILED;
    } else {
        result = swap(source, policy, trigger);
    }
    pthread_mutex_unlock(&source->lock);
    return result;
}
