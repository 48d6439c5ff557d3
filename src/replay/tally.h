/* What a replay counts: per limit, per minute, per key. One thread. */
#ifndef SL_REPLAY_TALLY_H
#define SL_REPLAY_TALLY_H

#include "replay/key_tally.h"
#include "replay/replay.h"
#include "replay/side.h"

/* A counter by the minute that remembers its highest minute. Minutes never fall. */
struct sl_minutes {
    uint64_t minute, n;
    struct sl_replay_peak peak; /* of the minutes before this one */
};

struct sl_tally_limit {
    struct sl_replay_count count;
    uint64_t decided;
    struct sl_minutes checked, rejected;
};

struct sl_tally {
    struct sl_alloc alloc;
    const struct sl_policy *policy;
    size_t n_limits;               /* of the policy; one more row stands for the ceiling's own bucket */
    struct sl_tally_limit *limits; /* by sl_limit.index */
    struct sl_key_tally keys;
    uint64_t events, allowed, rejected, unmatched, dry_run;
    struct sl_minutes events_by_minute, rejected_by_minute;
    uint64_t first_us, last_us;
};

/* Returns 0 or SL_ENOMEM. */
int sl_tally_init(struct sl_tally *tally, const struct sl_replay_options *options);
void sl_tally_fini(struct sl_tally *tally);

/* Takes in what a side has just decided at t_us. Returns 0 or SL_ENOMEM. */
int sl_tally_event(struct sl_tally *tally, const struct sl_side *side, uint64_t t_us);

/* Writes the figures into a summary. Returns 0 or SL_ENOMEM; what was written is freed with the summary. */
int sl_tally_summarise(const struct sl_tally *tally, unsigned top, struct sl_replay_summary *summary);

#endif
