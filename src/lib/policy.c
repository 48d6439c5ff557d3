#include "lib/handle.h"

#include "base/err.h"
#include "policy/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sl_lib_log(sluice_log_fn *log, void *ctx, int level, const char *format, ...)
{
    char message[SLUICE_WHY_MAX];
    va_list args;

    if (!log)
        return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log(ctx, level, message);
}

void sl_lib_why(char *ret_why, size_t why_size, const char *format, ...)
{
    va_list args;

    if (!ret_why || why_size == 0)
        return;
    va_start(args, format);
    vsnprintf(ret_why, why_size, format, args);
    va_end(args);
}

static void pass_on(const struct sl_diag *diag, const struct finding_sink *sink)
{
    char text[SLUICE_WHY_MAX];

    sl_diag_format(diag, text, sizeof text);
    if (sink->finding)
        sink->finding(
            sink->finding_ctx,
            &(struct sluice_finding){.severity = diag->severity == SL_DIAG_ERROR ? SLUICE_ERROR : SLUICE_WARNING,
                                     .file = diag->file ? diag->file : "",
                                     .line = diag->line,
                                     .column = diag->column,
                                     .field = diag->field ? diag->field : "",
                                     .message = diag->message ? diag->message : "",
                                     .text = text});
    else if (diag->severity == SL_DIAG_WARNING)
        sl_lib_log(sink->log, sink->log_ctx, SLUICE_LOG_WARNING, "%s", text);
}

static void first_error(const struct sl_diags *diags, int err, char *ret_why, size_t why_size)
{
    char text[SLUICE_WHY_MAX];

    for (size_t i = 0; i < diags->n; i++) {
        if (diags->list[i].severity != SL_DIAG_ERROR)
            continue;
        sl_diag_format(&diags->list[i], text, sizeof text);
        if (diags->n_errors > 1)
            sl_lib_why(ret_why, why_size, "%s (and %zu more)", text, diags->n_errors - 1);
        else
            sl_lib_why(ret_why, why_size, "%s", text);
        return;
    }
    sl_lib_why(ret_why, why_size, "%s", sl_err_text(err));
}

static int finish(struct sl_diags *diags, int err, const struct finding_sink *sink, char *ret_why, size_t why_size)
{
    for (size_t i = 0; sink && i < diags->n; i++)
        pass_on(&diags->list[i], sink);
    if (err != 0)
        first_error(diags, err, ret_why, why_size);
    sl_diags_fini(diags);
    return err;
}

int sl_lib_read(const struct policy_source *source, const struct sl_alloc *alloc, const struct finding_sink *sink,
                struct policy_text *ret_text, char *ret_why, size_t why_size)
{
    char reason[SL_FILE_WHY_MAX];
    struct sl_diags diags;
    int err;

    *ret_text = (struct policy_text){
        .bytes = source->text, .len = source->text_len, .name = source->name ? source->name : "policy"};
    if (!source->file)
        return 0;
    ret_text->name = source->file;
    err = sl_file_read(source->file, SL_POLICY_BYTES_MAX, alloc, &ret_text->owned, &ret_text->len, reason);
    ret_text->bytes = ret_text->owned;
    if (err == 0)
        return 0;
    sl_diags_init(&diags, *alloc);
    if (err == SL_EIO) {
        sl_diags_add(&diags, SL_DIAG_ERROR, source->file, 0, 0, "", "cannot read the policy: %s", reason);
        err = SL_EPOLICY;
    }
    return finish(&diags, err, sink, ret_why, why_size);
}

void sl_lib_text_free(struct policy_text *text, const struct sl_alloc *alloc)
{
    sl_free(alloc, text->owned);
}

int sl_lib_compile(const struct policy_text *text, const struct sl_policy_options *options,
                   const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why, size_t why_size)
{
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, options->alloc);
    err = sl_policy_parse(text->bytes, text->len, text->name, options, ret_policy, &diags);
    return finish(&diags, err, sink, ret_why, why_size);
}

void sl_lib_log_policy(sluice_log_fn *log, void *ctx, const struct sl_policy *policy)
{
    sl_lib_log(log, ctx, SLUICE_LOG_INFO, "policy in force: %zu limits, sha256 %s", sl_policy_n_limits(policy),
               sl_policy_hash(policy));
}
