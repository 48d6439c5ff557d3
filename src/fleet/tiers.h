/* The tiers that the store has for keys (`tiers.keys_store`), remembered here so that a decision never waits for them.
 *
 *     sl_tiers_find(tiers, key, len, now_us, &tier)         any thread, for each decision: from memory alone
 *     while ((look = sl_tiers_look(tiers, now_us)))         on a loop: what finds have asked for since
 *         ... asks the store for the keys of the look, and
 *         sl_tiers_learn(look, i, tier, len) ...; sl_tiers_look_end(look)
 *
 * Known is who has a tier and who has none, each for `ttl_us`. A key that is asked for is looked up anew when between 75
 * and 95 % of that have passed (each key at a time of its own), so that one in use is never without an answer; what is
 * older counts until the look-up has answered, but no longer than SL_TIERS_KEEP_US: that is how long an outage of the
 * store takes no key's tier away. A look-up that fails is repeated after a second, if the key is asked for.
 *
 * Memory is fixed, and is taken at the first find: policies without keys_store cost nothing. A key that is known to have
 * none, or nothing, never drives out one that has a tier and was asked for within ttl_us: a flood of invented keys costs
 * those who pay nothing. Keys are kept as keyed hashes; only those that wait for a look-up stand here as they are. */
#ifndef SL_FLEET_TIERS_H
#define SL_FLEET_TIERS_H

#include "base/alloc.h"
#include "base/hash.h"
#include "sluice/sluice.h"

#include <stdbool.h>

#define SL_TIERS_ENTRIES 65536u
#define SL_TIERS_TTL_US UINT64_C(60000000)
#define SL_TIERS_KEEP_US UINT64_C(3600000000)
#define SL_TIERS_AGAIN_US UINT64_C(1000000) /* until a look-up that failed is repeated */
#define SL_TIERS_WANTS_MAX 1024u            /* keys that wait or are being looked up; more are dropped, and counted */
#define SL_TIERS_LOOK_KEYS 64u              /* of one look */
#define SL_TIERS_LOOKS_MAX 8u               /* on their way at once, of all loops */

/* What look-ups have come to. */
enum sl_tiers_count {
    SL_TIERS_HIT,          /* the store names a tier that the policy knows */
    SL_TIERS_MISS,         /* the key is not there */
    SL_TIERS_UNKNOWN_TIER, /* what is there is no tier of the policy's */
    SL_TIERS_ERROR,        /* no answer, or not one to use */
    SL_TIERS_DROPPED,      /* too many at once */
    SL_TIERS_COUNTS,
};
extern const char *const sl_tiers_count_names[SL_TIERS_COUNTS]; /* the metric's label */

/* The hash in the main store, of a namespace: field, a key as the policy sees it (addresses in their one spelling); value,
 * the name of its tier. */
#define SL_TIERS_HASH "%s:{keys}"

struct sl_tiers;

struct sl_tiers_config {
    const struct sl_alloc *alloc; /* borrowed for the call */
    uint64_t ttl_us;              /* 0: SL_TIERS_TTL_US */
    size_t entries;               /* rounded up to a power of two, at least 64; 0: SL_TIERS_ENTRIES */
};

/* Returns 0, SL_ENOMEM, or SL_EIO when the system gives no random bytes. */
int sl_tiers_new(const struct sl_tiers_config *config, struct sl_tiers **ret_tiers);
void sl_tiers_free(struct sl_tiers *tiers); /* accepts NULL; looks on their way must have ended */

struct sl_tier_name {
    size_t len;
    char text[SLUICE_NAME_MAX];
};

/* True when the key is known to have a tier. Else it has none, or it is not known yet. Any thread; takes a lock for some tens
 * of nanoseconds that few others want. */
bool sl_tiers_find(struct sl_tiers *tiers, const char *key, size_t len, uint64_t now_us, struct sl_tier_name *ret_tier);

/* Keys wait for a look-up, and there is room for one more look. Any thread. */
bool sl_tiers_waiting(const struct sl_tiers *tiers);

/* ---- looks: each belongs to one thread from its begin to its end */

struct sl_tiers_look;

/* The keys that have waited longest, SL_TIERS_LOOK_KEYS at most. NULL: none waits, or enough looks are on their way. */
struct sl_tiers_look *sl_tiers_look(struct sl_tiers *tiers, uint64_t now_us);
struct sl_tiers *sl_tiers_look_tiers(const struct sl_tiers_look *look);
unsigned sl_tiers_look_n(const struct sl_tiers_look *look);
/* Borrowed until the look ends. */
const char *sl_tiers_look_key(const struct sl_tiers_look *look, unsigned i, size_t *ret_len);

/* What the store has for key i: a tier (1 ... SLUICE_NAME_MAX - 1 bytes), or none (NULL). Each counts as `count`. */
void sl_tiers_learn(struct sl_tiers_look *look, unsigned i, const char *tier, size_t len, enum sl_tiers_count count);

/* Keys of which nothing was learned have failed. */
void sl_tiers_look_end(struct sl_tiers_look *look, uint64_t now_us);

struct sl_tiers_stats {
    uint64_t lookups[SL_TIERS_COUNTS];
    uint64_t entries; /* keys that are remembered, whatever of them is known */
};
void sl_tiers_stats(const struct sl_tiers *tiers, struct sl_tiers_stats *ret_stats);

#endif
