/* What a connection does with bytes: chooses the protocol, serves the requests, sends the answers. */
#include "server/conn_internal.h"

#include "server/problem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void serve(struct sl_http_conn *conn, char *data, size_t len);

/* ---- HTTP/1 ---- */

static void answer_http1(struct sl_http_conn *conn, char *block)
{
    struct sl_worker *w = conn->worker;
    struct sl_http_request request = {.peer = conn->peer, .trusted_channel = conn->is_unix};
    struct sl_http_conn_asker asker = {.base.later = sl_http_conn_later, .conn = conn};
    struct sl_http1_reply *reply = &asker.reply;

    sl_http1_request(&conn->h1, block, &request);
    reply->http_1_0 = conn->h1.parser.http_minor == 0;
    reply->keep_alive = conn->h1.keep_alive && !w->stopping;
    reply->head_only = request.method == SL_HTTP_HEAD;
    sl_http_response_clear(&w->response);
    if (!sl_route(&w->service, (enum sl_listener_kind)conn->kind, &request, &asker.base, &w->response)) {
        conn->waits = true;
        return;
    }
    reply->date = sl_worker_date(w);
    sl_http1_write(&w->out, &w->response, reply);
    conn->closing = !reply->keep_alive;
}

/* An answer to what is no request, after which the connection ends. */
void sl_http_conn_refuse(struct sl_http_conn *conn, int status, const char *detail)
{
    struct sl_worker *w = conn->worker;
    struct sl_http1_reply reply = {.date = sl_worker_date(w)};

    sl_http_response_clear(&w->response);
    sl_problem(&w->response, status, detail, NULL);
    sl_http1_write(&w->out, &w->response, &reply);
    sl_route_count_refusal(&w->service, status);
    conn->closing = true;
}

static void begin_partial(struct sl_http_conn *conn)
{
    if (!conn->partial)
        conn->begun_ms = sl_worker_now(conn->worker);
    conn->partial = true;
}

/* How far a block was used, and how many bytes behind that must be kept for later. */
struct progress {
    size_t used, kept;
};

/* The request is not complete: tells a client that waits for it to go on. */
static void wait_for_more(struct sl_http_conn *conn, size_t left, struct progress *p)
{
    p->kept = conn->h1.n_kept;
    if (!left)
        return;
    begin_partial(conn);
    if (conn->h1.head_done && conn->h1.expects_continue) {
        conn->h1.expects_continue = false;
        sl_buf_add(&conn->worker->out, CONTINUE, sizeof CONTINUE - 1);
    }
}

static struct progress serve_http1(struct sl_http_conn *conn, char *data, size_t len)
{
    struct progress p = {0, 0};

    while (!conn->closing) {
        if (conn->waits || conn->worker->out.len >= conn->worker->limits->out_bytes) {
            p.kept = len - p.used; /* requests that wait until the answers are there, or out */
            return p;
        }
        switch (sl_http1_parse(&conn->h1, data + p.used, len - p.used)) {
        case SL_HTTP1_MORE:
            wait_for_more(conn, len - p.used, &p);
            return p;
        case SL_HTTP1_REQUEST:
            answer_http1(conn, data + p.used);
            p.used += conn->h1.n_kept;
            conn->partial = false;
            sl_http1_init(&conn->h1, &conn->worker->http1_limits);
            break;
        case SL_HTTP1_BAD:
            sl_count(&conn->worker->service.counters.malformed, 1);
            sl_http_conn_refuse(conn, conn->h1.status, conn->h1.detail);
            break;
        }
        if (p.used == len)
            break;
    }
    return p;
}

/* ---- HTTP/2 ---- */

static bool handle_http2(void *ctx, int32_t stream, const struct sl_http_request *request,
                         struct sl_http_response *response, size_t *ret_bytes)
{
    struct sl_http_conn *conn = ctx;
    struct sl_http_conn_asker asker = {.base.later = sl_http_conn_later, .conn = conn, .stream = stream};
    struct sl_http_request own = *request;
    bool now;

    own.peer = conn->peer;
    own.trusted_channel = conn->is_unix;
    now = sl_route(&conn->worker->service, (enum sl_listener_kind)conn->kind, &own, &asker.base, response);
    *ret_bytes = asker.answer_bytes;
    return now;
}

static const char *date_http2(void *ctx)
{
    return sl_worker_date(((struct sl_http_conn *)ctx)->worker);
}

static bool begin_http2(struct sl_http_conn *conn)
{
    const struct sl_server_limits *limits = conn->worker->limits;
    struct sl_http2_host host = {
        .ctx = conn,
        .handle = handle_http2,
        .date = date_http2,
        .response = &conn->worker->response,
        .max_streams = limits->max_streams,
        .header_bytes = limits->header_bytes,
        .body_bytes = limits->body_bytes,
        .out_bytes = limits->out_bytes,
    };

    conn->h2 = sl_http2_new(&host);
    conn->state = SL_HTTP_CONN_HTTP2;
    if (conn->h2 && conn->worker->stopping)
        sl_http2_goaway(conn->h2, false);
    return conn->h2 != NULL;
}

/* Answers that wait for the client's window are given up when it lets nothing through for too long; that it sends other
 * frames meanwhile does not count. */
static void note_taken(struct sl_http_conn *conn)
{
    uint64_t n = sl_http2_n_taken(conn->h2);

    if (n != conn->n_taken || !sl_http2_n_untaken(conn->h2))
        conn->taken_ms = sl_worker_now(conn->worker);
    conn->n_taken = n;
}

/* Moves frames to the worker's buffer and sends them, until nothing waits or the socket is full. Returns false when the
 * connection was closed. */
static bool pump_http2(struct sl_http_conn *conn)
{
    struct sl_buf *out = &conn->worker->out;

    do {
        if (sl_http2_fill(conn->h2, out, conn->worker->limits->out_bytes))
            conn->closing = true;
        if (!out->len)
            break;
        if (!sl_http_conn_flush(conn))
            return false;
    } while (!conn->out.len && !conn->closing);
    note_taken(conn);
    if (sl_http2_is_done(conn->h2))
        conn->closing = true;
    return true;
}

static void serve_http2(struct sl_http_conn *conn, const char *data, size_t len)
{
    if (sl_http2_feed(conn->h2, data, len)) {
        sl_count(&conn->worker->service.counters.malformed, 1);
        conn->closing = true;
    }
    /* A request that stays incomplete while others complete does not hold the deadline off for ever: it starts anew
     * only when something was answered. */
    if (!sl_http2_n_incomplete(conn->h2)) {
        conn->partial = false;
    } else {
        if (sl_http2_n_answered(conn->h2) != conn->n_answered)
            conn->partial = false;
        begin_partial(conn);
    }
    conn->n_answered = sl_http2_n_answered(conn->h2);
}

/* ---- in ---- */

/* Chooses the protocol. Returns false while too little has arrived. */
static bool sniff(struct sl_http_conn *conn, const char *data, size_t len)
{
    size_t n = len < SL_HTTP2_PREFACE_LEN ? len : SL_HTTP2_PREFACE_LEN;
    bool h2 = memcmp(data, SL_HTTP2_PREFACE, n) == 0;

    if (h2 && n < 3) /* no method of HTTP/1 begins with PRI */
        return false;
    if (!h2) {
        conn->state = SL_HTTP_CONN_HTTP1;
        return true;
    }
    if (!begin_http2(conn))
        conn->closing = true;
    return true;
}

/* Keeps `kept` bytes at data + used in conn->in. */
static void keep_rest(struct sl_http_conn *conn, const char *data, struct progress p)
{
    if (conn->in.len) {
        conn->in.len = p.used + p.kept;
        sl_buf_drop(&conn->in, p.used);
    } else {
        sl_buf_add(&conn->in, data + p.used, p.kept);
    }
    if (!conn->in.len)
        sl_buf_fini(&conn->in);
    if (conn->in.failed)
        conn->closing = true;
}

/* Serves one block of plaintext: conn->in, or bytes just read while conn->in is empty. */
static void serve(struct sl_http_conn *conn, char *data, size_t len)
{
    struct progress p = {len, 0};

    if (conn->state == SL_HTTP_CONN_SNIFF && !sniff(conn, data, len)) {
        p = (struct progress){0, len};
        begin_partial(conn);
    } else if (conn->state == SL_HTTP_CONN_HTTP1) {
        p = serve_http1(conn, data, len);
    } else if (conn->state == SL_HTTP_CONN_HTTP2 && conn->h2) {
        serve_http2(conn, data, len);
    }
    keep_rest(conn, data, p);
}

/* Sends what serving has produced, and serves requests that had to wait for room, until an answer waits to be sent or
 * nothing is left to do. Returns false when the connection was closed. */
bool sl_http_conn_settle(struct sl_http_conn *conn)
{
    for (;;) {
        if (!(conn->h2 ? pump_http2(conn) : sl_http_conn_flush(conn)))
            return false;
        if (conn->out.len || conn->closing || conn->partial || conn->waits || !conn->in.len ||
            conn->state >= SL_HTTP_CONN_LINGER)
            break;
        serve(conn, conn->in.data, conn->in.len); /* answers one at least, or will, or finds it partial or bad */
    }
    if (conn->eof && !conn->out.len && !sl_http_conn_is_pending(conn))
        conn->closing = true;
    return true;
}

/* The end of every turn: closes what is to be closed, else waits for what comes next. */
void sl_http_conn_finish(struct sl_http_conn *conn)
{
    if (conn->closing && !conn->out.len) {
        if (conn->tls && conn->state != SL_HTTP_CONN_LINGER) {
            sl_tls_goodbye(conn->tls, &conn->out);
            if (!sl_http_conn_send_waiting(conn))
                return;
            sl_buf_fini(&conn->out); /* an alert that does not fit is not waited for */
        }
        sl_http_conn_end(conn);
    }
    sl_http_conn_rearm(conn);
}

/* Decrypts and serves what has arrived, block by block. */
static void read_tls(struct sl_http_conn *conn)
{
    struct sl_worker *w = conn->worker;

    while (conn->state < SL_HTTP_CONN_LINGER && !conn->closing && !conn->out.len && !conn->waits) {
        char *at = conn->in.len ? sl_buf_reserve(&conn->in, SL_READ_BYTES / 4) : w->read_buf;
        long n = at ? sl_tls_read(conn->tls, at, SL_READ_BYTES / 4, &conn->out) : SL_TLS_BROKEN;

        if (n == SL_TLS_CLOSED)
            conn->eof = true, conn->closing = !sl_http_conn_is_pending(conn);
        else if (n == SL_TLS_BROKEN)
            conn->closing = true;
        if (n <= 0)
            break;
        if (conn->state == SL_HTTP_CONN_SNIFF && sl_tls_is_h2(conn->tls) && !begin_http2(conn)) {
            sl_http_conn_close(conn);
            return;
        }
        if (conn->in.len)
            conn->in.len += (size_t)n;
        serve(conn, conn->in.len ? conn->in.data : at, conn->in.len ? conn->in.len : (size_t)n);
        if (!sl_http_conn_settle(conn))
            return;
    }
    if (sl_http_conn_send_waiting(conn))
        sl_http_conn_finish(conn);
}

static void on_end_of_input(struct sl_http_conn *conn)
{
    conn->eof = true;
    /* A whole request that waits, here or for its answer, is still answered; a partial one never will be. */
    if (conn->state == SL_HTTP_CONN_LINGER || (!sl_http_conn_is_pending(conn) && (conn->partial || !conn->in.len)))
        sl_http_conn_close(conn);
    else if (sl_http_conn_settle(conn))
        sl_http_conn_finish(conn);
}

static void on_readable(struct sl_http_conn *conn)
{
    struct sl_worker *w = conn->worker;
    bool append = conn->in.len && !conn->tls;
    char *at;
    ssize_t n;

    if (conn->waits) { /* what comes now waits in the socket */
        conn->deaf = true;
        sl_http_conn_rearm(conn);
        return;
    }
    at = append ? sl_buf_reserve(&conn->in, SL_READ_BYTES / 4) : w->read_buf;
    if (!at) {
        sl_http_conn_close(conn);
        return;
    }
    n = recv(conn->fd, at, append ? SL_READ_BYTES / 4 : SL_READ_BYTES, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            sl_http_conn_close(conn);
        return;
    }
    if (n == 0) {
        on_end_of_input(conn);
        return;
    }
    if (conn->state == SL_HTTP_CONN_LINGER)
        return;
    if (conn->tls) {
        if (sl_tls_feed(conn->tls, at, (size_t)n))
            sl_http_conn_close(conn);
        else
            read_tls(conn);
        return;
    }
    if (append)
        conn->in.len += (size_t)n;
    serve(conn, append ? conn->in.data : at, append ? conn->in.len : (size_t)n);
    if (sl_http_conn_settle(conn))
        sl_http_conn_finish(conn);
}

static void on_writable(struct sl_http_conn *conn)
{
    if (!sl_http_conn_send_waiting(conn))
        return;
    if (conn->out.len) {
        sl_http_conn_rearm(conn);
        return;
    }
    sl_http_conn_go_on(conn);
}

void sl_http_conn_go_on(struct sl_http_conn *conn)
{
    if (!sl_http_conn_settle(conn))
        return;
    if (conn->tls && !conn->out.len && !conn->closing && !conn->eof)
        read_tls(conn); /* what had to wait in there */
    else
        sl_http_conn_finish(conn);
}

void sl_http_conn_on_ready(uv_poll_t *handle, int status, int events)
{
    struct sl_http_conn *conn = (struct sl_http_conn *)handle;

    if (status < 0)
        sl_http_conn_close(conn);
    else if (events & UV_WRITABLE)
        on_writable(conn);
    else if (events & UV_READABLE)
        on_readable(conn);
}
