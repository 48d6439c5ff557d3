#include "options/value.h"

#include "base/err.h"
#include "core/rate.h"
#include "policy/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *field(const struct sl_option *row, void *values)
{
    return (char *)values + row->offset;
}

void sl_option_clear(const struct sl_option *row, void *values)
{
    char **text;
    struct sl_option_list *list;

    switch (row->type) {
    case SL_OPTION_TEXT:
    case SL_OPTION_SECRET:
        text = field(row, values);
        free(*text);
        *text = NULL;
        break;
    case SL_OPTION_LIST:
        list = field(row, values);
        for (size_t i = 0; i < list->n; i++)
            free(list->items[i]);
        list->n = 0;
        break;
    default:
        break;
    }
}

/* Decimal digits only: strtoull alone would take "-1", " 1" and "0x1". */
static int parse_digits(const char *text, size_t len, uint64_t *ret)
{
    uint64_t value = 0;

    if (len == 0)
        return SL_EINVALID;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return SL_EINVALID;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return SL_EINVALID;
    }
    *ret = value;
    return 0;
}

int sl_bytes_parse(const char *text, uint64_t *ret_bytes)
{
    size_t len = strlen(text);
    unsigned shift = 0;
    uint64_t value;

    if (len > 0) {
        switch (text[len - 1]) {
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        default:
            break;
        }
    }
    if (parse_digits(text, len - (shift > 0), &value) || value > UINT64_MAX >> shift)
        return SL_EINVALID;
    *ret_bytes = value << shift;
    return 0;
}

void sl_bytes_format(uint64_t bytes, char *buf, size_t size)
{
    static const char suffixes[] = {'\0', 'k', 'M', 'G'};
    unsigned i = 0;

    while (i < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    snprintf(buf, size, "%" PRIu64 "%.1s", bytes, &suffixes[i]);
}

void sl_duration_format(uint64_t us, char *buf, size_t size)
{
    static const struct {
        const char *unit;
        uint64_t us;
    } units[] = {
        {"d", UINT64_C(86400000000)}, {"h", UINT64_C(3600000000)}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}};

    if (us == 0) {
        snprintf(buf, size, "0s");
        return;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (us % units[i].us == 0) {
            snprintf(buf, size, "%" PRIu64 "%s", us / units[i].us, units[i].unit);
            return;
        }
    }
    snprintf(buf, size, "%" PRIu64 "us", us);
}

static int parse_duration(const char *text, uint64_t *ret_us)
{
    const char *why;

    if (!strcmp(text, "0") || !strcmp(text, "0s") || !strcmp(text, "0ms")) {
        *ret_us = 0;
        return 0;
    }
    /* A bare unit means one of it in a rate; as a setting it is a slip of the pen. */
    if (text[0] < '0' || text[0] > '9')
        return SL_EINVALID;
    return sl_duration_parse(text, strlen(text), ret_us, &why);
}

static void format_range(const struct sl_option *row, char *buf, size_t size)
{
    char low[32], high[32];

    switch (row->type) {
    case SL_OPTION_DURATION:
        sl_duration_format(row->min, low, sizeof low);
        sl_duration_format(row->max, high, sizeof high);
        snprintf(buf, size, "must be a duration such as `5s` or `250ms`, from %s to %s", low, high);
        break;
    case SL_OPTION_BYTES:
        sl_bytes_format(row->min, low, sizeof low);
        sl_bytes_format(row->max, high, sizeof high);
        snprintf(buf, size, "must be a size in bytes such as `16384` or `4M`, from %s to %s", low, high);
        break;
    default:
        snprintf(buf, size, "must be a whole number from %" PRIu64 " to %" PRIu64, row->min, row->max);
        break;
    }
}

static int parse_number(const struct sl_option *row, const char *text, uint64_t *place, char *why, size_t why_size)
{
    uint64_t value = 0;
    int err;

    if (row->type == SL_OPTION_DURATION)
        err = parse_duration(text, &value);
    else if (row->type == SL_OPTION_BYTES)
        err = sl_bytes_parse(text, &value);
    else
        err = parse_digits(text, strlen(text), &value);
    if (err || value < row->min || value > row->max) {
        format_range(row, why, why_size);
        return SL_EINVALID;
    }
    *place = value;
    return 0;
}

static const char *choice_at(const void *choices, size_t i)
{
    return ((const char *const *)choices)[i];
}

static int parse_choice(const struct sl_option *row, const char *text, unsigned *place, char *why, size_t why_size)
{
    const char *nearest;
    size_t used = 0;
    unsigned n = 0;

    for (; row->choices[n]; n++) {
        if (!strcmp(text, row->choices[n])) {
            *place = n;
            return 0;
        }
    }
    nearest = sl_text_suggest(text, strlen(text), choice_at, row->choices, n);
    if (nearest) {
        snprintf(why, why_size, "did you mean `%s`?", nearest);
        return SL_EINVALID;
    }
    used = (size_t)snprintf(why, why_size, "must be one of");
    for (unsigned i = 0; i < n && used < why_size; i++)
        used += (size_t)snprintf(why + used, why_size - used, "%s `%s`", i ? "," : "", row->choices[i]);
    return SL_EINVALID;
}

static int parse_switch(const char *text, bool *place, char *why, size_t why_size)
{
    if (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on") || !strcmp(text, "1")) {
        *place = true;
    } else if (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off") || !strcmp(text, "0")) {
        *place = false;
    } else {
        snprintf(why, why_size, "must be true or false");
        return SL_EINVALID;
    }
    return 0;
}

/* The first line of a file, of at most SL_OPTION_TEXT_MAX bytes; newly allocated. */
static char *read_first_line(const char *path, char *why, size_t why_size)
{
    char buf[SL_OPTION_TEXT_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf);
    int error = errno;
    char *line;

    if (fd >= 0)
        close(fd);
    if (n < 0) {
        snprintf(why, why_size, "cannot read %s: %s", path, strerror(error));
        return NULL;
    }
    if ((size_t)n == sizeof buf) {
        snprintf(why, why_size, "%s is longer than %d bytes", path, SL_OPTION_TEXT_MAX);
        return NULL;
    }
    buf[n] = '\0';
    buf[strcspn(buf, "\r\n")] = '\0';
    if (!buf[0]) {
        snprintf(why, why_size, "the first line of %s is empty", path);
        return NULL;
    }
    line = strdup(buf);
    if (!line)
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    return line;
}

static char *parse_text(const struct sl_option *row, const char *text, char *why, size_t why_size)
{
    char *copy;

    if (!text[0] || strlen(text) > SL_OPTION_TEXT_MAX) {
        snprintf(why, why_size, "must be 1 to %d bytes long", SL_OPTION_TEXT_MAX);
        return NULL;
    }
    if (row->type == SL_OPTION_SECRET && text[0] == '@')
        copy = read_first_line(text + 1, why, why_size);
    else if (!(copy = strdup(text)))
        snprintf(why, why_size, "%s", sl_err_text(SL_ENOMEM));
    if (copy && row->check && row->check(copy, why, why_size)) {
        free(copy);
        return NULL;
    }
    return copy;
}

static int parse_into_text(const struct sl_option *row, const char *text, void *values, char *why, size_t why_size)
{
    struct sl_option_list *list = field(row, values);
    char **place = field(row, values);
    char *copy;

    if (row->type == SL_OPTION_LIST && list->n == SL_OPTION_LIST_MAX) {
        snprintf(why, why_size, "is given more than %d times", SL_OPTION_LIST_MAX);
        return SL_EINVALID;
    }
    copy = parse_text(row, text, why, why_size);
    if (!copy)
        return SL_EINVALID;
    if (row->type == SL_OPTION_LIST) {
        list->items[list->n++] = copy;
    } else {
        free(*place);
        *place = copy;
    }
    return 0;
}

int sl_option_parse(const struct sl_option *row, const char *text, void *values, char *why, size_t why_size)
{
    switch (row->type) {
    case SL_OPTION_COUNT:
    case SL_OPTION_BYTES:
    case SL_OPTION_DURATION:
        return parse_number(row, text, field(row, values), why, why_size);
    case SL_OPTION_CHOICE:
        return parse_choice(row, text, field(row, values), why, why_size);
    case SL_OPTION_SWITCH:
        return parse_switch(text, field(row, values), why, why_size);
    default:
        return parse_into_text(row, text, values, why, why_size);
    }
}
