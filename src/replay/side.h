/* One policy at work in a replay: its table, and what it said of the event at hand.
 *
 * Decides with the limiter's own steps (limiter/consult.h) rather than through sl_limiter_check_at: requests were
 * validated once by the reading thread, opaque keys are let through, and the tally sees what each bucket said without
 * a copy. */
#ifndef SL_REPLAY_SIDE_H
#define SL_REPLAY_SIDE_H

#include "limiter/consult.h"
#include "replay/event.h"

struct sl_side {
    const struct sl_policy *policy;
    struct sl_table *table;
    struct sl_name *names; /* of the policy's limits by index, as the limiter keeps them */
    struct sl_alloc alloc;
    uint64_t now_us; /* what the table's clock reads: the time of the event at hand */
    /* the event at hand */
    struct sluice_label labels[SLUICE_LABELS_MAX];
    struct sluice_request request;
    struct sl_resolution resolution;
    struct sl_consult consult;
    struct sl_outcome outcome;
    struct sluice_verdict verdict;
    const struct sl_limit *by; /* the deciding limit, or NULL */
};

/* Opens a table whose clock begins at start_us. Returns 0 or an error of sl_table_open with its reason. */
int sl_side_open(struct sl_side *side, const struct sl_policy *policy, const struct sl_alloc *alloc, uint64_t keys,
                 uint64_t start_us, char *ret_why, size_t why_size);
void sl_side_close(struct sl_side *side); /* accepts one that was never opened but zeroed */

/* Decides an event at t_us, which never falls; the answer is in the side until the next one. */
void sl_side_decide(struct sl_side *side, const struct sl_event *event, uint64_t t_us);

uint64_t sl_side_evictions(struct sl_side *side);

#endif
