/* One loop: a thread, its listening sockets, its connections, their deadlines, and the buffers they share.
 *
 * A worker is made and ended by the server's thread; in between all happens on its own, except sl_worker_stop. */
#ifndef SL_SERVER_WORKER_H
#define SL_SERVER_WORKER_H

#include "server/buf.h"
#include "server/listener.h"
#include "server/http.h"
#include "server/http1.h"
#include "server/lane_host.h"
#include "server/route.h"
#include "server/service.h"
#include "server/tls.h"
#include "server/wheel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#define SL_READ_BYTES (64u << 10)

struct sl_worker;
struct sl_http_conn;

/* One listening socket of one loop. */
struct sl_acceptor {
    uv_poll_t poll; /* first: the handle is the acceptor */
    struct sl_worker *worker;
    int fd;
    enum sl_listener_kind kind;
    bool is_unix;
    struct sl_tls_context *tls; /* NULL: cleartext. Borrowed */
    bool open;
};

struct sl_worker {
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t tick;
    uv_prepare_t before_sleep;
    pthread_t thread;
    bool started, ran;
    struct sl_service service;
    struct sl_lane_host lane_host;
    const struct sl_server_limits *limits;
    struct sl_http1_limits http1_limits;
    void (*ended)(void *ctx, bool drained); /* called on the thread as its last act */
    void *ended_ctx;

    struct sl_acceptor *acceptors;
    unsigned n_acceptors, max_acceptors;
    bool accepting; /* acceptors are polled */

    struct sl_http_conn *conns; /* the oldest first; see conn.h */
    struct sl_http_conn *conns_last;
    struct sl_http_conn *dirty; /* those with answers that came later and have not been sent */
    unsigned n_conns, max_conns;
    struct sl_wheel wheel;

    atomic_uint_fast64_t stop_at_ms; /* on the loop's clock; UINT64_MAX: not stopping */
    bool stopping, cut;
    uint64_t idle_until_ms; /* while stopping: idle connections are left open until then */
    uint64_t warned_ms;

    struct sl_http_response response; /* scratch of the request being answered */
    struct sl_buf out;                /* plaintext to send, of the connection being served */
    char date[SL_HTTP_DATE_LEN + 1];
    uint64_t date_ms; /* when `date` was made, on the loop's clock */
    char read_buf[SL_READ_BYTES];
};

/* Prepares a loop without listeners. Borrows limits and shared for its life. Returns 0, SL_ENOMEM or SL_EIO. */
int sl_worker_init(struct sl_worker *worker, struct sl_shared *shared, const struct sl_server_limits *limits,
                   unsigned max_conns, unsigned max_acceptors);

/* Adds a listening socket (takes fd, also on failure). Before sl_worker_start. Returns 0 or SL_EIO. */
int sl_worker_listen(struct sl_worker *worker, int fd, enum sl_listener_kind kind, bool is_unix,
                     struct sl_tls_context *tls);

/* Gives it a lane of the shared tier. Before sl_worker_start. Returns 0, or an error with a sentence. */
int sl_worker_open_lane(struct sl_worker *worker, struct sl_fleet *fleet, char *ret_why, size_t why_size);

/* Starts the thread. `ended` is called on it when all is done, with whether no connection had to be cut. Returns 0 or
 * SL_ENOMEM. */
int sl_worker_start(struct sl_worker *worker, void (*ended)(void *ctx, bool drained), void *ctx);

/* Begins to stop; connections left after drain_ms are cut. Any thread; a later call can only shorten the time. */
void sl_worker_stop(struct sl_worker *worker, uint64_t drain_ms);

/* Waits for the thread, if it was started. */
void sl_worker_join(struct sl_worker *worker);

/* Frees everything. After sl_worker_join. */
void sl_worker_fini(struct sl_worker *worker);

/* The loop's clock, ms. Monotonic; stands still within a turn. */
static inline uint64_t sl_worker_now(const struct sl_worker *worker)
{
    return uv_now(&worker->loop);
}

/* The Date header's value, made anew once a second. */
const char *sl_worker_date(struct sl_worker *worker);

/* For conn.c: a connection has begun or ended. */
void sl_worker_added(struct sl_worker *worker, struct sl_http_conn *conn);
void sl_worker_removed(struct sl_worker *worker, struct sl_http_conn *conn);

#endif
