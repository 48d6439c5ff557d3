#include "policy/diag.h"

#include "policy/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#define MESSAGE_MAX 512

void sl_diags_init(struct sl_diags *diags, struct sl_alloc alloc)
{
    *diags = (struct sl_diags){.alloc = alloc};
}

static void fini_one(struct sl_diags *diags, struct sl_diag *diag)
{
    sl_free(&diags->alloc, diag->file);
    sl_free(&diags->alloc, diag->field);
    sl_free(&diags->alloc, diag->message);
    *diag = (struct sl_diag){0};
}

void sl_diags_fini(struct sl_diags *diags)
{
    for (size_t i = 0; i < diags->n; i++)
        fini_one(diags, &diags->list[i]);
    sl_free(&diags->alloc, diags->list);
    *diags = (struct sl_diags){.alloc = diags->alloc};
}

/* Where a finding belongs: findings of one file stand together, the file found first is first, and lines ascend. */
static size_t place(const struct sl_diags *diags, const char *file, unsigned line, unsigned column)
{
    size_t i = diags->n;

    while (i > 0 && strcmp(diags->list[i - 1].file, file) != 0)
        i--;
    if (i == 0)
        return diags->n; /* the first of its file */
    while (i > 0 && !strcmp(diags->list[i - 1].file, file) &&
           (diags->list[i - 1].line > line || (diags->list[i - 1].line == line && diags->list[i - 1].column > column)))
        i--;
    return i;
}

static void drop(struct sl_diags *diags, size_t index)
{
    diags->n_listed_warnings -= diags->list[index].severity == SL_DIAG_WARNING;
    fini_one(diags, &diags->list[index]);
    memmove(&diags->list[index], &diags->list[index + 1], (diags->n - index - 1) * sizeof *diags->list);
    diags->n--;
    diags->n_dropped++;
}

/* An error is never lost to a warning: when the list is full, it takes the last warning's place. */
static bool make_room(struct sl_diags *diags, enum sl_severity severity)
{
    if (diags->n < SL_DIAGS_MAX)
        return true;
    if (severity == SL_DIAG_ERROR)
        for (size_t i = diags->n; i-- > 0;)
            if (diags->list[i].severity == SL_DIAG_WARNING) {
                drop(diags, i);
                return true;
            }
    return false;
}

static bool fill(struct sl_diags *diags, struct sl_diag *diag, const char *file, const char *field, const char *message)
{
    diag->file = sl_strndup(&diags->alloc, file, strlen(file));
    diag->field = sl_strndup(&diags->alloc, field, strlen(field));
    diag->message = sl_strndup(&diags->alloc, message, strlen(message));
    if (diag->file && diag->field && diag->message)
        return true;
    fini_one(diags, diag);
    return false;
}

/* Messages quote what files hold, also bytes that are no text, and may be cut in the middle of a character. */
static void make_printable(char *text)
{
    size_t len = strlen(text), at = 0;

    while ((at += sl_text_utf8_prefix(text + at, len - at)) < len)
        text[at] = '?';
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

void sl_diags_add(struct sl_diags *diags, enum sl_severity severity, const char *file, unsigned line, unsigned column,
                  const char *field, const char *format, ...)
{
    struct sl_diag diag = {.severity = severity, .line = line, .column = column};
    char message[MESSAGE_MAX];
    va_list args;
    size_t at;

    *(severity == SL_DIAG_ERROR ? &diags->n_errors : &diags->n_warnings) += 1;
    if (!sl_diags_takes(diags, severity)) { /* a million of them must not take a minute */
        diags->n_dropped++;
        return;
    }
    if (!diags->list)
        diags->list = sl_calloc(&diags->alloc, SL_DIAGS_MAX, sizeof *diags->list);
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    make_printable(message);
    if (!diags->list || !make_room(diags, severity) || !fill(diags, &diag, file, field ? field : "", message)) {
        diags->n_dropped++;
        return;
    }
    at = place(diags, file, line, column);
    memmove(&diags->list[at + 1], &diags->list[at], (diags->n - at) * sizeof *diags->list);
    diags->list[at] = diag;
    diags->n++;
    diags->n_listed_warnings += severity == SL_DIAG_WARNING;
}

void sl_diag_format(const struct sl_diag *diag, char *buf, size_t size)
{
    const char *severity = diag->severity == SL_DIAG_ERROR ? "error" : "warning";
    const char *gap = diag->field[0] ? ": " : "";

    if (diag->line)
        snprintf(buf, size, "%s:%u:%u: %s: %s%s%s", diag->file, diag->line, diag->column, severity, diag->field, gap,
                 diag->message);
    else
        snprintf(buf, size, "%s: %s: %s%s%s", diag->file, severity, diag->field, gap, diag->message);
}

void sl_diags_print(const struct sl_diags *diags, FILE *out)
{
    char line[MESSAGE_MAX + 5000];

    for (size_t i = 0; i < diags->n; i++) {
        sl_diag_format(&diags->list[i], line, sizeof line);
        fprintf(out, "%s\n", line);
    }
    if (diags->n_dropped)
        fprintf(out, "%zu more findings are not shown\n", diags->n_dropped);
}
