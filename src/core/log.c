#include "core/log.h"

void sl_log_decide(const struct sl_shape *shape, uint64_t sum, uint64_t newest_us, uint64_t now_us, uint32_t cost,
                   struct sl_decision *ret_decision)
{
    *ret_decision = (struct sl_decision){
        .allowed = cost == 0 || (sum <= shape->limit && cost <= shape->limit - sum),
        .never = cost > shape->limit,
        .cost = cost,
        .now_us = now_us,
        .log_sum = sum,
        .log_newest_us = newest_us,
    };
    ret_decision->changed = ret_decision->allowed && cost > 0;
    if (ret_decision->changed && ret_decision->log_newest_us < now_us)
        ret_decision->log_newest_us = now_us;
}

bool sl_log_fit(const struct sl_shape *shape, struct sl_decision *decision, uint64_t *freed, uint64_t t_us,
                uint32_t entry_cost)
{
    *freed += entry_cost;
    if (decision->log_sum > *freed && decision->log_sum - *freed + decision->cost > shape->limit)
        return false;
    decision->log_fit_us = t_us + shape->period_us;
    return true;
}
