/* What the files of the shared tier share; see fleet.h. */
#ifndef SL_FLEET_INTERNAL_H
#define SL_FLEET_INTERNAL_H

#include "fleet/deny.h"
#include "fleet/fleet.h"
#include "fleet/heat.h"
#include "fleet/lease.h"
#include "fleet/members.h"
#include "fleet/tiers.h"
#include "limiter/snapshot.h"
#include "store/codec.h"
#include "store/list.h"

#include <pthread.h>
#include <stdatomic.h>

#define SL_PARTS_MAX (2 * SL_ITEMS_MAX)
#define SL_STORES_MAX 16u /* the main one and those of `dedicated`, over all policies a process has seen */
#define SL_ERRANDS_MAX 1024u

/* ---- a request's buckets (parts): the enforcing items, then the dry-run ones */

enum sl_part_state {
    SL_PART_TABLE,    /* decided in the table alone */
    SL_PART_LEASED,   /* paid with leased tokens */
    SL_PART_STORE,    /* to be asked of the store */
    SL_PART_DEGRADED, /* decided by its failure mode, in the table under another name */
    SL_PART_KNOWN,    /* its rejection is known, or it is not judged: nothing is charged anywhere */
};

struct sl_part {
    struct sl_item item; /* for a bucket that is split: shape and fingerprint of one of its parts */
    struct sl_decision decision;
    struct sl_telling telling;
    struct sl_hash128 owner;
    struct sl_shape degraded; /* SL_PART_DEGRADED: as charged */
    uint8_t state;            /* enum sl_part_state */
    uint8_t split_at;         /* which part of a split bucket */
    uint16_t store;           /* index in the fleet's stores */
};

/* ---- flights */

/* Buckets of one flight that are asked for together, all or nothing: the enforcing ones of one slot, or one dry-run limit's. */
enum sl_leg_state { SL_LEG_OPEN, SL_LEG_ALLOWED, SL_LEG_REJECTED, SL_LEG_FAILED };

struct sl_leg {
    struct sl_leg *next; /* in its group */
    struct sl_flight *flight;
    uint64_t asked_us; /* our clock, when it was sent */
    uint64_t wait_us;  /* failed: until the breaker's next probe */
    uint8_t state;     /* enum sl_leg_state */
    bool dry, second;  /* second: the second try of a split bucket */
    uint8_t n;
    uint8_t parts[SL_ITEMS_MAX]; /* indices */
};

struct sl_flight {
    struct sl_flight *next; /* in a queue of the caller's */
    struct sl_fleet *fleet;
    struct sl_lane *lane; /* once it flies */
    struct sl_policy *policy;
    struct sl_consult consult; /* items and dry point into items[] below */
    struct sluice_verdict *verdict;
    struct sl_report *report;
    sl_lane_done *done;
    void *ctx;
    uint64_t begun_us;   /* the lane's clock when it began to fly */
    uint64_t started_ns; /* sl_stopwatch_ns */
    bool boarding;       /* legs are being sent: it is not over even if none is open */
    unsigned n_open;     /* legs */
    unsigned n_legs;
    struct sl_leg *legs; /* one a part at most */
    struct sl_part *parts;
    struct sl_item *items; /* as the policy resolved them, for the verdict */
};

/* ---- what a lane sends */

/* A debit to ask for, or tokens to give back. */
struct sl_errand {
    struct sl_hash128 fp, who;
    uint16_t store;
    uint32_t tokens;
    struct sl_shape shape; /* the bucket's own */
    struct sl_lease_terms terms;
};

enum sl_load_kind { SL_LOAD_LEGS, SL_LOAD_DEBIT, SL_LOAD_GIVE_BACK, SL_LOAD_REFUND };

/* A charge to give back for a flight that was rejected elsewhere. */
struct sl_refund_bucket {
    struct sl_hash128 fp, owner;
    struct sl_shape shape;
    struct sl_decision charge;
};

/* One group of an ask. */
struct sl_load {
    struct sl_load *next;
    enum sl_load_kind kind;
    unsigned n; /* buckets */
    /* SL_LOAD_LEGS: requests on the same buckets, in the order asked. The shapes are of `policy`, a reference. */
    struct sl_policy *policy;
    const struct sl_shape *shapes[SL_ITEMS_MAX];
    struct sl_leg *legs, **last_leg;
    unsigned n_legs;
    /* SL_LOAD_DEBIT, SL_LOAD_GIVE_BACK */
    struct sl_errand errand;
    struct sl_shape debit_shape;
    struct sl_decision charge;
    /* SL_LOAD_REFUND */
    struct sl_refund_bucket *refunds;
};

#define SL_CRATE_LOADS_MAX 64u
#define SL_CRATE_KEYS_MAX 256u
#define SL_CRATE_ASK_MAX (64u << 10)

/* One call of the script or the module: everything a turn has for one slot. */
struct sl_crate {
    struct sl_crate *next;
    struct sl_lane *lane;
    uint16_t store;
    bool second; /* of second tries, whose deadline is nearer */
    unsigned slot;
    uint64_t asked_us; /* the table's clock */
    uint64_t sent_us;  /* the lane's */
    unsigned n_keys;
    size_t ask_size; /* at most, of what was loaded */
    struct sl_load *loads, **last_load;
    unsigned n_loads;
};

/* ---- lanes */

/* A store as one lane sees it. */
struct sl_lane_store {
    struct sl_lane *lane;
    uint16_t index;
    bool closed;              /* the lane is being freed: nothing is opened any more */
    uint64_t again_us;        /* when it may be tried again to make a client */
    uint64_t refusal_told_us; /* see sl_lane_refused */
    struct sl_client *client;
};

/* A call that looks up tiers of keys; `look` is NULL when there is none. */
struct sl_lane_look {
    struct sl_lane *lane;
    struct sl_tiers_look *look;
};

struct sl_lane {
    struct sl_fleet *fleet;
    const struct sl_net *net;
    struct sl_lane_store stores[SL_STORES_MAX];
    struct sl_timer *flush_timer, *tick_timer, *look_timer;
    bool flush_set, look_set;
    struct sl_lane_look looks[SL_TIERS_LOOKS_MAX];
    struct sl_crate *crates, **last_crate; /* being loaded in this turn, in the order they are sent */
    struct sl_load *debits, **last_debit;  /* of this turn, which go behind what requests ask for */
    struct sl_crate *free_crates;
    struct sl_load *free_loads;
    uint8_t *ask_bytes; /* scratch of a call: SL_CRATE_ASK_MAX, then the keys */
    unsigned n_flights;
    unsigned n_crates_out;      /* sent, not answered */
    unsigned rotor;             /* for split buckets */
    struct sl_members *members; /* of the keeper */
    bool probing;               /* the keeper asks what kind of store it is */
    atomic_bool reached;        /* the main store's client is ready */
    bool stopping;
    void (*stopped)(void *ctx); /* NULL once it was called */
    void *stopped_ctx;
    uint64_t stop_by_us;
    bool leaving; /* the goodbye is on its way */
    bool last;    /* no other lane runs: it ends all leases */
    size_t n_leases_left;
};

enum sl_fleet_count {
    SL_FC_NEAR_REJECTED,
    SL_FC_LEASED,
    SL_FC_ASKED,
    SL_FC_OPERATIONS,
    SL_FC_RENEWALS,
    SL_FC_RETURNS,
    SL_FC_REFUNDS,
    SL_FC_REFUNDS_LOST,
    SL_FC_DEGRADED,
    SL_FC_FOREIGN,
    SL_FC_ANSWERED,
    SL_FC_REFUSED,
    SL_FC_TOKENS_LOST, /* those that could not be given back; see also struct sl_leases_stats */
    SL_FCS,
};

/* What was told of the keys' tiers in the store, so that nothing is told twice. */
#define SL_KEYS_TOLD_MAX 128u
struct sl_keys_told {
    char refusal[SL_KEYS_TOLD_MAX]; /* "": none */
    uint64_t unknown_us;            /* of a tier that the policy does not name; 0: never */
};

struct sl_fleet {
    struct sl_alloc alloc;
    struct sl_limiter *limiter;
    struct sl_fleet_config config;
    char ns[SL_NAMESPACE_MAX + 1];
    char keys_ns[SL_NAMESPACE_MAX + 1];
    size_t ns_len;
    uint64_t timeout_us;
    uint64_t id;
    atomic_uint instances;
    struct sl_deny *deny;
    struct sl_leases *leases;
    struct sl_heat *heat;
    struct sl_tiers *tiers;
    atomic_uint_fast64_t counts[SL_FCS];
    atomic_int_fast64_t clock_apart_us;

    pthread_mutex_t lock; /* what follows */
    struct sl_secret heard_secret, policy_secret;
    bool heard, policy_given;
    atomic_bool ready; /* both are there and the same */
    struct sl_lane *lanes[SL_FLEET_LANES_MAX];
    unsigned n_running;                         /* lanes that are not stopping */
    struct sl_lane *_Atomic keeper;             /* sweeps the leases and keeps the heartbeat; changed under the lock */
    struct sl_store_url *stores[SL_STORES_MAX]; /* NULL: not an address */
    char *store_texts[SL_STORES_MAX];           /* as in the policy; [0]: NULL */
    bool stores_read[SL_STORES_MAX];            /* the files of its address */
    atomic_uint n_stores;
    atomic_bool crowded; /* a store found no place, and it is not told yet */
    struct sl_errand errands[SL_ERRANDS_MAX];
    unsigned n_errands;
    atomic_bool has_errands;
    struct sl_keys_told keys_told;
};

static inline void sl_fleet_add(struct sl_fleet *fleet, enum sl_fleet_count what, uint64_t n)
{
    atomic_fetch_add_explicit(&fleet->counts[what], n, memory_order_relaxed);
}

static inline uint64_t sl_lane_now(const struct sl_lane *lane)
{
    return lane->net->now_us(lane->net->ctx);
}

/* ---- fleet.c */

/* A lane has heard from the members. */
void sl_fleet_heard(struct sl_fleet *fleet, unsigned count, const struct sl_secret *secret);

/* Remembers a debit that a thread without a lane has found. When there is no room it is called off. */
void sl_fleet_add_errand(struct sl_fleet *fleet, const struct sl_errand *errand);

/* ---- stores.c */

/* The fleet's index of a dedicated store, by its text; adds it. SL_STORES_MAX: no room. Any thread. */
unsigned sl_fleet_store(struct sl_fleet *fleet, const char *text);

/* A store's address, with its files read, which is tried until they can be; or NULL and a sentence. Called with the lock
 * held, but for the main store. */
const struct sl_store_url *sl_fleet_store_url(struct sl_fleet *fleet, unsigned store, char *why, size_t why_size);

/* Findings, on a lane's thread: a store for which no client can be made; one that found no place, if there is news of that. */
void sl_fleet_tell_unusable(struct sl_fleet *fleet, unsigned store, const char *why);
void sl_fleet_tell_crowded(struct sl_fleet *fleet);

/* The store has answered a call with an error that no breaker counts: counted, and told at most once a second. */
void sl_lane_refused(struct sl_lane *lane, unsigned store, enum sl_result result, const char *answer);

/* ---- key_tiers.c */

/* The limiter asks this fleet for tiers that the store has, or nobody any more. */
void sl_fleet_find_tiers(struct sl_fleet *fleet, bool on);

int sl_lane_init_looks(struct sl_lane *lane); /* 0 or SL_ENOMEM */
void sl_lane_fini_looks(struct sl_lane *lane);

/* Keys that wait to be looked up go to the store at the end of this turn, when there are any. */
void sl_lane_look_up(struct sl_lane *lane);

/* ---- near.c: the part of a decision that needs no network */

/* One call of sl_lane_check or sl_fleet_begin. */
struct sl_near_call {
    struct sl_fleet *fleet;
    struct sl_lane *lane; /* NULL: none on this thread */
    sl_lane_done *done;
    void *ctx;
    struct sl_flight *flight; /* out, when the answer is SL_PENDING */
};

int sl_near_decide(void *near_call, struct sl_snapshot *snapshot, unsigned slot, const struct sl_consult *consult,
                   uint64_t now_us, struct sluice_verdict *ret_verdict, struct sl_report *report);

/* ---- part.c: what is known of one bucket */

/* The name under which the pre-filter, and the failure mode, keep a bucket's state in the table. */
struct sl_hash128 sl_filter_name(struct sl_hash128 fp);
struct sl_hash128 sl_degraded_name(struct sl_hash128 fp);

/* The pre-filter's shape. `scratch` holds it when it depends on the number of instances. */
const struct sl_shape *sl_filter_shape(const struct sl_item *item, unsigned instances, struct sl_shape *scratch);

/* The limit's own algorithm at COUNT and burst divided by n, floor, at least 1. */
void sl_degraded_shape(const struct sl_shape *shape, unsigned n, struct sl_shape *ret_shape);

/* The terms under which this item's bucket is leased; false when it is not to be (an `auto` block under 2). */
bool sl_lease_terms_of(const struct sl_limit *limit, const struct sl_shape *shape, unsigned instances,
                       struct sl_lease_terms *ret_terms);

/* Turns the part into part `at` of its split bucket. */
void sl_part_split(struct sl_part *part, const struct sl_item *whole, struct sl_hash128 owner, unsigned at);

/* Tells the part's figures as its decision has them; of a split bucket, as far as one part can tell. */
void sl_part_tell(struct sl_part *part, const struct sl_item *whole, enum sluice_source source);

/* Adds what lies here, leased, to what the store says is left. */
void sl_part_add_leased(struct sl_part *part, uint32_t unspent);

/* A decision that had room but was not charged after all: as a peek would show it. */
void sl_decision_unspend(struct sl_decision *decision);

/* What was asked of part i as the policy has it: of a split bucket the whole. The enforcing ones, then the dry-run ones. */
static inline const struct sl_item *sl_flight_whole(const struct sl_flight *flight, unsigned i)
{
    return &flight->items[i];
}

/* ---- flight.c */

/* Copies the consult and the parts. Takes a reference of the policy. NULL: out of memory. */
struct sl_flight *sl_flight_new(struct sl_fleet *fleet, struct sl_policy *policy, const struct sl_consult *consult,
                                const struct sl_part *parts);
void sl_flight_free(struct sl_flight *flight);

/* A leg has its answer, in its parts' decisions, or a failure. Finishes the flight with its last leg. */
void sl_leg_answered(struct sl_leg *leg, bool allowed);
/* wait_us: until the breaker's next probe, 0: not known. */
void sl_leg_failed(struct sl_leg *leg, uint64_t wait_us);

/* ---- settle.c */

/* Every leg has come to its end: decides, rolls back, fills the verdict. Does not call done. */
void sl_flight_settle(struct sl_flight *flight);

/* Fills verdict and report and counts, from the parts. The caller holds the reader slot; `policy`, which the consult is of,
 * may be an older one than the snapshot's. */
void sl_parts_verdict(struct sl_fleet *fleet, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sl_policy *policy, const struct sl_consult *consult, struct sl_part *parts,
                      bool allowed, uint64_t now_us, struct sluice_verdict *ret_verdict, struct sl_report *report);

/* ---- degrade.c */

/* Decides a part by its limit's failure mode. A charge in the table is made at once. */
void sl_part_degrade(struct sl_fleet *fleet, struct sl_part *part, const struct sl_item *whole, uint64_t now_us,
                     uint64_t wait_us);

/* Gives back what the part has charged here, in the table or out of a lease. */
void sl_part_undo(struct sl_fleet *fleet, struct sl_part *part);

/* ---- turn.c: what a lane sends */

/* A bucket's key in the store; returns its length. */
size_t sl_lane_key(const struct sl_lane *lane, struct sl_hash128 fp, struct sl_hash128 owner,
                   char key[static SL_STORE_KEY_MAX]);

/* Asks for a leg within this turn; may fail it at once. */
void sl_lane_ask(struct sl_lane *lane, struct sl_leg *leg);
/* At the end of this turn: tokens for later must not be missing for those who ask now. */
void sl_lane_debit(struct sl_lane *lane, const struct sl_errand *errand);
void sl_lane_give_back(struct sl_lane *lane, const struct sl_errand *errand, const struct sl_decision *charge);
/* Gives the charges of a leg back, in the background. */
void sl_lane_refund(struct sl_lane *lane, const struct sl_leg *leg);
void sl_lane_flush(struct sl_lane *lane);
void sl_load_free(struct sl_lane *lane, struct sl_load *load); /* accepts NULL */
void sl_crate_free(struct sl_crate *crate);
/* Fails what was loaded but not sent, and frees the pools. */
void sl_lane_unload(struct sl_lane *lane);

/* ---- arrive.c */

/* A crate's call has been answered, or never will be. */
void sl_crate_done(void *crate, enum sl_result result, const struct sl_reply *reply);

/* ---- lane.c */

/* Tells who waits for the lane to stop, if all it waits for is done. */
void sl_lane_look_done(struct sl_lane *lane);

/* The lane's client for a store; NULL when there is none. */
struct sl_client *sl_lane_client(struct sl_lane *lane, unsigned store);

#endif
