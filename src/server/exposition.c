#include "server/exposition.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t len;
};

/* Takes what stands before the next separator off `rest`, without the space around it. Returns false at the end. */
static bool next_part(struct span *rest, char separator, struct span *ret_part)
{
    const char *end;

    if (!rest->at)
        return false;
    end = memchr(rest->at, separator, rest->len);
    *ret_part = (struct span){rest->at, end ? (size_t)(end - rest->at) : rest->len};
    *rest = end ? (struct span){end + 1, rest->len - ret_part->len - 1} : (struct span){NULL, 0};
    while (ret_part->len && strchr(" \t", ret_part->at[0]))
        ret_part->at++, ret_part->len--;
    while (ret_part->len && strchr(" \t", ret_part->at[ret_part->len - 1]))
        ret_part->len--;
    return true;
}

static bool is_word(struct span s, const char *word)
{
    return s.len == strlen(word) && !strncasecmp(s.at, word, s.len);
}

/* The value of `q` in thousandths, 0 for what is none (RFC 9110, section 12.4.2). */
static unsigned weight_of(struct span s)
{
    unsigned q, scale = 100;

    if (s.len < 1 || s.len > 5 || s.at[0] < '0' || s.at[0] > '1' || (s.len > 1 && s.at[1] != '.'))
        return 0;
    q = (unsigned)(s.at[0] - '0') * 1000;
    for (size_t i = 2; i < s.len; i++, scale /= 10) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return 0;
        q += (unsigned)(s.at[i] - '0') * scale;
    }
    return q > 1000 ? 0 : q;
}

/* Of one media range of an Accept header: its type, weight, and whether version 1.0.0 will do. */
static struct span read_range(struct span range, unsigned *ret_weight, bool *ret_version_fits)
{
    struct span type = {"", 0}, parameter;

    *ret_weight = 1000;
    *ret_version_fits = true;
    next_part(&range, ';', &type);
    while (next_part(&range, ';', &parameter)) {
        struct span name = {"", 0};

        next_part(&parameter, '=', &name);
        if (parameter.at && is_word(name, "q"))
            *ret_weight = weight_of(parameter);
        else if (parameter.at && is_word(name, "version"))
            *ret_version_fits = is_word(parameter, "1.0.0") || is_word(parameter, "\"1.0.0\"");
    }
    return type;
}

bool sl_exposition_wants_open_metrics(const char *accept, size_t len)
{
    struct span rest = {accept, len}, range;
    unsigned open_metrics = 0, plain = 0, any = 0;
    bool named = false; /* plain text by its name, which is stronger than a pattern */

    while (next_part(&rest, ',', &range)) {
        unsigned weight;
        bool version_fits;
        struct span type = read_range(range, &weight, &version_fits);

        if (is_word(type, "application/openmetrics-text") && version_fits && weight > open_metrics)
            open_metrics = weight;
        else if (is_word(type, "text/plain") && (!named || weight > plain))
            plain = weight, named = true;
        else if ((is_word(type, "*/*") || is_word(type, "text/*")) && weight > any)
            any = weight;
    }
    return open_metrics > 0 && open_metrics >= (named ? plain : any);
}

static bool ends_in(const char *name, const char *unit)
{
    size_t n = strlen(name), u = strlen(unit);

    return n > u && name[n - u - 1] == '_' && !strcmp(name + n - u, unit);
}

/* A name that ends in its unit says so once more in the newer format. */
static void add_unit(struct sl_exposition *x, const char *name)
{
    static const char *const units[] = {"seconds", "bytes", "ratio"};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ends_in(name, units[i]))
            sl_buf_printf(x->out, "# UNIT %s %s\n", name, units[i]);
}

void sl_exposition_family(struct sl_exposition *x, const char *name, const char *type, const char *help)
{
    /* The older format calls a counter's family by its sample's name. */
    const char *suffix = !x->open_metrics && !strcmp(type, "counter") ? "_total" : "";

    /* The older format knows no info type. */
    if (!x->open_metrics && !strcmp(type, "info"))
        type = "gauge", suffix = "_info";
    x->family = name;
    sl_buf_printf(x->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
    if (x->open_metrics)
        add_unit(x, name);
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

void sl_exposition_bound(struct sl_exposition *x, double bound)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", bound);
    if (!strpbrk(text, ".e"))
        strncat(text, ".0", sizeof text - strlen(text) - 1);
    sl_exposition_label(x, "le", text);
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
