/* sluice inside Redis: the atomic decision as a native command.
 *
 *     loadmodule /usr/lib/x86_64-linux-gnu/sluice/sluice_redis.so          where the package puts it
 *
 *     SLUICE.DECIDE numkeys key [key ...] ask      the same words, stored bytes and answer as the script
 *                                                  (src/store/sluice.lua); both may serve one fleet at once
 *     SLUICE.WIRE                                  the wire version this module speaks
 *
 * Values stay plain strings (sorted sets for the log), so a replica, or a node without the module, survives. The
 * arithmetic is src/core, as everywhere. A malformed ask is refused whole, before anything is touched. */
#include "redis/bucket.h"

#include "base/err.h"
#include "core/log.h"
#include "store/bytes.h"

#include <string.h>
#include <time.h>

#define ANSWER_ON_STACK 1024

struct answer {
    uint8_t *start, *p;
};

static void put_piece(struct answer *answer, const struct bucket *b)
{
    if (b->foreign) {
        *answer->p++ = 1;
    } else if (b->shape->algorithm == SL_SLIDING_WINDOW_LOG && b->sum > 0) {
        answer->p = sl_put(answer->p, SL_VALUE_TAG + SL_SLIDING_WINDOW_LOG, 1);
        answer->p = sl_put(answer->p, b->sum, 4);
        answer->p = sl_put(answer->p, b->newest_us, 8);
    } else if (b->shape->algorithm != SL_SLIDING_WINDOW_LOG && b->present) {
        memcpy(answer->p, b->value, b->value_len);
        answer->p += b->value_len;
    } else {
        *answer->p++ = 0;
    }
}

/* Whether a log has room; when not, and it could have some day, adds to the answer when it will have. */
static bool log_has_room(const struct call *call, const struct bucket *b, uint32_t cost, struct answer *answer)
{
    struct sl_decision d;

    sl_log_decide(b->shape, b->sum + b->added, b->newest_us, call->now_us, cost, &d);
    if (!d.allowed && !d.never)
        answer->p = sl_put(answer->p, log_fit_us(call, b, b->sum + b->added + cost - b->shape->limit), 8);
    return d.allowed;
}

/* One request, on all buckets or on none. Returns whether it was allowed. */
static bool decide(const struct call *call, struct bucket *buckets, unsigned n, const uint32_t *costs,
                   struct answer *answer)
{
    struct sl_state after[SL_GROUP_BUCKETS_MAX];
    bool room = true;

    for (unsigned i = 0; i < n; i++) {
        struct sl_decision d;

        if (buckets[i].shape->algorithm == SL_SLIDING_WINDOW_LOG) {
            room = log_has_room(call, &buckets[i], costs[i], answer) && room;
            continue;
        }
        sl_decide(buckets[i].shape, buckets[i].state, call->now_us, costs[i], &d);
        room = room && d.allowed;
        after[i] = d.after;
    }
    if (!room)
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (costs[i] == 0)
            continue;
        buckets[i].charged = true;
        if (buckets[i].shape->algorithm == SL_SLIDING_WINDOW_LOG)
            buckets[i].added += costs[i];
        else
            buckets[i].state = after[i];
    }
    return true;
}

static void store(const struct call *call, const struct bucket *b, bool peek)
{
    bool is_log = b->shape->algorithm == SL_SLIDING_WINDOW_LOG;

    if (peek)
        return;
    if (is_log && b->charged)
        log_save(call, b);
    else if (is_log && !b->ahead)
        bucket_rearm(call, b, b->newest_us + b->shape->period_us);
    else if (!is_log && (b->charged || b->healed))
        bucket_save(call, b);
    else if (!is_log)
        bucket_rearm(call, b,
                     sl_state_whole_us(b->state) +
                         (sl_algorithm_is_bucket(b->shape->algorithm) && (uint32_t)b->state.hi));
}

/* Decides the runs of a group whose buckets are loaded. The ask is known to be well-formed. */
static void decide_group(const struct call *call, struct sl_ask_reader *ask, const struct sl_ask_part *part,
                         struct bucket *buckets, struct answer *answer)
{
    uint8_t *allowed_at = answer->p;
    uint32_t costs[SL_GROUP_BUCKETS_MAX];
    bool foreign = false;
    unsigned allowed = 0, repeat;

    answer->p += 2;
    for (unsigned i = 0; i < part->n; i++) {
        bucket_load(call, &buckets[i]);
        put_piece(answer, &buckets[i]);
        foreign = foreign || buckets[i].foreign;
    }
    for (unsigned i = 0; i < part->n && !foreign && part->op == SL_OP_DECIDE; i++) {
        if (buckets[i].ahead)
            log_heal(call, &buckets[i]);
    }
    for (unsigned run = 0; run < part->runs; run++) {
        sl_ask_run(ask, part, &repeat, costs);
        while (!foreign && repeat-- > 0 && decide(call, buckets, part->n, costs, answer))
            allowed++;
    }
    for (unsigned i = 0; i < part->n && !foreign; i++)
        store(call, &buckets[i], part->op == SL_OP_PEEK);
    sl_put(allowed_at, foreign ? SL_ANSWER_FAILED : allowed, 2);
}

static void give_back(const struct call *call, const struct sl_ask_part *part, struct bucket *buckets,
                      struct answer *answer)
{
    unsigned given = 0;

    for (unsigned i = 0; i < part->n; i++)
        given += bucket_give_back(call, &buckets[i], &part->charges[i]);
    answer->p = sl_put(answer->p, given, 2);
}

/* Reads the whole ask without acting on it. Returns the number of its keys, or SL_EFORMAT. */
static long check_ask(struct sl_ask_reader ask)
{
    struct sl_ask_part part;
    uint32_t costs[SL_GROUP_BUCKETS_MAX];
    unsigned repeat;
    long n_keys = 0;
    int more;

    while ((more = sl_ask_next(&ask, &part)) == 1) {
        n_keys += part.n;
        for (unsigned i = 0; i < part.runs; i++) {
            if (sl_ask_run(&ask, &part, &repeat, costs))
                return SL_EFORMAT;
        }
    }
    return more < 0 ? SL_EFORMAT : n_keys;
}

static void run(const struct call *call, struct sl_ask_reader ask, struct redis_string **keys, struct answer *answer)
{
    struct sl_ask_part part;
    struct bucket buckets[SL_GROUP_BUCKETS_MAX];

    answer->p = sl_put(answer->p, call->now_us, 8);
    while (sl_ask_next(&ask, &part) == 1) {
        for (unsigned i = 0; i < part.n; i++) {
            buckets[i].key = *keys++;
            buckets[i].shape = &part.shapes[i];
        }
        if (part.op == SL_OP_REFUND)
            give_back(call, &part, buckets, answer);
        else
            decide_group(call, &ask, &part, buckets, answer);
    }
}

static struct call read_clock(struct redis_ctx *ctx, const struct sl_ask_reader *ask)
{
    struct timespec t;
    uint64_t real_us;

    clock_gettime(CLOCK_REALTIME, &t);
    real_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    return (struct call){.ctx = ctx,
                         .now_us = ask->virtual_clock ? ask->now_us : real_us,
                         .virtual_clock = ask->virtual_clock,
                         .real_ms = real_us / 1000};
}

static int command_decide(struct redis_ctx *ctx, struct redis_string **argv, int argc)
{
    uint8_t on_stack[ANSWER_ON_STACK];
    struct answer answer = {on_stack, on_stack};
    struct sl_ask_reader ask;
    struct call call;
    long long n_keys;
    size_t len;
    const char *bytes;

    if (argc < 4)
        return redis_WrongArity(ctx);
    if (redis_StringToLongLong(argv[1], &n_keys) != REDIS_OK || n_keys != argc - 3)
        return redis_ReplyWithError(ctx, "ERR sluice: numkeys is not the number of keys before the ask");
    bytes = redis_StringPtrLen(argv[argc - 1], &len);
    if (sl_ask_open(&ask, bytes, len))
        return redis_ReplyWithError(ctx, "ERR sluice: the ask has a wire version or a clock this module does not know");
    if (check_ask(ask) != n_keys)
        return redis_ReplyWithError(ctx, "ERR sluice: the ask is malformed, or is about another number of keys");
    call = read_clock(ctx, &ask);
    if (call.now_us > SL_STORE_TIME_MAX_US)
        return redis_ReplyWithError(ctx, "ERR sluice: the clock is beyond the year 2153");
    /* Whatever is answered is shorter than what asked for it, but for the time. */
    if (len + 8 > sizeof on_stack)
        answer.start = answer.p = redis_Alloc(len + 8);
    run(&call, ask, argv + 2, &answer);
    redis_ReplyWithStringBuffer(ctx, (const char *)answer.start, (size_t)(answer.p - answer.start));
    if (answer.start != on_stack)
        redis_Free(answer.start);
    return REDIS_OK;
}

static int command_wire(struct redis_ctx *ctx, struct redis_string **argv, int argc)
{
    (void)argv;
    if (argc != 1)
        return redis_WrongArity(ctx);
    return redis_ReplyWithLongLong(ctx, SL_WIRE_VERSION);
}

__attribute__((visibility("default"))) int RedisModule_OnLoad(struct redis_ctx *ctx, struct redis_string **argv,
                                                              int argc);

int RedisModule_OnLoad(struct redis_ctx *ctx, struct redis_string **argv, int argc)
{
    (void)argv;
    if (!redis_api_load(ctx) || redis_IsModuleNameBusy("sluice"))
        return REDIS_ERR;
    redis_SetModuleAttribs(ctx, "sluice", SL_WIRE_VERSION, REDIS_API_VERSION);
    if (argc != 0) {
        redis_Log(ctx, "warning", "sluice: takes no arguments");
        return REDIS_ERR;
    }
    if (redis_CreateCommand(ctx, "sluice.decide", command_decide, "write deny-oom fast", 2, -2, 1) != REDIS_OK ||
        redis_CreateCommand(ctx, "sluice.wire", command_wire, "readonly fast allow-stale allow-loading", 0, 0, 0) !=
            REDIS_OK)
        return REDIS_ERR;
    return REDIS_OK;
}
