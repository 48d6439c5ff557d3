/* The sliding log's rule, apart from where its entries are kept.
 *
 * An entry (t, cost) is in force in (t - PERIOD, t]: it leaves exactly one period after it was made. The holder
 * walks its entries oldest first and feeds those still in force; core keeps the sum and finds the instant at
 * which enough of them will have expired. Entries of one microsecond may be merged. Pure; any thread. */
#ifndef SL_CORE_LOG_H
#define SL_CORE_LOG_H

#include "core/state.h"

/* True when an entry made at t_us is still in force at now_us. An entry from the future is in force. */
static inline bool sl_log_in_force(const struct sl_shape *shape, uint64_t t_us, uint64_t now_us)
{
    return t_us >= now_us || now_us - t_us < shape->period_us;
}

/* First step: judges `cost` against the sum of the entries in force. Fills every field of the decision but
 * log_fit_us, which a rejection needs from sl_log_fit. newest_us: time of the newest entry in force, 0 when there
 * is none. */
void sl_log_decide(const struct sl_shape *shape, uint64_t sum, uint64_t newest_us, uint64_t now_us, uint32_t cost,
                   struct sl_decision *ret_decision);

/* Second step, for rejections that are not `never`: call with each entry in force, oldest first, until it returns
 * true. */
bool sl_log_fit(const struct sl_shape *shape, struct sl_decision *decision, uint64_t *freed, uint64_t t_us,
                uint32_t entry_cost);

#endif
