/* All-or-nothing over several buckets, without a lock.
 *
 * Looking at all first means that a flood on an exhausted bucket writes nothing and disturbs nobody. Charging from the
 * narrowest bucket to the widest makes the last charge, on the bucket most others share, the commit: a doomed
 * request is stopped by its own narrow buckets before it touches what others need. A charge that lost a race is given
 * back safely (core/state.h), so that no interleaving admits more than any of the limits; what a race can cost is a
 * refusal of another request within its duration. */
#include "limiter/consult.h"

void sl_consult_make(const struct sl_resolution *resolution, struct sl_consult *ret_consult)
{
    const struct sl_resolution *r = resolution;

    ret_consult->items = r->items;
    ret_consult->dry = r->dry;
    ret_consult->n_items = r->denied ? 0 : r->n_items;
    ret_consult->n_dry = r->n_dry;
    ret_consult->blocked = r->denied ? NULL : r->blocked;
    ret_consult->unlimited = r->denied ? NULL : r->unlimited;
    ret_consult->dry_blocked = r->dry_blocked;
    ret_consult->denied = r->denied;
    ret_consult->unmatched = r->unmatched;
    ret_consult->anonymous = false;
    ret_consult->shared = false;
    for (unsigned i = 0; i < r->n_items; i++)
        ret_consult->shared |= r->items[i].limit->shared != NULL;
    for (unsigned i = 0; i < r->n_dry; i++)
        ret_consult->shared |= r->dry[i].limit->shared != NULL;
    if (ret_consult->shared) {
        ret_consult->store = (uint16_t)r->store;
        ret_consult->key_hash = r->key_hash;
        ret_consult->address_hash = r->address_hash;
    }
    ret_consult->n_bare = 0;
    if (!ret_consult->blocked && !ret_consult->unlimited)
        return;
    for (unsigned layer = 0; layer < SL_LAYERS_MAX; layer++)
        if (r->winners[layer] && r->winners[layer]->n_rates == 0)
            ret_consult->bare[ret_consult->n_bare++] = r->winners[layer];
}

bool sl_items_look(struct sl_table *table, const struct sl_item *items, unsigned n, uint64_t now_us,
                   struct sl_decision *ret_decisions)
{
    bool room = true;

    for (unsigned i = 0; i < n; i++) {
        sl_table_look(table, items[i].fp, items[i].shape, now_us, items[i].cost, &ret_decisions[i]);
        room = room && ret_decisions[i].allowed;
    }
    return room;
}

/* How many requests share a bucket, as far as its dimensions tell: buckets of one key or address are the narrowest,
 * the one bucket for all is the widest, and a further dimension always makes it narrower. */
static unsigned width(const struct sl_limit *limit)
{
    unsigned dimensions = (unsigned)__builtin_popcount(limit->per) + limit->n_per_labels;
    unsigned reach = limit->per & (SL_PER_KEY | SL_PER_ADDRESS) ? 0 : limit->per ? 1 : 2;

    return reach * 64 + 63 - (dimensions < 63 ? dimensions : 63);
}

/* Indices of the items, narrowest first; equal widths keep their order. */
static void order_by_width(const struct sl_item *items, unsigned n, uint8_t *ret_order)
{
    uint8_t widths[SL_ITEMS_MAX];

    for (unsigned i = 0; i < n; i++) {
        uint8_t w = (uint8_t)width(items[i].limit);
        unsigned at = i;

        for (; at > 0 && widths[at - 1] > w; at--) {
            widths[at] = widths[at - 1];
            ret_order[at] = ret_order[at - 1];
        }
        widths[at] = w;
        ret_order[at] = (uint8_t)i;
    }
}

bool sl_items_charge(struct sl_table *table, const struct sl_item *items, unsigned n, uint64_t now_us,
                     struct sl_decision *decisions)
{
    uint8_t order[SL_ITEMS_MAX];

    order_by_width(items, n, order);
    for (unsigned i = 0; i < n; i++) {
        const struct sl_item *item = &items[order[i]];

        sl_table_charge(table, item->fp, item->shape, now_us, item->cost, &decisions[order[i]]);
        if (decisions[order[i]].allowed)
            continue;
        while (i-- > 0)
            if (items[order[i]].cost > 0)
                sl_table_refund(table, items[order[i]].fp, items[order[i]].shape, &decisions[order[i]]);
        return false;
    }
    return true;
}

void sl_items_refund(struct sl_table *table, const struct sl_item *items, unsigned n,
                     const struct sl_decision *decisions)
{
    for (unsigned i = n; i-- > 0;)
        if (items[i].cost > 0)
            sl_table_refund(table, items[i].fp, items[i].shape, &decisions[i]);
}

static bool decide_items(struct sl_table *table, const struct sl_consult *consult, uint64_t now_us,
                         struct sl_decision *decisions)
{
    const struct sl_item *items = consult->items;

    if (consult->n_items == 1 && !consult->blocked) {
        sl_table_charge(table, items->fp, items->shape, now_us, items->cost, decisions);
        return decisions->allowed;
    }
    if (!sl_items_look(table, items, consult->n_items, now_us, decisions) || consult->blocked)
        return false;
    return consult->n_items == 0 || sl_items_charge(table, items, consult->n_items, now_us, decisions);
}

/* Each dry-run limit stands for itself: what one refuses does not keep another from being charged. */
static void decide_dry(struct sl_table *table, const struct sl_consult *consult, uint64_t now_us, bool allowed,
                       struct sl_decision *decisions)
{
    for (unsigned first = 0, end; first < consult->n_dry; first = end) {
        end = sl_items_group_end(consult->dry, consult->n_dry, first);
        if (sl_items_look(table, consult->dry + first, end - first, now_us, decisions + first) && allowed)
            sl_items_charge(table, consult->dry + first, end - first, now_us, decisions + first);
    }
}

void sl_consult_decide(struct sl_table *table, const struct sl_consult *consult, uint64_t now_us,
                       struct sl_outcome *ret_outcome)
{
    ret_outcome->telling = ret_outcome->dry_telling = NULL;
    ret_outcome->allowed = !consult->denied && decide_items(table, consult, now_us, ret_outcome->items);
    if (consult->n_dry > 0)
        decide_dry(table, consult, now_us, ret_outcome->allowed, ret_outcome->dry);
}
