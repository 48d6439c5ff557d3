/* Giving a slot to a key that has none: the only way a tag is ever written. */
#ifndef SL_TABLE_INSERT_H
#define SL_TABLE_INSERT_H

#include "table/find.h"

/* Judges a request for a key that sl_find did not find, and makes its bucket if it spends. Returns false when the
 * table changed meanwhile, so that the caller must look for the key again. */
bool sl_insert(struct sl_table *t, const struct sl_site *site, const struct sl_shape *shape, uint64_t now_us,
               uint32_t cost, struct sl_decision *ret_decision);

/* Judges a bucket that is whole: what a key without a slot is. */
void sl_decide_fresh(const struct sl_shape *shape, uint64_t now_us, uint32_t cost, struct sl_decision *ret_decision);

#endif
