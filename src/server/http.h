/* One request and one response, the same for every protocol: what HTTP/1 and HTTP/2 hand to the routes and take from
 * them.
 *
 * A request's texts are spans of one block (`base`), so that a parser keeps offsets and the block may move while it
 * grows. All of a request and of a response belongs to the connection's loop and is valid until the handler returns. */
#ifndef SL_SERVER_HTTP_H
#define SL_SERVER_HTTP_H

#include "identity/address.h"
#include "identity/forwarded.h"
#include "server/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_HTTP_DATE_LEN 29    /* "Sun, 06 Nov 1994 08:49:37 GMT" */
#define SL_HTTP_FIELDS_MAX 100 /* header fields of a request; more: 431 */

struct sl_http_field {
    uint32_t name_off, name_len;
    uint32_t value_off, value_len; /* without space around it */
};

/* Methods as bits, so that a route can hold a set of them. */
enum sl_http_method {
    SL_HTTP_GET = 1,
    SL_HTTP_HEAD = 2,
    SL_HTTP_POST = 4,
    SL_HTTP_PUT = 8,
    SL_HTTP_DELETE = 16,
    SL_HTTP_OTHER = 32,
    SL_HTTP_ANY = 63,
};

struct sl_http_request {
    enum sl_http_method method;
    struct sl_slice method_text;
    struct sl_slice target; /* as sent: path and query */
    const char *base;
    const struct sl_http_field *fields;
    unsigned n_fields;
    char *body; /* may be changed by the handler */
    size_t body_len;
    struct sl_address peer; /* a unix socket's peer is 127.0.0.1 */
    bool trusted_channel;   /* a unix socket: its file mode is the admission, no token is asked for */
};

#define SL_HTTP_HEADERS_MAX 16

struct sl_http_header {
    const char *name; /* static, in its usual case; HTTP/2 lowers it */
    uint32_t name_len;
    uint32_t value_off, value_len; /* in `values` */
};

struct sl_http_response {
    int status;
    const char *content_type; /* static; NULL when there is no body */
    struct sl_buf body;
    struct sl_buf values;
    unsigned n_headers;
    struct sl_http_header headers[SL_HTTP_HEADERS_MAX];
};

/* Memory for one response after the other. max: the most a body may hold. */
void sl_http_response_init(struct sl_http_response *response, size_t max);
void sl_http_response_fini(struct sl_http_response *response);

/* Empties it for the next request: status 200, no headers, no body. */
static inline void sl_http_response_clear(struct sl_http_response *response)
{
    response->status = 200;
    response->content_type = NULL;
    response->n_headers = 0;
    sl_buf_clear(&response->body);
    sl_buf_clear(&response->values);
}

/* Adds a header whose value follows: append it to response->values, then call _end. A header too many is an error of
 * ours (asserted). */
void sl_http_header_begin(struct sl_http_response *response, const char *name);
void sl_http_header_end(struct sl_http_response *response);

/* The same in one step. `name` must be static. */
void sl_http_header_text(struct sl_http_response *response, const char *name, const char *value);
void sl_http_header_int(struct sl_http_response *response, const char *name, int64_t value);

/* The value of the first header of that name (any case), or a NULL text. *ret_n (may be NULL) says how many lines there
 * are. */
struct sl_slice sl_http_find(const struct sl_http_request *request, const char *name, unsigned *ret_n);

/* Values of all lines of one name in order, at most max; returns how many there are. */
size_t sl_http_find_all(const struct sl_http_request *request, const char *name, struct sl_slice *values, size_t max);

/* Path and query of the target; the query without its `?`, NULL when there is none. Absolute-form targets lose scheme
 * and authority. */
void sl_http_split_target(struct sl_slice target, struct sl_slice *ret_path, struct sl_slice *ret_query);

/* Takes the next `name=value` off the front of a query, both as sent; a name without `=` has an empty value. Returns
 * false at the end. */
bool sl_http_next_parameter(struct sl_slice *query, struct sl_slice *ret_name, struct sl_slice *ret_value);

/* Resolves percent-escapes and `+`. Returns true and the length, or false for a bad escape or when it does not fit. */
bool sl_http_decode(struct sl_slice raw, char *buf, size_t buf_size, size_t *ret_len);

/* GET ... by text. */
enum sl_http_method sl_http_method_of(const char *text, size_t len);

/* "OK", "Too Many Requests", ...; "Unknown" for a status we never send. */
const char *sl_http_status_text(int status);

/* True when both are the same text, whatever the case of ASCII letters. */
bool sl_http_same_name(const char *a, size_t a_len, const char *b, size_t b_len);

/* A character of a token (RFC 9110, 5.6.2). */
bool sl_http_is_token_char(unsigned char c);

#endif
