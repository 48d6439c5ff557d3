/* Which buckets are hot: an estimate of decisions a second of each, in bounded memory.
 *
 * A count-min sketch with conservative update over two windows of 250 ms that take turns: estimates are never below the
 * truth of the last whole window, and above it only where four hashes collide with hotter buckets. A fixed 64 KiB whatever
 * the number of keys. Nothing is ever cleared: a counter carries the number of its window, modulo 34 minutes. Counts
 * saturate at 4 million a second. Counters are relaxed atomics: any thread, and a lost count in a race is within the
 * estimate's error. */
#ifndef SL_FLEET_HEAT_H
#define SL_FLEET_HEAT_H

#include "base/alloc.h"
#include "base/hash.h"

#include <stdint.h>

#define SL_HEAT_WINDOW_US UINT64_C(250000)

struct sl_heat;

int sl_heat_new(const struct sl_alloc *alloc, struct sl_heat **ret_heat); /* 0 or SL_ENOMEM */
void sl_heat_free(struct sl_heat *heat);                                  /* accepts NULL */

/* Counts one decision and returns how many a second this bucket has, by the last 250 to 500 ms: the higher of the last
 * window's rate and that of the last window with what there is of this one, so that a rise shows at once. */
uint32_t sl_heat_add(struct sl_heat *heat, struct sl_hash128 fp, uint64_t now_us);

#endif
