/* The most frequent of a stream of keys, in bounded memory: space-saving (Metwally, Agrawal, El Abbadi 2005) in sets.
 *
 * A key's hash chooses a set of SL_SKETCH_WAYS entries. One that is not there takes the place of the least counted and
 * inherits its count, as an error: the true count lies between count - error and count. So a key with more than 1 in
 * SL_SKETCH_WAYS of its set's stream, on average 1 in SL_SKETCH_WAYS * SL_SKETCH_SETS of all, is never missed, whatever
 * else comes; and one addition looks at two cache lines, for a key that is there.
 *
 * The hash is the key's identity: 64 bits under a secret of the caller's. Of its text the beginning is kept. Pure. */
#ifndef SL_OBSERVE_SKETCH_H
#define SL_OBSERVE_SKETCH_H

#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

#define SL_SKETCH_SETS 64u
#define SL_SKETCH_WAYS 8u
#define SL_SKETCH_KEY_MAX 64u
#define SL_SKETCH_TYPE_MAX 24u

struct sl_sketch_text {
    uint16_t key_len; /* in full; of it at most SL_SKETCH_KEY_MAX bytes are kept */
    uint8_t type_len; /* likewise */
    char key[SL_SKETCH_KEY_MAX];
    char type[SL_SKETCH_TYPE_MAX];
};

struct sl_sketch_set {
    uint64_t hash[SL_SKETCH_WAYS]; /* 0: free */
    uint32_t count[SL_SKETCH_WAYS];
    uint32_t error[SL_SKETCH_WAYS];
};

/* Zeroed memory is an empty one, whatever its texts hold. */
struct sl_sketch {
    struct sl_sketch_set sets[SL_SKETCH_SETS];
    struct sl_sketch_text texts[SL_SKETCH_SETS][SL_SKETCH_WAYS];
};

/* Counts the request's key. hash: not 0. */
void sl_sketch_add(struct sl_sketch *sketch, uint64_t hash, const struct sluice_request *request);

/* Forgets everything. */
void sl_sketch_clear(struct sl_sketch *sketch);

/* The beginning of key and key type (api_key when the request names none). */
void sl_sketch_keep_text(struct sl_sketch_text *text, const struct sluice_request *request);

/* Writes what can be shown (observe/show.h) of a text of `len` bytes, of which the first `max` were kept. `to` has
 * SL_SHOWN_MAX(max) bytes. */
void sl_sketch_show(const char *text, size_t len, size_t max, char *to);

#endif
