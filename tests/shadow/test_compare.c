/* What is counted of two policies' decisions, per limit and per key. */
#include "shadow/compare.h"
#include "shadow/dry.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct sl_comparison comparison;

static int open_comparison(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();

    (void)state;
    return sl_comparison_init(&comparison, &alloc);
}

static int close_comparison(void **state)
{
    (void)state;
    sl_comparison_fini(&comparison);
    return 0;
}

static struct sluice_request request_of(const char *key)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    return request;
}

static enum sl_outcome add(const char *key, bool live, const char *by, bool candidate, const char *candidate_by)
{
    struct sluice_request request = request_of(key);
    const struct sl_decided first = {live, by}, second = {candidate, candidate_by};
    enum sl_outcome outcome;

    sl_comparison_add(&comparison, sl_comparison_generation(&comparison), &request, &first, &second, &outcome);
    return outcome;
}

static json_int_t number(const json_t *value, const char *name)
{
    const json_t *found = json_object_get(value, name);

    assert_true(json_is_integer(found));
    return json_integer_value(found);
}

static const char *text(const json_t *value, const char *name)
{
    return json_string_value(json_object_get(value, name));
}

static void counts_per_limit_and_per_key(void **state)
{
    json_t *value, *row, *keys;

    (void)state;
    assert_int_equal(add("a", true, "free", true, "basic"), SL_BOTH_ALLOWED);
    assert_int_equal(add("a", false, "free", false, "basic"), SL_BOTH_REJECTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(add("b", true, "free", false, "burst"), SL_NEWLY_REJECTED);
    assert_int_equal(add("c", false, "free", true, "basic"), SL_NEWLY_ALLOWED);
    value = sl_comparison_json(&comparison);
    assert_non_null(value);
    row = json_array_get(json_object_get(value, "limits"), 0);
    assert_string_equal(text(row, "name"), "burst"); /* most differences first */
    assert_int_equal(number(row, "newlyRejected"), 3);
    row = json_array_get(json_object_get(value, "limits"), 1);
    assert_string_equal(text(row, "name"), "basic");
    assert_int_equal(number(row, "allowed"), 1);
    assert_int_equal(number(row, "rejected"), 1);
    assert_int_equal(number(row, "newlyAllowed"), 1);
    assert_int_equal(json_array_size(json_object_get(value, "liveLimits")), 1);
    row = json_array_get(json_object_get(value, "liveLimits"), 0);
    assert_int_equal(number(row, "newlyRejected"), 3);
    assert_int_equal(number(row, "newlyAllowed"), 1);
    keys = json_object_get(json_object_get(value, "keys"), "newlyRejected");
    assert_int_equal(json_array_size(keys), 1);
    row = json_array_get(keys, 0);
    assert_string_equal(text(row, "key"), "b");
    assert_string_equal(text(row, "keyType"), "api_key");
    assert_string_equal(text(row, "limit"), "burst"); /* which one is to blame */
    assert_int_equal(number(row, "atLeast"), 3);
    assert_int_equal(number(row, "atMost"), 3);
    keys = json_object_get(json_object_get(value, "keys"), "newlyAllowed");
    assert_string_equal(text(json_array_get(keys, 0), "limit"), "free");
    json_decref(value);
}

/* A policy may have 100,000 limits; what is kept is bounded, and nothing is lost of the sums. */
static void many_limits_are_bounded(void **state)
{
    const unsigned n = SL_COMPARED_LIMITS_MAX + 100;
    struct sl_compared compared;
    json_t *value, *limits, *row;
    char name[32];

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof name, "limit-%u", i);
        add("k", true, "free", false, name);
    }
    sl_comparison_read(&comparison, &compared);
    assert_int_equal(compared.n[SL_NEWLY_REJECTED], n);
    assert_int_equal(comparison.candidate.n, SL_COMPARED_LIMITS_MAX);
    value = sl_comparison_json(&comparison);
    limits = json_object_get(value, "limits");
    assert_int_equal(json_array_size(limits), SL_COMPARED_SHOWN + 1);
    row = json_array_get(limits, SL_COMPARED_SHOWN);
    assert_string_equal(text(row, "name"), "other");
    assert_int_equal(number(row, "newlyRejected"), 100);
    assert_int_equal(json_array_size(json_object_get(json_object_get(value, "keys"), "newlyRejected")),
                     SL_COMPARED_KEYS_SHOWN);
    json_decref(value);
}

/* What a candidate decided that has been replaced meanwhile is not counted for the next one. */
static void an_earlier_generation_is_not_counted(void **state)
{
    unsigned before = sl_comparison_generation(&comparison);
    struct sluice_request request = request_of("k");
    const struct sl_decided live = {true, "free"}, candidate = {false, "basic"};
    struct sl_compared compared;
    enum sl_outcome outcome;

    (void)state;
    sl_comparison_clear(&comparison);
    sl_comparison_add(&comparison, before, &request, &live, &candidate, &outcome);
    sl_comparison_undecided(&comparison, before);
    sl_comparison_read(&comparison, &compared);
    assert_int_equal(compared.n[SL_NEWLY_REJECTED] + compared.undecided, 0);
}

/* A heavy key among very many rare ones is found, with bounds that hold. */
static void a_heavy_key_is_never_missed(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_pairs *pairs;
    struct sluice_request heavy = request_of("heavy");
    json_t *value, *row;
    char key[32];

    (void)state;
    assert_int_equal(sl_pairs_new(&alloc, &pairs), 0);
    for (unsigned i = 0; i < 20000; i++) {
        struct sluice_request rare;

        snprintf(key, sizeof key, "rare-%u", i);
        rare = request_of(key);
        sl_pairs_add(pairs, "free", &rare);
        if (i % 20 == 0)
            sl_pairs_add(pairs, "free", &heavy);
    }
    value = sl_pairs_json(pairs, 1);
    row = json_array_get(value, 0);
    assert_string_equal(text(row, "key"), "heavy");
    assert_in_range(number(row, "atLeast"), 500, 1000);
    assert_in_range(number(row, "atMost"), 1000, 2000);
    json_decref(value);
    sl_free(&alloc, pairs);
}

/* The same key under two limits, and the same text of two types, are different pairs. */
static void pairs_are_told_apart(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_pairs *pairs;
    struct sluice_request request = request_of("k"), user = request_of("k"), named = request_of("k");
    json_t *value;

    (void)state;
    user.key_type = "user", user.key_type_len = 4;
    named.key_type = "api_key", named.key_type_len = 7;
    assert_int_equal(sl_pairs_new(&alloc, &pairs), 0);
    sl_pairs_add(pairs, "free", &request);
    sl_pairs_add(pairs, "burst", &request);
    sl_pairs_add(pairs, "free", &user);
    sl_pairs_add(pairs, "free", &named); /* the default by its name */
    value = sl_pairs_json(pairs, 10);
    assert_int_equal(json_array_size(value), 3);
    assert_int_equal(number(json_array_get(value, 0), "atLeast"), 2);
    json_decref(value);
    sl_free(&alloc, pairs);
}

static void keys_are_shown_safely(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_pairs *pairs;
    char bytes[200];
    struct sluice_request request = SLUICE_REQUEST_INIT;
    const char *shown;
    json_t *value;

    (void)state;
    memset(bytes, 'a', sizeof bytes);
    bytes[1] = (char)0xff;
    bytes[2] = 0x1b;
    request.key = bytes, request.key_len = sizeof bytes;
    assert_int_equal(sl_pairs_new(&alloc, &pairs), 0);
    sl_pairs_add(pairs, "free", &request);
    value = sl_pairs_json(pairs, 10);
    shown = text(json_array_get(value, 0), "key");
    assert_non_null(shown);
    assert_memory_equal(shown,
                        "a\xef\xbf\xbd\xef\xbf\xbd"
                        "a",
                        8);
    assert_string_equal(shown + strlen(shown) - 3, "\xe2\x80\xa6");
    json_decref(value);
    sl_free(&alloc, pairs);
}

/* Loops count apart; a report has them together. */
static void dry_runs_are_joined(void **state)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sluice_request request = request_of("k"), other = request_of("other");
    struct sluice_verdict verdict = {.allowed = true, .dry_run = true, .dry_run_policy = "new"};
    struct sl_dry *dry;
    uint64_t n;
    json_t *value, *row;

    (void)state;
    assert_int_equal(sl_dry_new(&alloc, &dry), 0);
    for (unsigned loop = 0; loop < 3; loop++)
        sl_dry_saw(dry, loop, &request, &verdict);
    sl_dry_saw(dry, 256, &other, &verdict);
    value = sl_dry_json(dry, &n);
    assert_int_equal(n, 4);
    assert_int_equal(json_array_size(value), 2);
    row = json_array_get(value, 0);
    assert_string_equal(text(row, "key"), "k");
    assert_string_equal(text(row, "limit"), "new");
    assert_int_equal(number(row, "atLeast"), 3);
    assert_int_equal(number(row, "atMost"), 3);
    json_decref(value);
    sl_dry_clear(dry);
    value = sl_dry_json(dry, &n);
    assert_int_equal(n + json_array_size(value), 0);
    json_decref(value);
    sl_dry_free(dry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_per_limit_and_per_key, open_comparison, close_comparison),
        cmocka_unit_test_setup_teardown(many_limits_are_bounded, open_comparison, close_comparison),
        cmocka_unit_test_setup_teardown(an_earlier_generation_is_not_counted, open_comparison, close_comparison),
        cmocka_unit_test(a_heavy_key_is_never_missed),
        cmocka_unit_test(pairs_are_told_apart),
        cmocka_unit_test(keys_are_shown_safely),
        cmocka_unit_test(dry_runs_are_joined),
    };

    return cmocka_run_group_tests_name("shadow comparison", tests, NULL, NULL);
}
