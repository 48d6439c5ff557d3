#include "door.h"

#include "redis.h"
#include "store/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

const char *const door_names[DOORS] = {"script", "module"};

void door_open(redisContext *c)
{
    size_t len;
    const char *text = sl_script_text(&len);
    redisReply *reply = redis_do(c, "SCRIPT LOAD %b", text, len);

    assert_string_equal(reply->str, sl_script_sha1());
    freeReplyObject(reply);
}

redisReply *door_send(redisContext *c, enum door door, const char *const *keys, unsigned n, const struct sl_ask *ask)
{
    const char *argv[SL_GROUP_BUCKETS_MAX * 4 + 4];
    size_t len[SL_GROUP_BUCKETS_MAX * 4 + 4];
    char number[16];
    int argc = 0;
    redisReply *reply;

    assert_true(n <= SL_GROUP_BUCKETS_MAX * 4);
    snprintf(number, sizeof number, "%u", n);
    argv[argc++] = door == DOOR_MODULE ? "SLUICE.DECIDE" : "EVALSHA";
    if (door == DOOR_SCRIPT)
        argv[argc++] = sl_script_sha1();
    argv[argc++] = number;
    for (unsigned i = 0; i < n; i++)
        argv[argc++] = keys[i];
    for (int i = 0; i < argc; i++)
        len[i] = strlen(argv[i]);
    argv[argc] = (const char *)ask->buf;
    len[argc++] = ask->len;
    reply = redisCommandArgv(c, argc, argv, len);
    if (!reply)
        fail_msg("%s: %s", door_names[door], c->errstr);
    return reply;
}

struct subject subject_of(const char *key, const struct sl_shape *shape)
{
    return (struct subject){.n = 1, .keys = {key}, .shapes = {shape}};
}

static void start(struct sl_ask *ask, void *buf, size_t size, uint64_t now_us)
{
    if (now_us)
        sl_ask_start_at(ask, buf, size, now_us);
    else
        sl_ask_start(ask, buf, size);
}

static redisReply *ask_one(redisContext *c, enum door door, const struct subject *s, uint64_t now_us,
                           const uint32_t *costs)
{
    uint8_t buf[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(SL_GROUP_BUCKETS_MAX, 1)];
    struct sl_ask ask;
    redisReply *reply;

    start(&ask, buf, sizeof buf, now_us);
    assert_int_equal(sl_ask_group(&ask, s->shapes, s->n), 0);
    assert_int_equal(sl_ask_request(&ask, costs), 0);
    reply = door_send(c, door, s->keys, s->n, &ask);
    if (reply->type != REDIS_REPLY_STRING)
        fail_msg("%s, %s of %u, cost %u: %s", door_names[door],
                 sl_algorithm_name((enum sl_algorithm)s->shapes[0]->algorithm), s->shapes[0]->limit, costs[0],
                 reply->str);
    return reply;
}

bool door_decide(redisContext *c, enum door door, const struct subject *s, uint64_t now_us, const uint32_t *costs,
                 struct sl_decision *ret_decisions)
{
    redisReply *reply = ask_one(c, door, s, now_us, costs);
    struct sl_answer answer;
    struct sl_answer_group group;
    int allowed;

    assert_int_equal(sl_answer_open(&answer, reply->str, reply->len), 0);
    assert_int_equal(sl_answer_next(&answer, s->shapes, s->n, &group), 0);
    assert_false(group.failed);
    allowed = sl_answer_decide(&group, costs, ret_decisions);
    assert_true(allowed >= 0);
    assert_int_equal(sl_answer_end(&group), 0);
    assert_ptr_equal(answer.p, answer.end);
    if (now_us)
        assert_int_equal(answer.now_us, now_us);
    freeReplyObject(reply);
    return allowed == 1;
}

struct sl_numbers door_check(redisContext *c, enum door door, const char *key, const struct sl_shape *shape,
                             uint64_t now_us, uint32_t cost, bool *ret_allowed)
{
    struct subject s = subject_of(key, shape);
    struct sl_decision d;
    struct sl_numbers n;

    *ret_allowed = door_decide(c, door, &s, now_us, &cost, &d);
    sl_decision_numbers(shape, &d, &n);
    return n;
}

bool door_is_foreign(redisContext *c, enum door door, const struct subject *s, uint64_t now_us, uint32_t cost)
{
    uint32_t costs[SL_GROUP_BUCKETS_MAX] = {0};
    struct sl_answer answer;
    struct sl_answer_group group;
    redisReply *reply;

    for (unsigned i = 0; i < s->n; i++)
        costs[i] = cost;
    reply = ask_one(c, door, s, now_us, costs);
    assert_int_equal(sl_answer_open(&answer, reply->str, reply->len), 0);
    assert_int_equal(sl_answer_next(&answer, s->shapes, s->n, &group), 0);
    freeReplyObject(reply);
    return group.failed;
}

unsigned door_refund(redisContext *c, enum door door, const struct subject *s, uint64_t now_us,
                     const struct sl_decision *charges)
{
    uint8_t buf[SL_ASK_HEADER_MAX + SL_REFUND_SIZE(SL_GROUP_BUCKETS_MAX)];
    struct sl_ask ask;
    struct sl_answer answer;
    redisReply *reply;
    unsigned given;

    start(&ask, buf, sizeof buf, now_us);
    assert_int_equal(sl_ask_refund(&ask, s->shapes, charges, s->n), 0);
    reply = door_send(c, door, s->keys, s->n, &ask);
    if (reply->type != REDIS_REPLY_STRING)
        fail_msg("%s: %s", door_names[door], reply->str);
    assert_int_equal(sl_answer_open(&answer, reply->str, reply->len), 0);
    assert_int_equal(sl_answer_refund(&answer, &given), 0);
    freeReplyObject(reply);
    return given;
}
