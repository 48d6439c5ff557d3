/* The HTTP doors: the public listener (/check, /auth, /healthz, /readyz) and the admin listener, HTTP/1.1, HTTP/2 and
 * TLS, over TCP and unix sockets (SPEC sections 5, 6 and 7).
 *
 *     struct sl_server_options options = sl_server_defaults();
 *     options.listen = (const char *const[]){"127.0.0.1:8080"}, options.n_listen = 1;
 *     if (sl_server_new(&options, limiter, &server, why, sizeof why) != 0 ||
 *         sl_server_start(server, why, sizeof why) != 0)
 *         return complain(why);
 *     sl_server_set_ready(server, true);
 *     ...
 *     sl_server_stop(server, drain_timeout_ms);      returns at once; hooks.stopped tells when it is done
 *     sl_server_free(&server);                       waits for the threads
 *
 * Each worker is a thread with a libuv loop, its own listening sockets (SO_REUSEPORT) and its own connections; the
 * admin listener has a thread of its own, so a scrape or a reload never delays a decision. Memory is bounded: at most
 * max_connections connections, each with at most one request and one answer (or the streams of one HTTP/2 session)
 * within the limits below. */
#ifndef SL_SERVER_SERVER_H
#define SL_SERVER_SERVER_H

#include "limiter/limiter.h"
#include "observe/alarm.h"
#include "observe/top.h"
#include "observe/watch_ratio.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_fleet;
struct sl_notice_counts;
struct sl_server;
struct sl_override_job;
struct sl_policy_job;
struct sl_shadow_totals;

typedef void sl_policy_job_taker(void *ctx, struct sl_policy_job *job);

enum sl_server_severity { SL_SERVER_ERROR, SL_SERVER_WARNING, SL_SERVER_INFO };

/* Called from the server's threads, several at once. Lines that traffic can cause are rate limited by the server. */
struct sl_server_hooks {
    void *ctx;
    /* One message for people, no newline. NULL: silent. */
    void (*log)(void *ctx, enum sl_server_severity severity, const char *message);
    /* POST /v1/reload: load the policy again and put it in force, whole or not at all. Returns 0; SL_EBUSY when the file is
     * not what the policy comes from; or another negative code; with a sentence. Called on the admin thread. NULL: the route
     * answers 501. */
    int (*reload)(void *ctx, char *ret_why, size_t why_size);
    /* PUT /v1/policy, GET /v1/policy/history, POST /v1/policy/rollback: takes the job (server/policy_job.h), which must be
     * done in the end, and before the server can stop. Called on the admin thread. NULL: these routes answer 501. */
    sl_policy_job_taker *policy;
    void *policy_ctx;
    /* The same for /v1/shadow, /v1/shadow/promote and /v1/dry-run; and, for /metrics, how a candidate policy does. NULL: these
     * routes answer 501, and the metrics say that there is none. */
    sl_policy_job_taker *shadow;
    void (*shadow_totals)(void *shadow_ctx, struct sl_shadow_totals *ret_totals);
    void *shadow_ctx;
    /* /v1/overrides: takes the job (server/override_job.h), under the same terms. NULL: the route answers 501. */
    void (*overrides)(void *overrides_ctx, struct sl_override_job *job);
    void *overrides_ctx;
    /* All threads of the server have come to their end after sl_server_stop; drained is false when the time ran out and
     * connections were cut. Called once, on one of those threads. NULL: not wanted. */
    void (*stopped)(void *ctx, bool drained);
};

/* Every limit with its range; sl_server_new refuses what is outside. Timeouts: 10 ms ... 1 h. */
struct sl_server_limits {
    /* Public connections, 1 ... 1,000,000; lowered to what RLIMIT_NOFILE allows. Default 10,000. At the limit one that
     * has been idle for a second makes room; when there is none, newcomers wait in the kernel's queue. */
    unsigned max_connections;
    unsigned header_bytes; /* request line and headers, 1 KiB ... 64 KiB. Default 16 KiB; beyond: 431 */
    unsigned body_bytes;   /* 1 KiB ... 64 MiB. Default 4 MiB; beyond: 413 */
    /* Answers one connection may have waiting before its pipelined requests wait, 16 KiB ... 64 MiB. Default 256 KiB */
    unsigned out_bytes;
    unsigned max_streams;        /* concurrent streams of an HTTP/2 connection, 1 ... 1,000. Default 128 */
    unsigned header_timeout_ms;  /* first byte of a request to its last header; TLS handshake. Default 5 s; then 408 */
    unsigned request_timeout_ms; /* first byte to last byte of a request. Default 30 s; then 408 */
    unsigned idle_timeout_ms;    /* between requests. Default 60 s; then closed */
    unsigned write_timeout_ms;   /* a client that takes nothing of an answer. Default 30 s; then cut */
};

struct sl_server_options {
    /* "host:port", "[v6]:port", ":port" (every address) or "unix:/path"; port 0 takes a free one. Borrowed for the call
     * of sl_server_new. Default: none; at least one of the two lists must not be empty. */
    const char *const *listen;
    size_t n_listen;
    const char *const *admin; /* a TCP address that is not loopback needs one of the admin tokens */
    size_t n_admin;
    /* PEM chain and key; both or neither. For every public TCP listener, and admin TCP listeners off loopback. */
    const char *tls_cert;
    const char *tls_key;
    const char *tls_client_ca; /* PEM: TLS clients must show a certificate one of these signed. NULL: none asked for */
    /* When set, /check needs "Authorization: Bearer TOKEN", except on unix sockets. 1 ... 512 visible ASCII bytes. */
    const char *check_token;
    /* The same for every admin route but /healthz and /readyz. When one of the two is set, one is needed. With
     * admin_read_token, which must be another, only GET and HEAD are answered, what changes something is 403. */
    const char *admin_token;
    const char *admin_read_token;
    unsigned workers;   /* 1 ... 256. Default 1 */
    unsigned unix_mode; /* permission bits of unix sockets. Default 0660 */
    /* The shared tier of `limiter`: each worker has a lane of it. Borrowed until sl_server_free. NULL: there is none, all
     * is decided in the limiter's table. */
    struct sl_fleet *fleet;
    struct sl_server_limits limits;
    struct sl_alarms *alarms;         /* what /metrics shows of them; borrowed until sl_server_free. NULL: nothing */
    struct sl_ratio_watch *ratios;    /* likewise of shares */
    struct sl_top *top;               /* likewise of hot keys, and for GET /v1/top */
    struct sl_witnesses *witnesses;   /* who is told of decisions (server/witness.h). NULL: nobody */
    struct sl_see *see;               /* what they remember of rejections and traces (server/see.h). NULL: nothing */
    struct sl_notice_counts *notices; /* what /metrics shows of notifications. NULL: nothing */
    struct sl_server_hooks hooks;
};

struct sl_server_options sl_server_defaults(void);

/* Checks the options, loads certificates and binds every address: everything that can fail for a reason an operator can
 * mend. Borrows `limiter` until sl_server_free. Returns 0; or SL_EINVALID (an option), SL_EIO (an address, a file),
 * SL_ENOMEM, with one sentence in ret_why ("cannot listen on 127.0.0.1:8080: the address is in use") and nothing left
 * behind. A unix path that nobody listens on any more is taken over; one that is in use or no socket is left alone. */
int sl_server_new(const struct sl_server_options *options, struct sl_limiter *limiter, struct sl_server **ret_server,
                  char *ret_why, size_t why_size);

/* Begins to connect to the store, if there is one, starts the threads and begins to accept. Returns 0, or SL_ENOMEM,
 * SL_EIO, SL_EINVALID (a file of the store's address), SL_EBUSY (too many lanes) and a sentence. Once. */
int sl_server_start(struct sl_server *server, char *ret_why, size_t why_size);

/* What /readyz answers: false (the state after sl_server_new): 503. When true, it also waits for the store to be reached,
 * but not longer than 2 s after sl_server_start. Any thread. */
void sl_server_set_ready(struct sl_server *server, bool ready);

/* Tells /metrics and /v1/policy of a policy reload, however it came about. `why`: what is wrong with a policy that was
 * refused, copied; else NULL. Any thread. */
void sl_server_count_reload(struct sl_server *server, bool ok, const char *why);

/* The policy in force is the copy that was kept of the last good file, which is not valid any more; until the next good
 * reload. Any thread. */
void sl_server_set_kept_copy(struct sl_server *server);
/* Likewise of one that was not to be taken: the policy comes from elsewhere. */
void sl_server_count_ignored(struct sl_server *server);

/* The policy has versions in a store, and this one is in force (0: the file's, which has none). Without this call the version
 * is how many policies have been put in force. Any thread. */
void sl_server_set_policy_version(struct sl_server *server, uint64_t version);

/* Begins to stop and returns at once: /readyz is 503, listeners close once those who already connected are accepted,
 * every request that arrives on an open connection is still answered, with `Connection: close` (HTTP/2: GOAWAY). Idle
 * connections are closed after a short grace, all others when they are done, or are cut after drain_timeout_ms. Then the
 * lanes stop, which takes the store's deadline and a fifth of a second at most. Any thread; a second call can only
 * shorten the time. */
void sl_server_stop(struct sl_server *server, uint64_t drain_timeout_ms);

/* Joins the threads (stopping at once when nobody stopped it), removes its unix paths, frees. Clears *server; accepts
 * NULL inside. Not from a hook. */
void sl_server_free(struct sl_server **server);

/* The address really bound ("127.0.0.1:41234", "unix:/path") of the idx-th public or admin listener, or NULL. Lives as
 * long as the server. */
const char *sl_server_address(const struct sl_server *server, bool admin, size_t idx);

/* Do tokens travel in the clear to the idx-th admin listener? So on TCP off loopback without TLS. */
bool sl_server_admin_is_clear(const struct sl_server *server, size_t idx);

#endif
