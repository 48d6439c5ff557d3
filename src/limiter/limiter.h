/* One decision, whole: resolve, look, charge, report (SPEC section 4 with the memory store).
 *
 * A limiter owns a table and the policy in force. A request that meets several buckets is decided all-or-nothing:
 * look at all first (a rejection ends there and writes nothing), then charge from the narrowest to the widest,
 * and give back safely what a lost race had charged. Policies are swapped whole: every decision sees one policy
 * from its start to its end. All functions: any thread. */
#ifndef SL_LIMITER_LIMITER_H
#define SL_LIMITER_LIMITER_H

#include "base/alloc.h"
#include "policy/policy.h"
#include "sluice/sluice.h"
#include "table/table.h"

struct sl_limiter;

/* Takes `table` and a reference of `policy`. Returns 0 or SL_ENOMEM (and then takes neither). */
int sl_limiter_new(struct sl_table *table, struct sl_policy *policy, const struct sl_alloc *alloc,
                   struct sl_limiter **ret_limiter);

/* Closes the table and drops the policy. No other thread may still be inside. Accepts NULL. */
void sl_limiter_free(struct sl_limiter *limiter);

struct sl_table *sl_limiter_table(struct sl_limiter *limiter);

/* Puts a policy in force (takes the reference); the old one goes when its last decision has ended, which this call
 * waits for (microseconds, unless a thread was preempted in the middle of one). Buckets keep their state while their
 * limit's name and algorithm stay. Returns 0, or SL_ENOMEM: then the old policy stays in force and the reference
 * stays the caller's. */
int sl_limiter_set_policy(struct sl_limiter *limiter, struct sl_policy *policy);

/* A reference to the policy in force; release it with sl_policy_unref. For everything but decisions. */
struct sl_policy *sl_limiter_policy(struct sl_limiter *limiter);

/* What was consulted, bucket by bucket, for headers of the draft style, explanations and metrics: the enforcing buckets
 * in file order of layers and rates, then the dry-run ones. A `blocked` limit is an item of quota and period 0;
 * unlimited limits are not listed. Of a rejected request every bucket shows what it holds, nothing spent. */
struct sl_report_item {
    char name[SLUICE_NAME_MAX]; /* the limit */
    int64_t quota, remaining;
    uint64_t period_us;
    int64_t next_ms; /* to the next token, or the window's end; 0 when full */
    bool allowed;    /* this bucket had room, whatever others said */
    bool dry_run;
    uint8_t source; /* enum sluice_source: which tier said so */
    uint32_t cost;  /* what the request wanted of it; 0 for `blocked` */
};

struct sl_report {
    unsigned n;
    struct sl_report_item items[2 * SL_ITEMS_MAX];
};

/* Decides one request, now. Returns 0 and a verdict, or SL_EINVALID when the request is out of SPEC section 5's
 * ranges (nothing charged; *ret_field and *ret_why say what, as sl_request_check). `report`, `ret_field` and
 * `ret_why` may be NULL. */
int sl_limiter_check(struct sl_limiter *limiter, const struct sluice_request *request,
                     struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                     const char **ret_why);

/* Decides n requests in order, at one reading of the clock, with prefetching. All are validated first: one bad
 * request and none is decided; *ret_bad is its index. ret_reports may be NULL, else an array of n. */
int sl_limiter_check_batch(struct sl_limiter *limiter, const struct sluice_request *requests, size_t n,
                           struct sluice_verdict *ret_verdicts, struct sl_report *ret_reports, size_t *ret_bad,
                           const char **ret_field, const char **ret_why);

/* Decides at t_us (clamped to the latest seen): the replay's and the simulator's way in. */
int sl_limiter_check_at(struct sl_limiter *limiter, uint64_t t_us, const struct sluice_request *request,
                        struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                        const char **ret_why);

/* Buckets of one key, for inspection: calls fn for each live bucket of each limit that `request` (key and type;
 * scope, tier, address and labels where limits separate by them) could meet, over all endpoints when it names no
 * scope. Returns how many were reported; 0 also for a request that sl_request_check refuses. */
struct sl_bucket_info {
    const struct sl_limit *limit;
    const char *endpoint; /* when the limit separates by endpoint, else "" */
    unsigned rate_idx;
    struct sl_numbers numbers;
};
size_t sl_limiter_inspect(struct sl_limiter *limiter, const struct sluice_request *request,
                          void (*fn)(void *ctx, const struct sl_bucket_info *info), void *ctx);

/* Makes those of them whole again that belong to the key or its address (`per` names key or address); what others share
 * stays. Returns how many were live. */
size_t sl_limiter_reset(struct sl_limiter *limiter, const struct sluice_request *request);

/* Counters, summed over all threads. */
struct sl_limiter_count {
    char limit[SLUICE_NAME_MAX];                  /* "" for unmatched */
    uint64_t decided_allowed, decided_rejected;   /* as the deciding limit, whichever tier said so */
    uint64_t shared_allowed, shared_rejected;     /* of them by the store ... */
    uint64_t degraded_allowed, degraded_rejected; /* ... and for want of it; the rest are local */
    uint64_t checks_allowed, checks_rejected;     /* consulted: had room or not */
    uint64_t dry_allowed, dry_rejected;
    bool blocked; /* the limit is written to reject everything */
};
#define SL_DURATION_BUCKETS 24
struct sl_limiter_stats {
    uint64_t allowed, rejected, unmatched;          /* decisions */
    uint64_t anonymous_allowed, anonymous_rejected; /* of them, those about a key of type `address` */
    uint64_t reloads; /* other policies put in force; other overrides over the same one are none */
    /* decision durations: count of those <= 2^i * 64 ns, one in 64 decisions sampled */
    uint64_t duration[SL_DURATION_BUCKETS], duration_count, duration_sum_ns;
};
/* Fills up to max rows (the first SL_COUNTED_LIMITS limits of the policy in force, "other" for the rest if there are
 * more, "" last) and returns how many there are, at most SL_COUNT_ROWS_MAX. Counters survive a reload while the
 * limit's name stays. */
#define SL_COUNTED_LIMITS 1000
#define SL_COUNT_ROWS_MAX (SL_COUNTED_LIMITS + 2)
size_t sl_limiter_counts(struct sl_limiter *limiter, struct sl_limiter_count *rows, size_t max);
void sl_limiter_stats(struct sl_limiter *limiter, struct sl_limiter_stats *ret_stats);

/* ---- tiers that stand elsewhere (`tiers.keys_store`)
 *
 * Asked for each request whose tier neither it nor a table of the policy says; answers at once, from memory: true when the
 * key is known to have a tier there, which is written to `tier` (*ret_len bytes of SLUICE_NAME_MAX at most). By any thread. A
 * tier that the policy does not name is none. Such a request is resolved each time anew, so an answer may change at any time. */
typedef bool sl_key_tier(void *ctx, const char *key, size_t len, char *tier, size_t *ret_len);

/* Sets it, or takes it away (NULL). Not while anybody decides. */
void sl_limiter_set_key_tier(struct sl_limiter *limiter, sl_key_tier *key_tier, void *ctx);

/* What a request meets under `policy`, as a decision resolves it: for who tells of decisions. Borrows from the request, from
 * the policy and from itself: not to be copied. */
struct sl_resolved {
    struct sluice_request request; /* checked; with the tier that stands elsewhere, if one does */
    struct sl_resolution resolution;
    struct sl_request_buffer buffer;
    char tier[SLUICE_NAME_MAX];
};

/* Returns 0, or SL_EINVALID: this policy refuses the request. */
int sl_limiter_resolve(const struct sl_limiter *limiter, const struct sl_policy *policy,
                       const struct sluice_request *request, struct sl_resolved *ret_resolved);

/* ---- a sample of the requests, with their keys
 *
 * A tap is told of one request in SL_TAP_EVERY on average, chosen at random, as it was given, once it has been accepted.
 * `rejected`: its verdict is there and says so; the verdicts of those that wait for the store are not told. It is called by
 * the thread that decides, inside reader slot `slot`, which nobody else has meanwhile: what is kept for each slot needs
 * no lock. It must be quick and must not call the limiter. */
#define SL_TAP_EVERY 16u
typedef void sl_tap(void *ctx, unsigned slot, const struct sluice_request *request, bool rejected);

/* Sets it, or takes it away (NULL). Not while anybody decides. */
void sl_limiter_set_tap(struct sl_limiter *limiter, sl_tap *tap, void *ctx);

/* How many slots there are; and calls fn while holding one of them. Any thread, not from a tap. */
unsigned sl_limiter_slots(const struct sl_limiter *limiter);
void sl_limiter_hold_slot(struct sl_limiter *limiter, unsigned slot, void (*fn)(void *ctx, unsigned slot), void *ctx);

#endif
