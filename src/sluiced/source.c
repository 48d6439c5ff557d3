#include "sluiced/source_read.h"

#include "base/err.h"
#include "sluiced/gently.h"
#include "sluiced/keep.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    sl_version_text_free(&alloc, &source->version_text);
    sl_source_forget_overrides(source);
    pthread_mutex_destroy(&source->lock);
}

void sl_source_attach(struct sl_source *source, struct sl_limiter *limiter)
{
    source->limiter = limiter;
}

static void remember_text(struct sl_source *source, struct sl_reading *reading)
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

static void tell_judged(const struct sl_source *source, bool of_store, enum sl_reload result, const char *why)
{
    if (source->config.judged && result != SL_RELOAD_SHORT)
        source->config.judged(source->config.ctx, of_store, result == SL_RELOAD_FAILED ? why : NULL);
}

/* ---- versions */

#define VERSION_NAME_MAX 40

static void name_version(uint64_t number, char name[static VERSION_NAME_MAX])
{
    snprintf(name, VERSION_NAME_MAX, "version %" PRIu64, number);
}

/* What was kept of the store's versions, when they come first. NULL: nothing that can be used. */
static struct sl_policy *first_version(struct sl_source *source)
{
    const struct sl_source_config *config = &source->config;
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version_text text;
    struct sl_pointer version;
    struct sl_policy *policy;
    char why[1024], name[VERSION_NAME_MAX];
    int err;

    if (!config->versions || !config->state_dir)
        return NULL;
    err = sl_keep_find_version(config->state_dir, config->versions, config->ns, &version, &text, why, sizeof why);
    if (err && err != SL_ENOTFOUND)
        sl_log(config->log, SL_LOG_WARNING, "the version of the policy that was kept cannot be used: %s", why);
    if (err)
        return NULL;
    name_version(version.number, name);
    if (sl_source_compile(source, &text, name, SL_READ_WARNINGS | SL_READ_ERRORS, &policy, why, sizeof why)) {
        sl_log(config->log, SL_LOG_ERROR, "%s of the policy, which was kept, is not valid any more", name);
        sl_version_text_free(&alloc, &text);
        return NULL;
    }
    source->version = version;
    source->version_text = text;
    sl_log(config->log, SL_LOG_INFO, "%s of the policy was kept in %s: it is in force until the store tells of another",
           name, config->state_dir);
    return policy;
}

int sl_source_first(struct sl_source *source, struct sl_policy **ret_policy, bool *ret_fallen_back, char *why,
                    size_t why_size)
{
    const char *dir = source->config.state_dir;
    struct sl_policy_options options = sl_source_options(source);
    struct sl_reading reading;
    int err;

    *ret_fallen_back = false;
    *ret_policy = first_version(source);
    if (*ret_policy)
        return 0;
    err = sl_source_load(source, SL_READ_WARNINGS, &reading, why, why_size);
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
    tell_judged(source, false, SL_RELOAD_FAILED, why);
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

/* Puts the policy in force unless it is the same. The caller keeps its reference. On failure `why` says what is wrong. */
static enum sl_reload swap(struct sl_source *source, struct sl_policy *policy, const char *trigger, char *why,
                           size_t why_size)
{
    struct sl_policy *old = sl_limiter_policy(source->limiter);
    bool same =
        !strcmp(sl_policy_hash(old), sl_policy_hash(policy)) && same_secret(&source->in_force, &source->config.secret);
    enum sl_reload result = same ? SL_RELOAD_SAME : SL_RELOAD_DONE;
    int err = same ? 0 : sl_source_put(source, policy);

    if (err || same)
        sl_policy_unref(old);
    else
        sl_source_retire(old);
    if (err) {
        snprintf(why, why_size, "the policy cannot be put in force: %s", sl_err_text(err));
        result = SL_RELOAD_FAILED;
    } else if (same) {
        sl_log(source->config.log, SL_LOG_INFO, "%s: the policy is the one in force", trigger);
    } else {
        sl_log(source->config.log, SL_LOG_INFO, "%s: policy %.12s is in force, %zu limits", trigger,
               sl_policy_hash(policy), sl_policy_n_limits(policy));
        note_secret(source);
    }
    return result;
}

/* As swap with the file's policy, which is taken in any case; what became of it is told. */
static enum sl_reload put_in_force(struct sl_source *source, struct sl_reading *reading, const char *trigger, char *why,
                                   size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    enum sl_reload result = swap(source, reading->policy, trigger, why, why_size);

    if (result == SL_RELOAD_DONE)
        keep(source, reading->policy);
    if (result == SL_RELOAD_FAILED)
        sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    else
        remember_text(source, reading);
    sl_policy_unref(reading->policy);
    sl_free(&alloc, reading->text);
    return result;
}

static enum sl_reload ignore(const struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    char text[256];

    snprintf(text, sizeof text, "version %" PRIu64 " of the store is in force, and the file is not taken",
             source->version.number);
    sl_log(source->config.log, SL_LOG_WARNING, "%s: %s; `sluice policy push` makes it a version", trigger, text);
    if (why)
        snprintf(why, why_size, "%s", text);
    return SL_RELOAD_IGNORED;
}

static enum sl_reload reload(struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    char reason[1024];
    struct sl_reading reading;
    enum sl_reload result = SL_RELOAD_FAILED;

    if (!sl_source_load(source, SL_READ_WARNINGS | SL_READ_ERRORS, &reading, reason, sizeof reason))
        result = put_in_force(source, &reading, trigger, reason, sizeof reason);
    if (result == SL_RELOAD_FAILED) {
        sl_log(source->config.log, SL_LOG_ERROR, "%s: the policy was not taken; the one in force stays", trigger);
        if (why)
            snprintf(why, why_size, "%s", reason);
    }
    tell_judged(source, false, result, reason);
    return result;
}

/* Keeping is a service here too. */
static void keep_version(const struct sl_source *source)
{
    const struct sl_source_config *config = &source->config;
    char why[512];

    if (config->state_dir && config->versions &&
        sl_keep_version(config->state_dir, config->versions, config->ns, &source->version, &source->version_text, why,
                        sizeof why))
        sl_log(config->log, SL_LOG_ERROR, "version %" PRIu64 " could not be kept in %s: %s", source->version.number,
               config->state_dir, why);
}

static void remember_version(struct sl_source *source, const struct sl_version *version, struct sl_version_text *text)
{
    struct sl_alloc alloc = sl_alloc_system();

    source->version.number = version->number;
    memcpy(source->version.hash, version->hash, sizeof source->version.hash);
    sl_version_text_free(&alloc, &source->version_text);
    source->version_text = *text;
    *text = (struct sl_version_text){.bytes = NULL};
}

/* Who made it, and why, stand in the line that says it is in force: the log is where changes are looked for. */
static void write_trigger(const struct sl_version *version, char *buf, size_t size)
{
    char from[64] = "";

    if (version->from)
        snprintf(from, sizeof from, ", which brings version %" PRIu64 " back", version->from);
    snprintf(buf, size, "version %" PRIu64 " by %s%s%s%s%s", version->number, version->author, from,
             version->comment[0] ? " (" : "", version->comment, version->comment[0] ? ")" : "");
}

static enum sl_reload take(struct sl_source *source, const struct sl_version *version, struct sl_version_text *text,
                           char *why, size_t why_size)
{
    char name[VERSION_NAME_MAX], trigger[SL_COMMENT_MAX + SL_AUTHOR_MAX + 128];
    enum sl_reload result;
    struct sl_policy *policy;
    int err;

    name_version(version->number, name);
    write_trigger(version, trigger, sizeof trigger);
    err = sl_source_compile(source, text, name, SL_READ_WARNINGS | SL_READ_ERRORS, &policy, why, why_size);
    result = err ? SL_RELOAD_FAILED : swap(source, policy, trigger, why, why_size);
    if (result == SL_RELOAD_FAILED) {
        sl_log(source->config.log, SL_LOG_ERROR, "%s was not taken; the policy in force stays: %s", trigger, why);
        result = err == SL_EPOLICY ? SL_RELOAD_FAILED : SL_RELOAD_SHORT;
    } else {
        remember_version(source, version, text);
        keep_version(source);
    }
    tell_judged(source, true, result, why);
    sl_policy_unref(policy);
    return result;
}

struct sl_pointer sl_source_runs(struct sl_source *source)
{
    struct sl_pointer runs;
    struct sl_policy *policy;

    pthread_mutex_lock(&source->lock);
    runs = source->version;
    if (!runs.number) {
        policy = sl_limiter_policy(source->limiter);
        snprintf(runs.hash, sizeof runs.hash, "%s", sl_policy_hash(policy));
        sl_policy_unref(policy);
    }
    pthread_mutex_unlock(&source->lock);
    return runs;
}

/* ---- another secret */

/* The file, or what is known of it. */
static enum sl_reload rekey_file(struct sl_source *source, const char *trigger)
{
    char why[1024];
    struct sl_reading reading;

    if (sl_source_load(source, SL_READ_SILENTLY, &reading, why, sizeof why))
        reading.policy = sl_source_recompile(source);
    if (reading.policy)
        return put_in_force(source, &reading, trigger, why, sizeof why);
    sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    return SL_RELOAD_FAILED;
}

static enum sl_reload rekey_version(struct sl_source *source, const char *trigger)
{
    char why[1024], name[VERSION_NAME_MAX];
    enum sl_reload result = SL_RELOAD_FAILED;
    struct sl_policy *policy;

    name_version(source->version.number, name);
    if (sl_source_compile(source, &source->version_text, name, SL_READ_SILENTLY, &policy, why, sizeof why) == 0)
        result = swap(source, policy, trigger, why, sizeof why);
    if (result == SL_RELOAD_FAILED)
        sl_log(source->config.log, SL_LOG_ERROR, "%s", why);
    sl_policy_unref(policy);
    return result;
}

static enum sl_reload rekey(struct sl_source *source, const struct sl_secret *secret)
{
    static const char trigger[] = "the instances' secret is known";
    enum sl_reload result = SL_RELOAD_SAME;

    source->config.secret = *secret;
    if (!same_secret(&source->in_force, secret))
        result = source->version.number ? rekey_version(source, trigger) : rekey_file(source, trigger);
    if (result == SL_RELOAD_FAILED) {
        tell_judged(source, source->version.number > 0, result, "it cannot be compiled under the instances' secret");
        sl_log(source->config.log, SL_LOG_ERROR,
               "%s, but the policy cannot be compiled under it: shared limits follow "
               "their failure modes until a reload succeeds",
               trigger);
    }
    return result;
}

/* ---- what takes long is done by a thread that gives way to the workers, with the lock held */

enum verb { RELOAD, TAKE, TRY, REKEY, LAY, JUDGE };

struct errand {
    enum verb verb;
    struct sl_source *source;
    const char *name; /* of what is tried; the trigger of a reload */
    const struct sl_version *version;
    struct sl_version_text *text;
    const struct sl_version_text *tried;
    enum sl_warnings refused;
    const struct sl_secret *secret;
    struct sl_overrides *overrides;
    const struct sl_override *override;
    char *why;
    size_t why_size;
    enum sl_reload result;
    int err;
};

static void do_errand(void *ctx)
{
    struct errand *e = ctx;

    pthread_mutex_lock(&e->source->lock);
    if (e->verb == RELOAD)
        e->result = e->source->version.number ? ignore(e->source, e->name, e->why, e->why_size)
                                              : reload(e->source, e->name, e->why, e->why_size);
    else if (e->verb == TAKE)
        e->result = take(e->source, e->version, e->text, e->why, e->why_size);
    else if (e->verb == TRY)
        e->err = sl_source_judge_text(e->source, e->tried, e->name, e->refused, e->why, e->why_size);
    else if (e->verb == LAY)
        e->err = sl_source_lay(e->source, e->overrides);
    else if (e->verb == JUDGE)
        e->err = sl_source_judge_override(e->source, e->override, e->why, e->why_size);
    else
        e->result = rekey(e->source, e->secret);
    pthread_mutex_unlock(&e->source->lock);
}

enum sl_reload sl_source_reload(struct sl_source *source, const char *trigger, char *why, size_t why_size)
{
    struct errand errand = {.verb = RELOAD, .source = source, .name = trigger, .why = why, .why_size = why_size};

    sl_gently(do_errand, &errand);
    return errand.result;
}

enum sl_reload sl_source_take(struct sl_source *source, const struct sl_version *version, struct sl_version_text *text,
                              char *why, size_t why_size)
{
    struct errand errand = {
        .verb = TAKE, .source = source, .version = version, .text = text, .why = why, .why_size = why_size};

    sl_gently(do_errand, &errand);
    return errand.result;
}

int sl_source_try(struct sl_source *source, const struct sl_version_text *text, const char *name,
                  enum sl_warnings refused, char *why, size_t why_size)
{
    struct errand errand = {.verb = TRY,
                            .source = source,
                            .tried = text,
                            .name = name,
                            .refused = refused,
                            .why = why,
                            .why_size = why_size};

    sl_gently(do_errand, &errand);
    return errand.err;
}

enum sl_reload sl_source_rekey(struct sl_source *source, const struct sl_secret *secret)
{
    struct errand errand = {.verb = REKEY, .source = source, .secret = secret};

    sl_gently(do_errand, &errand);
    return errand.result;
}

int sl_source_set_overrides(struct sl_source *source, struct sl_overrides *overrides)
{
    struct errand errand = {.verb = LAY, .source = source, .overrides = overrides};

    sl_gently(do_errand, &errand);
    return errand.err;
}

int sl_source_try_override(struct sl_source *source, const struct sl_override *override, char *why, size_t why_size)
{
    struct errand errand = {.verb = JUDGE, .source = source, .override = override, .why = why, .why_size = why_size};

    sl_gently(do_errand, &errand);
    return errand.err;
}
