/* Two counters a key, exact up to a stated number of keys.
 *
 * The first `max` keys that are counted at all are counted exactly, in a hash table that keeps their text; what further
 * keys would have had is added up in `untallied`. So figures of keys that are shown are never estimates. One thread. */
#ifndef SL_REPLAY_KEY_TALLY_H
#define SL_REPLAY_KEY_TALLY_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/slice.h"
#include "sluice/sluice.h"

#include <stddef.h>
#include <stdint.h>

struct sl_key_tally_entry {
    uint64_t hash;
    struct sl_slice key, type; /* one allocation, at key.text; NUL behind both. Type "" is api_key */
    uint64_t n[2];
};

struct sl_key_tally {
    struct sl_alloc alloc;
    struct sl_secret secret;
    uint64_t max;
    size_t n, room; /* room: a power of two, or 0 */
    struct sl_key_tally_entry *entries;
    uint64_t untallied[2];
};

void sl_key_tally_init(struct sl_key_tally *keys, const struct sl_alloc *alloc, struct sl_secret secret, uint64_t max);
void sl_key_tally_fini(struct sl_key_tally *keys);

/* Adds one to counter `which` (0 or 1) of a key. Returns 0 or SL_ENOMEM. */
int sl_key_tally_add(struct sl_key_tally *keys, struct sl_slice key, struct sl_slice type, unsigned which);

/* The entries with the largest n[0] + n[1], at most `max` of them: largest first, equals in order of key and type.
 * Returns 0 and an array of pointers to free with the allocator (NULL when there are none), or SL_ENOMEM. */
int sl_key_tally_top(const struct sl_key_tally *keys, size_t max, const struct sl_key_tally_entry ***ret_top,
                     size_t *ret_n);

/* A copy of an entry's key, NUL behind it, and its type's name; NULL when out of memory. */
char *sl_key_tally_copy(const struct sl_alloc *alloc, const struct sl_key_tally_entry *entry, size_t *ret_len,
                        char ret_type[static SLUICE_NAME_MAX]);

#endif
