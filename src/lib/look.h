/* The buckets of a key with a store: sluice_inspect and sluice_reset. */
#ifndef SL_LIB_LOOK_H
#define SL_LIB_LOOK_H

#include "lib/tier.h"

/* Borrows the strings of info. */
void sl_bucket_public(const struct sl_bucket_info *info, struct sluice_bucket *ret_bucket);

/* The request was validated. Calls fn (may be NULL) on the caller's thread. As the public functions. */
int sl_tier_look(struct sl_tier *tier, const struct sluice_request *request, bool reset, sluice_bucket_fn *fn,
                 void *ctx, size_t *ret_n);

#endif
