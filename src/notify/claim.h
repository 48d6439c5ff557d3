/* Who tells of a bucket, among all instances that share a store: whoever sets its key first.
 *
 *     NAMESPACE:{BUCKET}:warned      string, gone when the window ends; BUCKET: the keyed hash that its counts are kept by
 *
 * One key a bucket, so each has its slot; no byte of a client is in it. Everything on the client's loop. */
#ifndef SL_NOTIFY_CLAIM_H
#define SL_NOTIFY_CLAIM_H

#include "base/hash.h"
#include "store/client.h"

#define SL_CLAIM_TIMEOUT_US UINT64_C(1000000)

enum sl_claim {
    SL_CLAIM_WON,     /* nobody had told */
    SL_CLAIM_LOST,    /* somebody has told, for `left_us` more */
    SL_CLAIM_UNKNOWN, /* the store did not say */
};

typedef void sl_claim_done(void *ctx, enum sl_claim claim, uint64_t left_us);

/* Returns true when done will be called, once and not before this returns; false: the store cannot be asked, or there is no
 * memory. */
bool sl_claim_start(struct sl_client *client, const char *ns, struct sl_hash128 fp, uint64_t window_us,
                    sl_claim_done *done, void *ctx);

#endif
