/* Any bytes as an ask to the module: refused, or groups whose every number core can decide by. */
#include "core/log.h"
#include "store/codec.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct sl_shape *shape, uint64_t now_us, uint32_t cost)
{
    struct sl_state state = {.lo = UINT64_MAX & ~SL_STATE_CLAIM & ~SL_STATE_LOG, .hi = UINT32_MAX};
    struct sl_decision d;
    struct sl_numbers n;

    if (shape->algorithm == SL_SLIDING_WINDOW_LOG) {
        sl_log_decide(shape, 1, now_us, now_us, cost, &d);
        return;
    }
    for (int i = 0; i < 4; i++) {
        sl_decide(shape, state, now_us, cost, &d);
        sl_decision_numbers(shape, &d, &n);
        assert(n.remaining >= 0 && n.remaining <= n.limit);
        assert(!d.never || n.retry_after_ms == -1);
        state = d.after;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sl_ask_part part;
    uint32_t costs[SL_GROUP_BUCKETS_MAX];
    struct sl_ask_reader reader;
    unsigned repeat;

    if (sl_ask_open(&reader, data, size))
        return 0;
    while (sl_ask_next(&reader, &part) == 1) {
        for (unsigned i = 0; part.op == SL_OP_REFUND && i < part.n; i++) {
            struct sl_state state = part.charges[i].after;

            sl_refund(&part.shapes[i], state, &part.charges[i], part.charges[i].now_us + 1, &state);
            state.hi ^= 1;
            sl_refund(&part.shapes[i], state, &part.charges[i], part.charges[i].now_us + 1, &state);
        }
        for (unsigned run = 0; run < part.runs; run++) {
            if (sl_ask_run(&reader, &part, &repeat, costs))
                return 0;
            for (unsigned i = 0; i < part.n; i++)
                decide(&part.shapes[i], reader.now_us, costs[i]);
        }
    }
    return 0;
}
