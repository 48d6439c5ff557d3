#include "notify/recent.h"

#include "base/err.h"

#include <pthread.h>

#define WAYS 8u
#define SETS (SL_RECENT_BUCKETS / WAYS)
#define LOCKS 64u

struct place {
    struct sl_hash128 fp;
    uint64_t until_us; /* 0: free */
};

struct sl_recent {
    struct sl_alloc alloc;
    pthread_mutex_t locks[LOCKS]; /* each of the sets whose number it divides with this rest */
    struct place places[SETS][WAYS];
};

int sl_recent_new(const struct sl_alloc *alloc, struct sl_recent **ret_recent)
{
    struct sl_recent *recent = sl_calloc(alloc, 1, sizeof *recent);

    if (!recent)
        return SL_ENOMEM;
    recent->alloc = *alloc;
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_init(&recent->locks[i], NULL);
    *ret_recent = recent;
    return 0;
}

void sl_recent_free(struct sl_recent *recent)
{
    if (!recent)
        return;
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&recent->locks[i]);
    sl_free(&recent->alloc, recent);
}

static bool is_of(const struct place *place, struct sl_hash128 fp)
{
    return place->until_us && place->fp.a == fp.a && place->fp.b == fp.b;
}

/* Where the bucket is, else where it may be put: in the place that is free the longest, or will be. */
static struct place *find(struct place *set, struct sl_hash128 fp)
{
    struct place *best = set;

    for (unsigned i = 0; i < WAYS; i++) {
        if (is_of(&set[i], fp))
            return &set[i];
        if (set[i].until_us < best->until_us)
            best = &set[i];
    }
    return best;
}

bool sl_recent_claim(struct sl_recent *recent, struct sl_hash128 fp, uint64_t now_us, uint64_t until_us)
{
    unsigned set = (unsigned)(fp.a % SETS);
    struct place *place;
    bool claimed;

    pthread_mutex_lock(&recent->locks[set % LOCKS]);
    place = find(recent->places[set], fp);
    claimed = !is_of(place, fp) || place->until_us <= now_us;
    if (claimed)
        *place = (struct place){.fp = fp, .until_us = until_us};
    pthread_mutex_unlock(&recent->locks[set % LOCKS]);
    return claimed;
}

void sl_recent_set(struct sl_recent *recent, struct sl_hash128 fp, uint64_t until_us)
{
    unsigned set = (unsigned)(fp.a % SETS);
    struct place *place;

    pthread_mutex_lock(&recent->locks[set % LOCKS]);
    place = find(recent->places[set], fp);
    if (is_of(place, fp))
        place->until_us = until_us;
    pthread_mutex_unlock(&recent->locks[set % LOCKS]);
}
