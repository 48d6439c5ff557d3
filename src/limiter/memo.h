/* What the policy said of requests seen a moment ago, so that a hot key is validated, hashed and resolved once.
 *
 * A memo belongs to one policy and one reader slot: whoever holds the slot has it alone, and a reload starts with an
 * empty one. An answer is found by every byte of the request that decides it, so it is always the answer that
 * resolution would give; requests with labels, with long texts or with many buckets are not kept.
 *
 * A request must come twice in a row, as far as its place in the memo sees, before it is kept: a flood of keys that
 * never come again neither drives out the hot ones nor pays for copying. */
#ifndef SL_LIMITER_MEMO_H
#define SL_LIMITER_MEMO_H

#include "limiter/consult.h"

#define SL_MEMO_PLACES 64 /* a power of two */
#define SL_MEMO_ITEMS 4   /* buckets of a request that is kept, dry-run ones included */
#define SL_MEMO_BYTES 192 /* of its texts together */

struct sl_memo_entry {
    uint64_t shape;     /* lengths and presence of the texts; 0: nothing kept */
    int64_t cost;       /* as asked */
    uint32_t candidate; /* hash of the last request that came here and is not kept */
    struct sl_consult consult;
    struct sl_item items[SL_MEMO_ITEMS];
    char bytes[SL_MEMO_BYTES]; /* key, scope, key type, tier, address */
};

struct sl_memo {
    struct sl_memo_entry places[SL_MEMO_PLACES];
};

/* A request on its way through the memo. */
struct sl_memo_query {
    struct sl_memo_entry *entry; /* NULL: not one that is kept */
    uint64_t shape;
    uint32_t hash;
};

/* The answer, or NULL: then resolve, and offer the answer with the same query. Zeroed memory is an empty memo. The
 * request need not be valid; an invalid one is never found. */
const struct sl_consult *sl_memo_find(struct sl_memo *memo, const struct sluice_request *request,
                                      struct sl_memo_query *ret_query);

/* Keeps the answer for a valid request (as given, not as normalised), if the request has earned its place. */
void sl_memo_offer(const struct sl_memo_query *query, const struct sluice_request *request,
                   const struct sl_consult *consult);

#endif
