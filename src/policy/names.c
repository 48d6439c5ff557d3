#include "policy/names.h"

#include "base/err.h"
#include "policy/bytes.h"

#include <assert.h>
#include <string.h>

static uint32_t hash_name(const char *text, size_t len)
{
    uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), word;

    for (; len >= 8; text += 8, len -= 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)(unsigned char)text[i] << (8 * i);
    h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(h >> 32);
}

int sl_name_set_init(struct sl_name_set *set, struct sl_arena *arena, size_t max)
{
    size_t slots = 4;

    while (slots < 2 * (max + 1))
        slots *= 2;
    *set = (struct sl_name_set){.mask = (uint32_t)slots - 1};
    set->list = sl_arena_calloc(arena, max + 1, sizeof *set->list);
    set->slots = sl_arena_calloc(arena, slots, sizeof *set->slots);
    if (!set->list || !set->slots)
        return SL_ENOMEM;
    set->list[0].text = "";
    return 0;
}

/* The slot that holds the name, or the empty one where it would go. */
static uint32_t *find_slot(const struct sl_name_set *set, const char *text, size_t len)
{
    uint32_t i = hash_name(text, len) & set->mask;

    while (set->slots[i]) {
        const struct sl_name *name = &set->list[set->slots[i]];

        if (name->len == len && sl_bytes_equal(name->text, text, len))
            break;
        i = (i + 1) & set->mask;
    }
    return &set->slots[i];
}

uint32_t sl_name_set_add(struct sl_name_set *set, const char *text, size_t len)
{
    uint32_t *slot = find_slot(set, text, len);

    if (!*slot) {
        assert(2 * (set->n + 1) <= set->mask + 1);
        set->list[++set->n] = (struct sl_name){.text = text, .len = len};
        *slot = set->n;
    }
    return *slot;
}

uint32_t sl_name_set_find(const struct sl_name_set *set, const char *text, size_t len)
{
    return *find_slot(set, text, len);
}
