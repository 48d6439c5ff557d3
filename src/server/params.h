/* The parameters of a query, each at most once: what admin routes take. */
#ifndef SL_SERVER_PARAMS_H
#define SL_SERVER_PARAMS_H

#include "server/http.h"

/* One that a route knows. */
struct sl_param {
    const char *name;
    char *text; /* where its value goes, decoded and NUL-terminated */
    size_t size;
    size_t len; /* set when given */
    bool given;
};

/* Reads all. Returns 0, or SL_EINVALID after a 400 that names what is wrong: an unknown parameter, one that is given twice,
 * is malformed, or longer than size - 1. */
int sl_params_read(struct sl_slice query, struct sl_param *params, unsigned n, struct sl_http_response *response);

/* A whole number within the range. Returns 0, or SL_EINVALID after a 400. One that was not given leaves *ret_value. */
int sl_param_number(const struct sl_param *param, uint64_t min, uint64_t max, uint64_t *ret_value,
                    struct sl_http_response *response);

/* A moment, to Unix microseconds: RFC 3339 ("2026-01-31T12:03:04.5Z", any offset) or Unix milliseconds. Likewise. */
int sl_param_time(const struct sl_param *param, uint64_t *ret_us, struct sl_http_response *response);

#endif
