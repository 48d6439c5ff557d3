/* The sliding log: a sorted set, score = time in us, member = tag, running total, cost (store/sluice.lua says it in
 * full). Reached by commands, not by the module interface's own sorted sets, which cannot remove a range. */
#include "redis/bucket.h"

#include "store/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRAP_MASK ((UINT64_C(1) << 52) - 1)
#define GIVE_BACK_MAX 100
#define SCORE_MAX 24

struct entry {
    uint64_t t_us, total, cost;
    uint8_t member[SL_LOG_MEMBER_LEN];
};

static void put_member(uint8_t *p, uint64_t total, uint64_t cost)
{
    p = sl_put(p, SL_VALUE_TAG + SL_SLIDING_WINDOW_LOG, 1);
    p = sl_put(p, total, 7);
    sl_put(p, cost, 4);
}

static bool read_entry(struct redis_reply *reply, size_t index, struct entry *e)
{
    size_t member_len = 0, score_len = 0;
    struct redis_reply *member = redis_CallReplyArrayElement(reply, 2 * index);
    struct redis_reply *score = redis_CallReplyArrayElement(reply, 2 * index + 1);
    const char *m = member ? redis_CallReplyStringPtr(member, &member_len) : NULL;
    const char *s = score ? redis_CallReplyStringPtr(score, &score_len) : NULL;
    char digits[SCORE_MAX + 1];

    if (!m || !s || member_len != SL_LOG_MEMBER_LEN || score_len > SCORE_MAX)
        return false;
    memcpy(e->member, m, sizeof e->member);
    memcpy(digits, s, score_len);
    digits[score_len] = '\0';
    e->t_us = strtoull(digits, NULL, 10);
    e->total = sl_get(e->member + 1, 7);
    e->cost = sl_get(e->member + 8, 4);
    return e->member[0] == SL_VALUE_TAG + SL_SLIDING_WINDOW_LOG;
}

/* The first entry of a reply with scores, which is freed: 1 and the entry, 0 when there is none, -1 when it is
 * foreign. */
static int first_entry(struct redis_reply *reply, struct entry *e)
{
    int found = -1;

    if (reply && redis_CallReplyType(reply) == REDIS_REPLY_ARRAY)
        found = redis_CallReplyLength(reply) == 0 ? 0 : read_entry(reply, 0, e) ? 1 : -1;
    if (reply)
        redis_FreeCallReply(reply);
    return found;
}

static int entry_at(const struct call *call, const struct bucket *b, long long rank, struct entry *e)
{
    return first_entry(redis_Call(call->ctx, "ZRANGE", "sllc", b->key, rank, rank, "WITHSCORES"), e);
}

/* The first entry later than t_us. */
static int entry_after(const struct call *call, const struct bucket *b, int64_t t_us, struct entry *e)
{
    char from[SCORE_MAX];

    snprintf(from, sizeof from, "(%" PRId64, t_us);
    return first_entry(
        redis_Call(call->ctx, "ZRANGEBYSCORE", "sccccll", b->key, from, "+inf", "WITHSCORES", "LIMIT", 0LL, 1LL), e);
}

static long long integer(struct redis_reply *reply)
{
    long long x = reply && redis_CallReplyType(reply) == REDIS_REPLY_INTEGER ? redis_CallReplyInteger(reply) : 0;

    if (reply)
        redis_FreeCallReply(reply);
    return x;
}

static int64_t cutoff_us(const struct call *call, const struct bucket *b)
{
    return (int64_t)call->now_us - (int64_t)b->shape->period_us;
}

static void load_first(struct bucket *b, const struct entry *first)
{
    b->base = (first->total - first->cost) & WRAP_MASK;
    b->sum = (b->total - b->base) & WRAP_MASK;
    b->first_us = first->t_us;
    b->first_cost = first->cost;
    memcpy(b->first, first->member, sizeof b->first);
    if (b->sum < 1 || b->sum > SL_LOG_COUNT_MAX_LOCAL)
        b->foreign = true;
}

/* Entries from the future: a clock that leapt and came back. They count as one of now. */
static void load_ahead(const struct call *call, struct bucket *b)
{
    struct entry ahead;

    if (entry_after(call, b, (int64_t)call->now_us, &ahead) != 1) {
        b->foreign = true;
        return;
    }
    b->ahead = (b->total - ahead.total + ahead.cost) & WRAP_MASK;
    b->newest_us = call->now_us;
    if (b->first_us > call->now_us) {
        b->first_us = call->now_us;
        b->first_cost = b->ahead;
        put_member(b->first, b->total, b->ahead);
    }
}

void log_load(const struct call *call, struct bucket *b)
{
    struct entry newest, first;
    int found;

    b->sum = b->newest_us = b->total = 0;
    if (!b->present)
        return;
    found = entry_at(call, b, -1, &newest);
    b->foreign = found < 0;
    if (found != 1 || (int64_t)newest.t_us <= cutoff_us(call, b))
        return;
    b->newest_us = newest.t_us;
    b->total = newest.total;
    if (entry_after(call, b, cutoff_us(call, b), &first) != 1) {
        b->foreign = true;
        return;
    }
    load_first(b, &first);
    if (!b->foreign && newest.t_us > call->now_us)
        load_ahead(call, b);
}

static void remove_range(const struct call *call, const struct bucket *b, const char *from, const char *to)
{
    integer(redis_Call(call->ctx, "ZREMRANGEBYSCORE", "!scc", b->key, from, to));
}

static void add(const struct call *call, const struct bucket *b, uint64_t t_us, uint64_t total, uint64_t cost)
{
    uint8_t member[SL_LOG_MEMBER_LEN];

    put_member(member, total, cost);
    integer(redis_Call(call->ctx, "ZADD", "!slb", b->key, (long long)t_us, (const char *)member, sizeof member));
}

static void expire(const struct call *call, const struct bucket *b, uint64_t newest_us)
{
    long long ms = (long long)bucket_expiry_ms(call, newest_us + b->shape->period_us);

    integer(redis_Call(call->ctx, "PEXPIREAT", "!sl", b->key, ms));
}

void log_heal(const struct call *call, const struct bucket *b)
{
    char from[SCORE_MAX];

    snprintf(from, sizeof from, "(%" PRIu64, call->now_us);
    remove_range(call, b, from, "+inf");
    add(call, b, call->now_us, b->total, b->ahead);
    expire(call, b, call->now_us);
}

void log_save(const struct call *call, const struct bucket *b)
{
    char to[SCORE_MAX];

    snprintf(to, sizeof to, "%" PRId64, cutoff_us(call, b));
    remove_range(call, b, "-inf", to);
    add(call, b, call->now_us, (b->total + b->added) & WRAP_MASK, b->added);
    expire(call, b, call->now_us);
}

uint64_t log_fit_us(const struct call *call, const struct bucket *b, uint64_t need)
{
    uint64_t period_us = b->shape->period_us, at = b->newest_us;
    long long lo, hi;

    if (need > b->sum)
        return call->now_us + period_us;
    if (need <= b->first_cost)
        return b->first_us + period_us;
    lo = integer(redis_Call(call->ctx, "ZRANK", "sb", b->key, (const char *)b->first, sizeof b->first));
    hi = integer(redis_Call(call->ctx, "ZCARD", "s", b->key)) - 1;
    while (lo < hi) {
        long long mid = (lo + hi) / 2;
        struct entry e;

        if (entry_at(call, b, mid, &e) != 1)
            break;
        if (((e.total - b->base) & WRAP_MASK) < need) {
            lo = mid + 1;
        } else {
            hi = mid;
            at = e.t_us;
        }
    }
    return at + period_us;
}

/* Finds the entry that the charge is part of, among those of its instant and later. Returns its index, or -1. */
static long find_charge(const struct entry *entries, size_t n, const struct sl_decision *charge)
{
    for (size_t i = 0; i < n && entries[i].t_us == charge->now_us; i++) {
        if (entries[i].cost >= charge->cost)
            return (long)i;
    }
    return -1;
}

/* Reads up to GIVE_BACK_MAX entries from t_us on. Returns how many, 0 also when one is foreign or there are more. */
static size_t entries_from(const struct call *call, const struct bucket *b, uint64_t t_us, struct entry *entries)
{
    struct redis_reply *reply = redis_Call(call->ctx, "ZRANGEBYSCORE", "slcccll", b->key, (long long)t_us, "+inf",
                                           "WITHSCORES", "LIMIT", 0LL, (long long)GIVE_BACK_MAX);
    size_t n = 0;

    if (reply && redis_CallReplyType(reply) == REDIS_REPLY_ARRAY &&
        redis_CallReplyLength(reply) < 2 * (size_t)GIVE_BACK_MAX)
        n = redis_CallReplyLength(reply) / 2;
    for (size_t i = 0; i < n; i++) {
        if (!read_entry(reply, i, &entries[i]))
            n = 0;
    }
    if (reply)
        redis_FreeCallReply(reply);
    return n;
}

bool log_give_back(const struct call *call, const struct bucket *b, const struct sl_decision *charge)
{
    struct entry entries[GIVE_BACK_MAX], newest;
    size_t n;
    long found;

    if ((int64_t)charge->now_us <= cutoff_us(call, b))
        return false;
    n = entries_from(call, b, charge->now_us, entries);
    found = find_charge(entries, n, charge);
    if (found < 0)
        return false;
    entries[found].cost -= charge->cost;
    for (size_t i = (size_t)found; i < n; i++)
        integer(
            redis_Call(call->ctx, "ZREM", "!sb", b->key, (const char *)entries[i].member, sizeof entries[i].member));
    for (size_t i = (size_t)found; i < n; i++) {
        if (entries[i].cost > 0)
            add(call, b, entries[i].t_us, (entries[i].total - charge->cost) & WRAP_MASK, entries[i].cost);
    }
    if (entry_at(call, b, -1, &newest) == 1)
        expire(call, b, newest.t_us);
    return true;
}
