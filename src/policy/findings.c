/* Findings of the compiling steps, which walk the draft, not the tree: the path is made from the position. */
#include "policy/compiled.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_MAX 400

static void __attribute__((format(printf, 5, 0)))
add(struct sl_load *load, enum sl_severity severity, const struct sl_node *node, const char *path, const char *format,
    va_list args)
{
    char message[MESSAGE_MAX];

    vsnprintf(message, sizeof message, format, args);
    sl_diags_add(load->reader.diags, severity, load->reader.file, node ? node->line : 0, node ? node->column : 0, path,
                 "%s", message);
}

static void __attribute__((format(printf, 5, 0)))
add_to_limit(struct sl_load *load, enum sl_severity severity, const struct sl_limit_draft *limit,
             enum sl_limit_field field, const char *format, va_list args)
{
    const struct sl_node *node = limit->given.at[field], *inherited = load->draft.defaults.given.at[field];
    char path[SL_PATH_MAX];

    snprintf(path, sizeof path, "limits[%u].%s", limit->index, sl_limit_fields.list[field].name);
    if (!node && inherited) {
        node = inherited;
        snprintf(path, sizeof path, "defaults.%s", sl_limit_fields.list[field].name);
    }
    add(load, severity, node ? node : limit->node, path, format, args);
}

void sl_limit_error(struct sl_load *load, const struct sl_limit_draft *limit, enum sl_limit_field field,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_to_limit(load, SL_DIAG_ERROR, limit, field, format, args);
    va_end(args);
}

void sl_limit_warning(struct sl_load *load, const struct sl_limit_draft *limit, enum sl_limit_field field,
                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_to_limit(load, SL_DIAG_WARNING, limit, field, format, args);
    va_end(args);
}

void sl_load_error(struct sl_load *load, const struct sl_node *node, const char *path, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(load, SL_DIAG_ERROR, node, path, format, args);
    va_end(args);
}

void sl_load_warning(struct sl_load *load, const struct sl_node *node, const char *path, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(load, SL_DIAG_WARNING, node, path, format, args);
    va_end(args);
}
