/* One connection: bytes in, requests answered, bytes out.
 *
 *     SNIFF    nothing known yet; the first bytes (or ALPN) choose the protocol
 *     HTTP1    requests are parsed where they were read and answered in one write
 *     HTTP2    an nghttp2 session
 *     LINGER   everything is sent and our side is shut; what still comes is thrown away for a moment, so that no reset
 *              destroys the last answer
 *
 * A request may be answered later (route.h). In HTTP/1 the requests behind it wait in the socket, or where they were
 * read; in HTTP/2 other streams go on. The wheel's deadlines do not count while an answer is to come: whoever owes it
 * has one of his own.
 *
 * Backpressure: while an answer waits to be sent nothing is read, so a connection holds at most one read's worth of
 * requests and out_bytes plus one answer. A connection without a partial request or a waiting answer owns no buffer at
 * all. Everything happens on the worker's thread. */
#ifndef SL_SERVER_CONN_H
#define SL_SERVER_CONN_H

#include "server/http1.h"
#include "server/http2.h"
#include "server/worker.h"

enum sl_http_conn_state {
    SL_HTTP_CONN_SNIFF,
    SL_HTTP_CONN_HTTP1,
    SL_HTTP_CONN_HTTP2,
    SL_HTTP_CONN_LINGER,
    SL_HTTP_CONN_CLOSED
};

struct sl_http_conn {
    uv_poll_t poll; /* first: the handle is the connection */
    struct sl_worker *worker;
    struct sl_http_conn *next, *prev; /* the worker's list */
    int fd;
    int events; /* what is polled */
    uint8_t state;
    uint8_t kind; /* enum sl_listener_kind */
    bool is_unix;
    bool eof;             /* the client has shut its side */
    bool closing;         /* close once everything is sent */
    bool partial;         /* a request has begun and is not complete */
    bool goaway;          /* HTTP/2: told to go */
    bool waits;           /* HTTP/1: the answer to a request comes later, what follows is not served before */
    bool deaf;            /* more has arrived while it waits: not polled for reading */
    uint64_t begun_ms;    /* partial: when; else when the connection was made */
    uint64_t progress_ms; /* when a byte of an answer was last taken */
    uint64_t taken_ms;    /* HTTP/2: when the client's window last let a byte of an answer through, or none waited */
    uint64_t n_taken;     /* HTTP/2: such bytes so far */
    uint64_t n_answered;  /* HTTP/2: answers when a request was last seen incomplete */
    struct sl_http_conn_later *laters;           /* answers to come, see conn_later.c */
    struct sl_http_conn *dirty_next, **dirty_at; /* the worker's list of those with answers to send; NULL: not on it */
    struct sl_wheel_node timer;
    struct sl_buf in;  /* a partial request, or pipelined ones that wait */
    struct sl_buf out; /* bytes as they go on the wire, waiting to be sent */
    struct sl_tls *tls;
    struct sl_http2 *h2;
    struct sl_address peer;
    struct sl_http1 h1;
};

/* Takes over an accepted, non-blocking socket. Returns false (and closes it) when memory is out. */
bool sl_http_conn_open(struct sl_acceptor *from, int fd, const struct sockaddr *peer);

/* True when nothing is under way, so that closing loses nothing. */
bool sl_http_conn_is_idle(const struct sl_http_conn *conn);

/* How long an idle connection has been idle. */
uint64_t sl_http_conn_idle_ms(const struct sl_http_conn *conn);

/* Closes at once; the memory goes when the loop lets it. */
void sl_http_conn_close(struct sl_http_conn *conn);

/* The server is stopping: HTTP/2 clients are told (`final`: for good), HTTP/1 ones with their next answer. */
void sl_http_conn_say_goodbye(struct sl_http_conn *conn, bool final);

/* Sends what was answered in this turn and has not gone out: for the worker, at the end of each. */
void sl_http_conn_send_dirty(struct sl_worker *worker);

/* A deadline has passed (the wheel's callback). */
void sl_http_conn_expired(struct sl_wheel_node *node);

#endif
