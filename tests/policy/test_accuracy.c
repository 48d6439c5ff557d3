/* `policy explain` on coordination: the formula of each, with the right numbers, and as docs/policy.md has it. */
#include "support.h"

#include "policy/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Explains a request of cost `cost` (-1: not given) against one limit, which lands in bucket 0. */
static json_t *explain(const char *fields, int64_t cost, unsigned instances)
{
    char text[600];
    struct sluice_request request = request_of("k", NULL);
    struct loaded loaded;
    json_t *e;

    snprintf(text, sizeof text, "version: 1\nlimits:\n  - {name: l, %s}\n", fields);
    loaded = load_with_store(text);
    if (loaded.rc != 0)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.rc, 0);
    request.cost = cost;
    e = sl_policy_explain_json(loaded.policy, &request, instances);
    unload(&loaded);
    return e;
}

static json_t *bucket_of(json_t *e, size_t i)
{
    json_t *bucket = json_array_get(json_object_get(e, "buckets"), i);

    assert_non_null(bucket);
    return bucket;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

struct row {
    const char *coordination; /* in the table of docs/policy.md */
    const char *fields;
    int64_t cost;
    unsigned instances;
    const char *kind, *formula, *numbers;
    json_int_t tokens;
    const char *also;
};

#define LEASED "instances x max(1, floor(2 % x limit / instances))"
#define SPLIT "limit - 2 x floor(limit / parts) + 2 x (cost - 1)"
#define SYNCED                                                                                              \
    "share + (instances - 1) + first x joining, share = max(1, floor(COUNT x interval / PERIOD)), first = " \
    "max(1, floor(share / instances))"
#define AUTO "instances x floor(2 % x limit / instances)"

static const struct row rows[] = {
    {"local", "rate: 100/m, coordination: local", -1, 4, "over", "(instances - 1) x limit", "(4 - 1) x 100", 300,
     "4 x 100/m"},
    {"local", "rate: 100/m, coordination: local", -1, 1, "over", "(instances - 1) x limit", "(1 - 1) x 100", 0, ""},
    {"shared", "rate: 100/m, coordination: shared", -1, 4, "exact", "exact", "", 0, ""},
    {"leased", "rate: 5000/m, coordination: leased", -1, 4, "over", LEASED, "4 x max(1, floor(2 % x 5000 / 4))", 100,
     "for 1000 ms (ttl)"},
    {"leased", "rate: 5000/m, burst: 1000, coordination: leased", -1, 3, "over", LEASED,
     "3 x max(1, floor(2 % x 1000 / 3))", 18, "the long-run rate never"},
    {"leased", "rate: 100/m, coordination: leased, lease: {ttl: 250ms}", -1, 8, "over", LEASED,
     "8 x max(1, floor(2 % x 100 / 8))", 8, "for 250 ms (ttl)"},
    {"leased", "rate: 5000/m, coordination: leased, lease: {block: 100}", -1, 4, "over", "instances x block", "4 x 100",
     400, "the long-run rate never"},
    {"split", "rate: 5000/m, coordination: split, split: 4", 10, 9, "early", SPLIT,
     "5000 - 2 x floor(5000 / 4) + 2 x (10 - 1)", 2518, "a cost above 1250 fits in no part"},
    {"split", "rate: 103/m, coordination: split, split: 2", -1, 9, "early", SPLIT,
     "103 - 2 x floor(103 / 2) + 2 x (1 - 1)", 1, "never over"},
    {"split", "rate: 100/m, coordination: split, split: 2", 1000000000, 1, "early", SPLIT,
     "100 - 2 x floor(100 / 2) + 2 x (1000000000 - 1)", 100, "a cost above 50 fits in no part"},
    {"synced", "rate: 1000/s, coordination: synced", -1, 4, "over", SYNCED, "250 + (4 - 1) + 62 x joining", 253,
     "every 250 ms"},
    {"synced", "rate: 60/m, coordination: synced, sync: {interval: 1s}", -1, 1, "over", SYNCED,
     "1 + (1 - 1) + 1 x joining", 1, "every 1000 ms"},
    {"synced", "rate: 7/h, coordination: synced", -1, 2, "over", SYNCED, "1 + (2 - 1) + 1 x joining", 2, ""},
    {"synced", "rate: 1000/ms, burst: 20, coordination: synced", -1, 1, "over", SYNCED, "20 + (1 - 1) + 20 x joining",
     20, ""},
    {"auto", "rate: 5000/m", -1, 4, "over", AUTO, "4 x floor(2 % x 5000 / 4)", 100, "only while it is hot"},
    {"auto", "rate: 400/m", -1, 4, "over", AUTO, "4 x floor(2 % x 400 / 4)", 8, ""},
    {"auto", "rate: 399/m", -1, 4, "exact", "exact", "", 0, "floor(2 % x 399 / 4) = 1, would be less than 2"},
    {"auto", "rate: 5000/m, algorithm: leaky_bucket", -1, 4, "exact", "exact", "", 0,
     "a leaky_bucket cannot be leased"},
    {"auto", "rate: 5000/m, algorithm: fixed_window", -1, 2, "over", AUTO, "2 x floor(2 % x 5000 / 2)", 100, ""},
};
#define ROWS (sizeof rows / sizeof rows[0])

static void b142_every_coordination_states_its_bound(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        json_t *e = explain(rows[i].fields, rows[i].cost, rows[i].instances);
        json_t *accuracy = json_object_get(bucket_of(e, 0), "accuracy");

        if (strcmp(text_of(accuracy, "kind"), rows[i].kind) != 0 ||
            strcmp(text_of(accuracy, "formula"), rows[i].formula) != 0 ||
            strcmp(text_of(accuracy, "numbers"), rows[i].numbers) != 0 ||
            json_integer_value(json_object_get(accuracy, "tokens")) != rows[i].tokens ||
            !strstr(text_of(accuracy, "also"), rows[i].also)) {
            json_dumpf(accuracy, stderr, JSON_INDENT(1));
            fail_msg("row %zu: %s", i, rows[i].fields);
        }
        assert_int_equal(json_integer_value(json_object_get(e, "instances")), rows[i].instances);
        json_decref(e);
    }
}

/* All blocks together are at most 2 % of the limit, whatever the number of instances: that is what `auto` promises. */
static void auto_never_exceeds_two_percent(void **state)
{
    (void)state;
    for (unsigned instances = 1; instances <= 1000; instances = instances * 3 / 2 + 1)
        for (uint32_t limit = 1; limit < 1000000; limit = limit * 2 + limit / 3 + 1) {
            char fields[64];
            json_t *e, *accuracy;
            json_int_t tokens;

            snprintf(fields, sizeof fields, "rate: %u/s", limit);
            e = explain(fields, -1, instances);
            accuracy = json_object_get(bucket_of(e, 0), "accuracy");
            tokens = json_integer_value(json_object_get(accuracy, "tokens"));
            assert_true(tokens * 50 <= (json_int_t)limit);
            assert_true(tokens == 0 || tokens >= 2 * (json_int_t)instances);
            json_decref(e);
        }
}

static char *read_docs(void)
{
    FILE *f = fopen(SLUICE_SOURCE_DIR "/docs/policy.md", "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* The row of the table that begins with the coordination's word has the formula. */
static void the_docs_have_the_same_formulas(void **state)
{
    char *docs = read_docs();

    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        char start[64], formula[200];
        const char *row, *end, *found;

        snprintf(start, sizeof start, "\n| `%s` |", rows[i].coordination);
        snprintf(formula, sizeof formula, "`%s`", rows[i].formula);
        row = strstr(docs, start);
        end = row ? strchr(row + 1, '\n') : NULL;
        found = row ? strstr(row, formula) : NULL;
        if (!found || !end || found > end)
            fail_msg("docs/policy.md does not have %s for %s", formula, rows[i].coordination);
    }
    free(docs);
}

/* ---- pre-filters and outages ------------------------------------------------------------------------------------ */

static void pre_filters_and_outages_are_told_with_numbers(void **state)
{
    static const struct {
        const char *fields;
        unsigned instances;
        const char *filter, *outage;
    } cases[] = {
        {"rate: 100/m, on_store_failure: local", 4, "200/m in each instance (the limit x 2)",
         "local: leased tokens, then limit / 4 in each instance, at least 1: 25/m; an outage lets through at most one "
         "burst more, 4 x 25 = 100, and 4 x 25/m while it lasts"},
        {"rate: 100/m, burst: 250, local_factor: 1.5, coordination: shared", 3,
         "150/m burst 375 in each instance (the limit x 1.5)",
         "local: limit / 3 in each instance, at least 1: 33/m burst 83; an outage lets through at most one burst more, "
         "3 x 83 = 249, and 3 x 33/m while it lasts"},
        {"rate: 5/15m, algorithm: fixed_window, coordination: shared", 8, "10/15m in each instance (the limit x 2)",
         "local: limit / 8 in each instance, at least 1: 1/15m; an outage lets through at most one burst more, "
         "8 x 1 = 8, and 8 x 1/15m while it lasts"},
        {"rate: 100/m, burst: 250, local_factor: per_instance, on_store_failure: open", 4,
         "25/m burst 62 in each instance (the limit / 4)",
         "open: allowed, as far as the pre-filter goes: 25/m burst 62 in each instance (the limit / 4)"},
        {"rate: 100/m, on_store_failure: closed", 1, "200/m in each instance (the limit x 2)",
         "closed: rejected as store_unavailable, to come again when the store is tried next, in 1 s or more"},
        {"rate: 100/m, coordination: local, on_store_failure: closed", 4, "",
         "closed: no effect, the store is never asked"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *e = explain(cases[i].fields, -1, cases[i].instances);

        assert_string_equal(text_of(bucket_of(e, 0), "pre_filter"), cases[i].filter);
        assert_string_equal(text_of(bucket_of(e, 0), "on_store_failure"), cases[i].outage);
        json_decref(e);
    }
}

/* A share of a slow rate must fill within 100 years too: 1/366d with a burst of 99 becomes that of what fills in time. */
static void shares_of_slow_rates_stay_legal(void **state)
{
    json_t *e = explain("rate: 3/366d, burst: 290, coordination: shared", -1, 2);

    (void)state;
    /* 290 / 2 = 145 at 1/366d would take 145 years */
    assert_non_null(strstr(text_of(bucket_of(e, 0), "on_store_failure"), "1/366d burst 99;"));
    json_decref(e);
}

static void on_the_memory_store_everything_is_exact(void **state)
{
    struct sl_policy *policy = must_load("version: 1\nlimits: [{name: l, rate: 5000/m, coordination: leased}]\n");
    struct sluice_request request = request_of("k", NULL);
    json_t *e = sl_policy_explain_json(policy, &request, 4), *accuracy = json_object_get(bucket_of(e, 0), "accuracy");

    (void)state;
    assert_string_equal(text_of(accuracy, "kind"), "exact");
    assert_null(json_object_get(e, "instances"));
    assert_null(json_object_get(bucket_of(e, 0), "pre_filter"));
    assert_string_equal(text_of(bucket_of(e, 0), "on_store_failure"),
                        "local: no effect on the memory store, which does not fail");
    json_decref(e);
    sl_policy_unref(policy);
}

/* ---- the ceiling ------------------------------------------------------------------------------------------------ */

/* Each bucket says what of it the ceiling has cut, not what of its limit. */
static void what_the_ceiling_cut_is_told_of_each_bucket(void **state)
{
    struct sl_policy *policy =
        must_load("version: 1\nceiling: {rate: 50/s, burst: 60}\nlimits:\n"
                  "  - {name: a, rates: [{rate: 40/s, burst: 100}, {rate: 90/s, burst: 50}, 30/s, 100/s]}\n"
                  "  - {name: b, layer: b, rate: unlimited}\n"
                  "  - {name: c, layer: c, rate: 100/s, algorithm: sliding_window_log}\n");
    static const struct {
        const char *cut[2], *written;
    } cases[] = {{{"burst"}, "40/s burst 100"}, {{"rate"}, "90/s burst 50"}, {{NULL}, "30/s"},
                 {{"rate", "burst"}, "100/s"},  {{"rate"}, "unlimited"},     {{"COUNT"}, "100/s"}};
    struct sluice_request request = request_of("k", NULL);
    json_t *e = sl_policy_explain_json(policy, &request, 1);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *bucket = bucket_of(e, i), *cut = json_object_get(bucket, "cut");
        size_t n = (cases[i].cut[0] != NULL) + (cases[i].cut[1] != NULL);

        assert_string_equal(text_of(bucket, "written"), cases[i].written);
        assert_int_equal(json_array_size(cut), n);
        assert_int_equal(json_is_true(json_object_get(bucket, "capped")), n > 0);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(json_string_value(json_array_get(cut, k)), cases[i].cut[k]);
    }
    json_decref(e);
    sl_policy_unref(policy);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void the_text_has_formula_numbers_and_result(void **state)
{
    struct loaded loaded = load_with_store("version: 1\nceiling: {rate: 500/s, burst: 4000}\nlimits:\n"
                                           "  - {name: l, rate: 5000/m, coordination: leased}\n");
    struct sluice_request request = request_of("k", NULL);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    sl_policy_explain_text(loaded.policy, &request, 4, out);
    fclose(out);
    assert_non_null(strstr(text, "\ninstances 4\n"));
    assert_non_null(strstr(text, "bucket l: token_bucket 5000/m burst 4000 (the ceiling's burst; written 5000/m)"));
    assert_non_null(strstr(text, "\n  accuracy over by at most instances x max(1, floor(2 % x limit / instances)) = "
                                 "4 x max(1, floor(2 % x 4000 / 4)): 80 tokens\n"));
    assert_non_null(strstr(text, "\n  before the store 10000/m burst 8000 in each instance (the limit x 2)\n"));
    free(text);
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b142_every_coordination_states_its_bound),
        cmocka_unit_test(auto_never_exceeds_two_percent),
        cmocka_unit_test(the_docs_have_the_same_formulas),
        cmocka_unit_test(pre_filters_and_outages_are_told_with_numbers),
        cmocka_unit_test(shares_of_slow_rates_stay_legal),
        cmocka_unit_test(on_the_memory_store_everything_is_exact),
        cmocka_unit_test(what_the_ceiling_cut_is_told_of_each_bucket),
        cmocka_unit_test(the_text_has_formula_numbers_and_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
