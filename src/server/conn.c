#include "server/conn.h"

#include "server/problem.h"

#include "base/err.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000u
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void serve(struct sl_conn *conn, char *data, size_t len);

/* ---- life -------------------------------------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct sl_conn *conn = (struct sl_conn *)handle;

    sl_buf_fini(&conn->in);
    sl_buf_fini(&conn->out);
    sl_tls_free(conn->tls);
    sl_http2_free(conn->h2);
    free(conn);
}

void sl_conn_close(struct sl_conn *conn)
{
    if (conn->state == SL_CONN_CLOSED)
        return;
    conn->state = SL_CONN_CLOSED;
    sl_wheel_remove(&conn->timer);
    sl_worker_removed(conn->worker, conn);
    uv_close((uv_handle_t *)&conn->poll, on_closed);
    close(conn->fd);
}

bool sl_conn_is_idle(const struct sl_conn *conn)
{
    return !conn->partial && conn->in.len == 0 && conn->out.len == 0 && !conn->closing &&
           conn->state < SL_CONN_LINGER && (!conn->tls || sl_tls_ready(conn->tls)) &&
           (!conn->h2 || sl_http2_n_streams(conn->h2) == 0);
}

uint64_t sl_conn_idle_ms(const struct sl_conn *conn)
{
    return sl_worker_now(conn->worker) + conn->worker->limits->idle_timeout_ms - conn->timer.deadline_ms;
}

/* When this connection is next to be looked at if nothing happens. */
static uint64_t deadline_of(const struct sl_conn *conn)
{
    const struct sl_server_limits *limits = conn->worker->limits;

    if (conn->state == SL_CONN_LINGER)
        return conn->progress_ms + LINGER_MS;
    if (conn->out.len)
        return conn->progress_ms + limits->write_timeout_ms;
    if (conn->tls && !sl_tls_ready(conn->tls))
        return conn->begun_ms + limits->header_timeout_ms;
    if (conn->partial)
        return conn->begun_ms +
               (conn->h2 || conn->h1.head_done ? limits->request_timeout_ms : limits->header_timeout_ms);
    return sl_worker_now(conn->worker) + limits->idle_timeout_ms;
}

static void on_ready(uv_poll_t *handle, int status, int events);

/* Polls for what can go on: writing while an answer waits, else reading. */
static void rearm(struct sl_conn *conn)
{
    int events = conn->out.len ? UV_WRITABLE : UV_READABLE;

    if (conn->state == SL_CONN_CLOSED)
        return;
    if (events != conn->events) {
        conn->events = events;
        if (uv_poll_start(&conn->poll, events, on_ready)) {
            sl_conn_close(conn);
            return;
        }
    }
    sl_wheel_set(&conn->worker->wheel, &conn->timer, deadline_of(conn));
}

/* ---- out --------------------------------------------------------------------------------------------------------------------- */

/* Everything is sent on a connection that is to end: close, or wait for the client to have read it. */
static void end(struct sl_conn *conn)
{
    if (conn->eof || conn->state == SL_CONN_LINGER || shutdown(conn->fd, SHUT_WR)) {
        sl_conn_close(conn);
        return;
    }
    conn->state = SL_CONN_LINGER;
    conn->progress_ms = sl_worker_now(conn->worker);
    sl_buf_fini(&conn->in);
}

/* Sends as much of data as the socket takes now. Returns how much, or -1: the connection is gone. */
static ssize_t send_some(struct sl_conn *conn, const char *data, size_t len)
{
    ssize_t n;

    do {
        n = send(conn->fd, data, len, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        conn->progress_ms = sl_worker_now(conn->worker);
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
}

/* Sends what waits in conn->out. Returns false when the connection was closed. */
static bool send_waiting(struct sl_conn *conn)
{
    ssize_t n;

    if (conn->out.failed) {
        sl_conn_close(conn);
        return false;
    }
    if (!conn->out.len)
        return true;
    n = send_some(conn, conn->out.data, conn->out.len);
    if (n < 0) {
        sl_conn_close(conn);
        return false;
    }
    if ((size_t)n == conn->out.len)
        sl_buf_fini(&conn->out);
    else
        sl_buf_drop(&conn->out, (size_t)n);
    return true;
}

/* Sends the worker's buffer on this connection and keeps what does not go out now. Returns false when the connection was closed. */
static bool flush(struct sl_conn *conn)
{
    struct sl_buf *out = &conn->worker->out;
    bool ok = !out->failed;
    ssize_t n = 0;

    if (ok && out->len && conn->tls)
        ok = sl_tls_write(conn->tls, out->data, out->len, &conn->out) == 0;
    else if (ok && out->len && !conn->out.len)
        ok = (n = send_some(conn, out->data, out->len)) >= 0;
    if (ok && !conn->tls && (size_t)n < out->len) {
        if (!conn->out.len)
            conn->progress_ms = sl_worker_now(conn->worker);
        sl_buf_add(&conn->out, out->data + n, out->len - (size_t)n);
    }
    sl_buf_clear(out);
    if (!ok) {
        sl_conn_close(conn);
        return false;
    }
    return conn->tls || conn->out.failed ? send_waiting(conn) : true;
}

/* ---- HTTP/1 ------------------------------------------------------------------------------------------------------------------ */

static void answer_http1(struct sl_conn *conn, char *block)
{
    struct sl_worker *w = conn->worker;
    struct sl_http_request request = {.peer = conn->peer, .trusted_channel = conn->is_unix};
    struct sl_http1_reply reply = {.http_1_0 = conn->h1.parser.http_minor == 0};

    sl_http1_request(&conn->h1, block, &request);
    sl_http_response_clear(&w->response);
    sl_route(&w->service, (enum sl_listener_kind)conn->kind, &request, &w->response);
    reply.keep_alive = conn->h1.keep_alive && !w->stopping;
    reply.head_only = request.method == SL_HTTP_HEAD;
    reply.date = sl_worker_date(w);
    sl_http1_write(&w->out, &w->response, &reply);
    conn->closing = !reply.keep_alive;
}

/* An answer to what is no request, after which the connection ends. */
static void refuse_http1(struct sl_conn *conn, int status, const char *detail)
{
    struct sl_worker *w = conn->worker;
    struct sl_http1_reply reply = {.date = sl_worker_date(w)};

    sl_http_response_clear(&w->response);
    sl_problem(&w->response, status, detail, NULL);
    sl_http1_write(&w->out, &w->response, &reply);
    sl_route_count_refusal(&w->service, status);
    conn->closing = true;
}

static void begin_partial(struct sl_conn *conn)
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
static void wait_for_more(struct sl_conn *conn, size_t left, struct progress *p)
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

static struct progress serve_http1(struct sl_conn *conn, char *data, size_t len)
{
    struct progress p = {0, 0};

    while (!conn->closing) {
        if (conn->worker->out.len >= conn->worker->limits->out_bytes) {
            p.kept = len - p.used; /* whole requests that wait until the answers are out */
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
            refuse_http1(conn, conn->h1.status, conn->h1.detail);
            break;
        }
        if (p.used == len)
            break;
    }
    return p;
}

/* ---- HTTP/2 ------------------------------------------------------------------------------------------------------------------ */

static void handle_http2(void *ctx, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_conn *conn = ctx;
    struct sl_http_request own = *request;

    own.peer = conn->peer;
    own.trusted_channel = conn->is_unix;
    sl_route(&conn->worker->service, (enum sl_listener_kind)conn->kind, &own, response);
}

static const char *date_http2(void *ctx)
{
    return sl_worker_date(((struct sl_conn *)ctx)->worker);
}

static bool begin_http2(struct sl_conn *conn)
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
    };

    conn->h2 = sl_http2_new(&host);
    conn->state = SL_CONN_HTTP2;
    if (conn->h2 && conn->worker->stopping)
        sl_http2_goaway(conn->h2, false);
    return conn->h2 != NULL;
}

/* Moves frames to the worker's buffer and sends them, until nothing waits or the socket is full. Returns false when the connection was
 * closed. */
static bool pump_http2(struct sl_conn *conn)
{
    struct sl_buf *out = &conn->worker->out;

    do {
        if (sl_http2_fill(conn->h2, out, conn->worker->limits->out_bytes))
            conn->closing = true;
        if (!out->len)
            break;
        if (!flush(conn))
            return false;
    } while (!conn->out.len && !conn->closing);
    if (sl_http2_is_done(conn->h2))
        conn->closing = true;
    return true;
}

static void serve_http2(struct sl_conn *conn, const char *data, size_t len)
{
    uint64_t answered = sl_http2_n_answered(conn->h2);

    if (sl_http2_feed(conn->h2, data, len)) {
        sl_count(&conn->worker->service.counters.malformed, 1);
        conn->closing = true;
    }
    /* A request that stays incomplete while others complete does not hold the deadline off for ever: it starts anew only when something was
     * answered. */
    if (!sl_http2_n_incomplete(conn->h2)) {
        conn->partial = false;
    } else {
        if (sl_http2_n_answered(conn->h2) != answered)
            conn->partial = false;
        begin_partial(conn);
    }
}

/* ---- in ---------------------------------------------------------------------------------------------------------------------- */

/* Chooses the protocol. Returns false while too little has arrived. */
static bool sniff(struct sl_conn *conn, const char *data, size_t len)
{
    size_t n = len < SL_HTTP2_PREFACE_LEN ? len : SL_HTTP2_PREFACE_LEN;
    bool h2 = memcmp(data, SL_HTTP2_PREFACE, n) == 0;

    if (h2 && n < 3) /* no method of HTTP/1 begins with PRI */
        return false;
    if (!h2) {
        conn->state = SL_CONN_HTTP1;
        return true;
    }
    if (!begin_http2(conn))
        conn->closing = true;
    return true;
}

/* Keeps `kept` bytes at data + used in conn->in. */
static void keep_rest(struct sl_conn *conn, const char *data, struct progress p)
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
static void serve(struct sl_conn *conn, char *data, size_t len)
{
    struct progress p = {len, 0};

    if (conn->state == SL_CONN_SNIFF && !sniff(conn, data, len)) {
        p = (struct progress){0, len};
        begin_partial(conn);
    } else if (conn->state == SL_CONN_HTTP1) {
        p = serve_http1(conn, data, len);
    } else if (conn->state == SL_CONN_HTTP2 && conn->h2) {
        serve_http2(conn, data, len);
    }
    keep_rest(conn, data, p);
}

/* Sends what serving has produced, and serves requests that had to wait for room, until an answer waits to be sent or nothing is left to do.
 * Returns false when the connection was closed. */
static bool settle(struct sl_conn *conn)
{
    for (;;) {
        if (!(conn->h2 ? pump_http2(conn) : flush(conn)))
            return false;
        if (conn->out.len || conn->closing || conn->partial || !conn->in.len || conn->state >= SL_CONN_LINGER)
            break;
        serve(conn, conn->in.data, conn->in.len); /* answers one at least, or finds it partial or bad */
    }
    if (conn->eof && !conn->out.len)
        conn->closing = true;
    return true;
}

/* The end of every turn: closes what is to be closed, else waits for what comes next. */
static void finish(struct sl_conn *conn)
{
    if (conn->closing && !conn->out.len) {
        if (conn->tls && conn->state != SL_CONN_LINGER) {
            sl_tls_goodbye(conn->tls, &conn->out);
            if (!send_waiting(conn))
                return;
            sl_buf_fini(&conn->out); /* an alert that does not fit is not waited for */
        }
        end(conn);
    }
    rearm(conn);
}

/* Decrypts and serves what has arrived, block by block. */
static void read_tls(struct sl_conn *conn)
{
    struct sl_worker *w = conn->worker;

    while (conn->state < SL_CONN_LINGER && !conn->closing && !conn->out.len) {
        char *at = conn->in.len ? sl_buf_reserve(&conn->in, SL_READ_BYTES / 4) : w->read_buf;
        long n = at ? sl_tls_read(conn->tls, at, SL_READ_BYTES / 4, &conn->out) : SL_TLS_BROKEN;

        if (n == SL_TLS_CLOSED)
            conn->eof = conn->closing = true;
        else if (n == SL_TLS_BROKEN)
            conn->closing = true;
        if (n <= 0)
            break;
        if (conn->state == SL_CONN_SNIFF && sl_tls_is_h2(conn->tls) && !begin_http2(conn)) {
            sl_conn_close(conn);
            return;
        }
        if (conn->in.len)
            conn->in.len += (size_t)n;
        serve(conn, conn->in.len ? conn->in.data : at, conn->in.len ? conn->in.len : (size_t)n);
        if (!settle(conn))
            return;
    }
    if (send_waiting(conn))
        finish(conn);
}

static void on_end_of_input(struct sl_conn *conn)
{
    conn->eof = true;
    /* A whole request that waits is still answered; a partial one never will be. */
    if (conn->state == SL_CONN_LINGER || conn->partial || !conn->in.len)
        sl_conn_close(conn);
    else if (settle(conn))
        finish(conn);
}

static void on_readable(struct sl_conn *conn)
{
    struct sl_worker *w = conn->worker;
    bool append = conn->in.len && !conn->tls;
    char *at = append ? sl_buf_reserve(&conn->in, SL_READ_BYTES / 4) : w->read_buf;
    ssize_t n;

    if (!at) {
        sl_conn_close(conn);
        return;
    }
    n = recv(conn->fd, at, append ? SL_READ_BYTES / 4 : SL_READ_BYTES, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            sl_conn_close(conn);
        return;
    }
    if (n == 0) {
        on_end_of_input(conn);
        return;
    }
    if (conn->state == SL_CONN_LINGER)
        return;
    if (conn->tls) {
        if (sl_tls_feed(conn->tls, at, (size_t)n))
            sl_conn_close(conn);
        else
            read_tls(conn);
        return;
    }
    if (append)
        conn->in.len += (size_t)n;
    serve(conn, append ? conn->in.data : at, append ? conn->in.len : (size_t)n);
    if (settle(conn))
        finish(conn);
}

static void on_writable(struct sl_conn *conn)
{
    if (!send_waiting(conn))
        return;
    if (conn->out.len) {
        rearm(conn);
        return;
    }
    if (!settle(conn))
        return;
    if (conn->tls && !conn->out.len && !conn->closing)
        read_tls(conn);
    else
        finish(conn);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct sl_conn *conn = (struct sl_conn *)handle;

    if (status < 0)
        sl_conn_close(conn);
    else if (events & UV_WRITABLE)
        on_writable(conn);
    else if (events & UV_READABLE)
        on_readable(conn);
}

/* ---- deadlines and goodbyes -------------------------------------------------------------------------------------------------- */

void sl_conn_expired(struct sl_wheel_node *node)
{
    struct sl_conn *conn = (struct sl_conn *)((char *)node - offsetof(struct sl_conn, timer));
    bool late = conn->partial && conn->state <= SL_CONN_HTTP1 && !conn->out.len && !conn->closing;

    if (conn->state != SL_CONN_LINGER)
        sl_count(&conn->worker->service.counters.timeouts, 1);
    if (conn->state == SL_CONN_HTTP2 && !conn->out.len && !conn->goaway && !conn->closing) {
        sl_conn_say_goodbye(conn, true);
    } else if (late && (!conn->tls || sl_tls_ready(conn->tls))) {
        refuse_http1(conn, 408, "The request did not arrive in time.");
        if (settle(conn))
            finish(conn);
    } else {
        sl_conn_close(conn);
    }
}

void sl_conn_say_goodbye(struct sl_conn *conn, bool final)
{
    if (conn->state != SL_CONN_HTTP2 || conn->goaway)
        return;
    conn->goaway = final;
    sl_http2_goaway(conn->h2, final);
    if (!conn->out.len && settle(conn))
        finish(conn);
}

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

static bool set_up(struct sl_conn *conn, struct sl_acceptor *from, const struct sockaddr *peer)
{
    static const struct sl_address local = {.bytes = {127, 0, 0, 1}, .v4 = true};
    const int on = 1;

    conn->peer = local;
    if (!from->is_unix) {
        if (sl_address_from_sockaddr(peer, &conn->peer))
            return false;
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return !from->tls || (conn->tls = sl_tls_new(from->tls)) != NULL;
}

bool sl_conn_open(struct sl_acceptor *from, int fd, const struct sockaddr *peer)
{
    struct sl_worker *w = from->worker;
    struct sl_conn *conn = calloc(1, sizeof *conn);

    if (!conn || (conn->fd = fd, !set_up(conn, from, peer)) || uv_poll_init(&w->loop, &conn->poll, fd)) {
        if (conn)
            sl_tls_free(conn->tls);
        free(conn);
        close(fd);
        return false;
    }
    conn->worker = w;
    conn->kind = (uint8_t)from->kind;
    conn->is_unix = from->is_unix;
    conn->begun_ms = conn->progress_ms = sl_worker_now(w);
    conn->in = sl_buf_make((size_t)w->limits->header_bytes + w->limits->body_bytes + 2 * SL_READ_BYTES);
    conn->out = sl_buf_make(SIZE_MAX / 4);
    sl_http1_init(&conn->h1, &w->http1_limits);
    sl_worker_added(w, conn);
    rearm(conn);
    return true;
}
