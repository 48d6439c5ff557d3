#include "server/http1.h"

#include <assert.h>
#include <string.h>

#define METHOD_MAX 64u
#define LINE_ENDS "Lines of a request end with CR LF."

enum { PIECE_NONE, PIECE_NAME, PIECE_VALUE };

static int refuse(struct sl_http1 *h, int status, const char *detail)
{
    h->status = status;
    h->detail = detail;
    return -1; /* any other value than 0 stops the parser */
}

static inline struct sl_http1 *self(http_parser *parser)
{
    return (struct sl_http1 *)parser->data;
}

static inline uint32_t offset(const struct sl_http1 *h, const char *at)
{
    return (uint32_t)(at - h->base);
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
    struct sl_http1 *h = self(parser);

    if (!h->target_len) {
        h->target_off = offset(h, at);
        if (h->target_off < 2 || at[-2] == ' ')
            return refuse(h, 400, "One space separates method and target.");
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] <= ' ' || at[i] == 0x7f)
            return refuse(h, 400, "A control character in the request target.");
    h->target_len += (uint32_t)len;
    return 0;
}

/* A new field begins at `at`: a line that ended with CR LF lies before it. */
static int begin_field(struct sl_http1 *h, const char *at)
{
    uint32_t off = offset(h, at);

    if (off < 2 || at[-1] != '\n' || at[-2] != '\r')
        return refuse(h, 400, LINE_ENDS);
    if (h->n_fields == SL_HTTP_FIELDS_MAX)
        return refuse(h, 431, "Too many header fields.");
    h->fields[h->n_fields++] = (struct sl_http_field){.name_off = off, .value_off = off};
    return 0;
}

static int on_header_field(http_parser *parser, const char *at, size_t len)
{
    struct sl_http1 *h = self(parser);

    if (h->head_done)
        return 0; /* trailers are read and ignored */
    if (h->piece != PIECE_NAME && begin_field(h, at))
        return -1;
    for (size_t i = 0; i < len; i++)
        if (!sl_http_is_token_char((unsigned char)at[i]))
            return refuse(h, 400, "A header field's name is not a token.");
    h->fields[h->n_fields - 1].name_len += (uint32_t)len;
    h->piece = PIECE_NAME;
    h->piece_end = offset(h, at) + (uint32_t)len;
    return 0;
}

/* An empty value is reported from behind its line end: `at` is the next line. */
static int on_empty_value(struct sl_http1 *h, uint32_t off)
{
    const char *line_end = h->base + off - 2;

    if (memchr(h->base + h->piece_end, '\n', (size_t)(line_end - h->base) - h->piece_end))
        return refuse(h, 400, "A folded header line.");
    h->fields[h->n_fields - 1].value_off = off - 2;
    h->piece = PIECE_VALUE;
    h->piece_end = off - 2;
    return 0;
}

static int on_header_value(http_parser *parser, const char *at, size_t len)
{
    struct sl_http1 *h = self(parser);
    struct sl_http_field *f;
    uint32_t off = offset(h, at);

    if (h->head_done)
        return 0;
    if (!len && h->piece == PIECE_NAME)
        return off >= h->piece_end + 2 && at[-1] == '\n' && at[-2] == '\r' ? on_empty_value(h, off)
                                                                           : refuse(h, 400, LINE_ENDS);
    /* Between the pieces of one line there is no line end; a folded line has one. */
    if (off > h->piece_end && memchr(h->base + h->piece_end, '\n', off - h->piece_end))
        return refuse(h, 400, "A folded header line.");
    f = &h->fields[h->n_fields - 1];
    if (h->piece == PIECE_NAME)
        f->value_off = off;
    f->value_len = off + (uint32_t)len - f->value_off;
    h->piece = PIECE_VALUE;
    h->piece_end = off + (uint32_t)len;
    return 0;
}

static inline bool is(const struct sl_http1 *h, const struct sl_http_field *f, const char *name, size_t len)
{
    return sl_http_same_name(h->base + f->name_off, f->name_len, name, len);
}

static inline bool has_value(const struct sl_http1 *h, const struct sl_http_field *f, const char *value)
{
    return sl_http_same_name(h->base + f->value_off, f->value_len, value, strlen(value));
}

static void trim(const struct sl_http1 *h, struct sl_http_field *f)
{
    const char *value = h->base + f->value_off;

    while (f->value_len && (value[f->value_len - 1] == ' ' || value[f->value_len - 1] == '\t'))
        f->value_len--;
}

/* Fields that decide about the framing. */
static int check_fields(struct sl_http1 *h)
{
    unsigned n_hosts = 0, n_codings = 0;
    bool http_1_1 = h->parser.http_minor == 1;

    for (unsigned i = 0; i < h->n_fields; i++) {
        struct sl_http_field *f = &h->fields[i];

        trim(h, f);
        if (f->name_len == 4 && is(h, f, "host", 4)) {
            n_hosts++;
        } else if (f->name_len == 6 && is(h, f, "expect", 6)) {
            if (!has_value(h, f, "100-continue"))
                return refuse(h, 417, "The only expectation known is 100-continue.");
            h->expects_continue = http_1_1;
        } else if (f->name_len == 17 && is(h, f, "transfer-encoding", 17)) {
            n_codings++;
            if (!has_value(h, f, "chunked"))
                return refuse(h, 501, "The only transfer coding known is chunked.");
        }
    }
    if (n_codings > 1 || (n_codings && !http_1_1))
        return refuse(h, 400, http_1_1 ? "More than one Transfer-Encoding." : "Transfer-Encoding in HTTP/1.0.");
    if (n_hosts > 1 || (!n_hosts && http_1_1))
        return refuse(h, 400, n_hosts ? "More than one Host." : "No Host.");
    return 0;
}

/* The head ends in CR LF CR LF. Compared in order: the parser is content with less, and then no more has arrived. */
static bool ends_well(const char *end)
{
    return end[0] == '\r' && end[1] == '\n' && end[2] == '\r' && end[3] == '\n';
}

/* " HTTP/1.1" stands right behind the target. */
static bool has_good_request_line(const struct sl_http1 *h)
{
    const char *end = h->base + h->target_off + h->target_len;

    return end[0] == ' ' && end[1] == 'H' && (h->n_fields || ends_well(end + 9));
}

static int on_headers_complete(http_parser *parser)
{
    struct sl_http1 *h = self(parser);

    parser->upgrade = 0; /* no protocol to upgrade to: the request is answered as it is */
    if (parser->http_major != 1 || parser->http_minor > 1)
        return refuse(h, 505, "HTTP/1.0, HTTP/1.1 and HTTP/2 are spoken here.");
    if (!has_good_request_line(h) || (h->n_fields && !ends_well(h->base + h->piece_end)))
        return refuse(h, 400, LINE_ENDS);
    if (h->piece_end > h->limits->header_bytes)
        return refuse(h, 431, "The request's header is too long.");
    if (check_fields(h))
        return -1;
    if (parser->content_length != UINT64_MAX && parser->content_length > h->limits->body_bytes)
        return refuse(h, 413, "The request's body is too long.");
    h->head_done = true;
    if (parser->flags & F_CHUNKED) {
        h->is_chunked = true;
        http_parser_pause(parser, 1); /* the body is read by sl_chunked_read */
    }
    return 0;
}

static int on_body(http_parser *parser, const char *at, size_t len)
{
    struct sl_http1 *h = self(parser);

    if (!h->body_len)
        h->body_off = offset(h, at);
    h->body_len += (uint32_t)len; /* at most content_length, which was checked */
    return 0;
}

static int on_message_complete(http_parser *parser)
{
    self(parser)->complete = true;
    http_parser_pause(parser, 1); /* one request at a time */
    return 0;
}

static const http_parser_settings settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void sl_http1_init(struct sl_http1 *h, const struct sl_http1_limits *limits)
{
    http_parser_init(&h->parser, HTTP_REQUEST);
    h->parser.data = h;
    h->limits = limits;
    h->n_kept = 0;
    h->method_off = h->method_len = 0;
    h->target_off = h->target_len = 0;
    h->piece_end = 0;
    h->body_off = h->body_len = 0;
    h->n_fields = 0;
    h->piece = PIECE_NONE;
    h->chunked = (struct sl_chunked){0};
    h->odd_method = h->head_done = h->is_chunked = h->complete = h->expects_continue = h->keep_alive = false;
    h->status = 0;
    h->detail = NULL;
}

static enum sl_http1_result refused_by_parser(struct sl_http1 *h)
{
    if (!h->status) {
        enum http_errno e = HTTP_PARSER_ERRNO(&h->parser);

        h->status = e == HPE_HEADER_OVERFLOW ? 431 : e == HPE_INVALID_METHOD ? 501 : 400;
        h->detail = e == HPE_INVALID_METHOD ? "Not a method known here." : http_errno_description(e);
    }
    return SL_HTTP1_BAD;
}

static enum sl_http1_result bad(struct sl_http1 *h, int status, const char *detail)
{
    refuse(h, status, detail);
    return SL_HTTP1_BAD;
}

/* The body from block + at on. Chunk sizes and trailers behind what was gathered are not needed again. */
static enum sl_http1_result read_chunks(struct sl_http1 *h, char *block, size_t at, size_t len)
{
    const struct sl_chunked_limits limits = {h->limits->body_bytes, h->limits->header_bytes};
    size_t used = 0;

    switch (sl_chunked_read(&h->chunked, &limits, block + at, len - at, block + h->body_off, &h->body_len, &used)) {
    case SL_CHUNKED_MORE:
        h->n_kept = h->body_off + h->body_len;
        return SL_HTTP1_MORE;
    case SL_CHUNKED_DONE:
        h->n_kept = (uint32_t)(at + used);
        return SL_HTTP1_REQUEST;
    case SL_CHUNKED_BODY_LONG:
        return bad(h, 413, "The request's body is too long.");
    case SL_CHUNKED_LINE_LONG:
        return bad(h, 431, "The extensions and trailers of the request's body are too long.");
    default:
        return bad(h, 400, "The request's chunked body is malformed.");
    }
}

static enum sl_http1_result parse_rest(struct sl_http1 *h, char *block, size_t len);

/* The parser knows a list of methods only; any other token is a method too. It is read here, and the parser is told
 * another one, of which it expects the same. */
static enum sl_http1_result parse_odd(struct sl_http1 *h, char *block, size_t len)
{
    size_t at = 0, end;

    while (at < len && (block[at] == '\r' || block[at] == '\n')) /* as the parser does */
        at++;
    for (end = at; end < len && sl_http_is_token_char((unsigned char)block[end]);)
        end++;
    if (end - at > METHOD_MAX || (end < len && (end == at || block[end] != ' ')))
        return bad(h, 501, "Not a method known here.");
    if (end == len) {
        h->n_kept = (uint32_t)len;
        return SL_HTTP1_MORE;
    }
    h->method_off = (uint32_t)at;
    h->method_len = (uint32_t)(end - at);
    http_parser_execute(&h->parser, &settings, "GET ", 4);
    h->n_kept = (uint32_t)end + 1;
    return h->n_kept < len ? parse_rest(h, block, len) : SL_HTTP1_MORE; /* no bytes mean the end to the parser */
}

enum sl_http1_result sl_http1_parse(struct sl_http1 *h, char *block, size_t len)
{
    enum sl_http1_result result;

    assert(len >= h->n_kept && len < UINT32_MAX);
    if (h->is_chunked)
        return read_chunks(h, block, h->n_kept, len);
    h->base = block;
    if (h->odd_method && !h->method_len)
        return parse_odd(h, block, len);
    result = parse_rest(h, block, len);
    if (result != SL_HTTP1_BAD || h->odd_method || HTTP_PARSER_ERRNO(&h->parser) != HPE_INVALID_METHOD)
        return result;
    sl_http1_init(h, h->limits);
    h->odd_method = true;
    h->base = block;
    return parse_odd(h, block, len);
}

static enum sl_http1_result parse_rest(struct sl_http1 *h, char *block, size_t len)
{
    size_t n = h->n_kept + http_parser_execute(&h->parser, &settings, block + h->n_kept, len - h->n_kept);

    if (h->head_done)
        h->keep_alive = http_should_keep_alive(&h->parser) != 0;
    if (h->complete) {
        h->n_kept = (uint32_t)n;
        return SL_HTTP1_REQUEST;
    }
    if (h->is_chunked) {
        h->body_off = (uint32_t)n + 1; /* the parser stands on the head's last LF */
        return read_chunks(h, block, n + 1, len);
    }
    if (HTTP_PARSER_ERRNO(&h->parser) != HPE_OK)
        return refused_by_parser(h);
    h->n_kept = (uint32_t)len;
    return !h->head_done && len > h->limits->header_bytes ? bad(h, 431, "The request's header is too long.")
                                                          : SL_HTTP1_MORE;
}

void sl_http1_request(const struct sl_http1 *h, char *block, struct sl_http_request *ret_request)
{
    const char *method = h->method_len ? block + h->method_off : http_method_str((enum http_method)h->parser.method);
    size_t len = h->method_len ? h->method_len : strlen(method);

    ret_request->method = sl_http_method_of(method, len);
    ret_request->method_text = (struct sl_slice){method, len};
    ret_request->target = (struct sl_slice){block + h->target_off, h->target_len};
    ret_request->base = block;
    ret_request->fields = h->fields;
    ret_request->n_fields = h->n_fields;
    ret_request->body = block + h->body_off;
    ret_request->body_len = h->body_len;
}

#define PUT(at, text) (memcpy(at, text, sizeof(text) - 1), (at) + sizeof(text) - 1)

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *put_status(char *at, int status)
{
    const char *text;

    if (status == 200)
        return PUT(at, "HTTP/1.1 200 OK\r\nDate: ");
    text = sl_http_status_text(status);
    at = PUT(at, "HTTP/1.1 ");
    at = sl_write_int(at, status);
    *at++ = ' ';
    at = put(at, text, strlen(text));
    return PUT(at, "\r\nDate: ");
}

static char *put_headers(char *at, const struct sl_http_response *response)
{
    for (unsigned i = 0; i < response->n_headers; i++) {
        const struct sl_http_header *header = &response->headers[i];

        at = put(at, header->name, header->name_len);
        at = PUT(at, ": ");
        at = put(at, response->values.data + header->value_off, header->value_len);
        at = PUT(at, "\r\n");
    }
    return at;
}

static char *put_connection(char *at, const struct sl_http1_reply *reply)
{
    if (!reply->keep_alive)
        return PUT(at, "Connection: close\r\n");
    return reply->http_1_0 ? PUT(at, "Connection: keep-alive\r\n") : at;
}

void sl_http1_write(struct sl_buf *out, const struct sl_http_response *response, const struct sl_http1_reply *reply)
{
    /* 512: status line, date, type, length and connection lines, all of ours and bounded. */
    size_t room = 512 + response->values.len + response->body.len;
    char *at;

    for (unsigned i = 0; i < response->n_headers; i++)
        room += response->headers[i].name_len + 4;
    at = sl_buf_reserve(out, room);
    if (!at)
        return;
    at = put_status(at, response->status);
    at = put(at, reply->date, SL_HTTP_DATE_LEN);
    if (response->content_type) {
        at = PUT(at, "\r\nContent-Type: ");
        at = put(at, response->content_type, strlen(response->content_type));
    }
    at = PUT(at, "\r\nContent-Length: ");
    at = sl_write_int(at, (int64_t)response->body.len);
    at = PUT(at, "\r\n");
    at = put_headers(at, response);
    at = put_connection(at, reply);
    at = PUT(at, "\r\n");
    if (!reply->head_only && response->body.len)
        at = put(at, response->body.data, response->body.len);
    out->len = (size_t)(at - out->data);
}
