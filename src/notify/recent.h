/* Which buckets have been told of lately: a bucket that stays past its mark costs a look here, and nothing else.
 *
 *     if (sl_recent_claim(recent, fp, now_us, now_us + window_us))
 *         tell();                                     whoever claims it first, among all threads, and nobody else until then
 *
 * A table of fixed size: when the few places a bucket may have are taken, the one whose time ends first is forgotten, so that
 * with more than SL_RECENT_BUCKETS past their marks at once some may be told of again. Time is an argument, in us of any
 * clock that does not step back. Any thread. */
#ifndef SL_NOTIFY_RECENT_H
#define SL_NOTIFY_RECENT_H

#include "base/alloc.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

#define SL_RECENT_BUCKETS 65536u /* 1.5 MiB */

struct sl_recent;

/* Returns 0 or SL_ENOMEM. */
int sl_recent_new(const struct sl_alloc *alloc, struct sl_recent **ret_recent);
void sl_recent_free(struct sl_recent *recent); /* accepts NULL */

/* True when the bucket was not claimed, or no longer: now it is, until then. */
bool sl_recent_claim(struct sl_recent *recent, struct sl_hash128 fp, uint64_t now_us, uint64_t until_us);

/* Of one that is claimed: until when; not later than now: no longer. Nothing happens when it has been forgotten. */
void sl_recent_set(struct sl_recent *recent, struct sl_hash128 fp, uint64_t until_us);

#endif
