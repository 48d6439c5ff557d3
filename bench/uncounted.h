/* Included before each file of the limiter, it makes one that counts nothing, times nothing and tells no tap: what bench/observe_cost.py compares with the
 * limiter that ships. The functions stay as they are; who would call them does not. */
#ifndef SL_BENCH_UNCOUNTED_H
#define SL_BENCH_UNCOUNTED_H

#include "limiter/snapshot.h"

#define sl_tally(n, add) ((void)(n), (void)(add))
#define sl_counters_add(counters, slot, limit, rejected, allowed) \
    ((void)(counters), (void)(slot), (void)(limit), (void)(rejected), (void)(allowed))
#define sl_pulse_ticks(pulse) ((void)(pulse), UINT64_C(1)) /* never one that is timed */
#define sl_tap_request(limiter, slot, request, rejected) \
    ((void)(limiter), (void)(slot), (void)(request), (void)(rejected))

#endif
