/* Tokens debited in the store beforehand and spent here: the leases of one instance.
 *
 * A lease is a debit: what is held here was taken from the bucket, so the long-run rate holds whatever becomes of the
 * holder, and only the burst can be exceeded, by what all holders together may own. A lease owns at most `block` tokens,
 * those in flight included. Tokens come in lots. A lot of a token bucket may be dated: the store booked the next tokens
 * to come, and they are usable from the instant at which it would have granted them; so a fleet that wants more than
 * the limit asks once a block, not once a token. A lot older than ttl is not spent any more but given back.
 *
 * Nothing here talks to a store. The caller is told what to debit (take, sweep) and what to give back (sweep), and
 * reports what came of it (granted, failed). Times are our clock's. The store decided between asked_us, when a request was
 * sent, and the answer's arrival; wherever its time is brought to ours, the stricter of the two is taken: tokens booked ahead
 * become usable late by the way back at most, a window's tokens die early by the way there at most, neither the other way round.
 *
 * A fixed number of leases; when there is no room a bucket simply is not leased. Any thread; a lock per small set,
 * held for some tens of nanoseconds. */
#ifndef SL_FLEET_LEASE_H
#define SL_FLEET_LEASE_H

#include "base/alloc.h"
#include "base/hash.h"
#include "core/state.h"

struct sl_leases;

/* How a bucket is leased, by its limit and the number of instances at this moment. */
struct sl_lease_terms {
    uint32_t block;       /* the most tokens to own at once, at least 1 */
    uint64_t ttl_us;      /* age at which unspent tokens go back */
    uint64_t interval_us; /* 0: renewed when low. Else `synced`: topped up to the share once an interval, by sweep */
    uint32_t first;       /* `synced`: what a newcomer begins with, before its share is known; 0: the block */
    uint64_t ahead_us;    /* how far ahead tokens may be booked; 0 for windows. Below SL_STALE_MAX_US */
    bool automatic;       /* ends by itself when the bucket cools (SL_LEASE_COOL decisions a second) */
};

#define SL_LEASE_HOT 256u /* decisions a second that make `auto` lease */
#define SL_LEASE_COOL 64u

/* Whom a lease is with. `shape` is copied. */
struct sl_lease_bucket {
    struct sl_hash128 fp, who;
    uint16_t store;
    const struct sl_shape *shape; /* token_bucket or fixed_window */
};

enum sl_lease_answer {
    SL_LEASE_NONE,  /* not leased, or not enough tokens for this cost: ask the store */
    SL_LEASE_TAKEN, /* spent; the numbers are the verdict's */
    SL_LEASE_WAIT,  /* enough tokens, but usable only later: rejected, the numbers are the verdict's */
};

/* leases: 64 ... 2^20, rounded up to a power of two. Returns 0 or SL_ENOMEM. */
int sl_leases_new(size_t leases, const struct sl_alloc *alloc, struct sl_leases **ret_leases);
void sl_leases_free(struct sl_leases *leases); /* accepts NULL. What is held is lost */

/* Spends `cost` (at least 1) from the bucket's lease. With `begin`, a bucket that has none gets one (empty: the answer is
 * NONE) if there is room. *ret_debit > 0: the caller must have so many tokens debited (sl_lease_shape) and report it; no
 * further debit is asked for meanwhile. A lease under another shape than the bucket's present one, or in another store, is retired
 * first: its tokens are no longer spent, and sweep gives them back.
 * The numbers of TAKEN: remaining = unspent here + the store's at the last answer; of WAIT: retry_after_ms until usable. */
enum sl_lease_answer sl_lease_take(struct sl_leases *leases, const struct sl_lease_bucket *bucket,
                                   const struct sl_lease_terms *terms, uint64_t now_us, uint32_t cost, bool begin,
                                   struct sl_numbers *ret_numbers, uint32_t *ret_debit);

/* As take, but never begins, debits or waits: the last tokens in an outage. True when spent. */
bool sl_lease_take_last(struct sl_leases *leases, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                        uint32_t cost, struct sl_numbers *ret_numbers);

/* A request that took from the lease, with now_us == taken_us, was rejected elsewhere: the tokens come back, usable as they
 * were, or are lost when their lease or their window is gone (then false). Those whose place a renewal has taken meanwhile are
 * not spent here again but given back by the next sweep. */
bool sl_lease_put_back(struct sl_leases *leases, struct sl_hash128 fp, uint32_t cost, uint64_t taken_us);

/* The shape under which a debit is asked of the store: may owe `ahead_us` more than the bucket's own. */
void sl_lease_shape(const struct sl_shape *shape, const struct sl_lease_terms *terms, struct sl_shape *ret_shape);

/* The store's decision on a debit, made with that shape. Allowed: a lot, usable at once or dated. Rejected: less is asked for
 * next time, and not before it can be there. */
void sl_lease_granted(struct sl_leases *leases, const struct sl_lease_bucket *bucket,
                      const struct sl_lease_terms *terms, const struct sl_decision *decision, uint64_t asked_us,
                      uint64_t now_us);

/* The debit came to nothing: not sent (false), or without an answer (lost: its tokens may be gone). */
void sl_lease_failed(struct sl_leases *leases, struct sl_hash128 fp, uint32_t debit, bool lost);

/* A decision the store made on the bucket itself (a request that did not fit the lease): its state is what `remaining` starts
 * from. Returns how many tokens lie here unspent besides. No lease: nothing happens. */
uint32_t sl_lease_heard(struct sl_leases *leases, struct sl_hash128 fp, const struct sl_shape *shape,
                        const struct sl_decision *decision, uint64_t asked_us);

/* What a sweep finds to do. Called with no lock held; may call the functions above. The bucket's shape is borrowed for
 * the call. */
struct sl_lease_errands {
    void (*give_back)(
        void *ctx, const struct sl_lease_bucket *bucket, uint32_t tokens,
        const struct sl_decision *charge); /* charge: for sl_ask_refund; what was not taken back by then is gone */
    void (*debit)(void *ctx, const struct sl_lease_bucket *bucket, const struct sl_lease_terms *terms, uint32_t tokens);
    void *ctx;
};

/* Looks at every lease: lots past their ttl, leases that cooled or were retired, synced ones whose interval is over.
 * `all`: every unspent token goes back and every lease ends (shutdown); those whose debit is on its way wait for what becomes of
 * it, and for another sweep. One thread at a time; some 10 times a second. Returns how many leases are left. */
size_t sl_leases_sweep(struct sl_leases *leases, uint64_t now_us, bool all, const struct sl_lease_errands *errands);

/* Ends a lease at once and forgets its tokens (the bucket was reset in the store). */
void sl_lease_forget(struct sl_leases *leases, struct sl_hash128 fp);

/* How long an answer of the store takes, for how early to renew. Any thread. */
void sl_leases_note_rtt(struct sl_leases *leases, uint64_t rtt_us);

struct sl_leases_stats {
    uint64_t active; /* leases now */
    uint64_t held;   /* tokens now */
    uint64_t lost;   /* tokens, ever: debits without answer, put back too late, no room */
};
void sl_leases_stats(struct sl_leases *leases, struct sl_leases_stats *ret_stats);

#endif
