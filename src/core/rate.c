#include "core/rate.h"

#include "base/err.h"
#include "core/limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Largest first: formatting takes the first that divides. */
static const struct unit {
    const char *name;
    uint64_t us;
} units[] = {
    {"d", SL_DAY_US}, {"h", 3600 * SL_SECOND_US}, {"m", 60 * SL_SECOND_US}, {"s", SL_SECOND_US}, {"ms", SL_MS_US},
};

#define N_UNITS (sizeof units / sizeof *units)

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* Reads the decimal digits at the start; returns how many there were. The value saturates well above every range in
 * use, so that no number of digits wraps around into it. */
static size_t read_digits(const char *text, size_t len, uint64_t *ret_value)
{
    const uint64_t ceiling = UINT64_C(1) << 40;
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > ceiling)
            value = ceiling;
    }
    *ret_value = value;
    return i;
}

int sl_duration_parse(const char *text, size_t len, uint64_t *ret_us, const char **ret_why)
{
    const struct unit *unit = NULL;
    uint64_t number = 1;
    size_t digits = 0;

    if (len && text[0] >= '0' && text[0] <= '9')
        digits = read_digits(text, len, &number);
    for (size_t i = 0; i < N_UNITS; i++) {
        if (len > digits && is_word(text + digits, len - digits, units[i].name))
            unit = &units[i];
    }
    if (!unit) {
        *ret_why = digits == len && len ? "a duration needs a unit: ms, s, m, h or d"
                                        : "a duration is a unit (ms, s, m, h, d) with an optional whole number before "
                                          "it, such as `15m`";
        return SL_EINVALID;
    }
    /* Compared by division: 2^40 days would not fit. */
    if (number == 0 || number > SL_PERIOD_MAX_US / unit->us) {
        *ret_why = "a duration must be 1 ms ... 366 d";
        return SL_EINVALID;
    }
    *ret_us = number * unit->us;
    return 0;
}

static int parse_count(const char *text, size_t len, uint32_t *ret_count, const char **ret_why)
{
    uint64_t count;

    if (len == 0 || read_digits(text, len, &count) != len) {
        *ret_why = "COUNT must be a whole number in decimal digits, such as 100 in `100/s`";
        return SL_EINVALID;
    }
    if (count == 0) {
        *ret_why = "a COUNT of 0 would reject everything: write `blocked` for that, or `unlimited` for no limit";
        return SL_EINVALID;
    }
    if (count > SL_COUNT_MAX) {
        *ret_why = "COUNT must be 1 ... 1000000000";
        return SL_EINVALID;
    }
    *ret_count = (uint32_t)count;
    return 0;
}

int sl_rate_parse(const char *text, size_t len, struct sl_rate *ret_rate, const char **ret_why)
{
    struct sl_rate rate = {.kind = SL_RATE_LIMITED};
    const char *slash = len ? memchr(text, '/', len) : NULL;

    if (is_word(text, len, "unlimited")) {
        *ret_rate = (struct sl_rate){.kind = SL_RATE_UNLIMITED};
        return 0;
    }
    if (is_word(text, len, "blocked")) {
        *ret_rate = (struct sl_rate){.kind = SL_RATE_BLOCKED};
        return 0;
    }
    if (!slash) {
        *ret_why = "a rate is COUNT/PERIOD, such as `100/s` or `5/15m`, or `unlimited` or `blocked`";
        return SL_EINVALID;
    }
    if (parse_count(text, (size_t)(slash - text), &rate.count, ret_why) ||
        sl_duration_parse(slash + 1, len - (size_t)(slash - text) - 1, &rate.period_us, ret_why))
        return SL_EINVALID;
    *ret_rate = rate;
    return 0;
}

size_t sl_rate_format(const struct sl_rate *rate, char buf[SL_RATE_TEXT_MAX])
{
    const char *unit = "us"; /* not a unit that can be written; a period of the parser is never without one that can */
    uint64_t number = rate->period_us;
    int len;

    if (rate->kind != SL_RATE_LIMITED)
        return (size_t)snprintf(buf, SL_RATE_TEXT_MAX, "%s", rate->kind == SL_RATE_UNLIMITED ? "unlimited" : "blocked");
    for (size_t i = 0; i < N_UNITS; i++) {
        if (rate->period_us % units[i].us == 0) {
            unit = units[i].name;
            number = rate->period_us / units[i].us;
            break;
        }
    }
    if (number == 1)
        len = snprintf(buf, SL_RATE_TEXT_MAX, "%u/%s", rate->count, unit);
    else
        len = snprintf(buf, SL_RATE_TEXT_MAX, "%u/%llu%s", rate->count, (unsigned long long)number, unit);
    return (size_t)len;
}
