/* Between conn.c (life, output, deadlines) and conn_serve.c (input, protocols). */
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

/* conn_serve.c */

/* The loop's callback. */
void sl_http_conn_on_ready(uv_poll_t *handle, int status, int events);

/* Sends what serving has produced, and serves requests that had to wait for room, until an answer waits to be sent or
 * nothing is left to do. Returns false when the connection was closed. */
bool sl_http_conn_settle(struct sl_http_conn *conn);

/* The end of every turn: closes what is to be closed, else waits for what comes next. */
void sl_http_conn_finish(struct sl_http_conn *conn);

/* Answers, in HTTP/1, what is no request; the connection is to end after that. */
void sl_http_conn_refuse(struct sl_http_conn *conn, int status, const char *detail);

#endif
