/* The arena: a list of free chunks (Treiber's stack; the upper half of its word counts, so that a chunk that left
 * and came back is noticed) over chunks never used yet, which are handed out in order so that their pages stay
 * untouched until then. */
#include "table/internal.h"

static uint32_t *next_of(const struct sl_table *t, uint32_t chunk)
{
    return &t->chunks[chunk - 1].more.next;
}

static uint32_t take_free(struct sl_table *t)
{
    uint64_t *list = &t->header->free_list, top = sl_load(list);

    for (;;) {
        uint32_t chunk = (uint32_t)top, next;

        if (!sl_chunk_at(t, chunk))
            return 0;
        next = sl_load32(next_of(t, chunk)); /* stale if somebody takes it now; then the swap fails */
        if (sl_swap(list, top, ((top >> 32) + 1) << 32 | next))
            return chunk;
        top = sl_load(list);
    }
}

static uint32_t take_fresh(struct sl_table *t)
{
    uint64_t *fresh = &t->header->fresh, n = sl_load(fresh);

    while (n < t->n_chunks) {
        if (sl_swap(fresh, n, n + 1))
            return (uint32_t)(n + 1);
        n = sl_load(fresh);
    }
    return 0;
}

uint32_t sl_chunk_take(struct sl_table *t)
{
    uint32_t chunk = take_free(t);

    if (chunk == 0)
        chunk = take_fresh(t);
    if (chunk != 0) {
        sl_store32(next_of(t, chunk), 0);
        sl_add(&t->header->chunks_used, 1);
    }
    return chunk;
}

void sl_chunk_give(struct sl_table *t, uint32_t chunk)
{
    uint64_t *list = &t->header->free_list, top;

    if (!sl_chunk_at(t, chunk))
        return;
    do {
        top = sl_load(list);
        sl_store32(next_of(t, chunk), (uint32_t)top);
    } while (!sl_swap(list, top, ((top >> 32) + 1) << 32 | chunk));
    __atomic_fetch_sub(&t->header->chunks_used, 1, __ATOMIC_RELAXED);
}
