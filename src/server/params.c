#include "server/params.h"

#include "base/err.h"
#include "core/limits.h"
#include "server/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int refuse(struct sl_http_response *response, const char *name, const char *detail)
{
    sl_problem(response, 400, detail, name);
    return SL_EINVALID;
}

static int refuse_unknown(const struct sl_param *params, unsigned n, struct sl_http_response *response)
{
    char detail[256] = "Unknown parameter; known are ";
    size_t used = strlen(detail);

    for (unsigned i = 0; i < n; i++)
        used += (size_t)snprintf(detail + used, sizeof detail - used, "%s%s", params[i].name,
                                 i + 1 == n   ? "."
                                 : i + 2 == n ? " and "
                                              : ", ");
    return refuse(response, NULL, detail);
}

static struct sl_param *find(struct sl_param *params, unsigned n, struct sl_slice name)
{
    for (unsigned i = 0; i < n; i++)
        if (name.len == strlen(params[i].name) && !memcmp(name.text, params[i].name, name.len))
            return &params[i];
    return NULL;
}

int sl_params_read(struct sl_slice query, struct sl_param *params, unsigned n, struct sl_http_response *response)
{
    struct sl_slice name, value;

    while (sl_http_next_parameter(&query, &name, &value)) {
        struct sl_param *param = find(params, n, name);

        if (!param)
            return refuse_unknown(params, n, response);
        if (param->given || !sl_http_decode(value, param->text, param->size - 1, &param->len))
            return refuse(response, param->name, "This parameter is malformed, too long, or given twice.");
        param->text[param->len] = '\0';
        param->given = true;
    }
    return 0;
}

/* Digits and nothing else. */
static bool is_number(const struct sl_param *param)
{
    return param->len > 0 && param->len < 19 && strspn(param->text, "0123456789") == param->len;
}

int sl_param_number(const struct sl_param *param, uint64_t min, uint64_t max, uint64_t *ret_value,
                    struct sl_http_response *response)
{
    uint64_t value = param->given && is_number(param) ? strtoull(param->text, NULL, 10) : 0;
    char detail[128];

    if (!param->given)
        return 0;
    if (!is_number(param) || value < min || value > max) {
        snprintf(detail, sizeof detail, "`%s` must be a whole number between %llu and %llu.", param->name,
                 (unsigned long long)min, (unsigned long long)max);
        return refuse(response, param->name, detail);
    }
    *ret_value = value;
    return 0;
}

/* ".25": the microseconds, and the end in *text. */
static uint64_t read_fraction(const char **text)
{
    uint64_t us = 0, unit = 100000;

    if (**text != '.')
        return 0;
    for (++*text; **text >= '0' && **text <= '9'; ++*text, unit /= 10)
        us += (uint64_t)(**text - '0') * unit;
    return us;
}

/* -1: it is no such number. */
static int two_digits(const char *text)
{
    if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
        return -1;
    return (text[0] - '0') * 10 + text[1] - '0';
}

/* "Z", "+02:00": the seconds to take away; false for anything else, and for more behind it. */
static bool read_offset(const char *text, int64_t *ret_s)
{
    int hours, minutes;

    *ret_s = 0;
    if ((*text == 'Z' || *text == 'z') && !text[1])
        return true;
    if ((*text != '+' && *text != '-') || strlen(text) != 6 || text[3] != ':')
        return false;
    hours = two_digits(text + 1);
    minutes = two_digits(text + 4);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
        return false;
    *ret_s = (int64_t)(hours * 3600 + minutes * 60) * (*text == '-' ? -1 : 1);
    return true;
}

static bool read_time(const char *text, uint64_t *ret_us)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t offset_s, s;
    uint64_t us;

    if (!rest)
        return false;
    us = read_fraction(&rest);
    if (!read_offset(rest, &offset_s))
        return false;
    s = (int64_t)timegm(&tm) - offset_s;
    if (s < 0 || (uint64_t)s > SL_TIME_MAX_US / 1000000)
        return false;
    *ret_us = (uint64_t)s * 1000000 + us;
    return true;
}

int sl_param_time(const struct sl_param *param, uint64_t *ret_us, struct sl_http_response *response)
{
    uint64_t ms;

    if (!param->given)
        return 0;
    if (is_number(param)) {
        ms = strtoull(param->text, NULL, 10);
        if (ms <= SL_TIME_MAX_US / 1000) {
            *ret_us = ms * 1000;
            return 0;
        }
    } else if (read_time(param->text, ret_us)) {
        return 0;
    }
    return refuse(response, param->name,
                  "A time is RFC 3339, as 2026-01-31T12:03:04Z, or Unix milliseconds; it lies after 1970.");
}
