/* Whom dry-run limits would have rejected: per limit and key, in bounded memory.
 *
 * Each loop counts in pairs of its own, under a lock that nobody else takes but a reader now and then. */
#ifndef SL_SHADOW_DRY_H
#define SL_SHADOW_DRY_H

#include "shadow/pairs.h"

#define SL_DRY_LOOPS_MAX 257u
#define SL_DRY_SHOWN 50u

struct sl_dry;

/* Borrows the allocator. Returns 0, SL_ENOMEM or SL_EIO (no randomness). */
int sl_dry_new(const struct sl_alloc *alloc, struct sl_dry **ret_dry);
void sl_dry_free(struct sl_dry *dry); /* accepts NULL; no loop counts any more */

/* Each loop's own thread, loop < SL_DRY_LOOPS_MAX. The verdict has dry_run. */
void sl_dry_saw(struct sl_dry *dry, unsigned loop, const struct sluice_request *request,
                const struct sluice_verdict *verdict);

/* Any thread. sl_pairs_json of all loops, at most SL_DRY_SHOWN; *ret_n: would-be rejections in all. NULL: out of
 * memory. */
struct json_t *sl_dry_json(struct sl_dry *dry, uint64_t *ret_n);

/* Counts anew. Any thread. */
void sl_dry_clear(struct sl_dry *dry);

#endif
