/* A bucket as the module holds it while it decides one group: strings in bucket.c, the sliding log's sorted set in
 * log.c. Everything that is written is replicated as its effect, with an absolute expiry. One thread: Redis's own. */
#ifndef SLUICE_REDIS_BUCKET_H
#define SLUICE_REDIS_BUCKET_H

#include "redis/redis_api.h"
#include "store/codec.h"

/* One call: whose context, and the one reading of the clock it decides by. */
struct call {
    struct redis_ctx *ctx;
    uint64_t now_us;
    bool virtual_clock; /* a test's: expiry is then counted from the real one, and an hour longer */
    uint64_t real_ms;
};

struct bucket {
    struct redis_string *key;
    const struct sl_shape *shape;
    bool present, foreign;
    bool expires; /* the key has a time to live */
    bool healed, charged;
    struct sl_state state;       /* as it counts now, after what was charged so far */
    uint8_t value[SL_VALUE_MAX]; /* as it was */
    size_t value_len;
    /* the log: what was in force before this group */
    uint64_t sum, newest_us, added;
    uint64_t total, base; /* running totals: of the newest entry, and before the oldest in force */
    uint64_t first_us, first_cost;
    uint8_t first[SL_LOG_MEMBER_LEN]; /* the oldest in force */
    uint64_t ahead;                   /* sum of entries from the future, taken together as one of now; 0: none */
};

/* The instant at which a key that is whole at whole_us (rounded up to a us) expires, Unix ms. */
uint64_t bucket_expiry_ms(const struct call *call, uint64_t whole_us);

/* Fills everything from the key; b->key and b->shape are set. */
void bucket_load(const struct call *call, struct bucket *b);

/* Stores the state, and when it is whole: the key's expiry. */
void bucket_save(const struct call *call, const struct bucket *b);

/* Gives a key that lost its time to live one again. */
void bucket_rearm(const struct call *call, const struct bucket *b, uint64_t whole_us);

/* Gives a charge back (core/state.h). Returns true when there was something to give back. */
bool bucket_give_back(const struct call *call, struct bucket *b, const struct sl_decision *charge);

void log_load(const struct call *call, struct bucket *b);
/* Writes the entries from the future as one of now. */
void log_heal(const struct call *call, const struct bucket *b);
/* Drops what has expired and appends b->added tokens at now. */
void log_save(const struct call *call, const struct bucket *b);
/* When `need` more tokens will have left, Unix us; need <= b->sum + b->added. */
uint64_t log_fit_us(const struct call *call, const struct bucket *b, uint64_t need);
bool log_give_back(const struct call *call, const struct bucket *b, const struct sl_decision *charge);

#endif
