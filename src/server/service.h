/* What handlers work with: one service a loop, all of them on one `struct sl_shared`.
 *
 * Nothing here is allocated while a request is handled. Fields of a service belong to its thread, except the counters,
 * which other threads read while its own writes them. */
#ifndef SL_SERVER_SERVICE_H
#define SL_SERVER_SERVICE_H

#include "limiter/limiter.h"
#include "limiter/verdict_json.h"
#include "server/check_json.h"
#include "server/post.h"
#include "server/server.h"

#include <pthread.h>
#include <stdatomic.h>

/* Classes of answers, for sluice_http_responses_total. */
enum { SL_CLASS_2XX, SL_CLASS_4XX, SL_CLASS_429, SL_CLASS_5XX, SL_CLASSES };

#define SL_ROUTES_COUNTED 32
#define SL_REFUSED_MAX 1024u

/* Counters of one loop: written by it alone, read by anyone. */
struct sl_service_counters {
    atomic_uint_fast64_t responses[SL_ROUTES_COUNTED][SL_CLASSES];
    atomic_uint_fast64_t unrouted[SL_CLASSES]; /* refused before a route was found */
    atomic_uint_fast64_t accepted;             /* connections */
    atomic_uint_fast64_t open;                 /* connections now */
    atomic_uint_fast64_t reclaimed;            /* idle connections closed to make room */
    atomic_uint_fast64_t paused;               /* times accepting was paused for want of descriptors or room */
    atomic_uint_fast64_t timeouts;             /* connections ended by a deadline */
    atomic_uint_fast64_t malformed;            /* requests that were no HTTP */
    atomic_uint_fast64_t bad_forwarded;        /* forwarding headers that held something that is no address */
};

static inline void sl_count(atomic_uint_fast64_t *counter, int64_t by)
{
    /* One writer: no locked instruction is needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)by,
                          memory_order_relaxed);
}

struct sl_fleet;
struct sl_inquiry;
struct sl_lane;
struct sl_see;

/* The same for all loops of a server. Strings, `limiter` and `fleet` are borrowed for its life. */
struct sl_shared {
    struct sl_limiter *limiter;
    struct sl_fleet *fleet;    /* NULL: memory */
    uint64_t store_awaited_ns; /* /readyz waits for the store until then, of sl_stopwatch_ns */
    struct sl_alarms *alarms;  /* NULL: none */
    struct sl_ratio_watch *ratios;
    struct sl_top *top;
    struct sl_witnesses *witnesses;
    struct sl_see *see;
    struct sl_notice_counts *notices; /* NULL: no webhooks */
    const char *check_token;          /* NULL: none */
    const char *admin_token, *admin_read_token;
    struct sl_server_hooks hooks;
    atomic_bool ready, draining;
    atomic_uint_fast64_t reloads_ok, reloads_failed;
    atomic_uint_fast64_t last_reload_s; /* Unix time; 0: none yet */
    atomic_bool last_reload_failed, kept_copy;
    pthread_mutex_t refused_lock;
    char refused[SL_REFUSED_MAX]; /* under the lock: what is wrong with the latest policy; empty: nothing */
    atomic_uint_fast64_t reloads_ignored;
    atomic_bool
        policy_from_store; /* the policy has versions, and this is the number of the one in force; 0: the file */
    atomic_uint_fast64_t policy_version;
    struct sl_service *const *services; /* every loop's, for metrics */
    unsigned n_services;
};

struct sl_service {
    struct sl_shared *shared;
    unsigned loop;        /* its number among services */
    struct sl_lane *lane; /* NULL: every decision is this table's */
    struct sl_check_input *input;
    struct sluice_verdict *verdicts; /* SLUICE_BATCH_MAX */
    struct sl_report *report;
    struct sl_policy *policy; /* a reference for this turn of the loop; see sl_service_door */
    struct sl_date_cache dates;
    struct sl_secret id_secret;
    uint64_t id_count;
    struct sl_service_counters counters;
    /* Decisions that wait for the store, see inquiry.h */
    struct sl_inquiry *decided, **last_decided; /* to be answered at the end of this turn */
    struct sl_inquiry *spare;
    unsigned n_spare;
    size_t n_batched;       /* verdicts in batches that are not answered */
    struct sl_postbox post; /* what other threads do for requests of this loop */
};

/* Returns 0, SL_ENOMEM or SL_EIO (no randomness). */
int sl_service_init(struct sl_service *service, struct sl_shared *shared);
void sl_service_fini(struct sl_service *service);

/* The policy in force, for this turn of the loop; call sl_service_turn_ended before the loop sleeps, so that an idle
 * loop keeps no old policy alive. */
const struct sl_policy *sl_service_policy(struct sl_service *service);
void sl_service_turn_ended(struct sl_service *service);

/* A request id that nobody can guess or repeat: "req_" and 20 characters. */
#define SL_REQUEST_ID_MAX 25
void sl_request_id(struct sl_service *service, char id[SL_REQUEST_ID_MAX]);

#endif
