#include "lib/handle.h"

#include "base/err.h"

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

int sl_lib_policy(const struct policy_source *source, struct sl_secret secret, const struct sl_alloc *alloc,
                  const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why, size_t why_size)
{
    const struct sl_policy_options options = {.secret = secret, .alloc = *alloc, .has_store = false};
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, *alloc);
    if (source->file)
        err = sl_policy_load(source->file, &options, ret_policy, &diags);
    else
        err = sl_policy_parse(source->text, source->text_len, source->name ? source->name : "policy", &options,
                              ret_policy, &diags);
    for (size_t i = 0; i < diags.n; i++)
        pass_on(&diags.list[i], sink);
    if (err != 0)
        first_error(&diags, err, ret_why, why_size);
    sl_diags_fini(&diags);
    return err;
}
