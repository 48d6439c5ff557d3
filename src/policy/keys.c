#include "policy/keys.h"

#include "base/err.h"
#include "policy/bytes.h"

#include <assert.h>
#include <string.h>

int sl_keys_init(struct sl_keys *keys, struct sl_arena *arena, size_t max)
{
    size_t slots = 4;

    while (slots < 2 * (max + 1))
        slots *= 2;
    *keys = (struct sl_keys){.mask = slots - 1};
    keys->list = sl_arena_calloc(arena, max + 1, sizeof *keys->list);
    keys->slots = sl_arena_calloc(arena, slots, sizeof *keys->slots);
    keys->present = sl_arena_calloc(arena, slots, sizeof *keys->present);
    return keys->list && keys->slots && keys->present ? 0 : SL_ENOMEM;
}

static inline uint16_t presence_bit(struct sl_hash128 hash)
{
    return (uint16_t)(1u << (hash.a & 15));
}

static struct sl_key_slot *find_slot(const struct sl_keys *keys, struct sl_hash128 hash, const char *key, size_t len)
{
    uint64_t i = hash.b & keys->mask;

    for (;; i = (i + 1) & keys->mask) {
        struct sl_key_slot *slot = &keys->slots[i];
        const struct sl_key_entry *entry = &keys->list[slot->number];

        if (!slot->number || (slot->hash == hash.a && entry->len == len && sl_bytes_equal(entry->key, key, len)))
            return slot;
    }
}

uint32_t sl_keys_add(struct sl_keys *keys, struct sl_hash128 hash, const char *key, size_t len)
{
    struct sl_key_slot *slot = find_slot(keys, hash, key, len);

    if (!slot->number) {
        assert(2 * ((uint64_t)keys->n + 1) <= keys->mask + 1);
        keys->list[++keys->n] = (struct sl_key_entry){.key = key, .len = (uint16_t)len};
        *slot = (struct sl_key_slot){.hash = hash.a, .number = keys->n};
        keys->present[hash.b & keys->mask] |= presence_bit(hash);
    }
    return slot->number;
}

uint32_t sl_keys_find(const struct sl_keys *keys, struct sl_hash128 hash, const char *key, size_t len)
{
    /* Most requests' keys are in no table: one bit says so, nearly always, where probing would be a guess for the
     * processor at every second slot. */
    if (!(keys->present[hash.b & keys->mask] & presence_bit(hash)))
        return 0;
    return find_slot(keys, hash, key, len)->number;
}
