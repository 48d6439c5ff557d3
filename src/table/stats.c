#include "table/internal.h"

#include <string.h>

/* The slots are counted in SL_SCAN_SEGMENTS parts, so that `live` is right as of the last round even in the middle
 * of one. */
static uint64_t segment_end(const struct sl_table *t, uint64_t segment)
{
    return sl_n_slots(t) * (segment + 1) / SL_SCAN_SEGMENTS;
}

static bool is_live(const struct sl_table *t, uint64_t slot, uint64_t now_us)
{
    const struct sl_group *g = &t->groups[slot / SL_GROUP_SLOTS];
    struct sl_state s = sl_state_load(&g->states[slot % SL_GROUP_SLOTS]);

    return !sl_state_is_claim(s) && !sl_state_is_free(s, now_us) && sl_load(&g->tags[slot % SL_GROUP_SLOTS]) != 0;
}

static void scan_on(struct sl_table *t, uint64_t slots, uint64_t now_us)
{
    while (slots-- > 0) {
        uint64_t segment = t->scan_at * SL_SCAN_SEGMENTS / sl_n_slots(t);

        while (t->scan_at >= segment_end(t, segment))
            segment++;
        t->scan_live += is_live(t, t->scan_at, now_us);
        if (++t->scan_at < segment_end(t, segment))
            continue;
        __atomic_store_n(&t->segment_live[segment], t->scan_live, __ATOMIC_RELAXED);
        t->scan_live = 0;
        if (t->scan_at == sl_n_slots(t))
            t->scan_at = 0;
    }
}

static uint64_t live_known(const struct sl_table *t)
{
    uint64_t live = 0;

    for (unsigned i = 0; i < SL_SCAN_SEGMENTS; i++)
        live += __atomic_load_n(&t->segment_live[i], __ATOMIC_RELAXED);
    return live;
}

uint64_t sl_table_scan(struct sl_table *t, uint64_t slots)
{
    uint32_t free = 0;

    if (!__atomic_compare_exchange_n(&t->self->scanning, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return live_known(t);
    if (slots >= sl_n_slots(t)) {
        slots = sl_n_slots(t);
        t->scan_at = t->scan_live = 0;
    }
    scan_on(t, slots, sl_table_now(t));
    __atomic_store_n(&t->self->scanning, 0, __ATOMIC_RELEASE);
    return live_known(t);
}

void sl_table_stats(struct sl_table *t, struct sl_table_stats *ret_stats)
{
    const struct sl_region_header *h = t->header;

    *ret_stats = (struct sl_table_stats){
        .slots = sl_n_slots(t),
        .bytes = h->plan.bytes,
        .live = live_known(t),
        .evictions = sl_load(&h->evictions),
        .forgiven_us = sl_load(&h->forgiven_us),
        .negative_elapsed = sl_load(&h->negative_elapsed),
        .log_entries = t->n_chunks * SL_MORE_ENTRIES,
        .log_used = sl_load(&h->chunks_used) * SL_MORE_ENTRIES,
        .log_folded = sl_load(&h->log_folded),
        .locks_recovered = sl_load(&h->locks_recovered),
        .resets = h->resets,
    };
}
