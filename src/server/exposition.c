#include "server/exposition.h"

#include "base/utf8.h"

#include <string.h>

void sl_exposition_family(struct sl_exposition *x, const char *name, const char *type, const char *help)
{
    /* The older format calls a counter's family by its sample's name. */
    const char *suffix = !x->open_metrics && !strcmp(type, "counter") ? "_total" : "";

    /* The older format knows no info type. */
    if (!x->open_metrics && !strcmp(type, "info"))
        type = "gauge", suffix = "_info";
    x->family = name;
    sl_buf_printf(x->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

void sl_exposition_begin(struct sl_exposition *x, const char *suffix)
{
    sl_buf_text(x->out, x->family);
    sl_buf_text(x->out, suffix);
    x->labelled = false;
}

static void add_escaped(struct sl_buf *out, const char *value)
{
    size_t left = strlen(value);

    while (left > 0) {
        size_t n = sl_utf8_len(value, left);

        if (n == 0)
            sl_buf_text(out, "\xef\xbf\xbd");
        else if (*value == '\n')
            sl_buf_text(out, "\\n");
        else if (*value == '\\' || *value == '"')
            sl_buf_printf(out, "\\%c", *value);
        else
            sl_buf_add(out, value, n);
        n += n == 0;
        value += n;
        left -= n;
    }
}

void sl_exposition_label(struct sl_exposition *x, const char *name, const char *value)
{
    sl_buf_text(x->out, x->labelled ? "," : "{");
    x->labelled = true;
    sl_buf_text(x->out, name);
    sl_buf_text(x->out, "=\"");
    add_escaped(x->out, value);
    sl_buf_text(x->out, "\"");
}

void sl_exposition_int(struct sl_exposition *x, uint64_t value)
{
    sl_buf_printf(x->out, "%s %llu\n", x->labelled ? "}" : "", (unsigned long long)value);
}

void sl_exposition_real(struct sl_exposition *x, double value)
{
    sl_buf_printf(x->out, "%s %.9g\n", x->labelled ? "}" : "", value);
}

void sl_exposition_counter(struct sl_exposition *x, const char *name, const char *help, uint64_t value)
{
    sl_exposition_family(x, name, "counter", help);
    sl_exposition_begin(x, "_total");
    sl_exposition_int(x, value);
}

void sl_exposition_gauge(struct sl_exposition *x, const char *name, const char *help, uint64_t value)
{
    sl_exposition_family(x, name, "gauge", help);
    sl_exposition_begin(x, "");
    sl_exposition_int(x, value);
}

void sl_exposition_end(struct sl_exposition *x)
{
    if (x->open_metrics)
        sl_buf_text(x->out, "# EOF\n");
}
