#include "server/conn_internal.h"

#include "base/err.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000u

/* ---- life ---- */

static void on_closed(uv_handle_t *handle)
{
    struct sl_http_conn *conn = (struct sl_http_conn *)handle;

    sl_buf_fini(&conn->in);
    sl_buf_fini(&conn->out);
    sl_tls_free(conn->tls);
    sl_http2_free(conn->h2);
    free(conn);
}

void sl_http_conn_close(struct sl_http_conn *conn)
{
    if (conn->state == SL_HTTP_CONN_CLOSED)
        return;
    conn->state = SL_HTTP_CONN_CLOSED;
    sl_http_conn_forsake(conn);
    sl_wheel_remove(&conn->timer);
    sl_worker_removed(conn->worker, conn);
    uv_close((uv_handle_t *)&conn->poll, on_closed);
    close(conn->fd);
}

bool sl_http_conn_is_idle(const struct sl_http_conn *conn)
{
    return !conn->partial && !conn->waits && conn->in.len == 0 && conn->out.len == 0 && !conn->closing &&
           conn->state < SL_HTTP_CONN_LINGER && (!conn->tls || sl_tls_ready(conn->tls)) &&
           (!conn->h2 || sl_http2_n_streams(conn->h2) == 0);
}

uint64_t sl_http_conn_idle_ms(const struct sl_http_conn *conn)
{
    return sl_worker_now(conn->worker) + conn->worker->limits->idle_timeout_ms - conn->timer.deadline_ms;
}

/* When this connection is next to be looked at if nothing happens. */
static uint64_t deadline_of(const struct sl_http_conn *conn)
{
    const struct sl_server_limits *limits = conn->worker->limits;
    uint64_t at = sl_http_conn_is_pending(conn) ? UINT64_MAX : sl_worker_now(conn->worker) + limits->idle_timeout_ms;

    if (conn->state == SL_HTTP_CONN_LINGER)
        return conn->progress_ms + LINGER_MS;
    if (conn->out.len)
        return conn->progress_ms + limits->write_timeout_ms;
    if (conn->tls && !sl_tls_ready(conn->tls))
        return conn->begun_ms + limits->header_timeout_ms;
    if (conn->partial)
        at = conn->begun_ms + (conn->h2 || conn->h1.head_done ? limits->request_timeout_ms : limits->header_timeout_ms);
    if (conn->h2 && sl_http2_n_untaken(conn->h2) && conn->taken_ms + limits->write_timeout_ms < at)
        at = conn->taken_ms + limits->write_timeout_ms;
    return at;
}

static int events_of(const struct sl_http_conn *conn)
{
    if (conn->out.len)
        return UV_WRITABLE;
    /* At the end of input the socket stays readable for ever. */
    return conn->deaf || (conn->eof && sl_http_conn_is_pending(conn)) ? 0 : UV_READABLE;
}

/* Polls for what can go on: writing while an answer waits, else reading. */
void sl_http_conn_rearm(struct sl_http_conn *conn)
{
    int events;

    if (conn->state == SL_HTTP_CONN_CLOSED)
        return;
    conn->deaf = conn->deaf && conn->waits;
    events = events_of(conn);
    if (events != conn->events) {
        conn->events = events;
        if (events ? uv_poll_start(&conn->poll, events, sl_http_conn_on_ready) : uv_poll_stop(&conn->poll)) {
            sl_http_conn_close(conn);
            return;
        }
    }
    sl_wheel_set(&conn->worker->wheel, &conn->timer, deadline_of(conn));
}

/* ---- out ---- */

/* Everything is sent on a connection that is to end: close, or wait for the client to have read it. */
void sl_http_conn_end(struct sl_http_conn *conn)
{
    if (conn->eof || conn->state == SL_HTTP_CONN_LINGER || shutdown(conn->fd, SHUT_WR)) {
        sl_http_conn_close(conn);
        return;
    }
    sl_http_conn_forsake(conn);
    conn->state = SL_HTTP_CONN_LINGER;
    conn->progress_ms = sl_worker_now(conn->worker);
    sl_buf_fini(&conn->in);
}

/* Sends as much of data as the socket takes now. Returns how much, or -1: the connection is gone. */
static ssize_t send_some(struct sl_http_conn *conn, const char *data, size_t len)
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
bool sl_http_conn_send_waiting(struct sl_http_conn *conn)
{
    ssize_t n;

    if (conn->out.failed) {
        sl_http_conn_close(conn);
        return false;
    }
    if (!conn->out.len)
        return true;
    n = send_some(conn, conn->out.data, conn->out.len);
    if (n < 0) {
        sl_http_conn_close(conn);
        return false;
    }
    if ((size_t)n == conn->out.len)
        sl_buf_fini(&conn->out);
    else
        sl_buf_drop(&conn->out, (size_t)n);
    return true;
}

/* Sends the worker's buffer on this connection and keeps what does not go out now. Returns false when the connection
 * was closed. */
bool sl_http_conn_flush(struct sl_http_conn *conn)
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
        sl_http_conn_close(conn);
        return false;
    }
    return conn->tls || conn->out.failed ? sl_http_conn_send_waiting(conn) : true;
}

/* ---- deadlines and goodbyes ---- */

void sl_http_conn_expired(struct sl_wheel_node *node)
{
    struct sl_http_conn *conn = (struct sl_http_conn *)((char *)node - offsetof(struct sl_http_conn, timer));
    bool late = conn->partial && conn->state <= SL_HTTP_CONN_HTTP1 && !conn->out.len && !conn->closing;

    if (conn->goaway && !conn->out.len && sl_http_conn_is_pending(conn)) {
        /* What never came whole has had its time; what did is answered first. */
        sl_wheel_set(&conn->worker->wheel, node, sl_worker_now(conn->worker) + SL_WHEEL_TICK_MS);
        return;
    }
    if (conn->state != SL_HTTP_CONN_LINGER)
        sl_count(&conn->worker->service.counters.timeouts, 1);
    if (conn->state == SL_HTTP_CONN_HTTP2 && !conn->out.len && !conn->goaway && !conn->closing) {
        sl_http_conn_say_goodbye(conn, true);
    } else if (late && (!conn->tls || sl_tls_ready(conn->tls))) {
        sl_http_conn_refuse(conn, 408, "The request did not arrive in time.");
        if (sl_http_conn_settle(conn))
            sl_http_conn_finish(conn);
    } else {
        sl_http_conn_close(conn);
    }
}

void sl_http_conn_say_goodbye(struct sl_http_conn *conn, bool final)
{
    if (conn->state != SL_HTTP_CONN_HTTP2 || conn->goaway)
        return;
    conn->goaway = final;
    sl_http2_goaway(conn->h2, final);
    if (!conn->out.len && sl_http_conn_settle(conn))
        sl_http_conn_finish(conn);
}

/* ---- opening ---- */

static bool set_up(struct sl_http_conn *conn, struct sl_acceptor *from, const struct sockaddr *peer)
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

bool sl_http_conn_open(struct sl_acceptor *from, int fd, const struct sockaddr *peer)
{
    struct sl_worker *w = from->worker;
    struct sl_http_conn *conn = calloc(1, sizeof *conn);

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
    sl_http_conn_rearm(conn);
    return true;
}
