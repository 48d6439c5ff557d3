/* Between conn.c (life, output, deadlines), conn_serve.c (input, protocols) and conn_later.c (answers to come). */
#ifndef SL_SERVER_CONN_INTERNAL_H
#define SL_SERVER_CONN_INTERNAL_H

#include "server/conn.h"

/* conn.c */

/* Polls for what can go on, writing while an answer waits and else reading, and sets the deadline. */
void sl_http_conn_rearm(struct sl_http_conn *conn);

/* Everything is sent on a connection that is to end: closes, or waits for the client to have read it. */
void sl_http_conn_end(struct sl_http_conn *conn);

/* Sends what waits in conn->out. Returns false when the connection was closed. */
bool sl_http_conn_send_waiting(struct sl_http_conn *conn);

/* Sends the worker's buffer on this connection and keeps what does not go out now. Returns false when the connection
 * was closed. */
bool sl_http_conn_flush(struct sl_http_conn *conn);

/* An answer is to come later: the connection must not end for want of anything else to do. */
static inline bool sl_http_conn_is_pending(const struct sl_http_conn *conn)
{
    return conn->waits || (conn->h2 && sl_http2_n_pending(conn->h2));
}

/* conn_later.c */

/* Lent to the routes with a request, on the caller's stack. */
struct sl_http_conn_asker {
    struct sl_http_asker base; /* first; .later = sl_http_conn_later */
    struct sl_http_conn *conn;
    int32_t stream;              /* HTTP/2 */
    struct sl_http1_reply reply; /* HTTP/1: all but the date */
    size_t answer_bytes;         /* as the handler said */
};

struct sl_http_later *sl_http_conn_later(struct sl_http_asker *asker, size_t answer_bytes);

/* Answers to come find nobody any more. */
void sl_http_conn_forsake(struct sl_http_conn *conn);

/* Puts the connection on the worker's list of those with answers to send, or takes it off. */
void sl_http_conn_set_dirty(struct sl_http_conn *conn, bool dirty);

/* conn_serve.c */

/* The loop's callback. */
void sl_http_conn_on_ready(uv_poll_t *handle, int status, int events);

/* Sends what serving has produced, and serves requests that had to wait for room, until an answer waits to be sent or
 * nothing is left to do. Returns false when the connection was closed. */
bool sl_http_conn_settle(struct sl_http_conn *conn);

/* The end of every turn: closes what is to be closed, else waits for what comes next. */
void sl_http_conn_finish(struct sl_http_conn *conn);

/* After something was answered outside the loop's callback: sends it, and serves what waited for it. */
void sl_http_conn_go_on(struct sl_http_conn *conn);

/* Answers, in HTTP/1, what is no request; the connection is to end after that. */
void sl_http_conn_refuse(struct sl_http_conn *conn, int status, const char *detail);

#endif
