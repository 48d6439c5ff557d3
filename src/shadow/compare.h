/* What a candidate policy decided otherwise than the live one: in all, per limit and per key. Any thread. */
#ifndef SL_SHADOW_COMPARE_H
#define SL_SHADOW_COMPARE_H

#include "shadow/pairs.h"

#include <pthread.h>
#include <stdbool.h>

#define SL_COMPARED_LIMITS_MAX 16384u /* of each policy; what more there are are one row, `other` */
#define SL_COMPARED_SHOWN 100u        /* limits of each policy in a report: those with the most differences */
#define SL_COMPARED_KEYS_SHOWN 20u    /* pairs of each kind */

enum sl_outcome { SL_BOTH_ALLOWED, SL_BOTH_REJECTED, SL_NEWLY_REJECTED, SL_NEWLY_ALLOWED, SL_OUTCOMES };

struct sl_compared_limit {
    char name[SLUICE_NAME_MAX]; /* "": no limit; first byte 0 and no counts: a free row */
    bool used;
    uint64_t n[SL_OUTCOMES];
};

/* The limits of one policy, by name: open addressing, at most half full. */
struct sl_compared_limits {
    struct sl_compared_limit *rows;
    size_t n, room; /* room: a power of two, or 0 */
    struct sl_compared_limit other;
};

struct sl_comparison {
    struct sl_alloc alloc;
    pthread_mutex_t lock; /* what follows */
    unsigned generation;
    uint64_t n[SL_OUTCOMES];
    uint64_t undecided; /* a store did not answer in time, for one side or the other: nothing to compare */
    struct sl_compared_limits candidate, live;
    struct sl_pairs *newly_rejected, *newly_allowed;
};

/* Returns 0, SL_ENOMEM or SL_EIO; then nothing is left. */
int sl_comparison_init(struct sl_comparison *comparison, const struct sl_alloc *alloc);
void sl_comparison_fini(struct sl_comparison *comparison);

/* Counts anew. What was begun under an earlier generation is not counted any more. */
void sl_comparison_clear(struct sl_comparison *comparison);
/* To be asked before the candidate decides. */
unsigned sl_comparison_generation(struct sl_comparison *comparison);

/* One side's decision: allowed or not, and the limit that decided. */
struct sl_decided {
    bool allowed;
    const char *policy;
};
/* *ret_outcome is set whatever the generation. */
void sl_comparison_add(struct sl_comparison *comparison, unsigned generation, const struct sluice_request *request,
                       const struct sl_decided *live, const struct sl_decided *candidate, enum sl_outcome *ret_outcome);
void sl_comparison_undecided(struct sl_comparison *comparison, unsigned generation);

struct sl_compared {
    uint64_t n[SL_OUTCOMES], undecided;
};
void sl_comparison_read(struct sl_comparison *comparison, struct sl_compared *ret_compared);

/* {"limits","liveLimits","keys": {"newlyRejected","newlyAllowed"}}: each limit
 * {"name","allowed","rejected","newlyRejected", "newlyAllowed"}, where allowed and rejected are what both policies
 * said; a key as sl_pairs_json has it. NULL: out of memory. */
struct json_t *sl_comparison_json(struct sl_comparison *comparison);

#endif
