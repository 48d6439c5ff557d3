/* Every case of tests/data/vectors.jsonl through script and module in a real redis-server, every field of every
 * step. */
#include "door.h"
#include "redis.h"

#include "../core/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const fields[] = {"limit", "remaining", "retryAfterMs", "resetAfterMs", "delayMs"};
static struct redis server;

struct limit_under_test {
    unsigned n;
    struct sl_shape shapes[SL_RATES_MAX];
    char keys[SL_RATES_MAX][32];
    struct subject subject;
};

static void add_rate(struct limit_under_test *l, enum sl_algorithm algorithm, const json_t *rate, uint32_t burst)
{
    const char *text = json_string_value(rate);

    if (json_is_object(rate)) {
        text = json_string_value(json_object_get(rate, "rate"));
        burst = (uint32_t)json_integer_value(json_object_get(rate, "burst"));
    }
    assert_non_null(text);
    assert_true(l->n < SL_RATES_MAX);
    l->shapes[l->n++] = world_shape(algorithm, text, burst);
}

static void read_limit(struct limit_under_test *l, const json_t *spec, unsigned id)
{
    const char *name = json_string_value(json_object_get(spec, "algorithm"));
    const json_t *rates = json_object_get(spec, "rates");
    enum sl_algorithm algorithm;

    memset(l, 0, sizeof *l);
    assert_int_equal(sl_algorithm_parse(name, strlen(name), &algorithm), 0);
    if (!rates)
        add_rate(l, algorithm, json_object_get(spec, "rate"),
                 (uint32_t)json_integer_value(json_object_get(spec, "burst")));
    for (size_t i = 0; i < json_array_size(rates); i++)
        add_rate(l, algorithm, json_array_get(rates, i), 0);
    l->subject.n = l->n;
    for (unsigned i = 0; i < l->n; i++) {
        snprintf(l->keys[i], sizeof l->keys[i], "v:{%u}:%u", id, i);
        l->subject.keys[i] = l->keys[i];
        l->subject.shapes[i] = &l->shapes[i];
    }
}

/* The rate that rejects, with the longest wait (-1 beats any); else the one with the least left. Ties in file order. */
static bool reports_before(bool allowed, const struct sl_numbers *x, const struct sl_numbers *y)
{
    if (allowed)
        return x->remaining * y->limit < y->remaining * x->limit;
    return y->retry_after_ms >= 0 && (x->retry_after_ms < 0 || x->retry_after_ms > y->retry_after_ms);
}

static struct sl_numbers reported(const struct limit_under_test *l, bool allowed, const struct sl_decision *decisions)
{
    struct sl_numbers best = {0};
    bool first = true;

    for (unsigned i = 0; i < l->n; i++) {
        struct sl_numbers n;

        sl_decision_numbers(&l->shapes[i], &decisions[i], &n);
        if (decisions[i].allowed != allowed)
            continue;
        if (first || reports_before(allowed, &n, &best))
            best = n;
        first = false;
    }
    return best;
}

static void check_step(const struct limit_under_test *l, enum door door, uint64_t now_us, const json_t *step,
                       const char *name)
{
    const json_t *expect = json_object_get(step, "expect");
    uint32_t costs[SL_RATES_MAX];
    struct sl_decision decisions[SL_RATES_MAX];
    bool allowed;
    struct sl_numbers n;

    for (unsigned i = 0; i < l->n; i++)
        costs[i] = (uint32_t)json_integer_value(json_object_get(step, "cost"));
    allowed = door_decide(server.c, door, &l->subject, now_us, costs, decisions);
    n = reported(l, allowed, decisions);
    const int64_t got[] = {n.limit, n.remaining, n.retry_after_ms, n.reset_after_ms, n.delay_ms};
    if (allowed != json_is_true(json_object_get(expect, "allowed")))
        fail_msg("%s, %s at %llu: allowed is %d", door_names[door], name, (unsigned long long)now_us, allowed);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *want = json_object_get(expect, fields[i]);

        assert_true(json_is_integer(want));
        if (json_integer_value(want) != got[i])
            fail_msg("%s, %s at %llu: %s is %lld, not %lld", door_names[door], name, (unsigned long long)now_us,
                     fields[i], (long long)got[i], (long long)json_integer_value(want));
    }
}

/* `alternate`: each step through the other door, on the same keys. */
static void check_case(const json_t *c, enum door door, bool alternate, unsigned id)
{
    const json_t *steps = json_object_get(c, "steps");
    struct limit_under_test l;
    uint64_t now_us = 0;

    read_limit(&l, json_object_get(c, "limit"), id);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        uint64_t t_us = (uint64_t)json_integer_value(json_object_get(step, "t_us"));

        now_us = t_us > now_us ? t_us : now_us;
        check_step(&l, alternate ? (enum door)((door + i) % DOORS) : door, now_us, step,
                   json_string_value(json_object_get(c, "case")));
    }
}

static void check_all(enum door door, bool alternate)
{
    FILE *f = fopen(SLUICE_SOURCE_DIR "/tests/data/vectors.jsonl", "r");
    unsigned n_cases = 0;
    json_error_t error;
    json_t *c;

    assert_non_null(f);
    redis_run(server.c, "FLUSHALL");
    while ((c = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error))) {
        check_case(c, door, alternate, n_cases);
        json_decref(c);
        n_cases++;
    }
    fclose(f);
    assert_int_equal(n_cases, 370);
}

static void script_answers_every_vector(void **state)
{
    (void)state;
    check_all(DOOR_SCRIPT, false);
}

static void module_answers_every_vector(void **state)
{
    (void)state;
    check_all(DOOR_MODULE, false);
}

static void both_answer_every_vector_step_by_step_on_the_same_keys(void **state)
{
    (void)state;
    check_all(DOOR_SCRIPT, true);
}

static int set_up(void **state)
{
    (void)state;
    server = redis_start(NULL);
    door_open(server.c);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script_answers_every_vector),
        cmocka_unit_test(module_answers_every_vector),
        cmocka_unit_test(both_answer_every_vector_step_by_step_on_the_same_keys),
    };

    return cmocka_run_group_tests_name("store vectors", tests, set_up, tear_down);
}
