/* What was decided, counted without contention.
 *
 * Every reader slot (limiter/rcu.h) has a stripe of its own, written by its holder alone with plain adds and read by
 * anybody; sums are taken when somebody asks. One set of stripes belongs to one policy, with a row a limit, at most
 * SL_COUNTED_LIMITS of them: the rest share the row "other", and requests that met no limit the row "". On a reload
 * the new policy's set inherits the sums of the limits whose names stay. */
#ifndef SL_LIMITER_COUNTERS_H
#define SL_LIMITER_COUNTERS_H

#include "base/alloc.h"
#include "limiter/limiter.h"
#include "policy/policy.h"

#include <limits.h>

enum sl_counter {
    SL_COUNT_DECIDED_REJECTED, /* each is followed by its `allowed` */
    SL_COUNT_DECIDED_ALLOWED,
    SL_COUNT_CHECK_REJECTED,
    SL_COUNT_CHECK_ALLOWED,
    SL_COUNT_DRY_REJECTED,
    SL_COUNT_DRY_ALLOWED,
    /* of the decided ones, those by another tier than the local one */
    SL_COUNT_SHARED_REJECTED,
    SL_COUNT_SHARED_ALLOWED,
    SL_COUNT_DEGRADED_REJECTED,
    SL_COUNT_DEGRADED_ALLOWED,
    /* both decided and checked, here: the usual request, whose one bucket is written down once */
    SL_COUNT_PLAIN_REJECTED,
    SL_COUNT_PLAIN_ALLOWED,
    SL_COUNTS,
};

struct sl_counter_row {
    uint64_t n[SL_COUNTS];
};

struct sl_counters {
    struct sl_alloc alloc;
    const struct sl_policy *policy; /* borrowed from the snapshot that holds both */
    unsigned n_named;               /* limits with a row of their own, by their index */
    unsigned other_row, unmatched_row, n_rows;
    unsigned n_slots;
    size_t stripe_bytes; /* a whole number of cache lines */
    char *stripes;
    void *memory; /* what `stripes` lies in */
    struct sl_counter_row *inherited;
};

/* All zero. Returns 0 or SL_ENOMEM. */
int sl_counters_init(struct sl_counters *counters, const struct sl_alloc *alloc, const struct sl_policy *policy,
                     unsigned n_slots);
void sl_counters_fini(struct sl_counters *counters);

/* The row of a limit; of unmatched requests for NULL and the ceiling's pseudo-limit. */
static inline unsigned sl_counters_row(const struct sl_counters *counters, const struct sl_limit *limit)
{
    if (!limit || limit->index == UINT_MAX)
        return counters->unmatched_row;
    return limit->index < counters->n_named ? limit->index : counters->other_row;
}

/* Adds without a locked instruction: only the holder of the slot writes there. */
static inline void sl_tally(uint64_t *n, uint64_t add)
{
    __atomic_store_n(n, __atomic_load_n(n, __ATOMIC_RELAXED) + add, __ATOMIC_RELAXED);
}

static inline void sl_counters_add(struct sl_counters *counters, unsigned slot, const struct sl_limit *limit,
                                   enum sl_counter rejected, bool allowed)
{
    struct sl_counter_row *stripe = (struct sl_counter_row *)(counters->stripes + slot * counters->stripe_bytes);

    sl_tally(&stripe[sl_counters_row(counters, limit)].n[rejected + (unsigned)allowed], 1);
}

/* Carries the sums of the limits that keep their names over to `to`, when nobody adds to `from` any more. */
void sl_counters_inherit(struct sl_counters *to, const struct sl_counters *from);

/* The sum of a row over all slots, and its name. */
void sl_counters_sum(const struct sl_counters *counters, unsigned row, struct sl_counter_row *ret_sum);
const char *sl_counters_name(const struct sl_counters *counters, unsigned row);

/* How long decisions took, and what else is counted once a decision: one of these a slot, for the limiter's whole
 * life. */
struct sl_pulse {
    _Alignas(64) uint64_t tap_left; /* requests until the next one is told to the tap; 0: never, so far */
    uint64_t decided[2];            /* rejected, allowed */
    uint64_t anonymous[2];          /* of them, those about a key of type `address` */
    uint64_t unmatched;
    uint64_t duration_count, duration_sum_ns;
    uint64_t duration[SL_DURATION_BUCKETS];
    uint64_t tap_random;
};

#define SL_SAMPLE 64

/* The histogram's bucket of a duration: the first i with ns <= 2^i * 64, the last one for all above. */
unsigned sl_duration_bucket(uint64_t ns);

/* Monotonic nanoseconds for measuring; no decision depends on it. */
uint64_t sl_stopwatch_ns(void);

/* Decisions so far: every SL_SAMPLE-th is timed. Only for the holder of the slot. */
static inline uint64_t sl_pulse_ticks(const struct sl_pulse *pulse)
{
    return __atomic_load_n(&pulse->decided[0], __ATOMIC_RELAXED) +
           __atomic_load_n(&pulse->decided[1], __ATOMIC_RELAXED);
}

void sl_pulse_record(struct sl_pulse *pulse, uint64_t ns);

#endif
