/* The five algorithms once more, as slowly and as plainly as SPEC's table of algorithms says them: the judge of
 * src/core, sharing no line with it. Tokens are a level in units of 1/PERIOD token, so that COUNT of them arrive
 * every microsecond; windows are numbered; the log keeps all it admitted; a wait is searched for, never calculated.
 * All in 128 bits. */
#ifndef TESTS_CORE_MODEL_H
#define TESTS_CORE_MODEL_H

#include "core/shape.h"
#include "core/state.h"

#define MODEL_ADMITTED_MAX 512

struct model {
    enum sl_algorithm algorithm;
    uint64_t count, period_us, limit;
    uint64_t latest_us;
    __int128 level; /* buckets: tokens at latest_us, times PERIOD */
    bool started;
    struct {
        uint64_t t_us, cost;
    } admitted[MODEL_ADMITTED_MAX]; /* windows and the log: everything ever admitted */
    unsigned n_admitted;
};

void model_init(struct model *m, const struct sl_shape *shape);

/* Decides at max(t_us, the latest), spends when allowed, and gives the figures of the verdict. */
bool model_decide(struct model *m, uint64_t t_us, uint64_t cost, struct sl_numbers *ret_numbers);

/* Whether a request would be allowed at t_us, which must not be earlier than the latest. */
bool model_would_allow(const struct model *m, uint64_t t_us, uint64_t cost);

#endif
