/* The tables behind resolution: per layer one hash table for each combination of fields that its limits name, tried
 * from the most specific.
 *
 * A limit's matcher is four numbers (key, endpoint, tier, key type; 0: any) and a set of labels. Labels with a value
 * without wildcards are part of the table's key as a hash; whatever a slot offers is compared in full before it
 * counts, so a collision costs time, never exactness. */
#ifndef SL_POLICY_INDEX_H
#define SL_POLICY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers of a request or matcher. */
struct sl_ids {
    uint64_t key_endpoint; /* key | endpoint << 32 */
    uint64_t tier_type;    /* tier | key type << 32 */
};

static inline struct sl_ids sl_ids_pack(uint32_t key, uint32_t endpoint, uint32_t tier, uint32_t type)
{
    return (struct sl_ids){key | (uint64_t)endpoint << 32, tier | (uint64_t)type << 32};
}

struct sl_index_slot {
    struct sl_ids ids;
    uint64_t labels;   /* sum of the hashes of the exact labels, 0 when there are none */
    uint32_t first, n; /* in the layer's `candidates`; n 0: empty */
};

struct sl_index_group {
    struct sl_ids mask;
    uint64_t label_bits; /* the label names its limits need */
    uint64_t exact_bits; /* those of them whose value has no wildcard: part of the slot's key */
    struct sl_index_slot *slots;
    uint32_t slot_mask;
    uint16_t rank;     /* sl_limit_rank of its limits; groups of one layer descend by it */
    uint8_t names;     /* SL_NAMES_... */
    bool last_of_rank; /* the next group, if any, is less specific */
};

struct sl_layer {
    const char *name;
    struct sl_index_group *groups;
    uint32_t n_groups;
    uint32_t *candidates; /* indexes of limits, ascending within a slot */
};

/* The numbers are small and chosen by the policy, so two multiplications that run side by side spread them well
 * enough. */
static inline uint32_t sl_index_hash(struct sl_ids ids, uint64_t labels)
{
    return (uint32_t)((ids.key_endpoint * UINT64_C(0x9e3779b97f4a7c15) +
                       (ids.tier_type + labels) * UINT64_C(0xff51afd7ed558ccd)) >>
                      32);
}

#endif
