/* Every case of tests/data/vectors.jsonl, every field of every step. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const fields[] = {"limit", "remaining", "retryAfterMs", "resetAfterMs", "delayMs"};

static void add_rate(struct limit *l, enum sl_algorithm algorithm, const json_t *rate, uint32_t burst)
{
    const char *text = json_string_value(rate);

    if (json_is_object(rate)) {
        text = json_string_value(json_object_get(rate, "rate"));
        burst = (uint32_t)json_integer_value(json_object_get(rate, "burst"));
    }
    assert_non_null(text);
    assert_true(l->n_buckets < WORLD_RATES_MAX);
    l->buckets[l->n_buckets++] = bucket_of(algorithm, text, burst);
}

static struct limit limit_of(const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "algorithm"));
    const json_t *rates = json_object_get(spec, "rates");
    struct limit l = {0};
    enum sl_algorithm algorithm;

    assert_non_null(name);
    assert_int_equal(sl_algorithm_parse(name, strlen(name), &algorithm), 0);
    if (!rates)
        add_rate(&l, algorithm, json_object_get(spec, "rate"),
                 (uint32_t)json_integer_value(json_object_get(spec, "burst")));
    for (size_t i = 0; i < json_array_size(rates); i++)
        add_rate(&l, algorithm, json_array_get(rates, i), 0);
    return l;
}

static void check_step(struct limit *l, const json_t *step, const char *name, size_t idx)
{
    const json_t *expect = json_object_get(step, "expect");
    struct verdict v = limit_decide(l, (uint64_t)json_integer_value(json_object_get(step, "t_us")),
                                    (uint32_t)json_integer_value(json_object_get(step, "cost")));
    const int64_t got[] = {v.numbers.limit, v.numbers.remaining, v.numbers.retry_after_ms, v.numbers.reset_after_ms,
                           v.numbers.delay_ms};

    if (v.allowed != json_is_true(json_object_get(expect, "allowed")))
        fail_msg("%s step %zu: allowed is %d", name, idx, v.allowed);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *want = json_object_get(expect, fields[i]);

        assert_true(json_is_integer(want));
        if (json_integer_value(want) != got[i])
            fail_msg("%s step %zu: %s is %lld, not %lld", name, idx, fields[i], (long long)got[i],
                     (long long)json_integer_value(want));
    }
}

static void check_case(const json_t *c)
{
    const json_t *steps = json_object_get(c, "steps");
    struct limit l = limit_of(json_object_get(c, "limit"));

    assert_true(json_array_size(steps) > 0);
    for (size_t i = 0; i < json_array_size(steps); i++)
        check_step(&l, json_array_get(steps, i), json_string_value(json_object_get(c, "case")), i);
    limit_fini(&l);
}

static void every_vector_is_answered_to_the_last_field(void **state)
{
    FILE *f = fopen(SLUICE_SOURCE_DIR "/tests/data/vectors.jsonl", "r");
    unsigned n_cases = 0;
    json_error_t error;
    json_t *c;

    (void)state;
    assert_non_null(f);
    while ((c = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error))) {
        check_case(c);
        json_decref(c);
        n_cases++;
    }
    fclose(f);
    assert_int_equal(n_cases, 370);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_is_answered_to_the_last_field),
    };

    return cmocka_run_group_tests_name("core vectors", tests, NULL, NULL);
}
