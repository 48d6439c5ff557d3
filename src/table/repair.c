/* Putting a file in order while nobody else has it open: locks of the dead are dropped, logs counted anew, and
 * every chunk that hangs on no log becomes free again (a kill may have lost it). Half-made inserts are left as they
 * are: claims are finished or reused in the ordinary course. Only a table that ever had log chunks is read through. */
#include "table/chain.h"
#include "table/find.h"

struct marks {
    struct sl_table *t;
    unsigned char *seen; /* a bit a chunk */
    uint64_t n;
};

/* False when the chunk hangs on another log too: then the region is damaged, and the second list ends here. */
static bool mark(void *ctx, uint32_t chunk)
{
    struct marks *m = ctx;
    unsigned char bit = (unsigned char)(1u << (chunk & 7));

    if (m->seen[chunk >> 3] & bit)
        return false;
    m->seen[chunk >> 3] |= bit;
    m->n++;
    return true;
}

static void repair_log(struct marks *m, struct sl_group *g, unsigned i)
{
    struct sl_state s = g->states[i];
    struct sl_chain c;

    if (!sl_state_is_log(s) || sl_log_is_inline(s))
        return;
    if (sl_chain_open(m->t, sl_log_value(s), g->tags[i], &c) && mark(m, c.head)) {
        sl_chain_recount(&c, mark, m);
        g->states[i] = sl_log_with_owner(s, 0);
    } else {
        g->states[i] = (struct sl_state){.hi = s.hi & SL_GEN_BITS};
    }
}

static void free_unmarked(struct marks *m)
{
    struct sl_region_header *h = m->t->header;
    uint64_t list = h->free_list >> 32 << 32;

    for (uint64_t chunk = h->fresh; chunk > 0; chunk--) {
        if (m->seen[chunk >> 3] & (1u << (chunk & 7)))
            continue;
        m->t->chunks[chunk - 1].head.tag = 0;
        m->t->chunks[chunk - 1].more.next = (uint32_t)list;
        list = list >> 32 << 32 | chunk;
    }
    h->free_list = list;
    h->chunks_used = m->n;
}

int sl_repair(struct sl_table *t)
{
    struct marks m = {.t = t};

    for (unsigned i = 0; i < SL_STRIPES; i++)
        t->stripes[i].lock += t->stripes[i].lock & 1;
    if (t->header->fresh > t->n_chunks)
        t->header->fresh = t->n_chunks;
    if (t->header->fresh == 0) {
        t->header->free_list = t->header->chunks_used = 0;
        return 0;
    }
    m.seen = sl_calloc(&t->alloc, t->header->fresh / 8 + 1, 1);
    if (!m.seen)
        return SL_ENOMEM;
    for (uint64_t g = 0; g < t->n_groups; g++) {
        for (unsigned i = 0; i < SL_GROUP_SLOTS; i++)
            repair_log(&m, &t->groups[g], i);
    }
    free_unmarked(&m);
    sl_free(&t->alloc, m.seen);
    return 0;
}
