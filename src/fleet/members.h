/* Who else is there: this instance's heartbeat in the store, the count of those alive, and the secret they share.
 *
 * Once a second one small script adds this instance to the sorted set NAMESPACE:{fleet}:instances at the store's time,
 * drops those not heard of for SL_MEMBERS_SILENT_US, keeps the secret NAMESPACE:{fleet}:secret (created by whoever comes
 * first, and put back by those who know it after the store lost it), and answers count and secret. One of these a fleet, run
 * by one lane; the count outlives outages: the last one known stays. */
#ifndef SL_FLEET_MEMBERS_H
#define SL_FLEET_MEMBERS_H

#include "base/hash.h"
#include "store/client.h"

#define SL_MEMBERS_BEAT_US UINT64_C(1000000)
#define SL_MEMBERS_SILENT_US UINT64_C(3500000)

struct sl_members;

struct sl_members_config {
    const struct sl_net *net; /* borrowed, as the rest */
    const struct sl_alloc *alloc;
    struct sl_client *client;
    const char *ns;
    uint64_t id;                    /* this instance's, random */
    const struct sl_secret *secret; /* one that is known already: put into the store when it has none. NULL: none */
    /* On the loop: after every heartbeat that was answered. `changed`: the secret is another than the last one told. */
    void (*heard)(void *owner, unsigned count, const struct sl_secret *secret, bool changed);
    void *owner;
};

/* Starts beating at once, with a first beat as soon as the client can send. Returns 0 or SL_ENOMEM. */
int sl_members_new(const struct sl_members_config *config, struct sl_members **ret_members);

/* Takes this instance out of the set; `left` is called when the store has answered or the deadline is over. */
void sl_members_leave(struct sl_members *members, void (*left)(void *owner), void *owner);

/* Not while a leave is under way, unless the client is freed before. Accepts NULL. */
void sl_members_free(struct sl_members *members);

#endif
