/* What the tests of core share: shapes from text, a holder for the entries of a sliding log, and a limit of several
 * rates that is charged all or nothing, as the vectors want it. Single-threaded. */
#ifndef TESTS_CORE_WORLD_H
#define TESTS_CORE_WORLD_H

#include "core/log.h"
#include "core/shape.h"
#include "core/state.h"

/* Fails the running test when the text or the shape is refused. */
struct sl_shape world_shape(enum sl_algorithm algorithm, const char *rate, uint32_t burst);

/* One bucket of any algorithm. Zero-initialise all but `shape`. */
struct bucket {
    struct sl_shape shape;
    struct sl_state state;
    struct entry {
        uint64_t t_us;
        uint32_t cost;
    } * entries; /* oldest first; the first `dead` have expired */
    size_t n_entries, n_dead, room;
};

struct bucket bucket_of(enum sl_algorithm algorithm, const char *rate, uint32_t burst);
void bucket_fini(struct bucket *b);

/* Judges without changing anything. */
struct sl_decision bucket_look(struct bucket *b, uint64_t now_us, uint32_t cost);
/* Judges and, when allowed, spends. */
struct sl_decision bucket_charge(struct bucket *b, uint64_t now_us, uint32_t cost);
struct sl_numbers bucket_numbers(const struct bucket *b, const struct sl_decision *d);

/* A limit of several rates: all or nothing. Time never runs backward in it. */
#define WORLD_RATES_MAX 8
struct limit {
    struct bucket buckets[WORLD_RATES_MAX];
    size_t n_buckets;
    uint64_t latest_us;
};

struct verdict {
    bool allowed;
    struct sl_numbers numbers; /* of the rate that rejects, else of the one with the least left */
};

struct verdict limit_decide(struct limit *l, uint64_t t_us, uint32_t cost);
void limit_fini(struct limit *l);

/* xorshift64*: the same sequence everywhere for one seed. world_seed: SLUICE_SEED, else of the clock; printed. */
uint64_t world_seed(void);
uint64_t world_random(uint64_t *seed);
/* 0 <= result < bound */
uint64_t world_below(uint64_t *seed, uint64_t bound);

/* Any shape that may be written, extremes often; any time from 1970 to centuries from now, round ones often. */
struct sl_shape world_some_shape(uint64_t *seed);
uint64_t world_some_time(uint64_t *seed);

#endif
