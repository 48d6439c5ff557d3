#include "shadow/dry.h"

#include "base/err.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

struct way {
    pthread_mutex_t lock;
    struct sl_pairs *pairs; /* NULL: nothing was seen yet */
    uint64_t n;
};

struct sl_dry {
    struct sl_alloc alloc;
    struct sl_secret secret;
    struct way ways[SL_DRY_LOOPS_MAX];
};

int sl_dry_new(const struct sl_alloc *alloc, struct sl_dry **ret_dry)
{
    struct sl_dry *dry = sl_calloc(alloc, 1, sizeof *dry);

    if (!dry)
        return SL_ENOMEM;
    dry->alloc = *alloc;
    if (sl_secret_random(&dry->secret)) {
        sl_free(alloc, dry);
        return SL_EIO;
    }
    for (unsigned i = 0; i < SL_DRY_LOOPS_MAX; i++)
        pthread_mutex_init(&dry->ways[i].lock, NULL);
    *ret_dry = dry;
    return 0;
}

void sl_dry_free(struct sl_dry *dry)
{
    struct sl_alloc alloc;

    if (!dry)
        return;
    alloc = dry->alloc;
    for (unsigned i = 0; i < SL_DRY_LOOPS_MAX; i++) {
        sl_free(&alloc, dry->ways[i].pairs);
        pthread_mutex_destroy(&dry->ways[i].lock);
    }
    sl_free(&alloc, dry);
}

static struct sl_pairs *make_pairs(const struct sl_dry *dry)
{
    struct sl_pairs *pairs = sl_calloc(&dry->alloc, 1, sizeof *pairs);

    if (pairs)
        pairs->secret = dry->secret; /* one for all, so that they can be joined */
    return pairs;
}

void sl_dry_saw(struct sl_dry *dry, unsigned loop, const struct sluice_request *request,
                const struct sluice_verdict *verdict)
{
    struct way *way = &dry->ways[loop];

    pthread_mutex_lock(&way->lock);
    way->n++;
    if (!way->pairs)
        way->pairs = make_pairs(dry);
    if (way->pairs)
        sl_pairs_add(way->pairs, verdict->dry_run_policy, request);
    pthread_mutex_unlock(&way->lock);
}

static uint64_t join_way(struct way *way, struct sl_pairs *all)
{
    uint64_t n;

    pthread_mutex_lock(&way->lock);
    n = way->n;
    if (way->pairs)
        sl_pairs_join(all, way->pairs);
    pthread_mutex_unlock(&way->lock);
    return n;
}

json_t *sl_dry_json(struct sl_dry *dry, uint64_t *ret_n)
{
    struct sl_pairs *all = make_pairs(dry);
    json_t *value;
    uint64_t n = 0;

    if (!all)
        return NULL;
    for (unsigned i = 0; i < SL_DRY_LOOPS_MAX; i++)
        n += join_way(&dry->ways[i], all);
    value = sl_pairs_json(all, SL_DRY_SHOWN);
    sl_free(&dry->alloc, all);
    *ret_n = n;
    return value;
}

void sl_dry_clear(struct sl_dry *dry)
{
    for (unsigned i = 0; i < SL_DRY_LOOPS_MAX; i++) {
        struct way *way = &dry->ways[i];

        pthread_mutex_lock(&way->lock);
        way->n = 0;
        if (way->pairs)
            sl_pairs_clear(way->pairs);
        pthread_mutex_unlock(&way->lock);
    }
}
