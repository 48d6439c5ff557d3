#include "replay/side.h"

#include "base/err.h"
#include "replay/replay.h"

#include <stdio.h>

struct sl_secret sl_replay_secret(void)
{
    return (struct sl_secret){UINT64_C(0x73657475636f7265), UINT64_C(0x7265706c61792031)};
}

static struct sl_name *names_of(const struct sl_policy *policy, const struct sl_alloc *alloc)
{
    size_t n = sl_policy_n_limits(policy);
    struct sl_name *names = sl_calloc(alloc, n + 1, sizeof *names);

    for (size_t i = 0; names && i < n; i++)
        snprintf(names[i].text, sizeof names[i].text, "%s", sl_policy_limit(policy, i)->name);
    return names;
}

int sl_side_open(struct sl_side *side, const struct sl_policy *policy, const struct sl_alloc *alloc, uint64_t keys,
                 uint64_t start_us, char *ret_why, size_t why_size)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_secret secret = sl_replay_secret();

    side->policy = policy;
    side->alloc = *alloc;
    side->names = names_of(policy, alloc);
    if (!side->names)
        return SL_ENOMEM;
    side->now_us = start_us;
    options.keys = keys;
    options.log_entries = keys;
    options.secret = &secret;
    options.clock = sl_clock_manual(&side->now_us);
    options.alloc = *alloc;
    return sl_table_open(&options, &side->table, ret_why, why_size);
}

void sl_side_close(struct sl_side *side)
{
    sl_table_close(&side->table);
    if (side->names)
        sl_free(&side->alloc, side->names);
    side->names = NULL;
}

void sl_side_decide(struct sl_side *side, const struct sl_event *event, uint64_t t_us)
{
    side->now_us = t_us;
    sl_event_request(event, side->labels, &side->request);
    sl_policy_resolve(side->policy, &side->request, &side->resolution);
    sl_consult_make(&side->resolution, &side->consult);
    sl_consult_decide(side->table, &side->consult, sl_table_clamp(side->table, t_us), &side->outcome);
    side->by = sl_consult_verdict(&side->consult, &side->outcome, side->names, &side->verdict);
}

uint64_t sl_side_evictions(struct sl_side *side)
{
    struct sl_table_stats stats;

    if (!side->table)
        return 0;
    sl_table_stats(side->table, &stats);
    return stats.evictions;
}
