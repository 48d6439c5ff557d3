/* Inside of the limiter: what its files share. */
#ifndef SL_LIMITER_SNAPSHOT_H
#define SL_LIMITER_SNAPSHOT_H

#include "limiter/counters.h"
#include "limiter/limiter.h"
#include "limiter/memo.h"
#include "limiter/rcu.h"

#include <pthread.h>
#include <string.h>

/* A policy in force, with the counters of its limits. */
struct sl_snapshot {
    struct sl_policy *policy; /* one reference */
    struct sl_counters counters;
    struct sl_name *names; /* of its limits */
    struct sl_memo *memos; /* one a slot */
};

struct sl_limiter {
    struct sl_alloc alloc;
    struct sl_table *table;
    struct sl_rcu rcu;       /* of struct sl_snapshot */
    struct sl_pulse *pulses; /* one a slot */
    sl_key_tier *key_tier;   /* NULL: none */
    void *key_tier_ctx;
    sl_tap *tap; /* NULL: none */
    void *tap_ctx;
    void *pulse_memory;
    pthread_mutex_t lock; /* one writer of `rcu` at a time, and readers of sums who need the snapshot to stay */
    uint64_t reloads;     /* under lock */
};

/* sl_request_check with results that may be NULL and that outlive the call. */
int sl_check_request(const struct sl_policy *policy, const struct sluice_request *request,
                     struct sluice_request *ret_request, struct sl_request_buffer *buffer, const char **ret_field,
                     const char **ret_why);

/* Puts the tier that stands elsewhere for the key of a checked request into the request; `tier` has room for it. Returns false
 * when the request's tier does not depend on that. */
bool sl_find_key_tier(const struct sl_limiter *limiter, const struct sl_policy *policy, struct sluice_request *request,
                      char tier[static SLUICE_NAME_MAX]);

/* Its turn has come: tells the tap, and chooses the next turn. */
void sl_tap_now(struct sl_limiter *limiter, unsigned slot, const struct sluice_request *request, bool rejected);

/* Nobody has said who is asking: the key is where the request comes from. */
static inline bool sl_is_anonymous(const struct sluice_request *request)
{
    return request->key_type && request->key_type_len == 7 && memcmp(request->key_type, "address", 7) == 0;
}

/* Tells the tap of a request if it is its turn. The caller holds `slot`. */
static inline void sl_tap_request(struct sl_limiter *limiter, unsigned slot, const struct sluice_request *request,
                                  bool rejected)
{
    if (__builtin_expect(--limiter->pulses[slot].tap_left == 0, 0))
        sl_tap_now(limiter, slot, request, rejected);
}

/* Starts loading what the consult's buckets lie in. */
void sl_consult_prefetch(const struct sl_table *table, const struct sl_consult *consult);

/* Decides, reports and counts; the caller holds `slot` and `snapshot`. `report` may be NULL. */
void sl_consult_run(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                    const struct sl_consult *consult, uint64_t now_us, struct sluice_verdict *ret_verdict,
                    struct sl_report *report);

/* A bucket that lies in the store. */
struct sl_bucket_place {
    const struct sl_limit *limit;
    const char *endpoint;
    unsigned rate_idx;
    struct sl_hash128 fp;
    const struct sluice_request *request; /* checked */
};

/* sl_limiter_inspect, or with `reset` sl_limiter_reset, under a policy the caller holds; buckets of the store are handed to
 * `elsewhere`, and counted when it returns true. */
size_t sl_limiter_walk(struct sl_limiter *limiter, const struct sl_policy *policy, const struct sluice_request *request,
                       bool reset, void (*fn)(void *ctx, const struct sl_bucket_info *info),
                       bool (*elsewhere)(void *ctx, const struct sl_bucket_place *place), void *ctx);

/* Counts a decision; the caller holds `slot` and `snapshot`. `by`: the limit that sl_consult_verdict named. */
void sl_consult_count(struct sl_limiter *limiter, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sl_consult *consult, const struct sl_outcome *outcome, const struct sl_limit *by,
                      enum sluice_source source);

/* Decides a request that meets a limit of the shared tier, inside the reader slot: fills the verdict and counts, or takes
 * a copy of the consult and answers later. Returns 0 or a positive number. */
typedef int sl_beyond(void *ctx, struct sl_snapshot *snapshot, unsigned slot, const struct sl_consult *consult,
                      uint64_t now_us, struct sluice_verdict *ret_verdict, struct sl_report *report);

/* sl_limiter_check that hands such requests on; returns what `beyond` did, 0 or SL_EINVALID. */
int sl_limiter_check_beyond(struct sl_limiter *limiter, const struct sluice_request *request,
                            struct sluice_verdict *ret_verdict, struct sl_report *report, const char **ret_field,
                            const char **ret_why, sl_beyond *beyond, void *beyond_ctx);

#endif
