/* A lease's tokens, lot by lot. A handful: every walk is over four at most. */
#include "fleet/lease_internal.h"

#include <assert.h>
#include <string.h>

void sl_lots_add(struct sl_lease *l, uint64_t from_us, uint64_t got_us, uint32_t tokens)
{
    struct sl_lot *last = &l->lots[SL_LEASE_LOTS - 1];

    if (tokens == 0)
        return;
    l->held += tokens;
    if (l->n_lots < SL_LEASE_LOTS) {
        l->lots[l->n_lots++] = (struct sl_lot){.from_us = from_us, .got_us = got_us, .tokens = tokens};
        return;
    }
    /* No room for one of its own: as strict as the stricter of the two. */
    last->tokens += tokens;
    last->from_us = from_us > last->from_us ? from_us : last->from_us;
    last->got_us = got_us < last->got_us ? got_us : last->got_us;
}

void sl_lots_add_first(struct sl_lease *l, uint64_t from_us, uint64_t got_us, uint32_t tokens)
{
    struct sl_lot *first = &l->lots[0];

    if (tokens == 0)
        return;
    if (l->n_lots > 0 && (first->from_us <= from_us || l->n_lots == SL_LEASE_LOTS)) {
        first->tokens += tokens;
        l->held += tokens;
        return;
    }
    memmove(first + 1, first, l->n_lots * sizeof *first);
    *first = (struct sl_lot){.from_us = from_us, .got_us = got_us, .tokens = tokens};
    l->n_lots++;
    l->held += tokens;
}

uint32_t sl_lots_usable(const struct sl_lease *l, uint64_t now_us)
{
    uint32_t usable = 0;

    for (unsigned i = 0; i < l->n_lots; i++)
        usable += l->lots[i].from_us <= now_us ? l->lots[i].tokens : 0;
    return usable;
}

uint64_t sl_lots_usable_from_us(const struct sl_lease *l, uint32_t tokens)
{
    uint64_t soonest = UINT64_MAX;

    for (unsigned i = 0; i < l->n_lots; i++)
        if (l->lots[i].from_us < soonest && sl_lots_usable(l, l->lots[i].from_us) >= tokens)
            soonest = l->lots[i].from_us;
    return soonest;
}

static void remove_lot(struct sl_lease *l, unsigned at)
{
    l->n_lots--;
    memmove(&l->lots[at], &l->lots[at + 1], (l->n_lots - at) * sizeof l->lots[0]);
}

/* Takes up to `tokens` from one lot, which is removed with its last. Returns how many. */
static uint32_t take_from(struct sl_lease *l, unsigned at, uint32_t tokens)
{
    struct sl_lot *lot = &l->lots[at];
    uint32_t taken = lot->tokens < tokens ? lot->tokens : tokens;

    lot->tokens -= taken;
    l->held -= taken;
    if (lot->tokens == 0)
        remove_lot(l, at);
    return taken;
}

void sl_lots_spend(struct sl_lease *l, uint64_t now_us, uint32_t tokens)
{
    for (unsigned i = 0; tokens > 0 && i < l->n_lots;) {
        unsigned n = l->n_lots;

        if (l->lots[i].from_us > now_us) {
            i++;
            continue;
        }
        l->spent_got_us = l->lots[i].got_us;
        tokens -= take_from(l, i, tokens);
        i += l->n_lots == n;
    }
    assert(tokens == 0);
}

void sl_lots_set_aside(struct sl_lease *l, uint32_t tokens)
{
    while (tokens > 0 && l->n_lots > 0) {
        uint32_t taken = take_from(l, l->n_lots - 1u, tokens);

        l->back += taken;
        tokens -= taken;
    }
}

void sl_lots_expire(struct sl_lease *l, uint64_t now_us)
{
    if (l->window_store_us && now_us >= l->window_ends_us) {
        l->n_lots = 0;
        l->held = l->back = 0;
        return;
    }
    for (unsigned i = 0; i < l->n_lots;) {
        if (sl_since(now_us, l->lots[i].got_us) >= l->terms.ttl_us)
            l->back += take_from(l, i, UINT32_MAX);
        else
            i++;
    }
}
