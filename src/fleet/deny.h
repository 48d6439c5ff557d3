/* Rejections the store has pronounced, remembered until they are over, so that a flood on an exhausted bucket ends here.
 *
 * An entry holds the state that the store rejected on and the distance between its clock and ours; whether a request is
 * still rejected, and all figures of its verdict, follow from core at the store's time as it should be now. It is found by
 * fingerprint and by everything that matters of the shape: a limit whose rate, burst or algorithm changed is asked for
 * anew. A fixed number of entries, a cache line or two each; the one that ends soonest makes room. Any thread. */
#ifndef SL_FLEET_DENY_H
#define SL_FLEET_DENY_H

#include "base/alloc.h"
#include "base/hash.h"
#include "core/state.h"

struct sl_deny;

/* entries: 64 ... 2^24, rounded up to a power of two. Returns 0 or SL_ENOMEM. */
int sl_deny_new(size_t entries, const struct sl_alloc *alloc, struct sl_deny **ret_deny);
void sl_deny_free(struct sl_deny *deny); /* accepts NULL */

/* True when a request of this cost is known to be rejected at now_us (our clock): *ret_decision is that rejection, on the
 * store's clock, for sl_decision_numbers. Requests cheaper than the one that was rejected, and cost 0, are never found:
 * the store decides them. No rejection older than keep_us is believed: where others may give back what they had charged or
 * leased, a bucket can have room before the time alone would make it. */
bool sl_deny_find(struct sl_deny *deny, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                  uint64_t keep_us, uint32_t cost, struct sl_decision *ret_decision);

/* The store has decided a request on this bucket that we asked at asked_us (our clock). A rejection that time will end is
 * remembered (of two, the one of the smaller cost; a later one of the same or a smaller cost replaces), an admission forgets.
 */
void sl_deny_learn(struct sl_deny *deny, struct sl_hash128 fp, const struct sl_shape *shape,
                   const struct sl_decision *decision, uint64_t asked_us);

/* Forgets the bucket, whatever its shape. */
void sl_deny_forget(struct sl_deny *deny, struct sl_hash128 fp);

/* Entries in force at now_us, by a scan. */
size_t sl_deny_count(const struct sl_deny *deny, uint64_t now_us);

#endif
