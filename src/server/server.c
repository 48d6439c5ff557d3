#include "server/server.h"

#include "server/worker.h"

#include "base/err.h"
#include "limiter/counters.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>

#define WORKERS_MAX 256u
#define ADMIN_CONNECTIONS 256u
#define LISTENERS_MAX 64u
#define TOKEN_MAX 512u
#define STORE_AWAITED_NS UINT64_C(2000000000)

/* Listening sockets and their TLS, of one of the two kinds. */
struct doors {
    struct sl_listener *listeners;
    size_t n;
};

struct sl_server {
    struct sl_server_limits limits;
    struct sl_shared shared;
    struct sl_tls_context *tls;
    struct doors doors[2]; /* public, admin */
    char *tokens[3];       /* check, admin, admin read */
    struct sl_worker **workers;
    struct sl_service **services;
    unsigned n_workers;
    atomic_uint n_running;
    atomic_bool cut;
    bool started;
};

struct sl_server_options sl_server_defaults(void)
{
    return (struct sl_server_options){
        .workers = 1,
        .unix_mode = 0660,
        .limits =
            {
                .max_connections = 10000,
                .header_bytes = 16u << 10,
                .body_bytes = 4u << 20,
                .out_bytes = 256u << 10,
                .max_streams = 128,
                .header_timeout_ms = 5000,
                .request_timeout_ms = 30000,
                .idle_timeout_ms = 60000,
                .write_timeout_ms = 30000,
            },
    };
}

static __attribute__((format(printf, 3, 4))) int invalid(char *ret_why, size_t why_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(ret_why, why_size, format, args);
    va_end(args);
    return SL_EINVALID;
}

static int check_limits(const struct sl_server_limits *l, char *ret_why, size_t why_size)
{
    const struct {
        const char *name;
        unsigned value, min, max;
    } rows[] = {
        {"the limit of connections", l->max_connections, 1, 1000000},
        {"the limit of header bytes", l->header_bytes, 1u << 10, 64u << 10},
        {"the limit of body bytes", l->body_bytes, 1u << 10, 64u << 20},
        {"the limit of waiting answer bytes", l->out_bytes, 16u << 10, 64u << 20},
        {"the limit of HTTP/2 streams", l->max_streams, 1, 1000},
        {"the header timeout in ms", l->header_timeout_ms, 10, 3600000},
        {"the request timeout in ms", l->request_timeout_ms, 10, 3600000},
        {"the idle timeout in ms", l->idle_timeout_ms, 10, 3600000},
        {"the write timeout in ms", l->write_timeout_ms, 10, 3600000},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return invalid(ret_why, why_size, "%s is %u; it must be between %u and %u", rows[i].name, rows[i].value,
                           rows[i].min, rows[i].max);
    return 0;
}

static int check_token(const char *name, const char *token, char *ret_why, size_t why_size)
{
    size_t len = token ? strlen(token) : 1;

    for (size_t i = 0; token && i < len; i++)
        if (token[i] <= ' ' || token[i] > '~')
            return invalid(ret_why, why_size, "the %s token holds a character that is not visible ASCII", name);
    if (len < 1 || len > TOKEN_MAX)
        return invalid(ret_why, why_size, "the %s token must have 1 to %u characters", name, TOKEN_MAX);
    return 0;
}

static int check_options(const struct sl_server_options *o, char *ret_why, size_t why_size)
{
    int e;

    if (o->n_listen + o->n_admin == 0)
        return invalid(ret_why, why_size, "there is no address to listen on");
    if (o->n_listen > LISTENERS_MAX || o->n_admin > LISTENERS_MAX)
        return invalid(ret_why, why_size, "more than %u addresses to listen on", LISTENERS_MAX);
    if (o->workers < 1 || o->workers > WORKERS_MAX)
        return invalid(ret_why, why_size, "there must be 1 to %u workers, not %u", WORKERS_MAX, o->workers);
    if (!o->tls_cert != !o->tls_key)
        return invalid(ret_why, why_size, "TLS needs both a certificate and a key; the %s is missing",
                       o->tls_cert ? "key" : "certificate");
    if (o->tls_client_ca && !o->tls_cert)
        return invalid(ret_why, why_size, "client certificates need TLS: set a certificate and a key");
    if (o->unix_mode > 0777)
        return invalid(ret_why, why_size, "the mode of unix sockets is between 0 and 0777");
    if ((e = check_token("check", o->check_token, ret_why, why_size)) ||
        (e = check_token("admin", o->admin_token, ret_why, why_size)) ||
        (e = check_token("admin read", o->admin_read_token, ret_why, why_size)))
        return e;
    if (o->admin_token && o->admin_read_token && !strcmp(o->admin_token, o->admin_read_token))
        return invalid(ret_why, why_size, "the admin token and the admin read token are the same");
    return check_limits(&o->limits, ret_why, why_size);
}

static int out_of_memory(char *ret_why, size_t why_size)
{
    snprintf(ret_why, why_size, "%s", sl_err_text(SL_ENOMEM));
    return SL_ENOMEM;
}

/* Parses and binds one list of addresses. */
static int open_doors(struct doors *doors, const char *const *texts, size_t n, const struct sl_server_options *options,
                      bool admin, char *ret_why, size_t why_size)
{
    int e;

    doors->listeners = calloc(n ? n : 1, sizeof *doors->listeners);
    if (!doors->listeners)
        return out_of_memory(ret_why, why_size);
    for (size_t i = 0; i < n; i++) {
        struct sl_listener *listener = &doors->listeners[i];

        if ((e = sl_listener_parse(texts[i], listener, ret_why, why_size)))
            return e;
        doors->n++; /* from here sl_listener_fini is due */
        if (admin && !listener->is_unix && !listener->loopback && !options->admin_token && !options->admin_read_token)
            return invalid(
                ret_why, why_size,
                "the admin address %s is not loopback and needs an admin token: give --admin-token or "
                "--admin-read-token (SLUICE_ADMIN_TOKEN, SLUICE_ADMIN_READ_TOKEN; @/PATH reads it from a file)",
                listener->text);
        if ((e = sl_listener_bind(listener, options->unix_mode, ret_why, why_size)))
            return e;
    }
    return 0;
}

/* Clients must not take the files that the rest of the process needs in the middle of their crowd: to reach the store
 * again (each loop, the rehearsal and the notifier by itself), to read the policy anew, to deliver to webhooks. Where there
 * are few files at all, clients have half of them. */
static unsigned clamp_connections(unsigned wanted, unsigned n_workers)
{
    struct rlimit limit;
    rlim_t reserve = 64 + 16 * (rlim_t)n_workers;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    if (reserve > limit.rlim_cur / 2)
        reserve = limit.rlim_cur / 2;
    return limit.rlim_cur - reserve < wanted ? (unsigned)(limit.rlim_cur - reserve) : wanted;
}

static int listen_on(struct sl_server *server, struct sl_worker *worker, struct doors *doors, bool admin, char *ret_why,
                     size_t why_size)
{
    for (size_t i = 0; i < doors->n; i++) {
        struct sl_listener *listener = &doors->listeners[i];
        bool secured = !listener->is_unix && !(admin && listener->loopback);
        int fd = sl_listener_socket(listener, ret_why, why_size);

        if (fd < 0)
            return SL_EIO;
        if (sl_worker_listen(worker, fd, admin ? SL_ADMIN : SL_PUBLIC, listener->is_unix,
                             secured ? server->tls : NULL)) {
            snprintf(ret_why, why_size, "cannot listen on %s: the event loop refused the socket", listener->text);
            return SL_EIO;
        }
    }
    return 0;
}

static int add_worker(struct sl_server *server, bool admin, unsigned max_conns, char *ret_why, size_t why_size)
{
    struct doors *doors = &server->doors[admin];
    struct sl_worker *worker = malloc(sizeof *worker);
    int e;

    if (!worker)
        return out_of_memory(ret_why, why_size);
    e = sl_worker_init(worker, &server->shared, &server->limits, max_conns, (unsigned)doors->n);
    if (e) {
        free(worker);
        snprintf(ret_why, why_size, "cannot make an event loop: %s", sl_err_text(e));
        return e;
    }
    server->workers[server->n_workers] = worker;
    worker->service.loop = server->n_workers;
    server->services[server->n_workers++] = &worker->service;
    return listen_on(server, worker, doors, admin, ret_why, why_size);
}

static int add_workers(struct sl_server *server, const struct sl_server_options *options, char *ret_why,
                       size_t why_size)
{
    unsigned n_public = options->n_listen ? options->workers : 0;
    unsigned total = clamp_connections(server->limits.max_connections, options->workers + 1);
    unsigned each = n_public ? (total + n_public - 1) / n_public : 0;
    int e;

    server->workers = calloc(n_public + 1, sizeof(struct sl_worker *));
    server->services = calloc(n_public + 1, sizeof(struct sl_service *));
    if (!server->workers || !server->services)
        return out_of_memory(ret_why, why_size);
    for (unsigned i = 0; i < n_public; i++)
        if ((e = add_worker(server, false, each, ret_why, why_size)))
            return e;
    if (options->n_admin && (e = add_worker(server, true, ADMIN_CONNECTIONS, ret_why, why_size)))
        return e;
    server->shared.services = server->services;
    server->shared.n_services = server->n_workers;
    return 0;
}

static int copy_token(char **to, const char *token)
{
    *to = token ? strdup(token) : NULL;
    return token && !*to ? SL_ENOMEM : 0;
}

static int build(struct sl_server *server, const struct sl_server_options *options, char *ret_why, size_t why_size)
{
    int e;

    if (copy_token(&server->tokens[0], options->check_token) || copy_token(&server->tokens[1], options->admin_token) ||
        copy_token(&server->tokens[2], options->admin_read_token))
        return out_of_memory(ret_why, why_size);
    server->shared.check_token = server->tokens[0];
    server->shared.admin_token = server->tokens[1];
    server->shared.admin_read_token = server->tokens[2];
    if (options->tls_cert && (e = sl_tls_context_new(options->tls_cert, options->tls_key, options->tls_client_ca,
                                                     &server->tls, ret_why, why_size)))
        return e;
    if ((e = open_doors(&server->doors[0], options->listen, options->n_listen, options, false, ret_why, why_size)) ||
        (e = open_doors(&server->doors[1], options->admin, options->n_admin, options, true, ret_why, why_size)))
        return e;
    return add_workers(server, options, ret_why, why_size);
}

int sl_server_new(const struct sl_server_options *options, struct sl_limiter *limiter, struct sl_server **ret_server,
                  char *ret_why, size_t why_size)
{
    int e = check_options(options, ret_why, why_size);
    struct sl_server *server;

    if (e)
        return e;
    server = calloc(1, sizeof *server);
    if (!server)
        return out_of_memory(ret_why, why_size);
    server->limits = options->limits;
    pthread_mutex_init(&server->shared.refused_lock, NULL);
    server->shared.limiter = limiter;
    server->shared.fleet = options->fleet;
    server->shared.hooks = options->hooks;
    server->shared.alarms = options->alarms;
    server->shared.ratios = options->ratios;
    server->shared.top = options->top;
    server->shared.witnesses = options->witnesses;
    server->shared.see = options->see;
    server->shared.notices = options->notices;
    e = build(server, options, ret_why, why_size);
    if (e)
        sl_server_free(&server);
    else
        *ret_server = server;
    return e;
}

static void on_ended(void *ctx, bool drained)
{
    struct sl_server *server = ctx;

    if (!drained)
        atomic_store(&server->cut, true);
    if (atomic_fetch_sub(&server->n_running, 1) == 1 && server->shared.hooks.stopped)
        server->shared.hooks.stopped(server->shared.hooks.ctx, !atomic_load(&server->cut));
}

/* Before anybody is accepted, so that no decision ever misses its lane. */
static int open_lanes(struct sl_server *server, char *ret_why, size_t why_size)
{
    int e = 0;

    server->shared.store_awaited_ns = sl_stopwatch_ns() + STORE_AWAITED_NS;
    for (unsigned i = 0; server->shared.fleet && i < server->n_workers && !e; i++)
        e = sl_worker_open_lane(server->workers[i], server->shared.fleet, ret_why, why_size);
    return e;
}

int sl_server_start(struct sl_server *server, char *ret_why, size_t why_size)
{
    int e = open_lanes(server, ret_why, why_size);

    if (e)
        return e;
    server->started = true;
    atomic_store(&server->n_running, server->n_workers);
    for (unsigned i = 0; i < server->n_workers; i++) {
        if (sl_worker_start(server->workers[i], on_ended, server)) {
            atomic_fetch_sub(&server->n_running, server->n_workers - i);
            snprintf(ret_why, why_size, "cannot start a thread");
            return SL_ENOMEM;
        }
    }
    return 0;
}

void sl_server_set_ready(struct sl_server *server, bool ready)
{
    atomic_store(&server->shared.ready, ready);
}

void sl_server_set_kept_copy(struct sl_server *server)
{
    atomic_store(&server->shared.kept_copy, true);
}

void sl_server_count_reload(struct sl_server *server, bool ok, const char *why)
{
    atomic_fetch_add(ok ? &server->shared.reloads_ok : &server->shared.reloads_failed, 1);
    pthread_mutex_lock(&server->shared.refused_lock);
    snprintf(server->shared.refused, sizeof server->shared.refused, "%s", ok || !why ? "" : why);
    pthread_mutex_unlock(&server->shared.refused_lock);
    atomic_store(&server->shared.last_reload_failed, !ok);
    if (ok)
        atomic_store(&server->shared.kept_copy, false);
    atomic_store(&server->shared.last_reload_s, (uint64_t)time(NULL));
}

void sl_server_count_ignored(struct sl_server *server)
{
    atomic_fetch_add(&server->shared.reloads_ignored, 1);
}

void sl_server_set_policy_version(struct sl_server *server, uint64_t version)
{
    atomic_store(&server->shared.policy_version, version);
    atomic_store(&server->shared.policy_from_store, true);
}

void sl_server_stop(struct sl_server *server, uint64_t drain_timeout_ms)
{
    atomic_store(&server->shared.draining, true);
    for (unsigned i = 0; i < server->n_workers; i++)
        sl_worker_stop(server->workers[i], drain_timeout_ms);
}

void sl_server_free(struct sl_server **server)
{
    struct sl_server *s = *server;

    if (!s)
        return;
    *server = NULL;
    if (s->started && !atomic_load(&s->shared.draining))
        sl_server_stop(s, 0);
    /* All threads end before the first worker goes: a metrics request may still read any of them. */
    for (unsigned i = 0; i < s->n_workers; i++)
        sl_worker_join(s->workers[i]);
    for (unsigned i = 0; i < s->n_workers; i++) {
        sl_worker_fini(s->workers[i]);
        free(s->workers[i]);
    }
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < s->doors[kind].n; i++)
            sl_listener_fini(&s->doors[kind].listeners[i]);
        free(s->doors[kind].listeners);
    }
    for (size_t i = 0; i < sizeof s->tokens / sizeof *s->tokens; i++)
        free(s->tokens[i]);
    pthread_mutex_destroy(&s->shared.refused_lock);
    sl_tls_context_free(s->tls);
    free(s->workers);
    free(s->services);
    free(s);
}

const char *sl_server_address(const struct sl_server *server, bool admin, size_t idx)
{
    const struct doors *doors = &server->doors[admin];

    return idx < doors->n ? doors->listeners[idx].text : NULL;
}

bool sl_server_admin_is_clear(const struct sl_server *server, size_t idx)
{
    const struct doors *doors = &server->doors[true];

    return idx < doors->n && !doors->listeners[idx].is_unix && !doors->listeners[idx].loopback && !server->tls;
}
