/* Limits divided by regions: exact shares, buckets apart, and what is said about it. */
#include "support.h"

#include "core/limits.h"
#include "policy/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "version: 1\ndefaults: {on_store_failure: local}\n"
#define EU_US_AP "regions: {eu: 50%, us: 33.3333%, ap: 16.6667%}"

static struct sl_policy *must_load_in(const char *text, const char *region)
{
    struct loaded loaded = load_in_region(text, region);

    if (loaded.rc != 0)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.rc, 0);
    sl_diags_fini(&loaded.diags);
    return loaded.policy;
}

/* "COUNT limit" of one rate of the first limit. */
static void expect_shape(const char *text, const char *region, unsigned rate, uint32_t count, uint32_t limit)
{
    struct sl_policy *policy = must_load_in(text, region);
    const struct sl_limit *l = sl_policy_limit(policy, 0);

    assert_in_range(l->n_rates, rate + 1, SL_RATES_MAX);
    assert_int_equal(l->shapes[rate].count, count);
    assert_int_equal(l->shapes[rate].limit, limit);
    sl_policy_unref(policy);
}

static struct sl_hash128 bucket(const struct sl_policy *policy, const char *key, size_t item)
{
    struct sluice_request request = request_of(key, NULL);
    const struct sl_resolution *r = resolve(policy, &request);

    assert_in_range(r->n_items, item + 1, SL_ITEMS_MAX);
    return r->items[item].fp;
}

static bool same_bucket(const struct sl_policy *x, const struct sl_policy *y, size_t item)
{
    struct sl_hash128 a = bucket(x, "k", item), b = bucket(y, "k", item);

    return a.a == b.a && a.b == b.b;
}

/* ---- shares ----------------------------------------------------------------------------------------------------- */

static void a_region_has_its_share_of_count_and_burst(void **state)
{
    static const char bucket_of[] = HEAD "limits: [{name: a, rate: 100/s, burst: 1001, " EU_US_AP "}]\n";
    static const char rates[] = HEAD "limits: [{name: a, rates: [10/s, {rate: 1000/h, burst: 1500}], " EU_US_AP "}]\n";
    char text[300];

    (void)state;
    expect_shape(bucket_of, "eu", 0, 50, 500);
    expect_shape(bucket_of, "us", 0, 33, 333);
    expect_shape(bucket_of, "ap", 0, 16, 166);
    expect_shape(bucket_of, NULL, 0, 100, 1001);
    expect_shape(bucket_of, "", 0, 100, 1001);
    expect_shape(rates, "us", 0, 3, 3);
    expect_shape(rates, "us", 1, 333, 499);
    for (int a = SL_LEAKY_BUCKET; a < SL_ALGORITHMS; a++) {
        snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 99/s, algorithm: %s, %s}]\n",
                 sl_algorithm_name((enum sl_algorithm)a), EU_US_AP);
        expect_shape(text, "eu", 0, 49, 49);
        expect_shape(text, "ap", 0, 16, 16);
    }
    /* the last part per million counts */
    expect_shape(HEAD "limits: [{name: a, rate: 1000000/s, regions: {eu: 0.0001%, us: 99.9999%}}]\n", "eu", 0, 1, 1);
    expect_shape(HEAD "limits: [{name: a, rate: 1000000000/s, regions: {eu: 0.0001%, us: 99.9999%}}]\n", "us", 0,
                 999999000, 999999000);
}

static void a_share_is_at_least_one_and_says_so(void **state)
{
    static const char count[] = HEAD "limits: [{name: a, rate: 3/s, burst: 90, regions: {eu: 90%, us: 10%}}]\n";
    static const char burst[] = HEAD "limits: [{name: a, rate: 30/s, burst: 3, regions: {eu: 90%, us: 10%}}]\n";
    struct loaded loaded = load_in_region(count, "eu");

    (void)state;
    expect_warning(&loaded, 3, 51, "limits[0].regions", "region `us` in a COUNT of 3 is less than 1");
    unload(&loaded);
    loaded = load_text(burst); /* wherever it is looked at */
    expect_warning(&loaded, 3, 51, "limits[0].regions", "region `us` in a burst of 3 is less than 1");
    unload(&loaded);
    expect_shape(count, "us", 0, 1, 9);
    expect_shape(burst, "us", 0, 3, 1);
    loaded = load_in_region(HEAD "limits: [{name: a, rate: 10/s, regions: {eu: 90%, us: 10%}}]\n", "eu");
    expect_no_findings(&loaded);
    unload(&loaded);
}

/* Rounding COUNT down may slow a rate beyond the 100 years in which a bucket fills. */
static void a_burst_stays_one_that_fills_in_a_century(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 3/366d, burst: 290, regions: {eu: 60%}}]\n";

    (void)state;
    expect_shape(text, NULL, 0, 3, 290);
    expect_shape(text, "eu", 0, 1, 99); /* and not 174 */
}

static uint64_t random_u64(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint32_t random_in(uint64_t *state, uint32_t most)
{
    return 1 + (uint32_t)(random_u64(state) % most);
}

struct random_limit {
    char text[4096];
    unsigned n;
    uint32_t ppm[64], count, burst;
    bool windows;
};

/* COUNT and burst of any size, up to 64 shares that sum to at most 1,000,000. */
static void make_limit(uint64_t *seed, struct random_limit *l)
{
    uint32_t left = 1000000;
    int len;

    l->windows = random_u64(seed) & 1;
    l->count = random_in(seed, 1u << random_in(seed, 29));
    l->burst = l->windows ? l->count : random_in(seed, 1u << random_in(seed, 29));
    len = snprintf(l->text, sizeof l->text, HEAD "limits:\n  - {name: a, rate: %u/s, ", l->count);
    len += snprintf(l->text + len, sizeof l->text - (size_t)len,
                    l->windows ? "algorithm: fixed_window, regions: {" : "burst: %u, regions: {", l->burst);
    for (l->n = 0; l->n < 64 && left > 0 && (l->n == 0 || random_u64(seed) % 8); l->n++) {
        uint32_t ppm = random_u64(seed) % 4 ? random_in(seed, left) : random_in(seed, left < 20 ? left : 20);

        l->ppm[l->n] = ppm;
        left -= ppm;
        len += snprintf(l->text + len, sizeof l->text - (size_t)len, "%sr%u: %u.%04u%%", l->n ? ", " : "", l->n,
                        ppm / 10000, ppm % 10000);
    }
    snprintf(l->text + len, sizeof l->text - (size_t)len, "}}\n");
}

static uint32_t floor_share(uint32_t x, uint32_t ppm)
{
    return (uint32_t)((unsigned __int128)x * ppm / 1000000);
}

/* Each share is its floor, at least 1; all together are at most the limit, but for those that were less than 1. */
static void random_shares_never_sum_to_more_than_the_limit(void **state)
{
    uint64_t seed = 20260801;
    struct random_limit l;

    (void)state;
    for (int i = 0; i < 300; i++) {
        uint64_t count = 0, burst = 0, rounded_count = 0, rounded_burst = 0;

        make_limit(&seed, &l);
        for (unsigned k = 0; k < l.n; k++) {
            char region[16];
            struct sl_policy *policy;
            const struct sl_shape *shape;
            uint32_t c = floor_share(l.count, l.ppm[k]), b = floor_share(l.burst, l.ppm[k]);

            snprintf(region, sizeof region, "r%u", k);
            policy = must_load_in(l.text, region);
            shape = &sl_policy_limit(policy, 0)->shapes[0];
            assert_int_equal(shape->count, c ? c : 1);
            /* a burst that so slow a rate does not fill in 100 years is cut: 1/s fills 3 * 10^9 */
            assert_int_equal(shape->limit, b ? b : 1);
            rounded_count += c == 0;
            rounded_burst += b == 0;
            count += shape->count;
            burst += shape->limit;
            sl_policy_unref(policy);
        }
        assert_true(count - rounded_count <= l.count);
        assert_true(burst - rounded_burst <= l.burst);
    }
}

/* ---- the ceiling ------------------------------------------------------------------------------------------------ */

/* It caps the whole limit, and the regions divide what is left: no key gets more than the ceiling from all of them. */
static void the_ceiling_comes_before_the_region(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 1000/s, burst: 5000, regions: {eu: 60%, us: 40%}}]\n"
                                    "ceiling: {rate: 100/s, burst: 200}\n";
    static const char below[] = HEAD "limits: [{name: a, rate: 150/s, regions: {eu: 60%, us: 40%}}]\n"
                                     "ceiling: {rate: 100/s, burst: 200}\n";
    static const char unlimited[] = HEAD "limits: [{name: a, rate: unlimited, regions: {eu: 60%, us: 40%}}]\n"
                                         "ceiling: {rate: 100/s, burst: 200}\n";
    static const char window[] = HEAD "limits: [{name: a, rate: 9000/m, algorithm: fixed_window, "
                                      "regions: {eu: 60%, us: 40%}}]\nceiling: {rate: 100/s, burst: 7000}\n";

    (void)state;
    expect_shape(text, "eu", 0, 60, 120);
    expect_shape(text, "us", 0, 40, 80);
    expect_shape(below, "eu", 0, 60, 90);
    expect_shape(unlimited, "us", 0, 40, 80);
    expect_shape(window, "eu", 0, 3600, 3600);
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static const char two[] = HEAD "limits:\n  - {name: a, rate: 100/s, regions: {eu: 60%, us: 40%}}\n"
                               "  - {name: b, layer: b, rate: 100/s}\n";

static void regions_keep_their_buckets_apart(void **state)
{
    struct sl_policy *eu = must_load_in(two, "eu"), *us = must_load_in(two, "us"), *none = must_load_in(two, NULL);
    struct sl_policy *again = must_load_in(two, "eu");
    struct sluice_request request = request_of("k", NULL);
    struct sl_hash128 owner = resolve(eu, &request)->key_hash, other = resolve(us, &request)->key_hash;

    (void)state;
    assert_false(same_bucket(eu, us, 0));
    assert_false(same_bucket(eu, none, 0));
    assert_false(same_bucket(us, none, 0));
    assert_true(same_bucket(eu, again, 0));
    assert_true(same_bucket(eu, us, 1)); /* a limit that is not divided is everybody's */
    assert_true(same_bucket(eu, none, 1));
    assert_true(owner.a == other.a && owner.b == other.b); /* in the store beside the key's other buckets */
    sl_policy_unref(eu);
    sl_policy_unref(us);
    sl_policy_unref(none);
    sl_policy_unref(again);
}

static void other_shares_keep_the_buckets(void **state)
{
    struct sl_policy *before = must_load_in(two, "eu");
    struct sl_policy *after =
        must_load_in(HEAD "limits:\n  - {name: a, rate: 300/s, regions: {us: 10%, eu: 20%}}\n", "eu");

    (void)state;
    assert_true(same_bucket(before, after, 0));
    sl_policy_unref(before);
    sl_policy_unref(after);
}

/* The name of a region is not taken for that of a label. */
static void a_region_is_no_label(void **state)
{
    struct sl_policy *label = must_load_in(HEAD "limits: [{name: a, rate: 9/s, per: [label.a, label.eu]}]\n", "eu");
    struct sl_policy *region =
        must_load_in(HEAD "limits: [{name: a, rate: 9/s, per: [label.a], regions: {eu: 100%}}]\n", "eu");
    struct sl_hash128 x = sl_policy_limit(label, 0)->seeds[0], y = sl_policy_limit(region, 0)->seeds[0];

    (void)state;
    assert_true(x.a != y.a && x.b != y.b);
    sl_policy_unref(label);
    sl_policy_unref(region);
}

/* ---- regions that are not named, and none ------------------------------------------------------------------------ */

static void a_region_that_is_not_named_has_the_smallest_share_and_is_warned_of(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 100/s, regions: {eu: 60%, us: 12.5%, ap: 20%}}]\n";
    struct loaded loaded = load_in_region(text, "sa");
    struct sl_policy *us = must_load_in(text, "us");

    (void)state;
    assert_int_equal(loaded.diags.n, 1);
    expect_warning(&loaded, 3, 42, "limits[0].regions",
                   "region `sa`, where this instance is, has no share: it gets "
                   "the smallest one, 12.5000%");
    assert_int_equal(sl_policy_limit(loaded.policy, 0)->shapes[0].count, 12);
    assert_false(same_bucket(loaded.policy, us, 0));
    assert_string_equal(sl_policy_region(loaded.policy), "sa");
    sl_policy_unref(us);
    unload(&loaded);
    loaded = load_in_region(text, "ap");
    expect_no_findings(&loaded);
    unload(&loaded);
}

static void without_a_region_the_whole_limit_counts_and_is_warned_of(void **state)
{
    struct loaded loaded = load_in_region(two, NULL);

    (void)state;
    assert_int_equal(loaded.diags.n, 1);
    expect_warning(&loaded, 4, 37, "limits[0].regions", "no region: it counts the whole limit");
    assert_null(sl_policy_region(loaded.policy));
    unload(&loaded);
    loaded = load_text(two); /* looked at for all regions */
    expect_no_findings(&loaded);
    unload(&loaded);
}

static void names_of_regions(void **state)
{
    char longest[65];

    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[64] = '\0';
    assert_true(sl_region_is_valid("eu-west_1.b"));
    assert_true(sl_region_is_valid(longest + 1));
    assert_false(sl_region_is_valid(longest));
    assert_false(sl_region_is_valid(""));
    assert_false(sl_region_is_valid("EU"));
    assert_false(sl_region_is_valid("e u"));
}

/* ---- the shared tier -------------------------------------------------------------------------------------------- */

static void filters_and_parts_are_of_the_share(void **state)
{
    struct sl_policy *policy = must_load_in(
        HEAD "limits: [{name: a, rate: 1000/s, coordination: split, split: 3, regions: {eu: 60%, us: 40%}}]\n", "us");
    const struct sl_limit_shared *shared = sl_policy_limit(policy, 0)->shared;
    uint32_t sum = 0;

    (void)state;
    assert_int_equal(shared->filters[0].count, 800);
    for (unsigned i = 0; i < shared->n_parts; i++)
        sum += shared->parts[0][i].limit;
    assert_int_equal(sum, 400);
    sl_policy_unref(policy);
}

/* A policy that one region cannot hold is refused in every one, also where it is pushed from. */
static void a_policy_is_good_for_all_regions_or_for_none(void **state)
{
    static const char *const places[] = {"eu", "us", "sa", NULL};
    static const struct {
        const char *fields, *field, *why;
    } rows[] = {
        {"rate: 100/s, coordination: split, split: 4, regions: {eu: 60%, us: 39%}", "split",
         "in region `us`, 39 split in 4 leaves less than 10 times"},
        {"rate: 100/s, coordination: leased, lease: {block: 50}, regions: {eu: 60%, us: 40%}", "lease",
         "in region `us`, a block of 50 is more than the limit ever holds, 40"},
    };
    char text[300], field[40];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            struct loaded loaded;

            snprintf(text, sizeof text, HEAD "limits: [{name: a, %s}]\n", rows[i].fields);
            snprintf(field, sizeof field, "limits[0].%s", rows[i].field);
            loaded = load_in_region(text, places[k]);
            assert_int_equal(loaded.diags.n_errors, 1);
            expect_error(&loaded, 0, 0, field, rows[i].why);
            unload(&loaded);
        }
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

static json_t *explained_bucket(const struct sl_policy *policy, json_t **ret_whole)
{
    struct sluice_request request = request_of("k", NULL);

    *ret_whole = sl_policy_explain_json(policy, &request, 2);
    return json_array_get(json_object_get(*ret_whole, "buckets"), 0);
}

static const char *text_at(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static void explain_tells_share_and_bound(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 1000/s, burst: 3001, regions: {eu: 60%, us: 40%}}]\n"
                                    "ceiling: {rate: 500/s, burst: 9000}\n";
    struct sl_policy *policy = must_load_in(text, "us");
    json_t *whole, *bucket_told = explained_bucket(policy, &whole), *region = json_object_get(bucket_told, "region");

    (void)state;
    assert_string_equal(text_at(whole, "region"), "us");
    assert_string_equal(text_at(bucket_told, "effective"), "200/s burst 1200");
    assert_string_equal(text_at(bucket_told, "written"), "1000/s burst 3001");
    assert_int_equal(json_array_size(json_object_get(bucket_told, "cut")), 1); /* the ceiling's rate, and no more */
    assert_string_equal(text_at(region, "name"), "us");
    assert_string_equal(text_at(region, "share"), "40%");
    assert_string_equal(text_at(region, "whole"), "500/s burst 3001");
    assert_true(json_is_true(json_object_get(region, "named")));
    assert_non_null(
        strstr(text_at(region, "bound"), "2 regions sum to 3000 at once and 500 a PERIOD, of 3001 and 500"));
    json_decref(whole);
    sl_policy_unref(policy);
    policy = must_load_in(text, "sa");
    bucket_told = explained_bucket(policy, &whole);
    region = json_object_get(bucket_told, "region");
    assert_false(json_is_true(json_object_get(region, "named")));
    assert_non_null(strstr(text_at(region, "bound"), "500; this one comes on top"));
    json_decref(whole);
    sl_policy_unref(policy);
    policy = must_load_in(text, NULL);
    assert_null(json_object_get(explained_bucket(policy, &whole), "region"));
    json_decref(whole);
    sl_policy_unref(policy);
}

static void show_tells_the_share(void **state)
{
    struct sl_policy *policy = must_load_in(two, "us");
    json_t *show = sl_policy_show_json(policy), *limits = json_object_get(show, "limits");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_string_equal(text_at(show, "region"), "us");
    assert_string_equal(text_at(json_array_get(limits, 0), "share"), "40%");
    assert_null(json_object_get(json_array_get(limits, 1), "share"));
    sl_policy_show_text(policy, out);
    fclose(out);
    assert_non_null(strstr(text, "40/s per key (40% of it in region us)"));
    free(text);
    json_decref(show);
    sl_policy_unref(policy);
}

/* What `policy diff` says of the buckets of the only limit that changes. */
static void expect_state(const char *from, const char *to, const char *region, const char *said)
{
    struct sl_policy *x = must_load_in(from, region), *y = must_load_in(to, region);
    json_t *diff = sl_policy_diff_json(x, y), *changes = json_object_get(diff, "changes");

    assert_int_equal(json_array_size(changes), 1);
    assert_non_null(strstr(text_at(json_array_get(changes, 0), "state"), said));
    json_decref(diff);
    sl_policy_unref(x);
    sl_policy_unref(y);
}

static void diff_tells_what_becomes_of_buckets(void **state)
{
    static const char whole[] = HEAD "limits: [{name: a, rate: 100/s}]\n";
    static const char divided[] = HEAD "limits: [{name: a, rate: 100/s, regions: {eu: 60%, us: 40%}}]\n";
    static const char otherwise[] = HEAD "limits: [{name: a, rate: 100/s, regions: {eu: 50%, us: 40%}}]\n";

    (void)state;
    expect_state(whole, divided, "eu", "they begin full");
    expect_state(whole, divided, NULL, "in a region they are others, and begin full");
    expect_state(divided, otherwise, "eu", "buckets keep their debt in time");
    expect_state(divided, otherwise, "us", "buckets keep their state");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_has_its_share_of_count_and_burst),
        cmocka_unit_test(a_share_is_at_least_one_and_says_so),
        cmocka_unit_test(a_burst_stays_one_that_fills_in_a_century),
        cmocka_unit_test(random_shares_never_sum_to_more_than_the_limit),
        cmocka_unit_test(the_ceiling_comes_before_the_region),
        cmocka_unit_test(regions_keep_their_buckets_apart),
        cmocka_unit_test(other_shares_keep_the_buckets),
        cmocka_unit_test(a_region_is_no_label),
        cmocka_unit_test(a_region_that_is_not_named_has_the_smallest_share_and_is_warned_of),
        cmocka_unit_test(without_a_region_the_whole_limit_counts_and_is_warned_of),
        cmocka_unit_test(names_of_regions),
        cmocka_unit_test(filters_and_parts_are_of_the_share),
        cmocka_unit_test(a_policy_is_good_for_all_regions_or_for_none),
        cmocka_unit_test(explain_tells_share_and_bound),
        cmocka_unit_test(show_tells_the_share),
        cmocka_unit_test(diff_tells_what_becomes_of_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
