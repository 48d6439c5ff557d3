/* Answers that come later (route.h): what ties one to its connection, and what happens when the two part.
 *
 * A later is owned by whoever will send it; the connection only knows it, so that it can be told when the connection
 * ends. In HTTP/1 the answer is written at once and the requests that waited behind it are served; in HTTP/2 it is
 * handed to the session, and all that came in one turn of the loop goes out together at its end. */
#include "server/conn_internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

struct sl_http_conn_later {
    struct sl_http_later base; /* first */
    struct sl_http_conn_later *next, **at;
    struct sl_worker *worker;
    struct sl_http_conn *conn;   /* NULL: it has ended */
    int32_t stream;              /* HTTP/2 */
    struct sl_http1_reply reply; /* HTTP/1: all but the date */
};

static struct sl_http_conn_later *own(struct sl_http_later *later)
{
    return (struct sl_http_conn_later *)later;
}

static void part(struct sl_http_conn_later *later)
{
    if (!later->conn)
        return;
    *later->at = later->next;
    if (later->next)
        later->next->at = later->at;
    later->conn = NULL;
}

void sl_http_conn_forsake(struct sl_http_conn *conn)
{
    while (conn->laters)
        part(conn->laters);
    conn->waits = false;
    sl_http_conn_set_dirty(conn, false);
}

void sl_http_conn_set_dirty(struct sl_http_conn *conn, bool dirty)
{
    struct sl_http_conn **head = &conn->worker->dirty;

    if (dirty == (conn->dirty_at != NULL))
        return;
    if (dirty) {
        conn->dirty_next = *head;
        conn->dirty_at = head;
        if (*head)
            (*head)->dirty_at = &conn->dirty_next;
        *head = conn;
    } else {
        *conn->dirty_at = conn->dirty_next;
        if (conn->dirty_next)
            conn->dirty_next->dirty_at = conn->dirty_at;
        conn->dirty_next = NULL;
        conn->dirty_at = NULL;
    }
}

static void answer_http1(struct sl_http_conn *conn, struct sl_http1_reply *reply)
{
    struct sl_worker *w = conn->worker;

    reply->keep_alive = reply->keep_alive && !w->stopping;
    reply->date = sl_worker_date(w);
    sl_http1_write(&w->out, &w->response, reply);
    conn->closing = !reply->keep_alive;
    conn->waits = false;
    sl_http_conn_go_on(conn);
}

/* Returns false when the stream is gone. */
static bool answer_http2(struct sl_http_conn *conn, int32_t stream)
{
    int e = sl_http2_answer(conn->h2, stream, &conn->worker->response);

    if (e == SL_ENOTFOUND)
        return false;
    conn->closing |= e != 0;
    sl_http_conn_set_dirty(conn, true);
    return true;
}

static struct sl_http_response *begin(struct sl_http_later *later)
{
    return &own(later)->worker->response;
}

static bool deliver(struct sl_http_later *base)
{
    struct sl_http_conn_later later = *own(base);
    bool sent = later.conn != NULL;

    assert(later.worker->out.len == 0); /* not from inside a handler */
    part(own(base));
    free(base);
    if (later.conn && later.conn->h2)
        sent = answer_http2(later.conn, later.stream);
    else if (later.conn)
        answer_http1(later.conn, &later.reply);
    return sent;
}

struct sl_http_later *sl_http_conn_later(struct sl_http_asker *base, size_t answer_bytes)
{
    static const struct sl_http_later_ops ops = {begin, deliver};
    struct sl_http_conn_asker *asker = (struct sl_http_conn_asker *)base;
    struct sl_http_conn_later *later = calloc(1, sizeof *later);
    struct sl_http_conn *conn = asker->conn;

    if (!later)
        return NULL;
    asker->answer_bytes = answer_bytes;
    later->base.ops = &ops;
    later->worker = conn->worker;
    later->conn = conn;
    later->stream = asker->stream;
    later->reply = asker->reply;
    later->next = conn->laters;
    later->at = &conn->laters;
    if (conn->laters)
        conn->laters->at = &later->next;
    conn->laters = later;
    return &later->base;
}

void sl_http_conn_send_dirty(struct sl_worker *worker)
{
    struct sl_http_conn *conn;

    while ((conn = worker->dirty)) {
        sl_http_conn_set_dirty(conn, false);
        if (!conn->out.len) /* else it goes when the socket takes more */
            sl_http_conn_go_on(conn);
    }
}
