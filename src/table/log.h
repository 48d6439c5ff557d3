/* The sliding log's side of the table: one bucket that is a list of hits. */
#ifndef SL_TABLE_LOG_H
#define SL_TABLE_LOG_H

#include "table/find.h"

/* Judges the bucket in `slot`, found in state `s` under `tag`; `spend`: charge it when allowed. Returns false when
 * the slot changed hands meanwhile. */
bool sl_log_judge(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                  const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                  struct sl_decision *ret_decision);

/* The first state of a log: one hit. Generation bits are zero. */
struct sl_state sl_log_first(const struct sl_shape *shape, uint64_t t_us, uint32_t cost);

/* Takes `cost` out of the entry made at t_us. False as above. */
bool sl_log_refund(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                   const struct sl_shape *shape, uint64_t t_us, uint32_t cost);

/* Empties the slot: the bucket is whole. False as above. */
bool sl_log_clear(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag);

/* Frees the chunks of a log that has no slot any more. `s`: the state it had. */
void sl_log_free(struct sl_table *t, struct sl_state s, uint64_t tag);

/* True when the slot of a log may be given away: nobody is at work on it. */
bool sl_log_is_idle(struct sl_table *t, struct sl_state s);

#endif
