/* Who else is there: this instance's heartbeat in the store, the count of those alive, and the secret they share.
 *
 * Once a second one small script adds this instance to the sorted set NAMESPACE:{fleet}:instances at the store's time,
 * drops those not heard of for SL_MEMBERS_SILENT_US, keeps the secret NAMESPACE:{fleet}:secret (created by whoever
 * comes first, and put back by those who know it after the store lost it), and answers count and secret. One of these a
 * fleet, run by one lane; the count outlives outages: the last one known stays.
 *
 * The set lives as long as its members are heard of, so that a fleet that died leaves nothing but its secret: 16 random
 * bytes as 32 lower-case hex digits, without a time to live. When the store has another secret than ours, the store's
 * wins. Whatever else is found under the two names is foreign: counted, told of once, and left alone. */
#ifndef SL_FLEET_MEMBERS_H
#define SL_FLEET_MEMBERS_H

#include "base/hash.h"
#include "store/client.h"

#define SL_MEMBERS_BEAT_US UINT64_C(1000000) /* +- 10 % at random, so that a fleet does not beat in step */
#define SL_MEMBERS_SILENT_US UINT64_C(3500000)
#define SL_MEMBERS_TIMEOUT_US UINT64_C(250000)
#define SL_MEMBERS_SECRET_LEN 32u /* hex digits */

struct sl_members;

struct sl_members_config {
    const struct sl_net *net; /* borrowed, as the rest */
    const struct sl_alloc *alloc;
    struct sl_client *client;
    const char *ns;
    uint64_t id;                    /* this instance's, random */
    const struct sl_secret *secret; /* one that is known already: put into the store when it has none. NULL: none */
    uint64_t timeout_us; /* of a decision; a beat is waited for as long, but at least SL_MEMBERS_TIMEOUT_US */
    unsigned instances;  /* what to tell while the set cannot say; 0 is taken as 1 */
    /* On the loop: after every heartbeat that was answered with a secret. `changed`: it is the first one told, or
     * another than the last. The count is at least 1. Must not free the members. */
    void (*heard)(void *owner, unsigned count, const struct sl_secret *secret, bool changed);
    /* On the loop: a sentence, once at each change, about something under our names that is not ours or about a store
     * that keeps refusing the beat. NULL: nobody cares. */
    void (*odd)(void *owner, const char *text);
    void *owner;
};

/* Starts beating at once, with a first beat as soon as the client can send. At most one beat is on its way: a slow
 * store gets fewer. Returns 0 or SL_ENOMEM. */
int sl_members_new(const struct sl_members_config *config, struct sl_members **ret_members);

/* Takes this instance out of the set; `left` is called, never from inside this, when the store has answered or the
 * deadline is over. `heard` is not called any more. */
void sl_members_leave(struct sl_members *members, void (*left)(void *owner), void *owner);

/* Not while a leave is under way, unless the client is freed before. A beat on its way may stay: its memory goes when
 * it is answered, and the allocator must live until then. Not from a callback. Accepts NULL. */
void sl_members_free(struct sl_members *members);

struct sl_members_stats {
    uint64_t beats;    /* answered with a secret */
    uint64_t failed;   /* not answered, or refused */
    uint64_t foreign;  /* answered, but under our names was something that is not ours */
    uint64_t store_us; /* the store's time (Unix) at the last beat answered; 0: none was */
};
/* The loop's thread. */
void sl_members_stats(const struct sl_members *members, struct sl_members_stats *ret_stats);

/* A secret as it stands in the store, NUL-terminated; and back: 0, or SL_EFORMAT. */
void sl_members_write_secret(const struct sl_secret *secret, char buf[static SL_MEMBERS_SECRET_LEN + 1]);
int sl_members_read_secret(const char *text, size_t len, struct sl_secret *ret_secret);

#endif
