/* Asks: written by who wants a decision, read by the module. The script reads them by itself. */
#include "store/codec.h"

#include "base/err.h"
#include "core/span.h"
#include "store/bytes.h"

#define HEADER_LEN 2
#define GROUP_LEN 4
#define BUCKET_LEN 34
#define COST_LEN 16
#define CHARGE_LEN (COST_LEN + 8)
#define STATES_LEN(value_len) ((value_len) + 24)
#define FLAG_CLOCK 1u
#define FLAG_LOG 2u
#define COST_NEVER (UINT64_C(1) << 52)

void sl_ask_start(struct sl_ask *ask, void *buf, size_t size)
{
    *ask = (struct sl_ask){.buf = buf, .size = size, .len = HEADER_LEN};
    ask->buf[0] = SL_WIRE_VERSION;
    ask->buf[1] = 0;
}

void sl_ask_start_at(struct sl_ask *ask, void *buf, size_t size, uint64_t now_us)
{
    sl_ask_start(ask, buf, size);
    ask->buf[1] = FLAG_CLOCK;
    sl_put(ask->buf + HEADER_LEN, now_us, 8);
    ask->len += 8;
}

static uint8_t *put_bucket(uint8_t *p, const struct sl_shape *shape)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);

    p = sl_put(p, SL_VALUE_TAG + shape->algorithm, 1);
    p = sl_put(p, shape->version, 1);
    p = sl_put(p, bucket ? shape->n : 1, 4);
    p = sl_put(p, bucket ? shape->cap_us : shape->period_us, 8);
    p = sl_put(p, bucket ? shape->cap_frac : shape->limit, 4);
    p = sl_put(p, shape->limit, 4);
    p = sl_put(p, bucket ? shape->token_us : 0, 8);
    return sl_put(p, bucket ? shape->token_frac : 0, 4);
}

static uint8_t *put_cost(uint8_t *p, const struct sl_shape *shape, uint32_t cost)
{
    struct sl_span span = {.us = cost};

    if (cost > shape->limit)
        span.us = COST_NEVER;
    else if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        span = sl_span_of_tokens(shape, cost);
    p = sl_put(p, span.us, 8);
    p = sl_put(p, span.frac, 4);
    return sl_put(p, cost, 4);
}

/* Makes sure of the room, writes a group's head and returns where its buckets go, or NULL. */
static uint8_t *open_group(struct sl_ask *ask, enum sl_ask_op op, const struct sl_shape *const *shapes, unsigned n,
                           size_t size)
{
    uint8_t *p = ask->buf + ask->len;

    if (ask->size - ask->len < size)
        return NULL;
    ask->group = p;
    ask->run = NULL;
    ask->n = n;
    ask->requests = 0;
    for (unsigned i = 0; i < n; i++) {
        ask->shapes[i] = shapes[i];
        if (shapes[i]->algorithm == SL_SLIDING_WINDOW_LOG)
            ask->buf[1] |= FLAG_LOG;
    }
    *p++ = (uint8_t)op;
    *p++ = (uint8_t)n;
    return sl_put(p, 0, 2);
}

int sl_ask_group(struct sl_ask *ask, const struct sl_shape *const *shapes, unsigned n)
{
    uint8_t *p;

    if (n < 1 || n > SL_GROUP_BUCKETS_MAX)
        return SL_EINVALID;
    /* A peek until a request says otherwise. A group of no request would help nobody: keep room for one. */
    p = open_group(ask, SL_OP_PEEK, shapes, n, SL_GROUP_SIZE(n, 1));
    if (!p)
        return SL_EBUSY;
    for (unsigned i = 0; i < n; i++)
        p = put_bucket(p, shapes[i]);
    ask->len = (size_t)(p - ask->buf);
    return 0;
}

static bool same_costs(const struct sl_ask *ask, const uint32_t *costs)
{
    for (unsigned i = 0; i < ask->n; i++) {
        if (sl_get(ask->run + 2 + COST_LEN * i + 12, 4) != costs[i])
            return false;
    }
    return true;
}

int sl_ask_request(struct sl_ask *ask, const uint32_t *costs)
{
    uint8_t *p = ask->buf + ask->len;
    size_t size = 2 + COST_LEN * (size_t)ask->n;
    uint64_t runs = sl_get(ask->group + 2, 2);

    if (ask->requests >= SL_GROUP_REQUESTS_MAX)
        return SL_EBUSY;
    if (ask->run && same_costs(ask, costs)) {
        sl_put(ask->run, sl_get(ask->run, 2) + 1, 2);
        ask->requests++;
        return 0;
    }
    if (runs >= SL_GROUP_RUNS_MAX || ask->size - ask->len < size)
        return SL_EBUSY;
    ask->run = p;
    p = sl_put(p, 1, 2);
    for (unsigned i = 0; i < ask->n; i++) {
        p = put_cost(p, ask->shapes[i], costs[i]);
        if (costs[i] > 0)
            ask->group[0] = SL_OP_DECIDE;
    }
    sl_put(ask->group + 2, runs + 1, 2);
    ask->len += size;
    ask->requests++;
    return 0;
}

static uint8_t *put_charge(uint8_t *p, const struct sl_shape *shape, const struct sl_decision *charge)
{
    p = put_cost(p, shape, charge->cost);
    p = sl_put(p, charge->now_us, 8);
    if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
        return p;
    p += sl_value_write((enum sl_algorithm)shape->algorithm, charge->after, p);
    p = sl_put(p, sl_state_whole_us(charge->after), 8);
    p = sl_put(p, sl_state_whole_us(charge->before), 8);
    p = sl_put(p, charge->before.hi, 4);
    return sl_put(p, charge->before.hi >> 32, 4);
}

int sl_ask_refund(struct sl_ask *ask, const struct sl_shape *const *shapes, const struct sl_decision *charges,
                  unsigned n)
{
    uint8_t *p;

    if (n < 1 || n > SL_GROUP_BUCKETS_MAX)
        return SL_EINVALID;
    p = open_group(ask, SL_OP_REFUND, shapes, n, SL_REFUND_SIZE(n));
    if (!p)
        return SL_EBUSY;
    for (unsigned i = 0; i < n; i++)
        p = put_charge(put_bucket(p, shapes[i]), shapes[i], &charges[i]);
    ask->len = (size_t)(p - ask->buf);
    ask->requests = SL_GROUP_REQUESTS_MAX; /* full */
    return 0;
}

/* ---- reading */

static bool has(const struct sl_ask_reader *reader, size_t len)
{
    return (size_t)(reader->end - reader->p) >= len;
}

int sl_ask_open(struct sl_ask_reader *reader, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    *reader = (struct sl_ask_reader){.p = p, .end = p + len};
    if (len < HEADER_LEN || p[0] != SL_WIRE_VERSION || p[1] > (FLAG_CLOCK | FLAG_LOG))
        return SL_EFORMAT;
    reader->p += HEADER_LEN;
    reader->virtual_clock = p[1] & FLAG_CLOCK;
    reader->has_log = p[1] & FLAG_LOG;
    if (!reader->virtual_clock)
        return 0;
    if (!has(reader, 8))
        return SL_EFORMAT;
    reader->now_us = sl_get(reader->p, 8);
    reader->p += 8;
    return reader->now_us <= SL_STORE_TIME_MAX_US ? 0 : SL_EFORMAT;
}

/* Whatever arrives, core must be able to decide by it without wrapping: the ranges of SPEC section 2. */
static bool read_bucket(const uint8_t *p, struct sl_shape *s)
{
    unsigned algorithm = p[0] - SL_VALUE_TAG;
    uint64_t full = sl_get(p + 6, 8), top = sl_get(p + 14, 4);

    *s = (struct sl_shape){.algorithm = (uint8_t)algorithm,
                           .version = p[1],
                           .limit = (uint32_t)sl_get(p + 18, 4),
                           .n = (uint32_t)sl_get(p + 2, 4)};
    s->count = s->limit;
    if (algorithm >= SL_ALGORITHMS || p[1] > SL_STATE_VERSION_MASK || s->limit < 1 || s->limit > SL_COUNT_MAX)
        return false;
    if (!sl_algorithm_is_bucket((enum sl_algorithm)algorithm)) {
        s->period_us = full;
        return full >= SL_PERIOD_MIN_US && full <= SL_PERIOD_MAX_US && top == s->limit && s->n == 1 &&
               (algorithm != SL_SLIDING_WINDOW_LOG || s->limit <= SL_LOG_COUNT_MAX_LOCAL);
    }
    s->cap_us = full;
    s->cap_frac = (uint32_t)top;
    s->token_us = sl_get(p + 22, 8);
    s->token_frac = (uint32_t)sl_get(p + 30, 4);
    if (s->n < 1 || s->n > SL_COUNT_MAX || s->cap_us > SL_LIFE_MAX_US || s->cap_frac >= s->n || s->token_frac >= s->n ||
        s->token_us > SL_PERIOD_MAX_US || !(s->token_us | s->token_frac))
        return false;
    return (unsigned __int128)s->limit * ((unsigned __int128)s->token_us * s->n + s->token_frac) ==
           (unsigned __int128)s->cap_us * s->n + s->cap_frac;
}

/* The script spends the span, the module the tokens: they must say the same. */
static bool read_cost(const uint8_t *p, const struct sl_shape *shape, uint32_t *ret_cost)
{
    uint8_t expected[COST_LEN];
    uint32_t cost = (uint32_t)sl_get(p + 12, 4);

    put_cost(expected, shape, cost);
    *ret_cost = cost;
    return __builtin_memcmp(expected, p, COST_LEN) == 0;
}

static int read_charge(struct sl_ask_reader *reader, const struct sl_shape *shape, struct sl_decision *ret_charge)
{
    enum sl_algorithm algorithm = (enum sl_algorithm)shape->algorithm;
    size_t len = algorithm == SL_SLIDING_WINDOW_COUNTER ? 16 : 12;
    struct sl_decision charge = {.allowed = true, .changed = true};
    const uint8_t *p = reader->p;

    if (!has(reader, CHARGE_LEN) || !read_cost(p, shape, &charge.cost) || charge.cost > shape->limit)
        return SL_EFORMAT;
    charge.now_us = sl_get(p + COST_LEN, 8);
    if (charge.now_us > SL_STORE_TIME_MAX_US)
        return SL_EFORMAT;
    reader->p = p += CHARGE_LEN;
    if (algorithm != SL_SLIDING_WINDOW_LOG) {
        if (!has(reader, STATES_LEN(len)) || sl_value_read(algorithm, p, len, &charge.after) ||
            sl_get(p + len, 8) != sl_state_whole_us(charge.after) || sl_get(p + len + 8, 8) >> 53)
            return SL_EFORMAT;
        charge.before.lo = sl_state_version_bits(shape) | sl_get(p + len + 8, 8);
        charge.before.hi = sl_get(p + len + 16, 4) | sl_get(p + len + 20, 4) << 32;
        reader->p += STATES_LEN(len);
    }
    *ret_charge = charge;
    return 0;
}

int sl_ask_next(struct sl_ask_reader *reader, struct sl_ask_part *ret_part)
{
    const uint8_t *p = reader->p;

    if (p == reader->end)
        return 0;
    if (!has(reader, GROUP_LEN) || p[0] > SL_OP_REFUND)
        return SL_EFORMAT;
    ret_part->op = (enum sl_ask_op)p[0];
    ret_part->n = p[1];
    ret_part->runs = (unsigned)sl_get(p + 2, 2);
    reader->p += GROUP_LEN;
    if (ret_part->n < 1 || ret_part->n > SL_GROUP_BUCKETS_MAX ||
        ret_part->runs > (ret_part->op == SL_OP_REFUND ? 0 : SL_GROUP_RUNS_MAX))
        return SL_EFORMAT;
    for (unsigned i = 0; i < ret_part->n; i++) {
        if (!has(reader, BUCKET_LEN) || !read_bucket(reader->p, &ret_part->shapes[i]))
            return SL_EFORMAT;
        reader->p += BUCKET_LEN;
        if (ret_part->shapes[i].algorithm == SL_SLIDING_WINDOW_LOG && !reader->has_log)
            return SL_EFORMAT;
        if (ret_part->op == SL_OP_REFUND && read_charge(reader, &ret_part->shapes[i], &ret_part->charges[i]))
            return SL_EFORMAT;
    }
    return 1;
}

int sl_ask_run(struct sl_ask_reader *reader, const struct sl_ask_part *part, unsigned *ret_repeat, uint32_t *ret_costs)
{
    bool peek = true;

    if (!has(reader, 2 + COST_LEN * (size_t)part->n))
        return SL_EFORMAT;
    *ret_repeat = (unsigned)sl_get(reader->p, 2);
    reader->p += 2;
    if (*ret_repeat < 1 || *ret_repeat > SL_GROUP_REQUESTS_MAX)
        return SL_EFORMAT;
    for (unsigned i = 0; i < part->n; i++, reader->p += COST_LEN) {
        if (!read_cost(reader->p, &part->shapes[i], &ret_costs[i]))
            return SL_EFORMAT;
        peek = peek && ret_costs[i] == 0;
    }
    return part->op == SL_OP_PEEK && !peek ? SL_EFORMAT : 0;
}
