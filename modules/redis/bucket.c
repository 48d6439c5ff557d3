#include "redis/bucket.h"

#include "core/span.h"

#include <string.h>

#define HOUR_US UINT64_C(3600000000)

static enum sl_algorithm algorithm_of(const struct bucket *b)
{
    return (enum sl_algorithm)b->shape->algorithm;
}

uint64_t bucket_expiry_ms(const struct call *call, uint64_t whole_us)
{
    if (!call->virtual_clock)
        return sl_ms_ceil(whole_us);
    /* a state of long ago is gone, on either clock */
    return whole_us + HOUR_US > call->now_us ? call->real_ms + sl_ms_ceil(whole_us + HOUR_US - call->now_us) : 0;
}

static uint64_t whole_us(const struct bucket *b)
{
    return sl_state_whole_us(b->state) + (sl_algorithm_is_bucket(algorithm_of(b)) && (uint32_t)b->state.hi != 0);
}

static void read_value(struct bucket *b, struct redis_key *key)
{
    size_t len;
    const char *bytes = redis_StringDMA(key, &len, REDIS_READ);

    b->foreign = sl_value_read(algorithm_of(b), bytes, len, &b->state) != 0;
    if (b->foreign)
        return;
    memcpy(b->value, bytes, len);
    b->value_len = len;
}

void bucket_load(const struct call *call, struct bucket *b)
{
    struct redis_key *key = redis_OpenKey(call->ctx, b->key, REDIS_READ);
    int type = redis_KeyType(key);
    struct sl_decision d;

    b->healed = b->charged = b->foreign = false;
    b->added = b->ahead = 0;
    b->state = (struct sl_state){0};
    b->present = type != REDIS_KEY_EMPTY;
    b->expires = b->present && redis_GetAbsExpire(key) != REDIS_NO_EXPIRE;
    if (b->shape->algorithm == SL_SLIDING_WINDOW_LOG)
        b->foreign = b->present && type != REDIS_KEY_ZSET;
    else if (type == REDIS_KEY_STRING)
        read_value(b, key);
    else
        b->foreign = b->present;
    redis_CloseKey(key);
    if (b->foreign)
        return;
    if (b->shape->algorithm == SL_SLIDING_WINDOW_LOG) {
        log_load(call, b);
        return;
    }
    /* What can never fit is rejected, so `changed` tells whether the state had to be healed. */
    sl_decide(b->shape, b->state, call->now_us, (uint32_t)SL_COST_MAX + 1, &d);
    b->state = d.before;
    b->healed = d.changed;
}

/* In place when the key has a value of this length; else one is made first. */
static void write_value(struct redis_key *key, const uint8_t *value, size_t len)
{
    size_t old_len = 0;

    if (redis_KeyType(key) == REDIS_KEY_STRING)
        (void)redis_StringDMA(key, &old_len, REDIS_READ);
    if (old_len != len)
        redis_StringTruncate(key, len);
    memcpy(redis_StringDMA(key, &old_len, REDIS_WRITE), value, len);
}

void bucket_save(const struct call *call, const struct bucket *b)
{
    uint8_t value[SL_VALUE_MAX];
    size_t len = sl_value_write(algorithm_of(b), b->state, value);
    long long ms = (long long)bucket_expiry_ms(call, whole_us(b));
    struct redis_key *key = redis_OpenKey(call->ctx, b->key, REDIS_READ | REDIS_WRITE);

    write_value(key, value, len);
    redis_SetAbsExpire(key, ms);
    redis_CloseKey(key);
    redis_Replicate(call->ctx, "SET", "sbcl", b->key, (const char *)value, len, "PXAT", ms);
}

static void delete (const struct call *call, const struct bucket *b)
{
    struct redis_key *key = redis_OpenKey(call->ctx, b->key, REDIS_READ | REDIS_WRITE);

    redis_DeleteKey(key);
    redis_CloseKey(key);
    redis_Replicate(call->ctx, "DEL", "s", b->key);
}

void bucket_rearm(const struct call *call, const struct bucket *b, uint64_t whole)
{
    uint64_t ms = bucket_expiry_ms(call, whole);
    struct redis_key *key;

    if (!b->present || b->expires)
        return;
    if (ms <= call->real_ms) {
        delete (call, b);
        return;
    }
    key = redis_OpenKey(call->ctx, b->key, REDIS_READ | REDIS_WRITE);
    redis_SetAbsExpire(key, (long long)ms);
    redis_CloseKey(key);
    redis_Replicate(call->ctx, "PEXPIREAT", "sl", b->key, (long long)ms);
}

bool bucket_give_back(const struct call *call, struct bucket *b, const struct sl_decision *charge)
{
    struct redis_key *key;

    if (b->shape->algorithm == SL_SLIDING_WINDOW_LOG)
        return log_give_back(call, b, charge);
    b->foreign = true;
    key = redis_OpenKey(call->ctx, b->key, REDIS_READ);
    if (redis_KeyType(key) == REDIS_KEY_STRING)
        read_value(b, key);
    redis_CloseKey(key);
    if (b->foreign || !sl_refund(b->shape, b->state, charge, call->now_us, &b->state))
        return false;
    if (whole_us(b) <= call->now_us)
        delete (call, b);
    else
        bucket_save(call, b);
    return true;
}
