/* The rows as text for people: --help and the manual page. */
#include "options/option.h"
#include "options/value.h"

#include <ctype.h>
#include <string.h>

#define HELP_INDENT 6

/* What follows the sentence: range, default, and where else the setting can be made. */
static void format_facts(const struct sl_option *row, char *buf, size_t size)
{
    size_t used = 0;
    char low[32], high[32];

    buf[0] = '\0';
    if (row->type == SL_OPTION_CHOICE) {
        for (unsigned i = 0; row->choices[i] && used < size; i++)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", row->choices[i]);
    } else if (row->type == SL_OPTION_DURATION) {
        sl_duration_format(row->min, low, sizeof low);
        sl_duration_format(row->max, high, sizeof high);
        used += (size_t)snprintf(buf, size, "%s to %s", low, high);
    } else if (row->type == SL_OPTION_BYTES) {
        sl_bytes_format(row->min, low, sizeof low);
        sl_bytes_format(row->max, high, sizeof high);
        used += (size_t)snprintf(buf, size, "%s to %s", low, high);
    } else if (row->type == SL_OPTION_COUNT) {
        used += (size_t)snprintf(buf, size, "%llu to %llu", (unsigned long long)row->min, (unsigned long long)row->max);
    }
    if (row->preset && used < size)
        snprintf(buf + used, size - used, "%sdefault %s", used ? "; " : "", row->preset);
}

static void print_wrapped(const char *text, unsigned columns, FILE *out)
{
    unsigned at = HELP_INDENT;

    fprintf(out, "%*s", HELP_INDENT, "");
    while (*text) {
        size_t len = strcspn(text, " ");

        if (at > HELP_INDENT && at + 1 + len > columns) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            at = HELP_INDENT;
        } else if (at > HELP_INDENT) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, len, out);
        at += (unsigned)len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void sl_options_help(const struct sl_option *rows, size_t n, unsigned columns, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        char facts[512], text[1024];

        if (rows[i].group)
            fprintf(out, "%s%s:\n", i ? "\n" : "", rows[i].group);
        fprintf(out, "  --%s%s%s", rows[i].name, rows[i].argument ? " " : "", rows[i].argument ? rows[i].argument : "");
        if (rows[i].letter)
            fprintf(out, ", -%c", rows[i].letter);
        fputc('\n', out);
        format_facts(&rows[i], facts, sizeof facts);
        snprintf(text, sizeof text, "%c%s%s%s%s", toupper((unsigned char)rows[i].sentence[0]), rows[i].sentence + 1,
                 facts[0] ? " (" : ".", facts, facts[0] ? ")." : "");
        print_wrapped(text, columns, out);
    }
}

/* A line that begins with a dot or a quote would be a request; the rest of mdoc is safe but for the backslash. */
static void print_man_text(const char *text, FILE *out)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

void sl_options_man(const struct sl_option *rows, size_t n, FILE *out)
{
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < n; i++) {
        char facts[512];

        fprintf(out, ".It Fl \\-%s", rows[i].name);
        if (rows[i].argument)
            fprintf(out, " Ar %s", rows[i].argument);
        fputc('\n', out);
        fputc(toupper((unsigned char)rows[i].sentence[0]), out);
        print_man_text(rows[i].sentence + 1, out);
        format_facts(&rows[i], facts, sizeof facts);
        if (facts[0]) {
            fputs(" (", out);
            print_man_text(facts, out);
            fputc(')', out);
        }
        fputs(".\n", out);
        if (rows[i].flags & SL_OPTION_RELOADABLE)
            fputs("Taken anew on a reload.\n", out);
    }
    fputs(".El\n", out);
}
