/* The two hot decisions as inline functions, for callers that decide millions a second (the table). Everybody
 * else calls sl_decide (core/state.h), which is the same code behind one call. */
#ifndef SL_CORE_DECIDE_H
#define SL_CORE_DECIDE_H

#include "core/span.h"

/* As sl_decide, for windows of constant size; not worth inlining, they divide. */
void sl_decide_window(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
                      struct sl_decision *ret_decision);

/* A debt under another shape, or beyond what this one can owe: rare, and kept out of line. Updates *debt and returns
 * true when the state must be stored even if the request is rejected, because left as it is it would never come
 * right. */
bool sl_bucket_heal(const struct sl_shape *shape, struct sl_state state, struct sl_span *debt);

/* As sl_decide, for token_bucket and leaky_bucket. */
static inline void sl_decide_bucket(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
                                    struct sl_decision *ret_decision)
{
    struct sl_span debt = sl_bucket_debt(state, now_us);
    struct sl_span full = sl_full_debt(shape);
    bool healed = false;

    if (debt.us | debt.frac) {
        if (!sl_state_has_version(shape, state) || debt.frac >= shape->n || sl_span_is_more(debt, full))
            healed = sl_bucket_heal(shape, state, &debt);
    }
    *ret_decision = (struct sl_decision){.allowed = true, .cost = cost, .now_us = now_us};
    ret_decision->before = ret_decision->after = sl_bucket_state(shape, now_us, debt);
    if (cost == 0)
        return;
    ret_decision->allowed = false;
    ret_decision->changed = healed;
    ret_decision->never = cost > shape->limit;
    if (ret_decision->never)
        return;
    debt = sl_span_add(debt, sl_span_of_tokens(shape, cost), shape->n);
    if (sl_span_is_more(debt, full))
        return;
    ret_decision->allowed = ret_decision->changed = true;
    ret_decision->after = sl_bucket_state(shape, now_us, debt);
}

static inline void sl_decide_inline(const struct sl_shape *shape, struct sl_state state, uint64_t now_us, uint32_t cost,
                                    struct sl_decision *ret_decision)
{
    if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        sl_decide_bucket(shape, state, now_us, cost, ret_decision);
    else
        sl_decide_window(shape, state, now_us, cost, ret_decision);
}

#endif
