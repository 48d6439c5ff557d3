/* Decisions on their way from a serving loop to the thread that rehearses them: a ring of bytes in fixed memory,
 * with one writer and one reader, who never wait for each other.
 *
 *     sl_ring_put(ring, &seen)           on the loop: a copy, or false when there is no room
 *     while (sl_ring_peek(ring, &told))  on the thread
 *         ..., sl_ring_drop(ring); */
#ifndef SL_SHADOW_RING_H
#define SL_SHADOW_RING_H

#include "base/alloc.h"
#include "sluice/sluice.h"

#define SL_RING_BYTES (1u << 20) /* some thousand decisions; the longest possible request is 14 KB */

struct sl_ring;

/* A decision as it was made. */
struct sl_seen {
    uint64_t t_us;                        /* when, by the clock of the table that decided */
    const struct sluice_request *request; /* as the door read it, accepted */
    bool allowed;
    uint8_t source;     /* enum sluice_source */
    const char *policy; /* the deciding limit */
};

/* The same, read back. Borrows from the ring until it is dropped. */
struct sl_told {
    uint64_t t_us;
    struct sluice_request request;
    bool allowed;
    uint8_t source;
    char policy[SLUICE_NAME_MAX];
    struct sluice_label labels[SLUICE_LABELS_MAX];
};

/* NULL: out of memory. `bytes`: a power of two, at least 32 KiB. */
struct sl_ring *sl_ring_new(const struct sl_alloc *alloc, size_t bytes);
void sl_ring_free(struct sl_ring *ring); /* accepts NULL; nobody uses it any more */

/* The writer's. False: dropped, there is no room. */
bool sl_ring_put(struct sl_ring *ring, const struct sl_seen *seen);

/* The reader's. The time of the oldest; false: it is empty. */
bool sl_ring_next_at(const struct sl_ring *ring, uint64_t *ret_t_us);
/* The oldest. *told must stay where it is until it is dropped. */
bool sl_ring_peek(struct sl_ring *ring, struct sl_told *ret_told);
/* Goes on behind it. There must be one. */
void sl_ring_drop(struct sl_ring *ring);
/* Forgets all there is. */
void sl_ring_clear(struct sl_ring *ring);

#endif
