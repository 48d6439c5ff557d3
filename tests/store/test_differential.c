/* Script against module against core, on random sequences over the whole range of shapes: single requests, merged
 * lists, several groups in one ask, peeks, refunds, reloads, clocks that go back, states that somebody else wrote.
 * Three sets of keys are led the same way: one through the script, one through the module, one through both in turn;
 * after every step all three hold the same bytes. */
#include "door.h"
#include "model.h"
#include "redis.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MAX 4
#define SETS 3
#define REQUESTS_MAX 40
#define ROUNDS 150
#define STEPS 40

static struct redis server;
static uint64_t seed;

struct round {
    unsigned n;
    uint64_t now_us;
    struct model models[BUCKETS_MAX];
    struct model *pointers[BUCKETS_MAX];
    struct subject subjects[SETS];
    char keys[SETS][BUCKETS_MAX][40];
    struct sl_decision charges[BUCKETS_MAX]; /* of the last allowed request */
    bool has_charges;
};

static struct round *r;

/* ---- how it began */

static void begin_round(unsigned id)
{
    memset(r, 0, sizeof *r);
    r->n = 1 + (unsigned)world_below(&seed, 2) * (unsigned)world_below(&seed, BUCKETS_MAX);
    do
        r->now_us = 1 + world_some_time(&seed);
    while (r->now_us > SL_STORE_TIME_MAX_US / 2);
    for (unsigned i = 0; i < r->n; i++) {
        r->models[i].shape = world_some_shape(&seed);
        r->pointers[i] = &r->models[i];
        for (int set = 0; set < SETS; set++) {
            snprintf(r->keys[set][i], sizeof r->keys[set][i], "d:{%u.%d}:%u", id, set, i);
            r->subjects[set].keys[i] = r->keys[set][i];
            r->subjects[set].shapes[i] = &r->models[i].shape;
            r->subjects[set].n = r->n;
        }
    }
}

static enum door door_of(int set)
{
    return set < DOORS ? (enum door)set : (enum door)world_below(&seed, DOORS);
}

/* ---- comparing */

static void same_decision(const struct sl_shape *shape, const struct sl_decision *got, const struct sl_decision *want,
                          const char *door)
{
    struct sl_numbers x, y;

    assert_int_equal(got->allowed, want->allowed);
    assert_int_equal(got->now_us, want->now_us);
    sl_decision_numbers(shape, got, &x);
    sl_decision_numbers(shape, want, &y);
    if (memcmp(&x, &y, sizeof x) != 0)
        fail_msg("%s, %s of %u/%llu us, cost %u: %lld left %lld retry %lld reset, not %lld %lld %lld", door,
                 sl_algorithm_name((enum sl_algorithm)shape->algorithm), shape->limit,
                 (unsigned long long)shape->period_us, want->cost, (long long)x.remaining, (long long)x.retry_after_ms,
                 (long long)x.reset_after_ms, (long long)y.remaining, (long long)y.retry_after_ms,
                 (long long)y.reset_after_ms);
}

/* A rejected request spends nothing: where it had room, it reads like a peek. */
static void unspend(const struct model *m, struct sl_decision *d)
{
    if (!d->allowed)
        return;
    if (m->shape.algorithm == SL_SLIDING_WINDOW_LOG) {
        uint64_t newest_us = 0;

        for (size_t i = 0; i < m->n_entries; i++) {
            if (sl_log_in_force(&m->shape, m->entries[i].t_us, d->now_us))
                newest_us = m->entries[i].t_us;
        }
        sl_log_decide(&m->shape, d->log_sum, newest_us, d->now_us, 0, d);
    }
    d->after = d->before;
    d->cost = 0;
    d->changed = false;
}

static bool same_reply(const redisReply *x, const redisReply *y)
{
    if (x->type != y->type || x->elements != y->elements)
        return false;
    for (size_t i = 0; i < x->elements; i++) {
        if (!same_reply(x->element[i], y->element[i]))
            return false;
    }
    return x->type != REDIS_REPLY_STRING || (x->len == y->len && memcmp(x->str, y->str, x->len) == 0);
}

static redisReply *stored(int set, unsigned i)
{
    if (r->models[i].shape.algorithm == SL_SLIDING_WINDOW_LOG)
        return redis_do(server.c, "ZRANGE %s 0 -1 WITHSCORES", r->keys[set][i]);
    return redis_do(server.c, "GET %s", r->keys[set][i]);
}

static void same_bytes_everywhere(unsigned i)
{
    redisReply *first = stored(0, i);
    const struct model *m = &r->models[i];

    for (int set = 1; set < SETS; set++) {
        redisReply *other = stored(set, i);

        if (!same_reply(first, other))
            fail_msg("%s: set %d holds other bytes", sl_algorithm_name((enum sl_algorithm)m->shape.algorithm), set);
        freeReplyObject(other);
    }
    if (m->shape.algorithm != SL_SLIDING_WINDOW_LOG) {
        uint8_t bytes[SL_VALUE_MAX];
        size_t len = sl_value_write((enum sl_algorithm)m->shape.algorithm, m->state, bytes);

        assert_int_equal(first->type == REDIS_REPLY_STRING, m->stored);
        if (m->stored && ((size_t)first->len != len || memcmp(first->str, bytes, len) != 0))
            fail_msg("%s: not what core would store", sl_algorithm_name((enum sl_algorithm)m->shape.algorithm));
    }
    freeReplyObject(first);
}

static void every_key_expires(void)
{
    for (int set = 0; set < SETS; set++) {
        for (unsigned i = 0; i < r->n; i++) {
            if (redis_integer(server.c, "PTTL %s", r->keys[set][i]) == -1)
                fail_msg("%s: no time to live", sl_algorithm_name((enum sl_algorithm)r->models[i].shape.algorithm));
        }
    }
}

/* ---- steps */

static uint32_t some_cost(const struct sl_shape *shape)
{
    switch (world_below(&seed, 8)) {
    case 0:
        return 0;
    case 1:
        return shape->limit;
    case 2:
        return shape->limit + 1;
    case 3:
        return 1 + (uint32_t)world_below(&seed, shape->limit);
    case 4:
        return 1 + (uint32_t)world_below(&seed, shape->limit) / 3;
    default:
        return 1;
    }
}

/* Forward by anything between nothing and more than the limit's life; now and then back. */
static void move_clock(void)
{
    const struct sl_shape *shape = &r->models[world_below(&seed, r->n)].shape;
    uint64_t life = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm) ? shape->cap_us : 2 * shape->period_us;
    uint64_t by = 0;

    switch (world_below(&seed, 6)) {
    case 0:
        by = world_below(&seed, 3);
        break;
    case 1:
        by = world_below(&seed, shape->period_us / shape->count + 2);
        break;
    case 2:
        by = world_below(&seed, life / 8 + 1);
        break;
    case 3:
        by = world_below(&seed, life + life / 4 + 1);
        break;
    case 4:
        if (world_below(&seed, 4) == 0) {
            by = world_below(&seed, world_below(&seed, 2) ? 2 * SL_STALE_MAX_US : life + 1);
            if (world_below(&seed, 2))
                by = SL_STALE_MAX_US + world_below(&seed, 2);
            r->now_us = r->now_us > by ? r->now_us - by : 1;
            return;
        }
        by = shape->period_us - r->now_us % shape->period_us; /* to the window's edge */
        break;
    default:
        break;
    }
    if (r->now_us + by < SL_STORE_TIME_MAX_US)
        r->now_us += by;
}

/* Some requests in one group; in all sets; each must be decided as core does it one after another. */
static void step_requests(unsigned n_requests, bool peek)
{
    static uint8_t buf[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(BUCKETS_MAX, REQUESTS_MAX)];
    static struct sl_decision want[REQUESTS_MAX][BUCKETS_MAX];
    uint32_t costs[REQUESTS_MAX][BUCKETS_MAX] = {0};
    bool allowed[REQUESTS_MAX];
    bool is_peek = true;

    for (unsigned k = 0; k < n_requests; k++) {
        for (unsigned i = 0; i < r->n; i++) {
            if (!peek)
                costs[k][i] = k && world_below(&seed, 3) ? costs[k - 1][i] : some_cost(&r->models[i].shape);
            is_peek = is_peek && costs[k][i] == 0;
        }
    }
    model_begin(r->pointers, r->n, r->now_us, is_peek);
    for (unsigned k = 0; k < n_requests; k++) {
        allowed[k] = model_decide(r->pointers, r->n, r->now_us, costs[k], want[k]);
        for (unsigned i = 0; i < r->n && !allowed[k]; i++)
            unspend(&r->models[i], &want[k][i]);
    }
    model_end(r->pointers, r->n, r->now_us, is_peek);
    for (int set = 0; set < SETS; set++) {
        enum door door = door_of(set);
        struct sl_ask ask;
        struct sl_answer answer;
        struct sl_answer_group group;
        redisReply *reply;

        sl_ask_start_at(&ask, buf, sizeof buf, r->now_us);
        assert_int_equal(sl_ask_group(&ask, r->subjects[set].shapes, r->n), 0);
        for (unsigned k = 0; k < n_requests; k++)
            assert_int_equal(sl_ask_request(&ask, costs[k]), 0);
        reply = door_send(server.c, door, r->subjects[set].keys, r->n, &ask);
        if (reply->type != REDIS_REPLY_STRING)
            fail_msg("%s: %s", door_names[door], reply->str);
        assert_int_equal(sl_answer_open(&answer, reply->str, reply->len), 0);
        assert_int_equal(sl_answer_next(&answer, r->subjects[set].shapes, r->n, &group), 0);
        for (unsigned k = 0; k < n_requests; k++) {
            struct sl_decision got[BUCKETS_MAX];

            assert_int_equal(sl_answer_decide(&group, costs[k], got), allowed[k]);
            for (unsigned i = 0; i < r->n; i++)
                same_decision(&r->models[i].shape, &got[i], &want[k][i], door_names[door]);
            if (allowed[k] && !is_peek) {
                memcpy(r->charges, got, sizeof r->charges);
                r->has_charges = true;
            }
        }
        assert_int_equal(sl_answer_end(&group), 0);
        assert_ptr_equal(answer.p, answer.end);
        freeReplyObject(reply);
    }
}

static void step_refund(void)
{
    struct sl_decision charges[BUCKETS_MAX];
    struct subject some[SETS] = {0};
    unsigned given = 0;

    for (unsigned i = 0; i < r->n; i++) {
        unsigned n = some[0].n;

        if (r->charges[i].cost == 0 || world_below(&seed, 4) == 0)
            continue;
        charges[n] = r->charges[i];
        given += model_refund(&r->models[i], &charges[n], r->now_us);
        for (int set = 0; set < SETS; set++) {
            some[set].keys[n] = r->keys[set][i];
            some[set].shapes[n] = &r->models[i].shape;
            some[set].n = n + 1;
        }
    }
    for (int set = 0; set < SETS && some[0].n; set++)
        assert_int_equal(door_refund(server.c, door_of(set), &some[set], r->now_us, charges), given);
}

/* The limit is loaded anew with other numbers. */
static void step_reload(void)
{
    struct sl_shape *shape = &r->models[world_below(&seed, r->n)].shape, other;

    do
        other = world_some_shape(&seed);
    while (other.algorithm != shape->algorithm);
    if (world_below(&seed, 2)) {
        struct sl_rate rate = {.count = other.count, .period_us = shape->period_us};
        const char *why;

        if (sl_shape_init(&other, (enum sl_algorithm)shape->algorithm, &rate, 0, &why))
            return;
    }
    *shape = other;
    r->has_charges = false;
}

/* How far ahead of now a meddler's state is: anything, or the very edge of what is tolerated. */
static uint64_t some_ahead(const struct sl_shape *shape)
{
    uint64_t edge = shape->cap_us + shape->period_us + SL_STALE_MAX_US - 1 + world_below(&seed, 3);

    if (sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm))
        edge -= shape->period_us;
    switch (world_below(&seed, 3)) {
    case 0:
        return world_below(&seed, 3 * shape->cap_us + 3 * shape->period_us + 2);
    case 1:
        return edge;
    default:
        return world_below(&seed, UINT64_C(1) << 52);
    }
}

/* Somebody writes a state of his own, with or without a time to live. */
static void step_meddle(void)
{
    unsigned i = (unsigned)world_below(&seed, r->n);
    struct model *m = &r->models[i];
    uint8_t bytes[SL_VALUE_MAX];
    size_t len;
    uint64_t ahead = some_ahead(&m->shape);
    bool expires = world_below(&seed, 2);

    if (m->shape.algorithm == SL_SLIDING_WINDOW_LOG)
        return;
    m->stored = true;
    m->state.lo = ((world_below(&seed, 2) ? m->shape.version : world_random(&seed)) & SL_STATE_VERSION_MASK)
                      << SL_STATE_VERSION_SHIFT |
                  ((r->now_us + ahead) & ((UINT64_C(1) << 53) - 1));
    m->state.hi = world_random(&seed) >> (world_below(&seed, 2) ? 34 : 54);
    if (m->shape.algorithm == SL_SLIDING_WINDOW_COUNTER)
        m->state.hi |= world_random(&seed) >> 34 << 32;
    len = sl_value_write((enum sl_algorithm)m->shape.algorithm, m->state, bytes);
    for (int set = 0; set < SETS; set++) {
        redis_run(server.c, "SET %s %b", r->keys[set][i], bytes, len);
        if (expires)
            redis_run(server.c, "PEXPIRE %s 7200000", r->keys[set][i]);
    }
}

static void step_foreign(void)
{
    static const char *const values[] = {"", "1", "105", "0123456789ab", "{\"tokens\":5}", "0123456789abcdef"};
    unsigned i = (unsigned)world_below(&seed, r->n);
    struct model *m = &r->models[i];
    uint64_t kind = world_below(&seed, 8);

    for (int set = 0; set < SETS; set++) {
        const char *key = r->keys[set][i];

        redis_run(server.c, "DEL %s", key);
        if (kind < 6)
            redis_run(server.c, "SET %s %s", key, values[kind]);
        else if (kind == 6)
            redis_run(server.c, "HSET %s tokens 5", key);
        else
            redis_run(server.c, "ZADD %s 1 member", key);
        assert_true(door_is_foreign(server.c, door_of(set), &r->subjects[set], r->now_us, 1));
        redis_run(server.c, "DEL %s", key);
    }
    m->stored = false;
    m->n_entries = 0;
    r->has_charges = false;
}

static void step(void)
{
    move_clock();
    switch (world_below(&seed, 24)) {
    case 0:
        step_foreign();
        break;
    case 1:
        step_reload();
        break;
    case 2:
        step_meddle();
        break;
    case 3:
    case 4:
    case 11:
    case 12:
        if (r->has_charges)
            step_refund();
        break;
    case 5:
    case 6:
        step_requests(1, true);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        step_requests(1 + (unsigned)world_below(&seed, REQUESTS_MAX), false);
        break;
    default:
        step_requests(1, false);
        break;
    }
    for (unsigned i = 0; i < r->n; i++)
        same_bytes_everywhere(i);
}

static void script_module_and_core_agree_on_everything(void **state)
{
    (void)state;
    seed = world_seed();
    for (unsigned id = 0; id < ROUNDS; id++) {
        begin_round(id);
        for (int i = 0; i < STEPS; i++)
            step();
        step_requests(1, true);
        for (unsigned i = 0; i < r->n; i++) {
            /* an operation that may write sees to it that everything expires */
            uint32_t costs[BUCKETS_MAX];

            for (unsigned k = 0; k < r->n; k++)
                costs[k] = r->models[k].shape.limit + 1;
            for (int set = 0; set < SETS; set++) {
                struct sl_decision d[BUCKETS_MAX];

                assert_false(door_decide(server.c, door_of(set), &r->subjects[set], r->now_us, costs, d));
            }
        }
        every_key_expires();
    }
}

/* Several groups in one ask are decided as if each had come alone. */
static void groups_of_one_ask_are_independent(void **state)
{
    enum { GROUPS = 20 };
    static uint8_t buf[SL_ASK_HEADER_MAX + GROUPS * SL_GROUP_SIZE(2, 1)];
    const uint64_t now_us = UINT64_C(1754006400000000);
    struct sl_shape shapes[2] = {world_shape(SL_TOKEN_BUCKET, "10/s", 10),
                                 world_shape(SL_SLIDING_WINDOW_LOG, "7/m", 0)};
    const struct sl_shape *pair[2] = {&shapes[0], &shapes[1]};

    (void)state;
    for (int door = 0; door < DOORS; door++) {
        const char *keys[2 * GROUPS];
        unsigned allowed = 0, n_keys = 0;
        struct sl_ask ask;
        struct sl_answer answer;
        redisReply *reply;

        redis_run(server.c, "FLUSHALL");
        redis_run(server.c, "SET {g}:foreign 5");
        sl_ask_start_at(&ask, buf, sizeof buf, now_us);
        for (unsigned g = 0; g < GROUPS; g++) {
            uint32_t costs[2] = {1, 1};
            unsigned n = g % 3 == 2 ? 1 : 2;

            assert_int_equal(sl_ask_group(&ask, pair, n), 0);
            assert_int_equal(sl_ask_request(&ask, costs), 0);
            keys[n_keys++] = g == 5 ? "{g}:foreign" : "{g}:0";
            if (n == 2)
                keys[n_keys++] = "{g}:1";
        }
        reply = door_send(server.c, (enum door)door, keys, n_keys, &ask);
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_int_equal(sl_answer_open(&answer, reply->str, reply->len), 0);
        for (unsigned g = 0; g < GROUPS; g++) {
            uint32_t costs[2] = {1, 1};
            struct sl_decision d[2];
            struct sl_answer_group group;

            assert_int_equal(sl_answer_next(&answer, pair, g % 3 == 2 ? 1 : 2, &group), 0);
            assert_int_equal(group.failed, g == 5);
            if (group.failed)
                continue;
            allowed += (unsigned)sl_answer_decide(&group, costs, d);
            assert_int_equal(sl_answer_end(&group), 0);
        }
        assert_ptr_equal(answer.p, answer.end);
        /* groups 0 1 | 2 | 3 4 | (5) | 6 7 | 8 | 9 ...: the bucket's ten go first */
        assert_int_equal(allowed, 10);
        freeReplyObject(reply);
    }
}

static int set_up(void **state)
{
    (void)state;
    r = malloc(sizeof *r);
    assert_non_null(r);
    server = redis_start(NULL);
    door_open(server.c);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&server);
    free(r);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_module_and_core_agree_on_everything),
        cmocka_unit_test(groups_of_one_ask_are_independent),
    };

    return cmocka_run_group_tests_name("store differential", tests, set_up, tear_down);
}
