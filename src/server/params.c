#include "server/params.h"

#include "base/err.h"
#include "core/limits.h"
#include "policy/instant.h"
#include "server/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int sl_param_time(const struct sl_param *param, uint64_t *ret_us, struct sl_http_response *response)
{
    const char *why;
    uint64_t ms;

    if (!param->given)
        return 0;
    if (is_number(param)) {
        ms = strtoull(param->text, NULL, 10);
        if (ms <= SL_TIME_MAX_US / 1000) {
            *ret_us = ms * 1000;
            return 0;
        }
    } else if (sl_instant_parse(param->text, param->len, ret_us, &why) == 0) {
        return 0;
    }
    return refuse(response, param->name,
                  "A time is RFC 3339, as 2026-01-31T12:03:04Z, or Unix milliseconds; it lies after 1970.");
}
