/* The most frequent pairs of a limit and a key, in bounded memory: space-saving in sets, as observe/sketch.h has it
 * for keys.
 *
 * One that is not there takes the place of the least counted of its set and inherits its count, as an error: the
 * true count lies between count - error and count. Until a set has been full there is no error. One thread. */
#ifndef SL_SHADOW_PAIRS_H
#define SL_SHADOW_PAIRS_H

#include "base/alloc.h"
#include "base/hash.h"
#include "observe/sketch.h"

struct json_t;

#define SL_PAIRS_SETS 64u
#define SL_PAIRS_WAYS 8u

struct sl_pair {
    uint64_t hash; /* 0: free */
    uint64_t count, error;
    char limit[SLUICE_NAME_MAX]; /* "": none */
    struct sl_sketch_text text;
};

struct sl_pairs {
    struct sl_secret secret;
    struct sl_pair pairs[SL_PAIRS_SETS][SL_PAIRS_WAYS];
};

/* Returns 0, SL_ENOMEM, or SL_EIO (no randomness). */
int sl_pairs_new(const struct sl_alloc *alloc, struct sl_pairs **ret_pairs);
void sl_pairs_clear(struct sl_pairs *pairs);

/* One more. `key_type` NULL is api_key. */
void sl_pairs_add(struct sl_pairs *pairs, const char *limit, const struct sluice_request *request);

/* Adds another's, which was made under the same secret. What was sure stays so. */
void sl_pairs_join(struct sl_pairs *pairs, const struct sl_pairs *other);

/* [{"limit","key","keyType","atLeast","atMost"}], the surest first, at most n of them. NULL: out of memory. */
struct json_t *sl_pairs_json(const struct sl_pairs *pairs, unsigned n);

#endif
