#include "observe/rejections.h"

#include "base/err.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_US UINT64_C(60000000)
#define BATCH 64u /* entries that are looked at while the loop may have to wait */

/* Places are numbered from 1; 0 is none, so that zeroed memory is an empty one. What a rejection of a key that is there
 * touches comes first. */
struct entry {
    struct sl_hash128 id;  /* of key, type, limit and reason */
    uint32_t next;         /* in its chain */
    uint32_t older, newer; /* in the order of last rejections, roughly: see `moved` */
    uint32_t moved;        /* how many entries there had been when it last became the newest */
    uint16_t scope_len;
    uint8_t source, reason;
    int32_t cost; /* as asked for */
    uint64_t last_us, count, minutes;
    uint64_t first_us;
    int64_t tokens, remaining, retry_after_ms;
    uint64_t policy_version;
    char policy_hash[SL_REJECTIONS_HASH_MAX];
    char scope[SL_REJECTIONS_SCOPE_MAX];
    /* what it is about */
    struct sl_hash128 key_hash;
    uint16_t key_len, type_len;
    char type[SLUICE_NAME_MAX], limit[SLUICE_NAME_MAX];
    char key[SL_REJECTIONS_KEY_MAX];
};

struct memory {
    _Alignas(64) pthread_mutex_t lock; /* what follows */
    uint32_t n, oldest, newest;
    uint32_t added;                    /* entries, ever; may wrap */
    uint64_t dropped, dropped_last_us; /* entries; the latest rejection among theirs */
    uint32_t *chains;                  /* a power of two of them */
    struct entry *entries;
};

struct sl_rejections {
    struct sl_alloc alloc;
    struct sl_secret secret;
    uint64_t began_us;
    unsigned n_loops, n_ready;
    uint32_t max, mask; /* entries; chains - 1 */
    struct memory *memories;
};

/* ---- life */

static uint32_t entries_of(unsigned n_loops)
{
    uint32_t share = SL_REJECTIONS_TOTAL / n_loops;

    if (share > SL_REJECTIONS_KEPT)
        return SL_REJECTIONS_KEPT;
    return share < SL_REJECTIONS_LEAST ? SL_REJECTIONS_LEAST : share;
}

static int memory_init(struct sl_rejections *r, struct memory *memory)
{
    pthread_mutex_init(&memory->lock, NULL);
    r->n_ready++;
    memory->chains = sl_calloc(&r->alloc, r->mask + 1, sizeof *memory->chains);
    memory->entries = sl_calloc(&r->alloc, r->max, sizeof *memory->entries);
    return memory->chains && memory->entries ? 0 : SL_ENOMEM;
}

int sl_rejections_new(const struct sl_alloc *alloc, unsigned n_loops, uint64_t now_us,
                      struct sl_rejections **ret_rejections)
{
    struct sl_rejections *r = sl_calloc(alloc, 1, sizeof *r);
    int err = SL_ENOMEM;

    if (!r)
        return SL_ENOMEM;
    r->alloc = *alloc;
    r->began_us = now_us;
    r->n_loops = n_loops;
    r->max = entries_of(n_loops);
    for (r->mask = 1; r->mask < r->max; r->mask *= 2)
        ;
    r->mask--;
    r->memories = aligned_alloc(_Alignof(struct memory), n_loops * sizeof *r->memories);
    if (r->memories) {
        memset(r->memories, 0, n_loops * sizeof *r->memories);
        err = sl_secret_random(&r->secret);
    }
    for (unsigned i = 0; i < n_loops && !err; i++)
        err = memory_init(r, &r->memories[i]);
    if (err)
        sl_rejections_free(r);
    else
        *ret_rejections = r;
    return err;
}

void sl_rejections_free(struct sl_rejections *r)
{
    struct sl_alloc alloc;

    if (!r)
        return;
    alloc = r->alloc;
    for (unsigned i = 0; i < r->n_ready; i++) {
        pthread_mutex_destroy(&r->memories[i].lock);
        sl_free(&alloc, r->memories[i].chains);
        sl_free(&alloc, r->memories[i].entries);
    }
    free(r->memories);
    sl_free(&alloc, r);
}

/* ---- telling */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The few words of a policy: types, limits, reasons. Of the key a keyed hash is there already. */
static uint64_t mix(uint64_t hash, const char *text, size_t len)
{
    uint64_t word;

    for (size_t i = 0; i < len; i += sizeof word) {
        word = 0;
        memcpy(&word, text + i, least(len - i, sizeof word));
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash + len;
}

static struct sl_hash128 identify(const struct sl_rejections *r, const struct sl_rejected *rejected,
                                  struct sl_hash128 key)
{
    const struct sluice_verdict *verdict = rejected->verdict;
    uint64_t about = mix(r->secret.k0 + verdict->reason, verdict->policy, strnlen(verdict->policy, SLUICE_NAME_MAX));

    about = mix(about, rejected->who->type, rejected->who->type_len);
    return (struct sl_hash128){.a = key.a ^ about, .b = key.b + about * UINT64_C(0xBF58476D1CE4E5B9)};
}

static struct entry *at(const struct memory *memory, uint32_t place)
{
    return place ? &memory->entries[place - 1] : NULL;
}

static struct entry *find(const struct sl_rejections *r, const struct memory *memory, struct sl_hash128 id)
{
    struct entry *entry = at(memory, memory->chains[id.a & r->mask]);

    while (entry && (entry->id.a != id.a || entry->id.b != id.b))
        entry = at(memory, entry->next);
    return entry;
}

static uint32_t place_of(const struct memory *memory, const struct entry *entry)
{
    return (uint32_t)(entry - memory->entries) + 1;
}

static void leave_order(struct memory *memory, struct entry *entry)
{
    *(entry->older ? &at(memory, entry->older)->newer : &memory->oldest) = entry->newer;
    *(entry->newer ? &at(memory, entry->newer)->older : &memory->newest) = entry->older;
}

static void become_newest(struct memory *memory, struct entry *entry)
{
    uint32_t place = place_of(memory, entry);

    entry->moved = memory->added;
    entry->newer = 0;
    entry->older = memory->newest;
    *(memory->newest ? &at(memory, memory->newest)->newer : &memory->oldest) = place;
    memory->newest = place;
}

static struct entry *drop_oldest(const struct sl_rejections *r, struct memory *memory)
{
    struct entry *entry = at(memory, memory->oldest);
    uint32_t *link = &memory->chains[entry->id.a & r->mask], place = place_of(memory, entry);

    while (*link != place)
        link = &at(memory, *link)->next;
    *link = entry->next;
    leave_order(memory, entry);
    memory->dropped++;
    if (entry->last_us > memory->dropped_last_us)
        memory->dropped_last_us = entry->last_us;
    return entry;
}

static struct entry *add(const struct sl_rejections *r, struct memory *memory, struct sl_hash128 id,
                         struct sl_hash128 key, const struct sl_rejected *rejected)
{
    const struct sl_who *who = rejected->who;
    struct entry *entry = memory->n < r->max ? &memory->entries[memory->n++] : drop_oldest(r, memory);

    memory->added++;
    *entry = (struct entry){.id = id,
                            .key_hash = key,
                            .reason = rejected->verdict->reason,
                            .key_len = (uint16_t)who->key_len,
                            .type_len = (uint16_t)who->type_len};
    memcpy(entry->key, who->key, least(who->key_len, sizeof entry->key));
    memcpy(entry->type, who->type, least(who->type_len, sizeof entry->type));
    memcpy(entry->limit, rejected->verdict->policy, strnlen(rejected->verdict->policy, sizeof entry->limit - 1));
    entry->next = memory->chains[id.a & r->mask];
    memory->chains[id.a & r->mask] = place_of(memory, entry);
    become_newest(memory, entry);
    return entry;
}

static void count_in(struct entry *entry, uint64_t now_us)
{
    uint64_t minute = now_us / MINUTE_US, last = entry->last_us / MINUTE_US;

    if (!entry->count || now_us < entry->first_us)
        entry->first_us = now_us;
    if (!entry->count || minute < last || minute - last >= SL_REJECTIONS_MINUTES)
        entry->minutes = 0;
    else
        entry->minutes <<= minute - last;
    entry->minutes |= 1;
    entry->last_us = now_us;
    entry->count++;
}

/* What is told of the last one. */
static void take_figures(struct entry *entry, const struct sl_rejected *rejected)
{
    const struct sluice_verdict *verdict = rejected->verdict;

    entry->tokens = verdict->limit;
    entry->remaining = verdict->remaining;
    entry->retry_after_ms = verdict->retry_after_ms;
    entry->source = verdict->source;
    entry->cost = (int32_t)rejected->cost;
    entry->policy_version = rejected->policy_version;
    memcpy(entry->policy_hash, rejected->policy_hash, strnlen(rejected->policy_hash, sizeof entry->policy_hash - 1));
    entry->scope_len = rejected->scope ? (uint16_t)rejected->scope_len : 0;
    if (entry->scope_len)
        memcpy(entry->scope, rejected->scope, least(entry->scope_len, sizeof entry->scope));
}

void sl_rejections_tell(struct sl_rejections *r, unsigned loop, const struct sl_rejected *rejected, uint64_t now_us)
{
    struct memory *memory = &r->memories[loop];
    struct sl_hash128 key = sl_who_hash(rejected->who, r->secret), id = identify(r, rejected, key);
    struct entry *entry;

    pthread_mutex_lock(&memory->lock);
    entry = find(r, memory, id);
    if (!entry) {
        entry = add(r, memory, id, key, rejected);
    } else if (memory->added - entry->moved > r->max / SL_REJECTIONS_ROUGHLY) {
        leave_order(memory, entry);
        become_newest(memory, entry);
    }
    count_in(entry, now_us);
    take_figures(entry, rejected);
    pthread_mutex_unlock(&memory->lock);
}

/* ---- reading: copies of what matches, joined and put in order */

struct copies {
    const struct sl_alloc *alloc;
    struct entry *list;
    size_t n, room;
};

/* Room for a batch more, before the lock is taken. */
static int make_room(struct copies *copies)
{
    struct entry *grown;
    size_t room = copies->room ? 2 * copies->room : 2 * BATCH;

    if (copies->room - copies->n >= BATCH)
        return 0;
    grown = sl_reallocarray(copies->alloc, copies->list, room, sizeof *grown);
    if (!grown)
        return SL_ENOMEM;
    copies->list = grown;
    copies->room = room;
    return 0;
}

static bool is_whose(const struct entry *entry, const struct sl_rejections_query *query, const struct sl_hash128 *key)
{
    const struct sl_who *who = query->who;

    if (!who)
        return true;
    if (entry->key_hash.a != key->a || entry->key_hash.b != key->b)
        return false;
    return query->any_type || (entry->type_len == who->type_len &&
                               memcmp(entry->type, who->type, least(who->type_len, SLUICE_NAME_MAX)) == 0);
}

static int copy_memory(struct memory *memory, const struct sl_rejections_query *query, const struct sl_hash128 *key,
                       struct copies *copies)
{
    uint32_t place = 0, n = 1;

    while (place < n) {
        if (make_room(copies))
            return SL_ENOMEM;
        pthread_mutex_lock(&memory->lock);
        n = memory->n;
        for (uint32_t end = place + BATCH; place < n && place < end; place++)
            if (is_whose(&memory->entries[place], query, key))
                copies->list[copies->n++] = memory->entries[place];
        pthread_mutex_unlock(&memory->lock);
    }
    return 0;
}

static int by_identity(const void *a, const void *b)
{
    return memcmp(&((const struct entry *)a)->id, &((const struct entry *)b)->id, sizeof(struct sl_hash128));
}

static int latest_first(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->last_us, y = ((const struct entry *)b)->last_us;

    return x == y ? by_identity(a, b) : x < y ? 1 : -1;
}

/* Both into `entry`; its figures are those of the later one. */
static void join(struct entry *entry, const struct entry *other)
{
    struct entry later = entry->last_us >= other->last_us ? *entry : *other;
    const struct entry *earlier = entry->last_us >= other->last_us ? other : entry;
    uint64_t apart = later.last_us / MINUTE_US - earlier->last_us / MINUTE_US;

    later.minutes |= apart < SL_REJECTIONS_MINUTES ? earlier->minutes << apart : 0;
    later.count += earlier->count;
    if (earlier->first_us < later.first_us)
        later.first_us = earlier->first_us;
    *entry = later;
}

static void join_all(struct copies *copies)
{
    size_t kept = 0;

    if (!copies->n)
        return;
    qsort(copies->list, copies->n, sizeof *copies->list, by_identity);
    for (size_t i = 1; i < copies->n; i++)
        if (by_identity(&copies->list[kept], &copies->list[i]) == 0)
            join(&copies->list[kept], &copies->list[i]);
        else
            copies->list[++kept] = copies->list[i];
    copies->n = kept + 1;
}

/* Was there one between these times? In an entry that goes on for longer than its minutes, nobody knows of the early
 * ones: then *ret_certain is false. */
static bool is_within(const struct entry *entry, uint64_t since_us, uint64_t until_us, bool *ret_certain)
{
    uint64_t last = entry->last_us / MINUTE_US, from, to;

    *ret_certain = true;
    if (entry->last_us < since_us || entry->first_us > until_us || since_us > until_us)
        return false;
    if (entry->first_us >= since_us || entry->last_us <= until_us)
        return true;
    from = since_us / MINUTE_US; /* first < since <= until < last: what lies between is known to the minute */
    to = until_us / MINUTE_US;
    for (unsigned i = 0; i < SL_REJECTIONS_MINUTES && i <= last; i++)
        if (entry->minutes >> i & 1 && last - i >= from && last - i <= to)
            return true;
    *ret_certain = false;
    return last - from >= SL_REJECTIONS_MINUTES;
}

static void tell_of(const struct entry *entry, bool certain, struct sl_rejection *ret)
{
    *ret = (struct sl_rejection){.policy_version = entry->policy_version,
                                 .key_id = entry->key_hash.a ^ entry->key_hash.b,
                                 .first_us = entry->first_us,
                                 .last_us = entry->last_us,
                                 .count = entry->count,
                                 .minutes = entry->minutes,
                                 .limit = entry->tokens,
                                 .remaining = entry->remaining,
                                 .retry_after_ms = entry->retry_after_ms,
                                 .cost = entry->cost,
                                 .reason = entry->reason,
                                 .source = entry->source,
                                 .certain = certain};
    sl_show(ret->key, entry->key, entry->key_len, least(entry->key_len, sizeof entry->key));
    sl_show(ret->key_type, entry->type, entry->type_len, least(entry->type_len, SLUICE_NAME_MAX));
    sl_show(ret->scope, entry->scope, entry->scope_len, least(entry->scope_len, sizeof entry->scope));
    memcpy(ret->policy, entry->limit, sizeof ret->policy);
    memcpy(ret->policy_hash, entry->policy_hash, sizeof ret->policy_hash);
}

void sl_rejections_reach(struct sl_rejections *r, struct sl_rejections_reach *ret_reach)
{
    *ret_reach = (struct sl_rejections_reach){.since_us = r->began_us};
    for (unsigned i = 0; i < r->n_loops; i++) {
        struct memory *memory = &r->memories[i];

        pthread_mutex_lock(&memory->lock);
        ret_reach->kept += memory->n;
        ret_reach->dropped += memory->dropped;
        if (memory->dropped_last_us > ret_reach->since_us)
            ret_reach->since_us = memory->dropped_last_us;
        pthread_mutex_unlock(&memory->lock);
    }
}

int sl_rejections_read(struct sl_rejections *r, const struct sl_rejections_query *query, struct sl_rejection *ret_list,
                       size_t max, size_t *ret_n, struct sl_rejections_reach *ret_reach)
{
    struct sl_hash128 key = query->who ? sl_who_hash(query->who, r->secret) : (struct sl_hash128){0};
    struct copies copies = {.alloc = &r->alloc};
    size_t n = 0;
    int err = 0;

    for (unsigned i = 0; i < r->n_loops && !err; i++)
        err = copy_memory(&r->memories[i], query, &key, &copies);
    if (!err) {
        sl_rejections_reach(r, ret_reach); /* after: what was dropped meanwhile counts */
        join_all(&copies);
        if (copies.n)
            qsort(copies.list, copies.n, sizeof *copies.list, latest_first);
        for (size_t i = 0; i < copies.n; i++) {
            bool certain;

            if (!is_within(&copies.list[i], query->since_us, query->until_us, &certain))
                continue;
            ret_reach->matching++;
            if (n < max)
                tell_of(&copies.list[i], certain, &ret_list[n++]);
        }
        *ret_n = n;
    }
    sl_free(&r->alloc, copies.list);
    return err;
}
