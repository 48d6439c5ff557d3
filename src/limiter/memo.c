#include "limiter/memo.h"

#include <string.h>

#define TEXT_MAX 127 /* of one text: its length and presence take a byte of the shape */
#define TEXTS 5

/* The texts of a request in the order of their length, most telling first. */
struct texts {
    const char *text[TEXTS];
    size_t len[TEXTS];
};

static inline void texts_of(const struct sluice_request *r, struct texts *t)
{
    *t = (struct texts){{r->key, r->scope, r->key_type, r->tier, r->address},
                        {r->key_len, r->scope_len, r->key_type_len, r->tier_len, r->address_len}};
}

/* Lengths and presence, a byte each: two requests with different shapes differ. 0 for what is not kept; a missing key
 * and a missing text with a length are invalid and are left to validation. */
static inline uint64_t shape_of(const struct sluice_request *request, const struct texts *t)
{
    uint64_t shape = 0;
    size_t sum = 0;

    for (unsigned i = 0; i < TEXTS; i++) {
        if (t->len[i] > TEXT_MAX || (!t->text[i] && t->len[i] != 0))
            return 0;
        shape |= (t->len[i] | (uint64_t)(t->text[i] != NULL) << 7) << (8 * i);
        sum += t->len[i];
    }
    return request->n_labels == 0 && request->key && sum <= SL_MEMO_BYTES ? shape : 0;
}

/* Up to 8 bytes from each end, overlapping in short texts. */
static inline uint64_t ends(const char *text, size_t len)
{
    uint64_t head = 0, tail = 0;

    if (len >= 8) {
        memcpy(&head, text, 8);
        memcpy(&tail, text + len - 8, 8);
    } else if (len >= 4) {
        memcpy(&head, text, 4);
        memcpy(&tail, text + len - 4, 4);
    } else if (len > 0) {
        head = (uint64_t)(unsigned char)text[0] << 16 | (uint64_t)(unsigned char)text[len / 2] << 8;
        tail = (unsigned char)text[len - 1];
    }
    return head ^ tail << 29 ^ tail >> 35;
}

/* Chooses the place. It need not be strong: who aims at a collision only slows himself down, as the bytes are
 * compared. */
static inline uint32_t hash_of(const struct texts *t, uint64_t shape)
{
    uint64_t h = (ends(t->text[0], t->len[0]) ^ shape) * UINT64_C(0x9E3779B97F4A7C15);

    h ^= h >> 32;
    h = (h ^ ends(t->text[1], t->len[1])) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(h >> 32) | 1;
}

static inline bool same_texts(const struct sl_memo_entry *entry, const struct texts *t)
{
    const char *kept = entry->bytes;

    for (unsigned i = 0; i < TEXTS; i++) {
        if (t->len[i] != 0 && memcmp(kept, t->text[i], t->len[i]) != 0)
            return false;
        kept += t->len[i];
    }
    return true;
}

const struct sl_consult *sl_memo_find(struct sl_memo *memo, const struct sluice_request *request,
                                      struct sl_memo_query *ret_query)
{
    struct sl_memo_entry *entry;
    struct texts texts;

    texts_of(request, &texts);
    ret_query->entry = NULL;
    ret_query->shape = shape_of(request, &texts);
    if (ret_query->shape == 0)
        return NULL;
    ret_query->hash = hash_of(&texts, ret_query->shape);
    ret_query->entry = entry = &memo->places[ret_query->hash >> 1 & (SL_MEMO_PLACES - 1)];
    if (entry->shape == ret_query->shape && entry->cost == request->cost && same_texts(entry, &texts))
        return &entry->consult;
    return NULL;
}

static void keep_texts(struct sl_memo_entry *entry, const struct texts *t)
{
    char *to = entry->bytes;

    for (unsigned i = 0; i < TEXTS; i++) {
        if (t->len[i] != 0)
            memcpy(to, t->text[i], t->len[i]);
        to += t->len[i];
    }
}

void sl_memo_offer(const struct sl_memo_query *query, const struct sluice_request *request,
                   const struct sl_consult *consult)
{
    struct sl_memo_entry *entry = query->entry;
    struct texts texts;

    if (!entry || consult->n_items + consult->n_dry > SL_MEMO_ITEMS)
        return;
    if (entry->candidate != query->hash) {
        entry->candidate = query->hash;
        return;
    }
    texts_of(request, &texts);
    keep_texts(entry, &texts);
    entry->shape = query->shape;
    entry->cost = request->cost;
    entry->consult = *consult;
    sl_consult_move(&entry->consult, entry->items);
}
