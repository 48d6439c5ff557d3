/* Answers: what the store did, decided over again from the states it had. */
#include "store/codec.h"

#include "base/err.h"
#include "core/log.h"
#include "store/bytes.h"

#include <string.h>

#define PIECE_NONE 0
#define PIECE_FOREIGN 1
#define LOG_PIECE_LEN 13

static const uint8_t *take(struct sl_answer *answer, size_t len)
{
    const uint8_t *p = answer->p;

    if ((size_t)(answer->end - p) < len)
        return NULL;
    answer->p += len;
    return p;
}

int sl_answer_open(struct sl_answer *answer, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    *answer = (struct sl_answer){.p = p, .end = p + len};
    p = take(answer, 8);
    if (!p)
        return SL_EFORMAT;
    answer->now_us = sl_get(p, 8);
    return answer->now_us <= SL_STORE_TIME_MAX_US ? 0 : SL_EFORMAT;
}

static int read_log(struct sl_answer_group *group, unsigned i)
{
    const uint8_t *p = take(group->answer, LOG_PIECE_LEN);
    uint64_t sum, newest_us, now_us = group->answer->now_us;

    if (!p || p[0] != SL_VALUE_TAG + SL_SLIDING_WINDOW_LOG)
        return SL_EFORMAT;
    sum = sl_get(p + 1, 4);
    newest_us = sl_get(p + 5, 8);
    if (sum < 1 || sum > SL_LOG_COUNT_MAX_LOCAL || newest_us > now_us ||
        !sl_log_in_force(group->buckets[i].shape, newest_us, now_us))
        return SL_EFORMAT;
    group->buckets[i].log_sum = sum;
    group->buckets[i].log_newest_us = newest_us;
    return 0;
}

static int read_piece(struct sl_answer_group *group, unsigned i)
{
    struct sl_answer *answer = group->answer;
    enum sl_algorithm algorithm = (enum sl_algorithm)group->buckets[i].shape->algorithm;
    size_t len = algorithm == SL_SLIDING_WINDOW_COUNTER ? 16 : 12;
    const uint8_t *p;

    if (answer->p == answer->end)
        return SL_EFORMAT;
    if (*answer->p == PIECE_NONE || *answer->p == PIECE_FOREIGN) {
        group->buckets[i].foreign = *answer->p == PIECE_FOREIGN;
        answer->p++;
        return group->buckets[i].foreign && !group->failed ? SL_EFORMAT : 0;
    }
    if (algorithm == SL_SLIDING_WINDOW_LOG)
        return read_log(group, i);
    p = take(answer, len);
    return p ? sl_value_read(algorithm, p, len, &group->buckets[i].state) : SL_EFORMAT;
}

int sl_answer_next(struct sl_answer *answer, const struct sl_shape *const *shapes, unsigned n,
                   struct sl_answer_group *ret_group)
{
    const uint8_t *p = take(answer, 2);

    if (!p || n < 1 || n > SL_GROUP_BUCKETS_MAX)
        return SL_EFORMAT;
    ret_group->answer = answer;
    ret_group->n = n;
    ret_group->allowed = 0;
    ret_group->claimed = (unsigned)sl_get(p, 2);
    ret_group->failed = ret_group->claimed == SL_ANSWER_FAILED;
    ret_group->decided = ret_group->last_allowed = false;
    for (unsigned i = 0; i < n; i++) {
        int err;

        memset(&ret_group->buckets[i], 0, sizeof ret_group->buckets[i]);
        ret_group->buckets[i].shape = shapes[i];
        err = read_piece(ret_group, i);
        if (err)
            return err;
    }
    return 0;
}

/* A request equal to one that was rejected just before belongs to the same run: the store stopped there, and so does
 * this. */
static bool is_rejected_run(const struct sl_answer_group *group, const uint32_t *costs)
{
    if (!group->decided || group->last_allowed)
        return false;
    for (unsigned i = 0; i < group->n; i++) {
        if (group->buckets[i].last_cost != costs[i])
            return false;
    }
    return true;
}

static int decide_log(struct sl_answer_group *group, unsigned i, uint32_t cost, struct sl_decision *d)
{
    const struct sl_shape *shape = group->buckets[i].shape;
    const uint8_t *p;

    sl_log_decide(shape, group->buckets[i].log_sum, group->buckets[i].log_newest_us, group->answer->now_us, cost, d);
    if (d->allowed || d->never)
        return 0;
    p = take(group->answer, 8);
    if (!p)
        return SL_EFORMAT;
    d->log_fit_us = sl_get(p, 8);
    return d->log_fit_us > d->now_us && d->log_fit_us - d->now_us <= shape->period_us ? 0 : SL_EFORMAT;
}

/* What a bucket had room for was not spent after all: it reads like a peek. */
static void unspend(const struct sl_answer_group *group, unsigned i, struct sl_decision *d)
{
    if (group->buckets[i].shape->algorithm == SL_SLIDING_WINDOW_LOG)
        sl_log_decide(group->buckets[i].shape, d->log_sum, group->buckets[i].log_newest_us, d->now_us, 0, d);
    d->after = d->before;
    d->cost = 0;
    d->changed = false;
}

static void spend(struct sl_answer_group *group, unsigned i, const struct sl_decision *d)
{
    if (!d->changed)
        return;
    if (group->buckets[i].shape->algorithm == SL_SLIDING_WINDOW_LOG) {
        group->buckets[i].log_sum += d->cost;
        group->buckets[i].log_newest_us = d->log_newest_us;
    } else {
        group->buckets[i].state = d->after;
    }
}

int sl_answer_decide(struct sl_answer_group *group, const uint32_t *costs, struct sl_decision *ret_decisions)
{
    bool allowed = true, same = is_rejected_run(group, costs);

    if (group->failed)
        return SL_EFORMAT;
    for (unsigned i = 0; i < group->n && !same; i++) {
        struct sl_decision *d = &group->buckets[i].last;
        const struct sl_shape *shape = group->buckets[i].shape;

        if (shape->algorithm == SL_SLIDING_WINDOW_LOG) {
            if (decide_log(group, i, costs[i], d))
                return SL_EFORMAT;
        } else {
            sl_decide(shape, group->buckets[i].state, group->answer->now_us, costs[i], d);
        }
        group->buckets[i].last_cost = costs[i];
        allowed = allowed && d->allowed;
    }
    allowed = allowed && !same;
    for (unsigned i = 0; i < group->n; i++) {
        struct sl_decision *d = &group->buckets[i].last;

        if (allowed)
            spend(group, i, d);
        else if (d->allowed && !same)
            unspend(group, i, d);
        ret_decisions[i] = *d;
    }
    group->decided = true;
    group->last_allowed = allowed;
    group->allowed += allowed;
    return allowed;
}

int sl_answer_end(const struct sl_answer_group *group)
{
    return group->failed || group->allowed == group->claimed ? 0 : SL_EFORMAT;
}

int sl_answer_refund(struct sl_answer *answer, unsigned *ret_given)
{
    const uint8_t *p = take(answer, 2);

    if (!p)
        return SL_EFORMAT;
    *ret_given = (unsigned)sl_get(p, 2);
    return 0;
}
