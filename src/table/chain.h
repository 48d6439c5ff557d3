/* A log's list of hits in the arena, oldest first. Whoever calls these holds the log's lock (or has the list to
 * himself).
 *
 * Written so that a kill between any two stores leaves a list that sl_chain_recount makes whole again: an entry is
 * written before it is counted, a chunk is filled before it is linked and unlinked before it is freed. A kill may
 * lose a chunk (repair.c finds it again) but never links one twice. Every walk is bounded and every number checked,
 * so a damaged region gives a wrong sum at worst. */
#ifndef SL_TABLE_CHAIN_H
#define SL_TABLE_CHAIN_H

#include "table/internal.h"

#include "core/log.h"

struct sl_chain {
    struct sl_table *t;
    uint32_t head;
    struct sl_log_head *h;
};

/* False when chunk `head` is not the head of a log of `tag`. */
bool sl_chain_open(struct sl_table *t, uint32_t head, uint64_t tag, struct sl_chain *ret_chain);

/* A new list with two hits. Returns its head, or 0 when the arena is exhausted. */
uint32_t sl_chain_new(struct sl_table *t, uint64_t tag, const uint64_t t_us[2], const uint32_t cost[2]);

bool sl_chain_is_empty(const struct sl_chain *c);

/* Time of the newest entry; 0 when there is none. */
uint64_t sl_chain_newest_us(const struct sl_chain *c);

/* Drops the entries that are not in force any more. */
void sl_chain_expire(struct sl_chain *c, const struct sl_shape *shape, uint64_t now_us);

/* Adds a hit; t_us is not before the newest. Returns false when there was no room, and the hit was folded into the
 * newest entry (which moves to t_us). The list is not empty. */
bool sl_chain_append(struct sl_chain *c, uint64_t t_us, uint32_t cost);

/* Takes up to `cost` out of the entry made at t_us, and entries that are left with nothing off the newest end. */
void sl_chain_remove(struct sl_chain *c, uint64_t t_us, uint32_t cost);

/* Fills decision->log_fit_us (core/log.h). */
void sl_chain_fit(const struct sl_chain *c, const struct sl_shape *shape, struct sl_decision *decision);

/* Counts everything anew, finishing what a killed holder began. Calls mark (may be NULL) for each chunk of the list
 * in order; the list is cut before a chunk for which it returns false. */
void sl_chain_recount(struct sl_chain *c, bool (*mark)(void *ctx, uint32_t chunk), void *ctx);

/* Gives all chunks back. */
void sl_chain_free(struct sl_chain *c);

#endif
