/* Builds the tables of resolution (index.h) from the compiled limits. */
#include "policy/compiled.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One limit with everything that places it in its layer. */
struct entry {
    const struct sl_limit *limit;
    unsigned layer, rank;
    uint64_t label_bits, exact_bits, exact_hash;
    struct sl_ids ids;
};

static int compare_u64(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

/* By layer, then group (best rank first), then slot, then position in the file. */
static int compare_groups(const struct entry *x, const struct entry *y)
{
    int order = compare_u64(x->layer, y->layer);

    if (order == 0)
        order = compare_u64(y->rank, x->rank);
    if (order == 0)
        order = compare_u64(x->label_bits, y->label_bits);
    return order ? order : compare_u64(x->exact_bits, y->exact_bits);
}

static int compare_slots(const struct entry *x, const struct entry *y)
{
    int order = compare_u64(x->ids.key_endpoint, y->ids.key_endpoint);

    if (order == 0)
        order = compare_u64(x->ids.tier_type, y->ids.tier_type);
    return order ? order : compare_u64(x->exact_hash, y->exact_hash);
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = compare_groups(x, y);

    if (order == 0)
        order = compare_slots(x, y);
    return order ? order : compare_u64(x->limit->index, y->limit->index);
}

static struct entry make_entry(const struct sl_policy *policy, const struct sl_limit *limit)
{
    const struct sl_limit_written *written = &policy->written[limit->index];
    struct entry entry = {
        .limit = limit,
        .layer = limit->layer_idx,
        .rank = sl_limit_rank(limit),
        .label_bits = written->label_bits,
        .exact_bits = written->exact_label_bits,
        .ids = sl_ids_pack(written->key_id, written->endpoint_id, written->tier_id, written->type_id),
    };

    for (unsigned i = 0; i < limit->n_labels; i++) {
        const struct sluice_label *label = &limit->labels[i];
        uint32_t name = sl_name_set_find(&policy->labels, label->name, label->name_len);

        if (entry.exact_bits >> name & 1)
            entry.exact_hash += sl_hash13(policy->secrets.label[name], label->value, label->value_len).a;
    }
    return entry;
}

static struct sl_ids mask_of(unsigned names)
{
    return sl_ids_pack(names & SL_NAMES_KEY ? UINT32_MAX : 0, names & SL_NAMES_ENDPOINT ? UINT32_MAX : 0,
                       names & SL_NAMES_TIER ? UINT32_MAX : 0, names & SL_NAMES_KEY_TYPE ? UINT32_MAX : 0);
}

static void insert_slot(struct sl_index_group *group, struct sl_index_slot slot)
{
    uint32_t i = sl_index_hash(slot.ids, slot.labels) & group->slot_mask;

    while (group->slots[i].n)
        i = (i + 1) & group->slot_mask;
    group->slots[i] = slot;
}

/* entries[0 ... n) are one group, whose candidates begin at `base` of the layer's list. */
static bool build_group(struct sl_load *load, struct sl_index_group *group, const struct entry *entries, size_t n,
                        uint32_t base)
{
    size_t slots = 2;

    while (slots < 2 * n)
        slots *= 2;
    *group = (struct sl_index_group){.rank = (uint16_t)entries[0].rank,
                                     .names = (uint8_t)sl_limit_names(entries[0].limit),
                                     .label_bits = entries[0].label_bits,
                                     .exact_bits = entries[0].exact_bits,
                                     .slot_mask = (uint32_t)slots - 1};
    group->mask = mask_of(group->names);
    group->slots = sl_read_alloc(&load->reader, slots, sizeof *group->slots);
    if (!group->slots)
        return false;
    for (size_t i = 0, from; i < n;) {
        for (from = i; i < n && compare_slots(&entries[from], &entries[i]) == 0;)
            i++;
        insert_slot(group, (struct sl_index_slot){.ids = entries[from].ids,
                                                  .labels = entries[from].exact_hash,
                                                  .first = base + (uint32_t)from,
                                                  .n = (uint32_t)(i - from)});
    }
    return true;
}

static size_t count_groups(const struct entry *entries, size_t n)
{
    size_t groups = 0;

    for (size_t i = 0; i < n; i++)
        groups += i == 0 || compare_groups(&entries[i - 1], &entries[i]) != 0;
    return groups;
}

static bool build_layer(struct sl_load *load, struct sl_layer *layer, const struct entry *entries, size_t n)
{
    layer->groups = sl_read_alloc(&load->reader, count_groups(entries, n), sizeof *layer->groups);
    layer->candidates = sl_read_alloc(&load->reader, n, sizeof *layer->candidates);
    if (!layer->groups || !layer->candidates)
        return false;
    for (size_t i = 0; i < n; i++)
        layer->candidates[i] = entries[i].limit->index;
    for (size_t i = 0, from; i < n;) {
        for (from = i; i < n && compare_groups(&entries[from], &entries[i]) == 0;)
            i++;
        if (!build_group(load, &layer->groups[layer->n_groups++], &entries[from], i - from, (uint32_t)from))
            return false;
    }
    for (uint32_t i = 0; i < layer->n_groups; i++)
        layer->groups[i].last_of_rank = i + 1 == layer->n_groups || layer->groups[i + 1].rank != layer->groups[i].rank;
    return true;
}

/* Which layers name which endpoint: the endpoints that compete for a scope there. */
static void mark_endpoints(struct sl_policy *policy)
{
    for (size_t i = 0; i < policy->n_limits; i++) {
        const struct sl_limit *limit = &policy->limits[i];
        struct sl_endpoint *endpoint = &policy->endpoints.list[policy->written[i].endpoint_id];

        if (!limit->endpoint || limit->mode == SL_MODE_OFF)
            continue;
        endpoint->named_in |= (uint8_t)(1u << limit->layer_idx);
        if (limit->mode == SL_MODE_ENFORCE)
            endpoint->enforced_in |= (uint8_t)(1u << limit->layer_idx);
    }
    sl_endpoints_find_layered(&policy->endpoints);
}

void sl_compile_index(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    struct entry *entries = sl_arena_calloc(&load->scratch, policy->n_limits, sizeof *entries);
    size_t n = 0;

    if (!entries) {
        load->reader.nomem = true;
        return;
    }
    mark_endpoints(policy);
    for (size_t i = 0; i < policy->n_limits; i++)
        if (policy->limits[i].mode != SL_MODE_OFF)
            entries[n++] = make_entry(policy, &policy->limits[i]);
    if (n)
        qsort(entries, n, sizeof *entries, compare_entries);
    for (size_t i = 0, from; i < n;) {
        for (from = i; i < n && entries[i].layer == entries[from].layer;)
            i++;
        if (!build_layer(load, &policy->layers[entries[from].layer], &entries[from], i - from))
            return;
    }
    for (unsigned i = 0; i < policy->n_layers;
         i++) /* those whose limits are all off: resolution walks no groups there */
        if (!policy->layers[i].groups)
            policy->layers[i].groups = sl_read_alloc(&load->reader, 1, sizeof *policy->layers[i].groups);
}
