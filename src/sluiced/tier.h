/* The daemon's side of the shared tier: the store's address, the secret under which the policy is compiled, log lines
 * and alarms. Nothing here waits for a store: the daemon starts without it and takes it up when it comes.
 *
 *     sl_tier_init(&tier, config, log, why, sizeof why);     the address and its files; `memory:` does nothing
 *     secret = sl_tier_secret(&tier, own);                   what to compile the first policy under
 *     sl_tier_start(&tier, limiter, source, loop, why, ...); tier.fleet is for the server
 *     ... the server runs, and is freed ...
 *     sl_tier_stop(&tier);
 *     sl_tier_fini(&tier);
 *
 * The secret: one that was kept for this store and namespace, else the table's. The instances' own is told by the
 * store; when it is another one, the policy is compiled anew under it, on the daemon's loop, and kept. */
#ifndef SL_SLUICED_TIER_H
#define SL_SLUICED_TIER_H

#include "fleet/fleet.h"
#include "observe/store_watch.h"
#include "observe/watch_policy.h"
#include "sluiced/source.h"

#include <uv.h>

#define SL_TIER_STORE_TEXT_MAX 4608

struct sl_tier {
    struct sl_store_url url;
    char store[SL_TIER_STORE_TEXT_MAX]; /* the address without secrets */
    const struct sl_config *config;     /* borrowed */
    struct sl_log *log;
    struct sl_alloc alloc;
    struct sl_alarms alarms;
    struct sl_policy_watch policies;
    struct sl_source *source;
    struct sl_fleet *fleet; /* NULL: memory:, or not started */
    struct sl_store_watch *watch;
    uv_async_t told; /* the loop's own, until it has closed them */
    uv_timer_t look;
    pthread_mutex_t lock; /* the secret that was told */
    struct sl_secret told_secret;
};

/* Returns 0, or SL_EINVALID or SL_EIO with a sentence that shows no secret. */
int sl_tier_init(struct sl_tier *tier, const struct sl_config *config, struct sl_log *log, char *why, size_t why_size);
void sl_tier_fini(struct sl_tier *tier);

/* There is a store to share limits on. */
bool sl_tier_is_shared(const struct sl_tier *tier);

struct sl_secret sl_tier_secret(struct sl_tier *tier, struct sl_secret own);

/* Makes the fleet, when there is a store. `limiter` has a policy compiled under `secret`. Handles on the loop are
 * closed by whoever closes all of it. Returns 0, SL_EINVALID, SL_EIO or SL_ENOMEM with a sentence. */
int sl_tier_start(struct sl_tier *tier, struct sl_limiter *limiter, struct sl_source *source, uv_loop_t *loop,
                  char *why, size_t why_size);

/* After every lane, and when the loop runs no more. */
void sl_tier_stop(struct sl_tier *tier);

/* The policy in force is compiled under this secret now (sl_source_config.keyed). */
void sl_tier_keyed(void *tier, const struct sl_secret *secret);

/* What became of a policy (sl_source_config.judged). */
void sl_tier_judged(void *tier, bool of_store, const char *finding);

#endif
