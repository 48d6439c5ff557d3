#include "server/http2.h"

#include "server/problem.h"

#include "base/err.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW (256 << 10)  /* flow-control window of a stream and of the connection */
#define RESETS_FREE 200u    /* resets a client has free before they are compared with its finished requests */
#define NAME_MAX_LOWERED 64 /* our own header names are shorter */

struct stream {
    struct stream *next, *prev;
    int32_t id;
    bool complete; /* the request is whole, or refused */
    bool waiting;  /* whole, and answered when there is room for the answer */
    bool pending;  /* its answer will come by sl_http2_answer */
    int refused;   /* a status, 0: none */
    enum sl_http_method method;
    uint32_t method_off, method_len, target_off, target_len;
    unsigned n_fields;
    struct sl_http_field fields[SL_HTTP_FIELDS_MAX];
    struct sl_buf head; /* texts of method, target and fields */
    struct sl_buf body;
    struct sl_buf reply;
    size_t reply_sent;
    size_t reserved; /* pending: what its answer counts already */
};

struct sl_http2 {
    nghttp2_session *session;
    struct sl_http2_host host;
    struct stream streams; /* list head */
    unsigned n_streams, n_incomplete, n_waiting, n_pending;
    uint64_t n_answered, n_resets;
    size_t body_bytes;  /* in bodies of requests that are not answered */
    size_t reply_bytes; /* in answers of open streams, those to come included */
    size_t n_untaken;   /* the part of them that is in no frame yet */
    uint64_t n_taken;
};

static struct stream *stream_new(struct sl_http2 *h2, int32_t id)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->id = id;
    s->head = sl_buf_make(h2->host.header_bytes);
    s->body = sl_buf_make(h2->host.body_bytes);
    s->reply = sl_buf_make(SIZE_MAX / 2);
    s->next = &h2->streams;
    s->prev = h2->streams.prev;
    s->prev->next = s->next->prev = s;
    h2->n_streams++;
    h2->n_incomplete++;
    return s;
}

/* The request will get no further. */
static void complete(struct sl_http2 *h2, struct stream *s)
{
    if (s->complete)
        return;
    s->complete = true;
    h2->n_incomplete--;
}

/* Gives back what the request took; it was answered, or its stream is gone. */
static void drop_request(struct sl_http2 *h2, struct stream *s)
{
    h2->n_waiting -= s->waiting;
    s->waiting = false;
    h2->body_bytes -= s->body.len;
    sl_buf_fini(&s->head);
    sl_buf_fini(&s->body);
}

static void begin_pending(struct sl_http2 *h2, struct stream *s, size_t bytes)
{
    s->pending = true;
    s->reserved = bytes;
    h2->n_pending++;
    h2->reply_bytes += bytes;
}

static void end_pending(struct sl_http2 *h2, struct stream *s)
{
    h2->n_pending -= s->pending;
    h2->reply_bytes -= s->reserved;
    s->pending = false;
    s->reserved = 0;
}

static void stream_free(struct sl_http2 *h2, struct stream *s)
{
    complete(h2, s);
    drop_request(h2, s);
    end_pending(h2, s);
    s->next->prev = s->prev;
    s->prev->next = s->next;
    h2->n_streams--;
    h2->reply_bytes -= s->reply.len;
    h2->n_untaken -= s->reply.len - s->reply_sent;
    sl_buf_fini(&s->reply);
    free(s);
}

static ssize_t on_reply_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size, uint32_t *flags,
                             nghttp2_data_source *source, void *ctx)
{
    struct stream *s = source->ptr;
    struct sl_http2 *h2 = ctx;
    size_t n = s->reply.len - s->reply_sent;

    (void)session;
    (void)id;
    if (n > size)
        n = size;
    else
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    memcpy(buf, s->reply.data + s->reply_sent, n);
    s->reply_sent += n;
    h2->n_untaken -= n;
    h2->n_taken += n;
    return (ssize_t)n;
}

static nghttp2_nv pair(const char *name, size_t name_len, const char *value, size_t value_len)
{
    /* nghttp2 copies both; its struct has no const. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len, value_len, 0};
}

/* Names are ours, ASCII and short; HTTP/2 wants them in lower case. */
static nghttp2_nv pair_of(const struct sl_http_response *r, const struct sl_http_header *h,
                          char lowered[NAME_MAX_LOWERED])
{
    assert(h->name_len < NAME_MAX_LOWERED);
    for (uint32_t i = 0; i < h->name_len; i++)
        lowered[i] = (char)(h->name[i] >= 'A' && h->name[i] <= 'Z' ? h->name[i] | 0x20 : h->name[i]);
    return pair(lowered, h->name_len, r->values.data + h->value_off, h->value_len);
}

static int submit(struct sl_http2 *h2, struct stream *s, const struct sl_http_response *r)
{
    nghttp2_nv nv[SL_HTTP_HEADERS_MAX + 4];
    char names[SL_HTTP_HEADERS_MAX][NAME_MAX_LOWERED], status[20], length[20];
    nghttp2_data_provider source = {.source.ptr = s, .read_callback = on_reply_read};
    size_t n = 0;

    nv[n++] = pair(":status", 7, status, (size_t)(sl_write_int(status, r->status) - status));
    nv[n++] = pair("date", 4, h2->host.date(h2->host.ctx), SL_HTTP_DATE_LEN);
    if (r->content_type)
        nv[n++] = pair("content-type", 12, r->content_type, strlen(r->content_type));
    nv[n++] = pair("content-length", 14, length, (size_t)(sl_write_int(length, (int64_t)r->body.len) - length));
    for (unsigned i = 0; i < r->n_headers; i++)
        nv[n++] = pair_of(r, &r->headers[i], names[i]);
    if (s->method != SL_HTTP_HEAD)
        sl_buf_add(&s->reply, r->body.data, r->body.len);
    if (s->reply.failed)
        return NGHTTP2_ERR_NOMEM;
    h2->reply_bytes += s->reply.len;
    h2->n_untaken += s->reply.len;
    h2->n_answered++;
    return nghttp2_submit_response(h2->session, s->id, nv, n, s->reply.len ? &source : NULL);
}

static int answer(struct sl_http2 *h2, struct stream *s)
{
    static char no_body[1];
    struct sl_http_response *response = h2->host.response;
    size_t bytes = 0;
    bool now = true;
    struct sl_http_request request = {
        .method = s->method,
        .method_text = {s->head.data + s->method_off, s->method_len},
        .target = {s->head.data + s->target_off, s->target_len},
        .base = s->head.data,
        .fields = s->fields,
        .n_fields = s->n_fields,
        .body = s->body.data ? s->body.data : no_body,
        .body_len = s->body.len,
    };

    complete(h2, s);
    sl_http_response_clear(response);
    if (s->refused)
        sl_problem(response, s->refused,
                   s->refused == 413   ? "The request's body is too long."
                   : s->refused == 431 ? "The request's header is too long."
                                       : "The request's target is not a path.",
                   NULL);
    else
        now = h2->host.handle(h2->host.ctx, s->id, &request, response, &bytes);
    drop_request(h2, s);
    if (!now) {
        begin_pending(h2, s, bytes);
        return 0;
    }
    return submit(h2, s, response) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static bool has_room(const struct sl_http2 *h2)
{
    return h2->reply_bytes < h2->host.out_bytes;
}

/* The request is whole, or refused. A client that does not take its answers must not make us hold ever more of them:
 * its next requests wait, undecided. */
static int on_request(struct sl_http2 *h2, struct stream *s)
{
    if (s->refused || (has_room(h2) && !h2->n_waiting))
        return answer(h2, s);
    complete(h2, s);
    s->waiting = true;
    h2->n_waiting++;
    return 0;
}

/* Answers requests that wait, oldest first, as long as there is room. */
static int answer_waiting(struct sl_http2 *h2)
{
    for (struct stream *s = h2->streams.next; s != &h2->streams && h2->n_waiting && has_room(h2); s = s->next)
        if (s->waiting && answer(h2, s))
            return SL_EINVALID;
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct sl_http2 *h2 = ctx;
    struct stream *s;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    s = stream_new(h2, frame->hd.stream_id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    return 0;
}

static uint32_t keep(struct stream *s, const uint8_t *text, size_t len)
{
    uint32_t off = (uint32_t)s->head.len;

    sl_buf_add(&s->head, text, len);
    return off;
}

static void keep_pseudo(struct stream *s, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len)
{
    if (name_len == 7 && !memcmp(name, ":method", 7)) {
        s->method = sl_http_method_of((const char *)value, len);
        s->method_off = keep(s, value, len);
        s->method_len = (uint32_t)len;
    } else if (name_len == 5 && !memcmp(name, ":path", 5)) {
        s->target_off = keep(s, value, len);
        s->target_len = (uint32_t)len;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t len, uint8_t flags, void *ctx)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct sl_http_field *f;

    (void)flags;
    (void)ctx;
    if (!s || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST || s->refused)
        return 0; /* trailers are read and ignored */
    if (name_len && name[0] == ':') {
        keep_pseudo(s, name, name_len, value, len);
    } else if (s->n_fields < SL_HTTP_FIELDS_MAX) {
        f = &s->fields[s->n_fields++];
        f->name_len = (uint32_t)name_len;
        f->value_len = (uint32_t)len;
        f->name_off = keep(s, name, name_len);
        f->value_off = keep(s, value, len);
    } else {
        s->refused = 431;
    }
    if (s->head.failed)
        s->refused = 431;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *ctx)
{
    struct sl_http2 *h2 = ctx;
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    if (!s || s->complete)
        return 0;
    if (h2->body_bytes + len > 2 * (size_t)h2->host.body_bytes) {
        s->refused = 413;
        return answer(h2, s);
    }
    sl_buf_add(&s->body, data, len);
    if (s->body.failed) {
        s->refused = 413;
        return answer(h2, s);
    }
    h2->body_bytes += len;
    return 0;
}

static int on_reset(struct sl_http2 *h2)
{
    h2->n_resets++;
    if (h2->n_resets > RESETS_FREE && h2->n_resets > h2->n_answered)
        return nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
    return 0;
}

/* A request target is a path (or `*`), without control characters. */
static bool target_is_good(const struct stream *s)
{
    const char *target = s->head.data + s->target_off;

    if (!s->target_len || (target[0] != '/' && target[0] != '*'))
        return false;
    for (uint32_t i = 0; i < s->target_len; i++)
        if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f)
            return false;
    return true;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct sl_http2 *h2 = ctx;
    struct stream *s;

    if (frame->hd.type == NGHTTP2_RST_STREAM)
        return on_reset(h2) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s || s->complete)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !s->refused && !target_is_good(s))
        s->refused = 400;
    return s->refused || frame->hd.flags & NGHTTP2_FLAG_END_STREAM ? on_request(h2, s) : 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *ctx)
{
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    if (s)
        stream_free(ctx, s);
    return 0;
}

static nghttp2_session *session_new(struct sl_http2 *h2)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        nghttp2_option_set_max_outbound_ack(option, 100);
        nghttp2_option_set_max_settings(option, 32);
        nghttp2_option_set_no_closed_streams(option, 1);
        if (nghttp2_session_server_new2(&session, callbacks, h2, option) != 0)
            session = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

struct sl_http2 *sl_http2_new(const struct sl_http2_host *host)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, host->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, host->header_bytes},
    };
    struct sl_http2 *h2 = calloc(1, sizeof *h2);

    if (!h2)
        return NULL;
    h2->host = *host;
    h2->streams.next = h2->streams.prev = &h2->streams;
    h2->session = session_new(h2);
    if (!h2->session || nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3) != 0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, WINDOW) != 0) {
        sl_http2_free(h2);
        return NULL;
    }
    return h2;
}

void sl_http2_free(struct sl_http2 *h2)
{
    if (!h2)
        return;
    for (struct stream *s = h2->streams.next, *next; s != &h2->streams; s = next) {
        next = s->next;
        stream_free(h2, s);
    }
    nghttp2_session_del(h2->session);
    free(h2);
}

int sl_http2_feed(struct sl_http2 *h2, const char *data, size_t len)
{
    ssize_t n = nghttp2_session_mem_recv(h2->session, (const uint8_t *)data, len);

    if (n >= 0)
        return 0;
    nghttp2_session_terminate_session(h2->session, NGHTTP2_PROTOCOL_ERROR); /* for what nghttp2 itself says nothing */
    return SL_EINVALID;
}

int sl_http2_answer(struct sl_http2 *h2, int32_t stream, const struct sl_http_response *response)
{
    struct stream *s = nghttp2_session_get_stream_user_data(h2->session, stream);

    if (!s || !s->pending)
        return SL_ENOTFOUND;
    end_pending(h2, s);
    return submit(h2, s, response) ? SL_ENOMEM : 0;
}

int sl_http2_fill(struct sl_http2 *h2, struct sl_buf *out, size_t limit)
{
    while (out->len < limit) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(h2->session, &data);

        if (n > 0)
            sl_buf_add(out, data, (size_t)n);
        else if (n == 0 && (!h2->n_waiting || !has_room(h2)))
            break;
        else if (n < 0 || answer_waiting(h2))
            return SL_EINVALID;
    }
    return out->failed ? SL_ENOMEM : 0;
}

bool sl_http2_is_done(struct sl_http2 *h2)
{
    return !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

unsigned sl_http2_n_streams(const struct sl_http2 *h2)
{
    return h2->n_streams;
}

unsigned sl_http2_n_pending(const struct sl_http2 *h2)
{
    return h2->n_pending;
}

unsigned sl_http2_n_incomplete(const struct sl_http2 *h2)
{
    return h2->n_incomplete;
}

uint64_t sl_http2_n_answered(const struct sl_http2 *h2)
{
    return h2->n_answered;
}

size_t sl_http2_n_untaken(const struct sl_http2 *h2)
{
    return h2->n_untaken;
}

uint64_t sl_http2_n_taken(const struct sl_http2 *h2)
{
    return h2->n_taken;
}

void sl_http2_goaway(struct sl_http2 *h2, bool final)
{
    if (final)
        nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2->session),
                              NGHTTP2_NO_ERROR, NULL, 0);
    else
        nghttp2_submit_shutdown_notice(h2->session);
}
