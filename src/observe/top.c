#include "observe/top.h"

#include "base/err.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BOARD_SETS 128u
#define GONE 0.01 /* a second: such a rate is forgotten */

/* What one slot or loop counts between two looks. */
struct tally {
    struct sl_sketch sketch;
    uint64_t n, n_addresses; /* requests */
};

struct slot {
    struct tally *tally; /* belongs to whoever holds the slot */
};

struct loop {
    _Alignas(64) uint64_t left, random; /* the loop's own: rejections until the next one that counts */
    pthread_mutex_t lock;               /* what follows */
    struct tally *tally;
};

/* The rates of keys, in sets as the sketches are. */
struct rate {
    uint64_t hash; /* 0: free */
    double per_second;
    uint64_t counted; /* in this look, in the sample */
    struct sl_sketch_text text;
};

struct board {
    struct rate sets[BOARD_SETS][SL_SKETCH_WAYS];
};

struct sl_top {
    struct sl_alloc alloc;
    struct sl_limiter *limiter;
    struct sl_secret secret;
    unsigned n_slots;
    struct slot *slots;
    struct tally *memory;
    unsigned n_loops;
    struct loop *loops;
    struct tally *loop_memory;
    pthread_mutex_t lock; /* what follows */
    struct tally *spare;  /* empty: is put in the place of the one that is taken */
    bool looked;
    uint64_t looked_us;
    double addresses_per_second;
    uint64_t n_addresses;
    struct board boards[SL_TOP_KINDS];
    /* The last looks: where the counters stood, and when. */
    unsigned n_marks; /* ever */
    struct mark {
        uint64_t at_us;
        struct sl_limiter_stats stats;
    } marks[SL_TOP_SPAN + 1];
};

/* ---- counting, on the threads that decide */

static uint64_t hash_of(const struct sl_top *top, const struct sluice_request *request)
{
    uint64_t hash = sl_hash13(top->secret, request->key, request->key_len).a, type = 0;

    if (request->key_type && !(request->key_type_len == 7 && !memcmp(request->key_type, "api_key", 7)))
        type = sl_hash13(top->secret, request->key_type, request->key_type_len).b;
    hash += type;
    return hash ? hash : 1;
}

static bool is_address(const char *type, size_t len)
{
    return len == 7 && memcmp(type, "address", 7) == 0;
}

static void count(const struct sl_top *top, struct tally *tally, const struct sluice_request *request)
{
    tally->n++;
    tally->n_addresses += request->key_type && is_address(request->key_type, request->key_type_len);
    sl_sketch_add(&tally->sketch, hash_of(top, request), request);
}

/* Whether it is rejected may not be known yet: see sl_top_rejected. */
static void tap(void *ctx, unsigned slot, const struct sluice_request *request, bool rejected)
{
    struct sl_top *top = ctx;

    (void)rejected;
    count(top, top->slots[slot].tally, request);
}

/* 1 ... 2 * SL_TAP_EVERY - 1, as the tap's. */
static uint64_t next_turn(struct loop *loop)
{
    uint64_t x = loop->random += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return 1 + ((x >> 32) * (2 * SL_TAP_EVERY - 1) >> 32);
}

void sl_top_rejected(struct sl_top *top, unsigned at, const struct sluice_request *request)
{
    struct loop *loop = &top->loops[at];

    if (--loop->left > 0)
        return;
    loop->left = next_turn(loop);
    pthread_mutex_lock(&loop->lock);
    count(top, loop->tally, request);
    pthread_mutex_unlock(&loop->lock);
}

/* ---- life */

int sl_top_new(const struct sl_alloc *alloc, struct sl_limiter *limiter, struct sl_top **ret_top)
{
    struct sl_top *top = sl_calloc(alloc, 1, sizeof *top);

    if (!top)
        return SL_ENOMEM;
    top->alloc = *alloc;
    top->limiter = limiter;
    top->n_slots = sl_limiter_slots(limiter);
    pthread_mutex_init(&top->lock, NULL);
    top->slots = sl_calloc(alloc, top->n_slots, sizeof *top->slots);
    top->memory = sl_calloc(alloc, top->n_slots + 1, sizeof *top->memory);
    if (!top->slots || !top->memory || sl_secret_random(&top->secret) != 0) {
        int err = top->slots && top->memory ? SL_EIO : SL_ENOMEM;

        top->limiter = NULL;
        sl_top_free(top);
        return err;
    }
    for (unsigned i = 0; i < top->n_slots; i++)
        top->slots[i].tally = &top->memory[i];
    top->spare = &top->memory[top->n_slots];
    sl_limiter_set_tap(limiter, tap, top);
    *ret_top = top;
    return 0;
}

int sl_top_follow_rejections(struct sl_top *top, unsigned n_loops)
{
    top->loop_memory = sl_calloc(&top->alloc, n_loops, sizeof *top->loop_memory);
    top->loops = top->loop_memory ? aligned_alloc(_Alignof(struct loop), n_loops * sizeof *top->loops) : NULL;
    if (!top->loops)
        return SL_ENOMEM;
    memset(top->loops, 0, n_loops * sizeof *top->loops);
    for (unsigned i = 0; i < n_loops; i++) {
        struct loop *loop = &top->loops[i];

        pthread_mutex_init(&loop->lock, NULL);
        loop->tally = &top->loop_memory[i];
        loop->random = i;
        loop->left = next_turn(loop);
    }
    top->n_loops = n_loops;
    return 0;
}

void sl_top_free(struct sl_top *top)
{
    struct sl_alloc alloc;

    if (!top)
        return;
    alloc = top->alloc;
    if (top->limiter)
        sl_limiter_set_tap(top->limiter, NULL, NULL);
    pthread_mutex_destroy(&top->lock);
    for (unsigned i = 0; i < top->n_loops; i++)
        pthread_mutex_destroy(&top->loops[i].lock);
    free(top->loops);
    sl_free(&alloc, top->loop_memory);
    sl_free(&alloc, top->slots);
    sl_free(&alloc, top->memory);
    sl_free(&alloc, top);
}

/* ---- looking */

/* How much a key weighs when its place is asked for: in samples. */
static double weight(const struct rate *rate)
{
    return (double)rate->counted + rate->per_second * ((double)SL_TOP_MEMORY_US / 1e6 / SL_TAP_EVERY);
}

/* The key's place, which may be another's that weighs less; NULL when all weigh more than `count`. */
static struct rate *place_of(struct board *board, uint64_t hash, uint64_t count)
{
    struct rate *set = board->sets[hash % BOARD_SETS], *least = set;

    for (unsigned i = 0; i < SL_SKETCH_WAYS; i++) {
        if (set[i].hash == hash)
            return &set[i];
        if (!set[i].hash || (least->hash && weight(&set[i]) < weight(least)))
            least = &set[i];
    }
    if (least->hash && weight(least) >= (double)count)
        return NULL;
    *least = (struct rate){.hash = hash};
    return least;
}

static void add_sketch(struct board *board, const struct sl_sketch *sketch)
{
    for (unsigned s = 0; s < SL_SKETCH_SETS; s++)
        for (unsigned i = 0; i < SL_SKETCH_WAYS; i++) {
            const struct sl_sketch_set *set = &sketch->sets[s];
            uint64_t sure = set->count[i] - set->error[i];
            struct rate *rate = set->hash[i] ? place_of(board, set->hash[i], sure) : NULL;

            if (!rate)
                continue;
            rate->counted += sure;
            rate->text = sketch->texts[s][i];
        }
}

/* Puts the empty tally in the place of what was counted. The rest is done without holding anybody up. */
static void swap(struct sl_top *top, struct tally **tally)
{
    struct tally *full = *tally;

    if (full->n == 0)
        return;
    *tally = top->spare;
    top->spare = full;
}

/* Holding the slot. */
static void take(void *ctx, unsigned slot)
{
    struct sl_top *top = ctx;

    swap(top, &top->slots[slot].tally);
}

/* A moving average over SL_TOP_MEMORY_US. */
static double follow(double rate, uint64_t counted, double elapsed_s)
{
    double now = (double)counted * SL_TAP_EVERY / elapsed_s;

    return rate + (now - rate) * (elapsed_s / (elapsed_s + (double)SL_TOP_MEMORY_US / 1e6));
}

static void follow_all(struct board *board, double elapsed_s)
{
    for (unsigned s = 0; s < BOARD_SETS; s++)
        for (unsigned i = 0; i < SL_SKETCH_WAYS; i++) {
            struct rate *rate = &board->sets[s][i];

            rate->per_second = follow(rate->per_second, rate->counted, elapsed_s);
            rate->counted = 0;
            if (rate->per_second < GONE)
                rate->hash = 0;
        }
}

static void absorb(struct sl_top *top, enum sl_top_kind kind)
{
    struct tally *tally = top->spare;

    if (tally->n == 0)
        return;
    add_sketch(&top->boards[kind], &tally->sketch);
    sl_sketch_clear(&tally->sketch);
    if (kind == SL_TOP_HOT)
        top->n_addresses += tally->n_addresses;
    tally->n = tally->n_addresses = 0;
}

static void take_and_absorb(struct sl_top *top)
{
    for (unsigned slot = 0; slot < top->n_slots; slot++) {
        sl_limiter_hold_slot(top->limiter, slot, take, top);
        absorb(top, SL_TOP_HOT);
    }
    for (unsigned i = 0; i < top->n_loops; i++) {
        struct loop *loop = &top->loops[i];

        pthread_mutex_lock(&loop->lock);
        swap(top, &loop->tally);
        pthread_mutex_unlock(&loop->lock);
        absorb(top, SL_TOP_REJECTED);
    }
}

static void mark(struct sl_top *top, uint64_t now_us)
{
    struct mark *mark = &top->marks[top->n_marks++ % (SL_TOP_SPAN + 1)];

    mark->at_us = now_us;
    sl_limiter_stats(top->limiter, &mark->stats);
}

void sl_top_look(struct sl_top *top, uint64_t now_us)
{
    double elapsed_s;

    pthread_mutex_lock(&top->lock);
    elapsed_s = top->looked && now_us > top->looked_us ? (double)(now_us - top->looked_us) / 1e6 : 1;
    take_and_absorb(top);
    for (unsigned kind = 0; kind < SL_TOP_KINDS; kind++)
        follow_all(&top->boards[kind], elapsed_s);
    top->addresses_per_second = follow(top->addresses_per_second, top->n_addresses, elapsed_s);
    top->n_addresses = 0;
    top->looked = true;
    top->looked_us = now_us;
    mark(top, now_us);
    pthread_mutex_unlock(&top->lock);
}

/* ---- reading */

static void show_key(struct sl_top_key *key, const struct rate *rate)
{
    const struct sl_sketch_text *text = &rate->text;

    sl_sketch_show(text->key, text->key_len, SL_SKETCH_KEY_MAX, key->key);
    sl_sketch_show(text->type, text->type_len, SL_SKETCH_TYPE_MAX, key->key_type);
    key->per_second = rate->per_second;
}

/* Puts it among the best n so far, if it belongs there; returns how many there are. */
static unsigned rank(const struct rate **best, unsigned n_best, unsigned n, const struct rate *rate)
{
    unsigned at = n_best;

    while (at > 0 && best[at - 1]->per_second < rate->per_second)
        at--;
    if (at == n)
        return n_best;
    if (n_best < n)
        n_best++;
    for (unsigned i = n_best - 1; i > at; i--)
        best[i] = best[i - 1];
    best[at] = rate;
    return n_best;
}

unsigned sl_top_read(struct sl_top *top, enum sl_top_kind kind, struct sl_top_key *ret_keys, unsigned n)
{
    const struct rate *best[SL_TOP_KEYS_MAX];
    unsigned n_best = 0;

    if (n > SL_TOP_KEYS_MAX)
        n = SL_TOP_KEYS_MAX;
    pthread_mutex_lock(&top->lock);
    for (unsigned s = 0; s < BOARD_SETS; s++)
        for (unsigned i = 0; i < SL_SKETCH_WAYS; i++)
            if (top->boards[kind].sets[s][i].hash)
                n_best = rank(best, n_best, n, &top->boards[kind].sets[s][i]);
    for (unsigned i = 0; i < n_best; i++)
        show_key(&ret_keys[i], best[i]);
    pthread_mutex_unlock(&top->lock);
    return n_best;
}

/* ---- all keys together */

/* Below which so many of a hundred lie, in microseconds; within a step of the histogram they are taken to lie evenly. */
static double percentile(const uint64_t counts[static SL_DURATION_BUCKETS], double percent)
{
    double all = 0, below = 0;

    for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++)
        all += (double)counts[i];
    for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++) {
        double wanted = all * percent / 100 - below, to = 0.064 * (double)(UINT64_C(1) << i);

        if (counts[i] && wanted <= (double)counts[i])
            return (i ? to / 2 : 0) + (i ? to / 2 : to) * wanted / (double)counts[i];
        below += (double)counts[i];
    }
    return -1;
}

void sl_top_summarise(struct sl_top *top, struct sl_top_summary *ret)
{
    uint64_t durations[SL_DURATION_BUCKETS];
    const struct mark *first, *last;

    *ret = (struct sl_top_summary){.p50_us = -1, .p99_us = -1};
    pthread_mutex_lock(&top->lock);
    last = &top->marks[(top->n_marks + SL_TOP_SPAN) % (SL_TOP_SPAN + 1)];
    first = &top->marks[top->n_marks > SL_TOP_SPAN ? top->n_marks % (SL_TOP_SPAN + 1) : 0];
    if (top->n_marks > 1 && last->at_us > first->at_us) {
        ret->span_s = (double)(last->at_us - first->at_us) / 1e6;
        ret->allowed_per_second = (double)(last->stats.allowed - first->stats.allowed) / ret->span_s;
        ret->rejected_per_second = (double)(last->stats.rejected - first->stats.rejected) / ret->span_s;
        for (unsigned i = 0; i < SL_DURATION_BUCKETS; i++)
            durations[i] = last->stats.duration[i] - first->stats.duration[i];
        ret->p50_us = percentile(durations, 50);
        ret->p99_us = percentile(durations, 99);
    }
    pthread_mutex_unlock(&top->lock);
}

double sl_top_hottest_address(struct sl_top *top)
{
    double hottest = 0, all;

    pthread_mutex_lock(&top->lock);
    all = top->addresses_per_second;
    for (unsigned s = 0; s < BOARD_SETS; s++)
        for (unsigned i = 0; i < SL_SKETCH_WAYS; i++) {
            const struct rate *rate = &top->boards[SL_TOP_HOT].sets[s][i];

            if (rate->hash && rate->per_second > hottest && is_address(rate->text.type, rate->text.type_len))
                hottest = rate->per_second;
        }
    pthread_mutex_unlock(&top->lock);
    if (all < SL_TOP_LEAST_ADDRESSES)
        return -1;
    return hottest < all ? hottest / all : 1;
}
