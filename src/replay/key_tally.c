#include "replay/key_tally.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 1024

void sl_key_tally_init(struct sl_key_tally *keys, const struct sl_alloc *alloc, struct sl_secret secret, uint64_t max)
{
    *keys = (struct sl_key_tally){.alloc = *alloc, .secret = secret, .max = max};
}

void sl_key_tally_fini(struct sl_key_tally *keys)
{
    for (size_t i = 0; i < keys->room; i++)
        sl_free(&keys->alloc, (char *)keys->entries[i].key.text);
    sl_free(&keys->alloc, keys->entries);
    keys->entries = NULL;
    keys->n = keys->room = 0;
}

/* Any hash will do: entries are compared as text. */
static uint64_t hash_of(const struct sl_key_tally *keys, struct sl_slice key, struct sl_slice type)
{
    return sl_hash13(keys->secret, key.text, key.len).a + 31 * sl_hash13(keys->secret, type.text, type.len).a;
}

static bool same(struct sl_slice x, struct sl_slice y)
{
    return x.len == y.len && (x.len == 0 || memcmp(x.text, y.text, x.len) == 0);
}

/* The key's entry, or the free one where it belongs. There always is a free one. */
static struct sl_key_tally_entry *find(const struct sl_key_tally *keys, uint64_t hash, struct sl_slice key,
                                       struct sl_slice type)
{
    size_t mask = keys->room - 1;

    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct sl_key_tally_entry *e = &keys->entries[i];

        if (!e->key.text || (e->hash == hash && same(e->key, key) && same(e->type, type)))
            return e;
    }
}

/* Doubles the room while it is more than half in use. */
static int grow(struct sl_key_tally *keys)
{
    struct sl_key_tally bigger = *keys;

    if (2 * (keys->n + 1) <= keys->room)
        return 0;
    bigger.room = keys->room ? 2 * keys->room : ROOM_MIN;
    bigger.entries = sl_calloc(&keys->alloc, bigger.room, sizeof *bigger.entries);
    if (!bigger.entries)
        return SL_ENOMEM;
    for (size_t i = 0; i < keys->room; i++) {
        const struct sl_key_tally_entry *e = &keys->entries[i];

        if (e->key.text)
            *find(&bigger, e->hash, e->key, e->type) = *e;
    }
    sl_free(&keys->alloc, keys->entries);
    *keys = bigger;
    return 0;
}

static int fill(struct sl_key_tally *keys, struct sl_key_tally_entry *entry, uint64_t hash, struct sl_slice key,
                struct sl_slice type)
{
    char *text = sl_calloc(&keys->alloc, 1, key.len + type.len + 2);

    if (!text)
        return SL_ENOMEM;
    memcpy(text, key.text, key.len);
    if (type.len > 0)
        memcpy(text + key.len + 1, type.text, type.len);
    *entry = (struct sl_key_tally_entry){
        .hash = hash, .key = {text, key.len}, .type = {text + key.len + 1, type.len}, .n = {0, 0}};
    keys->n++;
    return 0;
}

int sl_key_tally_add(struct sl_key_tally *keys, struct sl_slice key, struct sl_slice type, unsigned which)
{
    uint64_t hash = hash_of(keys, key, type);
    struct sl_key_tally_entry *entry;
    int error = grow(keys);

    if (error)
        return error;
    entry = find(keys, hash, key, type);
    if (!entry->key.text) {
        if (keys->n >= keys->max) {
            keys->untallied[which]++;
            return 0;
        }
        error = fill(keys, entry, hash, key, type);
        if (error)
            return error;
    }
    entry->n[which]++;
    return 0;
}

static int compare_text(struct sl_slice x, struct sl_slice y)
{
    int order = memcmp(x.text, y.text, x.len < y.len ? x.len : y.len);

    return order ? order : (x.len > y.len) - (x.len < y.len);
}

static int by_count(const void *a, const void *b)
{
    const struct sl_key_tally_entry *x = *(const struct sl_key_tally_entry *const *)a;
    const struct sl_key_tally_entry *y = *(const struct sl_key_tally_entry *const *)b;
    uint64_t nx = x->n[0] + x->n[1], ny = y->n[0] + y->n[1];
    int order;

    if (nx != ny)
        return nx < ny ? 1 : -1;
    order = compare_text(x->key, y->key);
    return order ? order : compare_text(x->type, y->type);
}

int sl_key_tally_top(const struct sl_key_tally *keys, size_t max, const struct sl_key_tally_entry ***ret_top,
                     size_t *ret_n)
{
    const struct sl_key_tally_entry **all;
    size_t n = 0;

    *ret_top = NULL;
    *ret_n = 0;
    if (keys->n == 0)
        return 0;
    all = sl_reallocarray(&keys->alloc, NULL, keys->n, sizeof(const struct sl_key_tally_entry *));
    if (!all)
        return SL_ENOMEM;
    for (size_t i = 0; i < keys->room; i++) {
        if (keys->entries[i].key.text)
            all[n++] = &keys->entries[i];
    }
    qsort(all, n, sizeof(const struct sl_key_tally_entry *), by_count);
    *ret_top = all;
    *ret_n = n < max ? n : max;
    return 0;
}

char *sl_key_tally_copy(const struct sl_alloc *alloc, const struct sl_key_tally_entry *entry, size_t *ret_len,
                        char ret_type[static SLUICE_NAME_MAX])
{
    *ret_len = entry->key.len;
    snprintf(ret_type, SLUICE_NAME_MAX, "%s", entry->type.len > 0 ? entry->type.text : "api_key");
    return sl_strndup(alloc, entry->key.text, entry->key.len);
}
