#include "server/http.h"

#include <assert.h>
#include <string.h>

#define VALUES_MAX (16u << 10)

void sl_http_response_init(struct sl_http_response *response, size_t max)
{
    response->body = sl_buf_make(max);
    response->values = sl_buf_make(VALUES_MAX);
    sl_http_response_clear(response);
}

void sl_http_response_fini(struct sl_http_response *response)
{
    sl_buf_fini(&response->body);
    sl_buf_fini(&response->values);
}

void sl_http_header_begin(struct sl_http_response *response, const char *name)
{
    struct sl_http_header *h = &response->headers[response->n_headers];

    assert(response->n_headers < SL_HTTP_HEADERS_MAX);
    h->name = name;
    h->name_len = (uint32_t)strlen(name);
    h->value_off = (uint32_t)response->values.len;
}

void sl_http_header_end(struct sl_http_response *response)
{
    struct sl_http_header *h = &response->headers[response->n_headers++];

    h->value_len = (uint32_t)response->values.len - h->value_off;
}

void sl_http_header_text(struct sl_http_response *response, const char *name, const char *value)
{
    sl_http_header_begin(response, name);
    sl_buf_text(&response->values, value);
    sl_http_header_end(response);
}

void sl_http_header_int(struct sl_http_response *response, const char *name, int64_t value)
{
    sl_http_header_begin(response, name);
    sl_buf_int(&response->values, value);
    sl_http_header_end(response);
}

static inline unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

bool sl_http_same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t i = 0; i < a_len; i++)
        if (lower((unsigned char)a[i]) != lower((unsigned char)b[i]))
            return false;
    return true;
}

size_t sl_http_find_all(const struct sl_http_request *request, const char *name, struct sl_slice *values, size_t max)
{
    size_t n = 0, len = strlen(name);

    for (unsigned i = 0; i < request->n_fields; i++) {
        const struct sl_http_field *f = &request->fields[i];

        if (f->name_len != len || !sl_http_same_name(request->base + f->name_off, f->name_len, name, len))
            continue;
        if (n < max)
            values[n] = (struct sl_slice){request->base + f->value_off, f->value_len};
        n++;
    }
    return n;
}

struct sl_slice sl_http_find(const struct sl_http_request *request, const char *name, unsigned *ret_n)
{
    struct sl_slice value = {NULL, 0};
    size_t n = sl_http_find_all(request, name, &value, 1);

    if (ret_n)
        *ret_n = (unsigned)n;
    return value;
}

void sl_http_split_target(struct sl_slice target, struct sl_slice *ret_path, struct sl_slice *ret_query)
{
    const char *at = target.text, *end = at + target.len, *mark, *scheme;

    if ((mark = memchr(at, '#', target.len)))
        end = mark;
    mark = memchr(at, '?', (size_t)(end - at));
    *ret_query = mark ? (struct sl_slice){mark + 1, (size_t)(end - mark - 1)} : (struct sl_slice){NULL, 0};
    if (mark)
        end = mark;
    /* The authority ends at the query too: `http://host?/check` asks for no path at all. */
    if (at < end && at[0] != '/' && (scheme = memmem(at, (size_t)(end - at), "://", 3))) {
        const char *slash = memchr(scheme + 3, '/', (size_t)(end - scheme - 3));

        at = slash ? slash : end;
    }
    *ret_path = (struct sl_slice){at, (size_t)(end - at)};
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool sl_http_decode(struct sl_slice raw, char *buf, size_t buf_size, size_t *ret_len)
{
    const char *end = raw.text + raw.len;
    size_t n = 0;

    for (const char *at = raw.text; at < end; at++) {
        char c = *at == '+' ? ' ' : *at;

        if (n == buf_size)
            return false;
        if (c == '%') {
            int high = end - at > 2 ? hex_digit(at[1]) : -1, low = high >= 0 ? hex_digit(at[2]) : -1;

            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            at += 2;
        }
        buf[n++] = c;
    }
    *ret_len = n;
    return true;
}

bool sl_http_next_parameter(struct sl_slice *query, struct sl_slice *ret_name, struct sl_slice *ret_value)
{
    const char *at = query->text, *end = query->len ? at + query->len : at, *stop, *equals; /* none may be NULL */

    while (query->len && *at == '&')
        at++, query->len--;
    if (!query->len)
        return false;
    stop = memchr(at, '&', query->len);
    if (!stop)
        stop = end;
    equals = memchr(at, '=', (size_t)(stop - at));
    *ret_name = (struct sl_slice){at, (size_t)((equals ? equals : stop) - at)};
    *ret_value = equals ? (struct sl_slice){equals + 1, (size_t)(stop - equals - 1)} : (struct sl_slice){stop, 0};
    *query = (struct sl_slice){stop, (size_t)(end - stop)};
    return true;
}

enum sl_http_method sl_http_method_of(const char *text, size_t len)
{
    static const struct {
        const char *name;
        enum sl_http_method method;
    } methods[] = {{"POST", SL_HTTP_POST},
                   {"GET", SL_HTTP_GET},
                   {"HEAD", SL_HTTP_HEAD},
                   {"PUT", SL_HTTP_PUT},
                   {"DELETE", SL_HTTP_DELETE}};

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strlen(methods[i].name) == len && !memcmp(methods[i].name, text, len))
            return methods[i].method;
    return SL_HTTP_OTHER;
}

const char *sl_http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Unknown";
}

bool sl_http_is_token_char(unsigned char c)
{
    static const uint8_t token[256] = {
        ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
        ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
        ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
    };

    return token[c];
}
