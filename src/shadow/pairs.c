#include "shadow/pairs.h"

#include "base/err.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sl_pairs_new(const struct sl_alloc *alloc, struct sl_pairs **ret_pairs)
{
    struct sl_pairs *pairs = sl_calloc(alloc, 1, sizeof *pairs);

    if (!pairs)
        return SL_ENOMEM;
    if (sl_secret_random(&pairs->secret)) {
        sl_free(alloc, pairs);
        return SL_EIO;
    }
    *ret_pairs = pairs;
    return 0;
}

void sl_pairs_clear(struct sl_pairs *pairs)
{
    memset(pairs->pairs, 0, sizeof pairs->pairs);
}

/* ---- counting */

static uint64_t hash_of(const struct sl_pairs *pairs, const char *limit, const struct sluice_request *request)
{
    struct sl_hash128 name = sl_hash13(pairs->secret, limit, strlen(limit));
    struct sl_hash128 key = sl_hash13(pairs->secret, request->key, request->key_len);
    uint64_t hash = key.a + (name.b ^ name.a << 1);

    if (request->key_type && !(request->key_type_len == 7 && !memcmp(request->key_type, "api_key", 7)))
        hash += 3 * sl_hash13(pairs->secret, request->key_type, request->key_type_len).b;
    return hash ? hash : 1;
}

/* The pair's place, and whether it is there already. */
static struct sl_pair *place_of(struct sl_pairs *pairs, uint64_t hash)
{
    struct sl_pair *set = pairs->pairs[(hash >> 32) % SL_PAIRS_SETS], *least = set;

    for (unsigned i = 0; i < SL_PAIRS_WAYS; i++) {
        if (set[i].hash == hash)
            return &set[i];
        if (set[i].count < least->count)
            least = &set[i];
    }
    return least;
}

void sl_pairs_add(struct sl_pairs *pairs, const char *limit, const struct sluice_request *request)
{
    uint64_t hash = hash_of(pairs, limit, request);
    struct sl_pair *pair = place_of(pairs, hash);

    if (pair->hash != hash) {
        pair->hash = hash;
        pair->error = pair->count;
        snprintf(pair->limit, sizeof pair->limit, "%s", limit);
        sl_sketch_keep_text(&pair->text, request);
    }
    pair->count++;
}

static void join(struct sl_pairs *pairs, const struct sl_pair *from)
{
    struct sl_pair *pair = place_of(pairs, from->hash);

    if (pair->hash != from->hash) {
        uint64_t inherited = pair->count;

        if (pair->hash && pair->count - pair->error >= from->count - from->error)
            return; /* what is surer keeps its place */
        *pair = *from;
        pair->count += inherited;
        pair->error += inherited;
        return;
    }
    pair->count += from->count;
    pair->error += from->error;
}

void sl_pairs_join(struct sl_pairs *pairs, const struct sl_pairs *other)
{
    for (unsigned s = 0; s < SL_PAIRS_SETS; s++)
        for (unsigned i = 0; i < SL_PAIRS_WAYS; i++)
            if (other->pairs[s][i].hash)
                join(pairs, &other->pairs[s][i]);
}

/* ---- for people */

static int by_surety(const void *a, const void *b)
{
    const struct sl_pair *x = *(const struct sl_pair *const *)a, *y = *(const struct sl_pair *const *)b;
    uint64_t sure_x = x->count - x->error, sure_y = y->count - y->error;

    if (sure_x != sure_y)
        return sure_x < sure_y ? 1 : -1;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static json_t *pair_json(const struct sl_pair *pair)
{
    char key[3 * SL_SKETCH_KEY_MAX + 4], type[3 * SL_SKETCH_TYPE_MAX + 4];

    sl_sketch_show(pair->text.key, pair->text.key_len, SL_SKETCH_KEY_MAX, key);
    sl_sketch_show(pair->text.type, pair->text.type_len, SL_SKETCH_TYPE_MAX, type);
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "limit", pair->limit, "key", key, "keyType", type, "atLeast",
                     (json_int_t)(pair->count - pair->error), "atMost", (json_int_t)pair->count);
}

json_t *sl_pairs_json(const struct sl_pairs *pairs, unsigned n)
{
    const struct sl_pair *all[SL_PAIRS_SETS * SL_PAIRS_WAYS];
    unsigned n_all = 0;
    json_t *array = json_array();

    for (unsigned s = 0; s < SL_PAIRS_SETS; s++)
        for (unsigned i = 0; i < SL_PAIRS_WAYS; i++)
            if (pairs->pairs[s][i].count > pairs->pairs[s][i].error)
                all[n_all++] = &pairs->pairs[s][i];
    if (n_all)
        qsort(all, n_all, sizeof(const struct sl_pair *), by_surety);
    for (unsigned i = 0; array && i < n_all && i < n; i++)
        if (json_array_append_new(array, pair_json(all[i]))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}
