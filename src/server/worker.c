#include "server/worker.h"

#include "server/conn.h"

#include "base/err.h"
#include "server/inquiry.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ACCEPTS_A_TURN 64       /* then others have their turn */
#define RECLAIM_AFTER_MS 1000u  /* a connection is idle enough to be closed for another */
#define RECLAIM_LOOKS 64        /* connections looked at to find an idle one */
#define IDLE_GRACE_MS 500u      /* idle connections stay open so long after a stop, for a request that is under way */
#define WARN_EVERY_MS 10000u    /* a warning that traffic causes, at most so often */
#define SCRATCH_KEEP (1u << 20) /* larger scratch buffers are given back */
#define BODY_MAX (64u << 20)    /* of an answer */

static void on_accept(uv_poll_t *handle, int status, int events);

/* ---- date ---- */

static char *two(char *at, int value)
{
    *at++ = (char)('0' + value / 10);
    *at++ = (char)('0' + value % 10);
    return at;
}

/* IMF-fixdate (RFC 9110, 5.6.7); strftime would speak the locale's language. */
static void write_date(char date[SL_HTTP_DATE_LEN + 1])
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    memcpy(date, "ddd, DD mmm YYYY HH:MM:SS GMT", SL_HTTP_DATE_LEN + 1);
    memcpy(date, days + (size_t)tm.tm_wday * 3, 3);
    two(date + 5, tm.tm_mday);
    memcpy(date + 8, months + (size_t)tm.tm_mon * 3, 3);
    two(two(date + 12, (tm.tm_year + 1900) / 100 % 100), (tm.tm_year + 1900) % 100);
    two(date + 17, tm.tm_hour);
    two(date + 20, tm.tm_min);
    two(date + 23, tm.tm_sec);
}

const char *sl_worker_date(struct sl_worker *worker)
{
    uint64_t now = sl_worker_now(worker);

    if (!worker->date[0] || now - worker->date_ms >= 1000) {
        write_date(worker->date);
        worker->date_ms = now;
    }
    return worker->date;
}

/* ---- accepting ---- */

static void poll_acceptors(struct sl_worker *w, bool on)
{
    w->accepting = on;
    for (unsigned i = 0; i < w->n_acceptors; i++) {
        if (!w->acceptors[i].open)
            continue;
        if (on)
            uv_poll_start(&w->acceptors[i].poll, UV_READABLE, on_accept);
        else
            uv_poll_stop(&w->acceptors[i].poll);
    }
}

static void unlink_conn(struct sl_worker *w, struct sl_http_conn *conn)
{
    *(conn->prev ? &conn->prev->next : &w->conns) = conn->next;
    *(conn->next ? &conn->next->prev : &w->conns_last) = conn->prev;
    conn->next = conn->prev = NULL;
}

static void append_conn(struct sl_worker *w, struct sl_http_conn *conn)
{
    conn->prev = w->conns_last;
    conn->next = NULL;
    *(conn->prev ? &conn->prev->next : &w->conns) = conn;
    w->conns_last = conn;
}

static void on_tick(uv_timer_t *timer);

void sl_worker_added(struct sl_worker *worker, struct sl_http_conn *conn)
{
    if (!worker->n_conns++)
        uv_timer_start(&worker->tick, on_tick, SL_WHEEL_TICK_MS, SL_WHEEL_TICK_MS);
    append_conn(worker, conn);
    sl_count(&worker->service.counters.accepted, 1);
    sl_count(&worker->service.counters.open, 1);
}

void sl_worker_removed(struct sl_worker *worker, struct sl_http_conn *conn)
{
    unlink_conn(worker, conn);
    worker->n_conns--;
    sl_count(&worker->service.counters.open, -1);
}

/* Closes an idle connection so that a new one finds room. Looks at a bounded number, and the busy ones it meets go to
 * the list's end, so that repeated calls look at all. */
static bool reclaim(struct sl_worker *w)
{
    for (unsigned i = 0; i < RECLAIM_LOOKS && w->conns; i++) {
        struct sl_http_conn *conn = w->conns;

        if (sl_http_conn_is_idle(conn) && sl_http_conn_idle_ms(conn) >= RECLAIM_AFTER_MS) {
            sl_count(&w->service.counters.reclaimed, 1);
            sl_http_conn_close(conn);
            return true;
        }
        unlink_conn(w, conn);
        append_conn(w, conn);
    }
    return false;
}

/* No room and nothing idle: the kernel's queue holds newcomers until the next tick looks again, and the loop does not
 * spin. */
static void pause_accepting(struct sl_worker *w, const char *why)
{
    struct sl_server_hooks *hooks = &w->service.shared->hooks;
    uint64_t now = sl_worker_now(w);
    char text[160];

    poll_acceptors(w, false);
    if (!w->n_conns) /* else the timer runs already */
        uv_timer_start(&w->tick, on_tick, SL_WHEEL_TICK_MS, SL_WHEEL_TICK_MS);
    sl_count(&w->service.counters.paused, 1);
    if (!hooks->log || (w->warned_ms && now - w->warned_ms < WARN_EVERY_MS))
        return;
    w->warned_ms = now;
    snprintf(text, sizeof text, "new connections wait: %s (%u are open on this loop and none is idle)", why,
             w->n_conns);
    hooks->log(hooks->ctx, SL_SERVER_WARNING, text);
}

static bool is_want_of_room(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Accepts one. Returns false when there is nothing more to accept now. */
static bool accept_one(struct sl_acceptor *a)
{
    struct sl_worker *w = a->worker;
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd;

    if (w->n_conns >= w->max_conns && !reclaim(w)) {
        pause_accepting(w, "the limit of connections is reached");
        return false;
    }
    fd = accept4(a->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        return sl_http_conn_open(a, fd, (struct sockaddr *)&peer) || true;
    if (is_want_of_room(errno)) {
        const char *why = strerror(errno);

        if (reclaim(w))
            return true;
        pause_accepting(w, why);
        return false;
    }
    /* Errors of the one connection that was about to be accepted are passed over. */
    return errno != EAGAIN && errno != EWOULDBLOCK && errno != EBADF && errno != EINVAL;
}

static void on_accept(uv_poll_t *handle, int status, int events)
{
    struct sl_acceptor *a = (struct sl_acceptor *)handle;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN && a->open && accept_one(a); i++)
        ;
}

/* ---- stopping ---- */

/* Those who have connected already are accepted before the door closes. */
static void close_acceptors(struct sl_worker *w)
{
    for (unsigned i = 0; i < w->n_acceptors; i++) {
        struct sl_acceptor *a = &w->acceptors[i];

        if (!a->open)
            continue;
        while (accept_one(a))
            ;
        a->open = false;
        uv_close((uv_handle_t *)&a->poll, NULL);
        close(a->fd);
    }
    w->accepting = true; /* nothing left to resume */
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_lane_stopped(void *ctx)
{
    uv_async_send(&((struct sl_worker *)ctx)->wake);
}

/* The loop ends by itself when its last handle is closed. The lane stops when nobody can ask it any more: what it was
 * still asked is answered, its leases go back. */
static void end_if_empty(struct sl_worker *w)
{
    if (w->n_conns || w->service.post.n_out || !sl_lane_host_stop(&w->lane_host, on_lane_stopped, w))
        return;
    w->service.lane = NULL;
    sl_inquiry_answer_decided(&w->service);
    close_handle((uv_handle_t *)&w->wake);
    close_handle((uv_handle_t *)&w->tick);
    close_handle((uv_handle_t *)&w->before_sleep);
}

static void begin_stop(struct sl_worker *w)
{
    uint64_t now = sl_worker_now(w), until = atomic_load(&w->stop_at_ms);
    uint64_t half = until > now ? (until - now) / 2 : 0;

    w->stopping = true;
    w->idle_until_ms = now + (half < IDLE_GRACE_MS ? half : IDLE_GRACE_MS);
    close_acceptors(w);
    for (struct sl_http_conn *conn = w->conns, *next; conn; conn = next) {
        next = conn->next;
        sl_http_conn_say_goodbye(conn, false);
    }
    uv_timer_start(&w->tick, on_tick, SL_WHEEL_TICK_MS, SL_WHEEL_TICK_MS);
}

static void go_on_stopping(struct sl_worker *w)
{
    uint64_t now = sl_worker_now(w);
    bool cut = now >= atomic_load(&w->stop_at_ms);

    for (struct sl_http_conn *conn = w->conns, *next; conn; conn = next) {
        next = conn->next;
        if (cut) {
            w->cut |= !sl_http_conn_is_idle(conn) && conn->state < SL_HTTP_CONN_LINGER;
            sl_http_conn_close(conn);
        } else if (now >= w->idle_until_ms && conn->h2 && !conn->goaway) {
            sl_http_conn_say_goodbye(conn, true);
        } else if (now >= w->idle_until_ms && sl_http_conn_is_idle(conn)) {
            sl_http_conn_close(conn);
        }
    }
    end_if_empty(w);
}

static void on_wake(uv_async_t *wake)
{
    struct sl_worker *w = wake->data;

    sl_post_collect(&w->service.post);
    if (atomic_load(&w->stop_at_ms) == UINT64_MAX)
        return;
    if (!w->stopping)
        begin_stop(w);
    go_on_stopping(w);
}

static void on_tick(uv_timer_t *timer)
{
    struct sl_worker *w = timer->data;

    sl_wheel_advance(&w->wheel, sl_worker_now(w), sl_http_conn_expired);
    if (w->stopping) {
        go_on_stopping(w);
        return;
    }
    if (!w->accepting)
        poll_acceptors(w, true);
    else if (!w->n_conns)
        uv_timer_stop(timer);
}

static void shrink(struct sl_buf *buf)
{
    if (buf->cap > SCRATCH_KEEP)
        sl_buf_fini(buf);
}

static void on_post(void *ctx)
{
    uv_async_send(&((struct sl_worker *)ctx)->wake);
}

static void on_before_sleep(uv_prepare_t *prepare)
{
    struct sl_worker *w = prepare->data;

    sl_inquiry_answer_decided(&w->service);
    sl_http_conn_send_dirty(w);
    sl_service_turn_ended(&w->service);
    shrink(&w->out);
    shrink(&w->response.body);
}

void sl_worker_stop(struct sl_worker *worker, uint64_t drain_ms)
{
    /* The loop's clock is CLOCK_MONOTONIC in ms, but its copy in the loop belongs to the loop's thread. */
    uint64_t at = uv_hrtime() / 1000000 + (drain_ms > INT_MAX ? INT_MAX : drain_ms);
    uint64_t before = atomic_load(&worker->stop_at_ms);

    while (at < before && !atomic_compare_exchange_weak(&worker->stop_at_ms, &before, at))
        ;
    uv_async_send(&worker->wake);
}

/* ---- life ---- */

static int init_handles(struct sl_worker *w)
{
    if (uv_loop_init(&w->loop))
        return SL_EIO;
    if (uv_async_init(&w->loop, &w->wake, on_wake)) {
        uv_loop_close(&w->loop);
        return SL_EIO;
    }
    uv_timer_init(&w->loop, &w->tick);
    uv_prepare_init(&w->loop, &w->before_sleep);
    uv_prepare_start(&w->before_sleep, on_before_sleep);
    w->wake.data = w->tick.data = w->before_sleep.data = w;
    return 0;
}

int sl_worker_init(struct sl_worker *worker, struct sl_shared *shared, const struct sl_server_limits *limits,
                   unsigned max_conns, unsigned max_acceptors)
{
    int e;

    memset(worker, 0, sizeof *worker);
    worker->limits = limits;
    worker->http1_limits = (struct sl_http1_limits){limits->header_bytes, limits->body_bytes};
    worker->max_conns = max_conns;
    worker->max_acceptors = max_acceptors;
    atomic_init(&worker->stop_at_ms, UINT64_MAX);
    worker->acceptors = calloc(max_acceptors, sizeof *worker->acceptors);
    if (!worker->acceptors)
        return SL_ENOMEM;
    e = sl_service_init(&worker->service, shared);
    worker->service.post.wake = on_post;
    worker->service.post.ctx = worker;
    if (e || (e = init_handles(worker))) {
        sl_service_fini(&worker->service);
        free(worker->acceptors);
        return e;
    }
    sl_wheel_init(&worker->wheel, sl_worker_now(worker));
    sl_http_response_init(&worker->response, BODY_MAX);
    worker->out = sl_buf_make((size_t)limits->out_bytes + 2 * (size_t)BODY_MAX);
    return 0;
}

int sl_worker_listen(struct sl_worker *worker, int fd, enum sl_listener_kind kind, bool is_unix,
                     struct sl_tls_context *tls)
{
    struct sl_acceptor *a = &worker->acceptors[worker->n_acceptors];

    if (worker->n_acceptors == worker->max_acceptors || uv_poll_init(&worker->loop, &a->poll, fd)) {
        close(fd);
        return SL_EIO;
    }
    worker->n_acceptors++;
    a->worker = worker;
    a->fd = fd;
    a->kind = kind;
    a->is_unix = is_unix;
    a->tls = tls;
    a->open = true;
    return 0;
}

int sl_worker_open_lane(struct sl_worker *worker, struct sl_fleet *fleet, char *ret_why, size_t why_size)
{
    int e = sl_lane_host_open(&worker->lane_host, &worker->loop, fleet, ret_why, why_size);

    worker->service.lane = worker->lane_host.lane;
    return e;
}

/* libuv writes to the store with write(2); connections of clients are sent to without the signal anyway. */
static void block_sigpipe(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *run(void *arg)
{
    struct sl_worker *w = arg;

    block_sigpipe();
    poll_acceptors(w, true);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    sl_service_turn_ended(&w->service);
    if (w->ended)
        w->ended(w->ended_ctx, !w->cut);
    return NULL;
}

int sl_worker_start(struct sl_worker *worker, void (*ended)(void *ctx, bool drained), void *ctx)
{
    worker->ended = ended;
    worker->ended_ctx = ctx;
    if (pthread_create(&worker->thread, NULL, run, worker))
        return SL_ENOMEM;
    worker->started = worker->ran = true;
    return 0;
}

void sl_worker_join(struct sl_worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

void sl_worker_fini(struct sl_worker *worker)
{
    if (!worker->ran) {
        /* Never ran: let the handles close here. */
        sl_lane_host_drop(&worker->lane_host);
        worker->stopping = true;
        atomic_store(&worker->stop_at_ms, 0);
        close_acceptors(worker);
        go_on_stopping(worker);
        uv_run(&worker->loop, UV_RUN_DEFAULT);
    }
    sl_lane_host_fini(&worker->lane_host);
    uv_loop_close(&worker->loop);
    sl_service_fini(&worker->service);
    sl_http_response_fini(&worker->response);
    sl_buf_fini(&worker->out);
    free(worker->acceptors);
}
