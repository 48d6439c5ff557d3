/* How a second policy decides the events of a replay otherwise: per limit and per key. One thread. */
#ifndef SL_REPLAY_DIFFERENCE_H
#define SL_REPLAY_DIFFERENCE_H

#include "replay/key_tally.h"
#include "replay/replay.h"
#include "replay/side.h"

struct sl_difference {
    struct sl_alloc alloc;
    const struct sl_policy *policies[2];
    uint64_t *rows[2];        /* by policy and limit: rejections that the other policy does not share */
    struct sl_key_tally keys; /* n[0]: newly allowed, n[1]: newly rejected */
    uint64_t allowed, rejected, newly_rejected, newly_allowed;
};

/* Returns 0 or SL_ENOMEM, and then may be finished too. */
int sl_difference_init(struct sl_difference *difference, const struct sl_replay_options *options);
void sl_difference_fini(struct sl_difference *difference);

/* Takes in what both sides have just decided. Returns 0 or SL_ENOMEM. */
int sl_difference_event(struct sl_difference *difference, const struct sl_side *first, const struct sl_side *second);

/* Writes the figures. Returns 0 or SL_ENOMEM; what was written is freed with the summary. */
int sl_difference_summarise(const struct sl_difference *difference, unsigned top, struct sl_replay_compare *compare);

#endif
