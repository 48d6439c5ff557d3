#include "sluiced/source_read.h"

#include "base/err.h"
#include "control/text.h"
#include "policy/file.h"
#include "sluiced/keep.h"
#include "sluiced/watch.h"
#include "store/url.h"

#include <string.h>

#define READ_TRIES 10

struct sl_policy_options sl_source_options(const struct sl_source *source)
{
    return (struct sl_policy_options){.secret = source->config.secret,
                                      .alloc = sl_alloc_system(),
                                      .has_store = source->config.has_store,
                                      .region = source->config.region,
                                      .check_store = sl_store_url_check};
}

/* ---- findings */

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

/* ---- the file */

static int read_text(const struct sl_source *source, const struct sl_policy_options *options,
                     struct sl_reading *reading, struct sl_diags *diags)
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

static void drop_reading(struct sl_reading *reading)
{
    struct sl_alloc alloc = sl_alloc_system();

    sl_policy_unref(reading->policy);
    sl_free(&alloc, reading->text);
    *reading = (struct sl_reading){.policy = NULL};
}

static int compile_file(const struct sl_source *source, const struct sl_policy_options *options,
                        struct sl_reading *ret_reading, struct sl_diags *diags)
{
    int err;

    *ret_reading = (struct sl_reading){.policy = NULL};
    err = read_text(source, options, ret_reading, diags);
    if (!err)
        err = sl_policy_parse(ret_reading->text, ret_reading->len, source->config.path, options, &ret_reading->policy,
                              diags);
    return err;
}

/* Once more when the file is another one by now: its keys_file may have been read from the folder of that one. What changes
 * faster than it can be read is not taken: the watch tells of it when it is still. */
static int compile_still(const struct sl_source *source, const struct sl_policy_options *options,
                         struct sl_reading *ret_reading, struct sl_diags *diags)
{
    const char *path = source->config.path;

    for (int tries = 0; tries < READ_TRIES; tries++) {
        struct sl_file_mark before = sl_file_mark(path), now;
        int err = compile_file(source, options, ret_reading, diags);

        now = sl_file_mark(path);
        if (sl_file_mark_same(&before, &now))
            return err;
        drop_reading(ret_reading);
        sl_diags_fini(diags);
    }
    sl_diags_add(diags, SL_DIAG_ERROR, path, 0, 0, "", "the file changes faster than it can be read");
    return SL_EPOLICY;
}

int sl_source_load(const struct sl_source *source, unsigned logged, struct sl_reading *ret_reading, char *why,
                   size_t why_size)
{
    struct sl_policy_options options = sl_source_options(source);
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, options.alloc);
    err = compile_still(source, &options, ret_reading, &diags);
    if (logged & (err ? SL_READ_ERRORS : SL_READ_WARNINGS))
        log_findings(source->config.log, &diags);
    if (err) {
        summarize(&diags, why, why_size);
        drop_reading(ret_reading);
    }
    sl_diags_fini(&diags);
    return err;
}

struct sl_policy *sl_source_recompile(const struct sl_source *source)
{
    struct sl_policy_options options = sl_source_options(source);
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

/* ---- versions */

int sl_source_compile(const struct sl_source *source, const struct sl_version_text *text, const char *name,
                      unsigned logged, struct sl_policy **ret_policy, char *why, size_t why_size)
{
    struct sl_policy_options options = sl_source_options(source);
    struct sl_diags diags;
    int err;

    *ret_policy = NULL;
    sl_diags_init(&diags, options.alloc);
    err = sl_version_text_compile(text, name, &options, ret_policy, &diags);
    if (err)
        summarize(&diags, why, why_size);
    if (logged & (err ? SL_READ_ERRORS : SL_READ_WARNINGS))
        log_findings(source->config.log, &diags);
    sl_diags_fini(&diags);
    return err;
}

/* The first finding that counts: with misspelt names alone, the first that has something to suggest. */
static void name_refused(const struct sl_diags *diags, enum sl_warnings refused, char *why, size_t why_size)
{
    size_t n = sl_diags_refused(diags, refused), i = 0, used;

    while (i + 1 < diags->n && refused == SL_WARNINGS_MISSPELT && !strstr(diags->list[i].message, "did you mean"))
        i++;
    snprintf(why, why_size, "warnings are refused");
    if (i < diags->n)
        sl_diag_format(&diags->list[i], why, why_size);
    used = strlen(why);
    if (n > 1 && used < why_size)
        snprintf(why + used, why_size - used, " (and %zu more)", n - 1);
    used = strlen(why);
    if (used < why_size)
        snprintf(why + used, why_size - used, "; nothing was changed, and with warnings=allow it is taken");
}

int sl_source_judge_text(const struct sl_source *source, const struct sl_version_text *text, const char *name,
                         enum sl_warnings refused, char *why, size_t why_size)
{
    struct sl_policy_options options = sl_source_options(source);
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, options.alloc);
    err = sl_version_text_compile(text, name, &options, &policy, &diags);
    if (err) {
        summarize(&diags, why, why_size);
    } else {
        sl_policy_unref(policy);
        if (sl_diags_refused(&diags, refused)) {
            name_refused(&diags, refused, why, why_size);
            err = SL_EPOLICY;
        }
    }
    sl_diags_fini(&diags);
    return err;
}
