/* The shared tier of one instance: what makes many instances agree, on a store, and stay sensible without it.
 *
 * A fleet object belongs to one limiter and is shared by all its threads; a lane belongs to one loop and owns that
 * loop's connections to the stores. A decision has two parts. The near part runs on the caller's thread and touches no
 * network: pre-filter, local limits, unspent leased tokens, known rejections. Most requests of a hot key and every
 * request of a flood end there. What is left becomes a flight: it goes to the store with everything else its lane was
 * asked in the same turn of the loop, is answered within the deadline, and else decided by its limits' failure modes.
 *
 *     sl_fleet_new(&config, &fleet, why, sizeof why);
 *     sl_lane_new(fleet, &net, &lane, why, sizeof why);                on each loop's thread
 *     switch (sl_lane_check(lane, &request, &verdict, NULL, &field, &why, done, ctx)) {
 *     case SL_DECIDED: ...                                             the verdict is there
 *     case SL_PENDING: ...                                             done(ctx) will be called, once, on this loop
 *     }
 *     sl_lane_stop(lane, stopped, ctx);                                gives leases back, answers what is open
 *     sl_lane_free(lane);
 *     sl_fleet_free(fleet);
 *
 * Functions of a lane belong to its loop's thread, except where said; those of a fleet may be called from any. */
#ifndef SL_FLEET_FLEET_H
#define SL_FLEET_FLEET_H

#include "fleet/tiers.h"
#include "limiter/limiter.h"
#include "store/client.h"

#define SL_FLEET_INSTANCES_MAX 1000u
#define SL_FLEET_LANES_MAX 257u     /* 256 workers and the admin listener */
#define SL_FLEET_FLIGHTS_MAX 16384u /* a lane's; a request beyond is decided as if the store did not answer */

struct sl_fleet;
struct sl_lane;

/* Something an operator wants to know, once at each change. Called from the lane's thread that noticed; several lanes may
 * notice the same, the receiver joins and rate-limits. */
struct sl_fleet_event {
    const struct sl_client_event *client; /* what a store's client told; NULL: there is a finding */
    const char *finding;                  /* a sentence about what the store is or holds */
    bool serious;                         /* the finding keeps shared limits from working as they should */
    const char *store;                    /* the store's address without secrets */
};

struct sl_fleet_config {
    struct sl_limiter *limiter; /* borrowed, as all that is pointed to here, for the fleet's life */
    const struct sl_alloc *alloc;
    const struct sl_store_url *store; /* the main one; not memory: */
    const char *ns;                   /* 1 ... SL_NAMESPACE_MAX bytes, no braces */
    const char *keys_ns;              /* where the tiers of keys are looked up (`keys_store`); NULL: ns */
    uint64_t timeout_us;              /* of one decision; 0: SL_CLIENT_TIMEOUT_US */
    uint64_t tier_ttl_us;             /* how long a key's tier in the store counts here; 0: SL_TIERS_TTL_US */
    unsigned instances;               /* how many there are, until the store has told; at least 1 */
    /* The fleet's secret is known, for the first time or anew: the policy must be compiled under it
     * (sl_policy_options.secret) and put in force; until then every shared limit is degraded. On a lane's thread. */
    void (*secret)(void *owner, const struct sl_secret *secret);
    void (*event)(void *owner, const struct sl_fleet_event *event); /* NULL: nobody cares */
    /* A sentence about something under the fleet's own names that is not ours, once at each change; may be NULL. On a lane's
     * thread. */
    void (*odd)(void *owner, const char *text);
    void *owner;
};

/* Attaches a shared tier to the limiter. Connects to nothing; lanes do. Returns 0, SL_EINVALID with a sentence, or
 * SL_ENOMEM. */
int sl_fleet_new(const struct sl_fleet_config *config, struct sl_fleet **ret_fleet, char *why, size_t why_size);

/* After its last lane, before its limiter. Accepts NULL. */
void sl_fleet_free(struct sl_fleet *fleet);

/* Says that the policy compiled under this secret is in force from now on. Before that, and when the secrets differ,
 * shared limits are degraded. */
void sl_fleet_set_secret(struct sl_fleet *fleet, const struct sl_secret *secret);

/* The secret as last heard from the store; false when it is not known. */
bool sl_fleet_secret(struct sl_fleet *fleet, struct sl_secret *ret_secret);

/* How many instances share the limits now: as last heard from the store, else as configured. */
unsigned sl_fleet_instances(const struct sl_fleet *fleet);

/* This instance's name among those that are alive (fleet/members.h). */
uint64_t sl_fleet_id(const struct sl_fleet *fleet);

/* The bucket is whole again in the store (sl_limiter_reset of its key): what is known of it here is forgotten. */
void sl_fleet_forget(struct sl_fleet *fleet, struct sl_hash128 fp);

struct sl_fleet_stats {
    uint64_t near_rejected; /* rejected by pre-filter, lease or deny cache: no network */
    uint64_t leased;        /* bucket decisions out of leased tokens */
    uint64_t asked;         /* bucket decisions asked of the store */
    uint64_t operations;    /* groups sent: merged requests count once; refunds, renewals and returns count too */
    uint64_t renewals, returns, refunds;
    uint64_t tokens_lost;  /* leased tokens that were never given back, or asked for without an answer */
    uint64_t refunds_lost; /* charges that could not be given back */
    uint64_t degraded;     /* bucket decisions by a failure mode */
    uint64_t foreign;      /* buckets whose key held something that is not ours */
    uint64_t answered;     /* calls that the store did what they asked for */
    uint64_t refused; /* calls it answered with an error that no breaker counts: it is there, and does not decide */
    uint64_t leases_active; /* buckets leased now */
    uint64_t instances;     /* as sl_fleet_instances */
    int64_t clock_apart_us; /* our Unix time less the main store's, at the last heartbeat; 0: there was none */
    bool secret_known;      /* and the policy is compiled under it */
    uint64_t key_lookups[SL_TIERS_COUNTS]; /* of tiers that stand in the store (`tiers.keys_store`) */
    uint64_t keys_cached;                  /* of which is remembered what came of it */
    bool reached;                          /* a lane has a ready connection to the main store */
};
void sl_fleet_stats(struct sl_fleet *fleet, struct sl_fleet_stats *ret_stats);

/* Every shard of every store, each summed over all lanes; the breaker is the worst of them. visit must not call the
 * fleet. */
void sl_fleet_shards(struct sl_fleet *fleet, void (*visit)(void *ctx, const struct sl_shard_stats *stats), void *ctx);

/* ---- lanes */

enum { SL_DECIDED = 0, SL_PENDING = 1 };

/* The loop's own thread. `net` is borrowed. Begins to connect. Returns 0, SL_EINVALID (a file of the address that cannot be
 * used), SL_EBUSY (SL_FLEET_LANES_MAX) or SL_ENOMEM. */
int sl_lane_new(struct sl_fleet *fleet, const struct sl_net *net, struct sl_lane **ret_lane, char *why,
                size_t why_size);

/* Called when a pending request is decided: the verdict and the report it was given are filled. May ask for further
 * decisions. */
typedef void sl_lane_done(void *ctx);

/* Decides one request, as sl_limiter_check. Returns SL_DECIDED; SL_PENDING: ret_verdict and report (may be NULL) must
 * stay valid until done is called; or SL_EINVALID. */
int sl_lane_check(struct sl_lane *lane, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                  struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done,
                  void *ctx);

/* The main store is reached and the fleet's secret is known. */
bool sl_lane_ready(const struct sl_lane *lane);

/* Gives the leases back that this lane is the last to look after, says goodbye to the fleet, and waits for what is open. Calls
 * stopped, from a timer, when all of it is done or its deadline has passed; it may free the lane. New requests are decided by
 * their failure modes. */
void sl_lane_stop(struct sl_lane *lane, void (*stopped)(void *ctx), void *ctx);

/* After it has stopped, or at once: what is open is answered by its failure modes. Not from a callback. Accepts NULL. */
void sl_lane_free(struct sl_lane *lane);

/* ---- looking in, and resetting */

/* What sl_lane_inspect found. Buckets of the table and of the store come as struct sl_bucket_info, those of the store as one
 * for each part of a split limit; they are valid for the call. `done` comes once and last: how many buckets there were, and
 * how many could not be asked about. Both on the loop. */
struct sl_lane_visitor {
    void (*bucket)(void *ctx, const struct sl_bucket_info *info);
    void (*done)(void *ctx, size_t n, size_t unknown);
    void *ctx;
};

#define SL_INSPECT_BUCKETS_MAX 4096u

/* As sl_limiter_inspect or, with `reset`, sl_limiter_reset: in the table and in the stores. Returns 0 (done will be called,
 * perhaps before this returns), SL_EINVALID with field and reason, or SL_ENOMEM. */
int sl_lane_inspect(struct sl_lane *lane, const struct sluice_request *request, bool reset,
                    const struct sl_lane_visitor *visitor, const char **ret_field, const char **ret_why);

/* ---- decisions from any thread (the library)
 *
 * A flight begun on one thread and flown by a lane on another. */

struct sl_flight;

/* The near part. As sl_lane_check; SL_PENDING with a flight that must be handed to sl_lane_fly, on the lane's thread, or to
 * sl_flight_give_up. Any thread. */
int sl_fleet_begin(struct sl_fleet *fleet, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                   struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done,
                   void *ctx, struct sl_flight **ret_flight);
void sl_lane_fly(struct sl_lane *lane, struct sl_flight *flight);

/* Decides it by the failure modes, now, and calls done. Any thread, when no lane will ever see it. */
void sl_flight_give_up(struct sl_flight *flight);

/* Leases to renew and keys to look up, found by near parts on threads without a lane: true when a lane should be woken to call
 * sl_lane_tend. Any thread. */
bool sl_fleet_has_errands(const struct sl_fleet *fleet);
void sl_lane_tend(struct sl_lane *lane);

/* Between sl_fleet_begin and sl_lane_fly: somebody else is to be told. */
void sl_flight_set_done(struct sl_flight *flight, sl_lane_done *done, void *ctx);

/* A flight's link for a queue of the caller's, between sl_fleet_begin and sl_lane_fly. */
struct sl_flight **sl_flight_next(struct sl_flight *flight);

#endif
