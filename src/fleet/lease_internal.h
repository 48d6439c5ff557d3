/* What the files of the leases share; see lease.h. A lease is found in a set of SL_LEASE_WAYS by its bucket's fingerprint;
 * everything in a set is guarded by the set's lock, and every function here that takes a lease wants it held. */
#ifndef SL_FLEET_LEASE_INTERNAL_H
#define SL_FLEET_LEASE_INTERNAL_H

#include "fleet/lease.h"
#include "fleet/lock.h"
#include "store/codec.h"

#define SL_LEASE_WAYS 8u
#define SL_LEASE_LOTS 4u
#define SL_LEASE_CHARGED_US SL_STORE_TIME_MAX_US
#define SL_LEASE_NO_COUNT ((UINT64_C(1) << 30) - 1) /* what a stored count can hold, and more than any COUNT */

/* Tokens that came together. */
struct sl_lot {
    uint64_t from_us; /* usable from then on */
    uint64_t got_us;  /* its age counts from here: when it came, or became usable */
    uint32_t tokens;  /* never 0 */
};

/* What the store was last heard to hold. */
struct sl_lease_view {
    struct sl_state state;
    uint64_t store_us, asked_us; /* one instant by both clocks; store_us 0: never heard */
};

/* How many tokens are asked for here, of whatever outcome. */
struct sl_pace {
    uint64_t since_us;
    uint32_t tokens; /* since then */
    uint32_t per_s;  /* before */
};

/* `synced`: what the share follows. */
struct sl_lease_share {
    uint64_t due_us; /* the next reconciliation */
    uint32_t demand; /* tokens asked for here in this interval */
    uint32_t demand_average;
    uint64_t own;               /* tokens the store granted us since `since` */
    struct sl_lease_view since; /* what it held then */
    uint64_t own_sum, all_sum;  /* of the last intervals, fading */
    bool met;                   /* one interval is over */
};

struct sl_lease {
    struct sl_hash128 fp, who;
    struct sl_shape shape;
    struct sl_lease_terms terms;
    uint16_t store;
    bool retired;  /* nothing is spent any more; the sweep gives back */
    bool asked;    /* a first debit was asked for */
    uint8_t fails; /* in a row */
    uint8_t n_lots;
    struct sl_lot lots[SL_LEASE_LOTS]; /* oldest first */
    uint32_t held;                     /* sum of the lots */
    uint32_t back;                     /* to be given back by the next sweep; not spent any more */
    uint32_t in_flight;                /* of the one debit that is open; 0: none */
    uint32_t want;                     /* ask for at most so many */
    uint64_t begun_us, in_flight_us, not_before_us, used_us;
    uint64_t spent_got_us; /* of the lot that was spent from last */
    /* fixed_window: all lots are of one window */
    uint64_t window_ends_us, window_since_us; /* our clock: it ends; its first tokens came */
    uint64_t window_store_us;                 /* the store's: it ends. 0: none yet */
    struct sl_lease_view view;
    struct sl_pace pace;
    uint64_t cool_us; /* the second in which the decisions are counted began */
    uint32_t decisions;
    struct sl_lease_share share;
};

struct sl_lease_set {
    struct sl_spin lock;
    atomic_uchar used; /* one bit a place */
    uint64_t tags[SL_LEASE_WAYS];
    struct sl_lease leases[SL_LEASE_WAYS];
};

struct sl_leases {
    struct sl_alloc alloc;
    struct sl_lease_set *sets;
    size_t mask; /* number of sets - 1 */
    atomic_uint_fast64_t active, lost;
    atomic_uint_fast64_t rtt; /* average << 32 | deviation, us */
};

/* ---- lease.c */

struct sl_lease_set *sl_lease_set_of(struct sl_leases *leases, struct sl_hash128 fp);
/* The bucket's next lease after place `*at`, which begins at -1; NULL: no more. There may be one alive and several retired. */
struct sl_lease *sl_lease_next(struct sl_lease_set *set, struct sl_hash128 fp, int *at);
/* Spent from no longer; what it holds goes back with the next sweep. */
void sl_lease_retire(struct sl_leases *leases, struct sl_lease *lease);
/* Leaves its place, with all it has. */
void sl_lease_drop(struct sl_leases *leases, struct sl_lease_set *set, struct sl_lease *lease);
void sl_lease_lose(struct sl_leases *leases, uint64_t tokens);
/* How long an answer takes, with a margin for late ones. */
uint64_t sl_lease_rtt_us(const struct sl_leases *leases);

/* ---- lease_lots.c */

/* Adds tokens, which must fit. */
void sl_lots_add(struct sl_lease *lease, uint64_t from_us, uint64_t got_us, uint32_t tokens);
/* The same before all others. */
void sl_lots_add_first(struct sl_lease *lease, uint64_t from_us, uint64_t got_us, uint32_t tokens);
uint32_t sl_lots_usable(const struct sl_lease *lease, uint64_t now_us);
/* When so many tokens will be usable, which are held. */
uint64_t sl_lots_usable_from_us(const struct sl_lease *lease, uint32_t tokens);
/* Spends tokens that are usable. */
void sl_lots_spend(struct sl_lease *lease, uint64_t now_us, uint32_t tokens);
/* Sets tokens aside to be given back, the youngest first. */
void sl_lots_set_aside(struct sl_lease *lease, uint32_t tokens);
/* Sets aside what is too old, and drops what died with its window. */
void sl_lots_expire(struct sl_lease *lease, uint64_t now_us);

/* ---- lease_view.c */

/* Notes what the store holds after a decision of this shape, unless something newer is known. */
void sl_view_note(struct sl_lease_view *view, const struct sl_decision *decision, uint64_t asked_us);
/* What a peek would find at now_us of our clock. */
void sl_view_peek(const struct sl_lease_view *view, const struct sl_shape *shape, uint64_t now_us,
                  struct sl_decision *ret_decision);
void sl_pace_add(struct sl_pace *pace, uint64_t now_us, uint32_t tokens);
/* Tokens a second. */
uint64_t sl_pace_now(const struct sl_pace *pace, uint64_t now_us);
/* An interval is over: how many tokens a synced lease should own now, at least 1, at most its block. */
uint32_t sl_share_settle(struct sl_lease *lease);

/* ---- lease_renew.c */

/* How many tokens to ask for now, 0: none; they are in flight from here on. `cost`: what was just asked for. */
uint32_t sl_lease_renew(struct sl_leases *leases, struct sl_lease *lease, uint64_t now_us, uint32_t cost);
void sl_lease_fly(struct sl_lease *lease, uint64_t now_us, uint32_t tokens);

/* The time since `then`, 0 when it is later than now: readings of several threads are not in order. */
static inline uint64_t sl_since(uint64_t now_us, uint64_t then_us)
{
    return now_us > then_us ? now_us - then_us : 0;
}

#endif
