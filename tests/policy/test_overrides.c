/* Overrides laid over policies: which limit stands in for which, beside a walk over lists that does it the obvious way;
 * what does not fit; what stays of a bucket. */
#include "model.h"
#include "support.h"

#include "base/err.h"
#include "policy/override.h"
#include "policy/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW UINT64_C(1800000000000000)
#define HEAD "version: 1\ndefaults: {on_store_failure: local}\n"

static struct sl_override override(const char *key, const char *limit, const char *rate, uint32_t burst)
{
    struct sl_override o = {.key = key,
                            .key_len = strlen(key),
                            .key_type = "api_key",
                            .limit = limit,
                            .burst = burst,
                            .set_us = NOW - 1000,
                            .author = "ann",
                            .comment = ""};
    const char *why;

    assert_int_equal(sl_rate_parse(rate, strlen(rate), &o.rate, &why), 0);
    return o;
}

static struct sl_overrides *list_of(const struct sl_override *list, size_t n)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_overrides *overrides;

    assert_int_equal(sl_overrides_new(&alloc, list, n, 7, &overrides), 0);
    return overrides;
}

/* Takes the policy. */
static struct sl_policy *laid_over(struct sl_policy *policy, const struct sl_override *list, size_t n, uint64_t now_us)
{
    struct sl_overrides *overrides = list_of(list, n);
    struct sl_policy *over;

    assert_int_equal(sl_policy_override(policy, overrides, now_us, &over), 0);
    sl_overrides_unref(overrides);
    sl_policy_unref(policy);
    return over;
}

static struct sl_policy *one_over(const char *text, struct sl_override o)
{
    return laid_over(must_load(text), &o, 1, NOW);
}

/* The only bucket of a request: "COUNT/PERIOD_US limit", or what there is instead. */
static const char *decided_by(const struct sl_policy *policy, const char *key, const char *key_type)
{
    static char text[100];
    struct sluice_request request = request_of(key, NULL);
    const struct sl_resolution *r;

    if (key_type) {
        request.key_type = key_type;
        request.key_type_len = strlen(key_type);
    }
    r = resolve(policy, &request);
    if (r->blocked)
        return "blocked";
    if (r->n_items == 0)
        return r->unlimited ? "unlimited" : "nothing";
    assert_int_equal(r->n_items, 1);
    snprintf(text, sizeof text, "%u/%llu %u", r->items[0].shape->count,
             (unsigned long long)r->items[0].shape->period_us, r->items[0].shape->limit);
    return text;
}

static const char *why_not(const struct sl_policy *policy, size_t index)
{
    struct sl_override_status status;

    sl_policy_override_status(policy, index, &status);
    return status.why ? status.why : "";
}

#define expect_decided(policy, key, type, text) assert_string_equal(decided_by(policy, key, type), text)
#define expect_why(policy, index, part) assert_non_null(strstr(why_not(policy, index), part))

/* ---- what an override does -------------------------------------------------------------------------------------- */

static void an_override_replaces_rate_and_burst_for_its_key_alone(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 100/m, burst: 500}]\n";
    struct sl_policy *policy = one_over(text, override("k", NULL, "9000/m", 0));

    (void)state;
    expect_decided(policy, "k", NULL, "9000/60000000 9000"); /* the burst is COUNT, not the file's */
    expect_decided(policy, "other", NULL, "100/60000000 500");
    expect_decided(policy, "k", "user", "100/60000000 500"); /* the type is part of the key's identity */
    assert_int_equal(sl_policy_n_active_overrides(policy), 1);
    assert_int_equal(sl_policy_overrides(policy)->revision, 7);
    sl_policy_unref(policy);
    policy = one_over(text, override("k", "a", "10/s", 3));
    expect_decided(policy, "k", NULL, "10/1000000 3");
    sl_policy_unref(policy);
    policy = one_over(text, override("k", "a", "blocked", 0));
    expect_decided(policy, "k", NULL, "blocked");
    sl_policy_unref(policy);
    policy = one_over(text, override("k", "a", "unlimited", 0));
    expect_decided(policy, "k", NULL, "unlimited");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: blocked}]\n", override("k", NULL, "5/s", 0));
    expect_decided(policy, "k", NULL, "5/1000000 5");
    expect_decided(policy, "other", NULL, "blocked");
    sl_policy_unref(policy);
}

static void several_rates_become_the_one_of_the_override(void **state)
{
    struct sl_policy *policy = one_over(HEAD "limits: [{name: a, rates: [10/s, {rate: 1000/h, burst: 1500}]}]\n",
                                        override("k", NULL, "7/m", 0));

    (void)state;
    expect_decided(policy, "k", NULL, "7/60000000 7");
    sl_policy_unref(policy);
}

static void the_ceiling_caps_what_an_override_gives(void **state)
{
    static const char ceiling[] = "ceiling: {rate: 100/s, burst: 150}\n";
    char text[300];
    struct sl_policy *policy;

    (void)state;
    snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 1/s}]\n%s", ceiling);
    policy = one_over(text, override("k", NULL, "9000/m", 9000));
    expect_decided(policy, "k", NULL, "100/1000000 150");
    sl_policy_unref(policy);
    policy = one_over(text, override("k", NULL, "unlimited", 0));
    expect_decided(policy, "k", NULL, "100/1000000 150");
    sl_policy_unref(policy);
    policy = one_over(text, override("k", NULL, "50/s", 0)); /* below it: as it is */
    expect_decided(policy, "k", NULL, "50/1000000 50");
    sl_policy_unref(policy);
    snprintf(text, sizeof text, HEAD "limits: [{name: a, rate: 1/s, algorithm: fixed_window}]\n%s", ceiling);
    policy = one_over(text, override("k", NULL, "9000/m", 0));
    expect_decided(policy, "k", NULL, "150/60000000 150");
    sl_policy_unref(policy);
}

static void a_region_takes_its_share_of_an_override(void **state)
{
    struct loaded loaded = load_in_region(HEAD "limits: [{name: a, rate: 10/s, regions: {eu: 60%, us: 40%}}]\n", "us");
    struct sl_override o = override("k", NULL, "100/s", 50);
    struct sl_policy *policy;

    (void)state;
    assert_int_equal(loaded.rc, 0);
    sl_diags_fini(&loaded.diags);
    policy = laid_over(loaded.policy, &o, 1, NOW);
    expect_decided(policy, "k", NULL, "40/1000000 20");
    sl_policy_unref(policy);
}

static void the_burst_of_an_override_for_all_limits_is_for_buckets(void **state)
{
    struct sl_policy *policy =
        one_over(HEAD "limits: [{name: w, rate: 5/m, algorithm: fixed_window}]\n", override("k", NULL, "50/m", 200));

    (void)state;
    expect_decided(policy, "k", NULL, "50/60000000 50");
    sl_policy_unref(policy);
}

static void the_one_that_names_the_limit_comes_first_then_the_newer(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 1/s}, {name: b, tier: pro, rate: 2/s}]\n";
    struct sl_override list[3] = {override("192.0.2.1", "a", "10/s", 0), override("192.0.2.1", NULL, "20/s", 0),
                                  override("::ffff:192.0.2.1", "a", "30/s", 0)};
    struct sl_policy *policy;

    (void)state;
    policy = laid_over(must_load(text), list, 2, NOW);
    expect_decided(policy, "192.0.2.1", NULL, "10/1000000 10");
    sl_policy_unref(policy);
    for (int i = 0; i < 3; i++)
        list[i].key_type = "address"; /* of which two spellings are one key */
    list[2].set_us = NOW - 1;
    policy = laid_over(must_load(text), list, 3, NOW);
    expect_decided(policy, "192.0.2.1", "address", "30/1000000 30");
    sl_policy_unref(policy);
}

static void a_later_one_of_the_same_name_takes_its_place_in_a_list(void **state)
{
    struct sl_override list[3] = {override("k", "a", "10/s", 0), override("j", "a", "20/s", 0),
                                  override("k", "a", "30/s", 0)};
    struct sl_overrides *overrides = list_of(list, 3), *less;
    struct sl_alloc alloc = sl_alloc_system();

    (void)state;
    assert_int_equal(overrides->n, 2);
    assert_int_equal(sl_overrides_find(overrides, &list[0])->rate.count, 30);
    list[0].until_us = NOW; /* over at that very moment */
    assert_int_equal(sl_overrides_with(&alloc, overrides, &list[0], false, NOW, 8, &less), 0);
    assert_int_equal(less->n, 2);
    assert_int_equal(sl_overrides_next_end(less, NOW - 1), NOW);
    assert_true(sl_overrides_next_end(less, NOW) == UINT64_MAX);
    sl_overrides_unref(overrides);
    assert_int_equal(sl_overrides_with(&alloc, less, &list[1], true, NOW, 9, &overrides), 0);
    assert_int_equal(overrides->n, 0);
    sl_overrides_unref(overrides);
    sl_overrides_unref(less);
}

static void an_override_is_not_in_force_from_its_end_on(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 1/s}]\n";
    struct sl_override o = override("k", NULL, "9/s", 0);
    struct sl_policy *policy;

    (void)state;
    o.until_us = NOW;
    policy = laid_over(must_load(text), &o, 1, NOW - 1);
    expect_decided(policy, "k", NULL, "9/1000000 9");
    policy = laid_over(policy, &o, 1, NOW); /* over the file's policy again, not over the other */
    expect_decided(policy, "k", NULL, "1/1000000 1");
    expect_why(policy, 0, "over");
    assert_int_equal(sl_policy_n_active_overrides(policy), 0);
    sl_policy_unref(policy);
}

/* ---- what it cannot do ------------------------------------------------------------------------------------------ */

static void a_limit_that_many_keys_share_is_never_overridden(void **state)
{
    static const char text[] = HEAD "limits: [{name: all, per: [], rate: 5/s}]\n";
    struct sl_policy *policy = one_over(text, override("k", NULL, "9/s", 0));

    (void)state;
    expect_decided(policy, "k", NULL, "5/1000000 5");
    expect_why(policy, 0, "no limit of the policy");
    sl_policy_unref(policy);
    policy = one_over(text, override("k", "all", "9/s", 0));
    expect_decided(policy, "k", NULL, "5/1000000 5");
    expect_why(policy, 0, "does not separate by key");
    sl_policy_unref(policy);
}

static void what_does_not_fit_a_limit_leaves_it_as_it_is(void **state)
{
    struct sl_override o = override("k", "a", "200000/h", 0);
    struct loaded loaded;
    struct sl_policy *policy;

    (void)state;
    policy = one_over(HEAD "limits: [{name: b, rate: 1/s}]\n", o);
    expect_why(policy, 0, "no limit `a`");
    expect_decided(policy, "k", NULL, "1/1000000 1");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: 1/s, key: other}]\n", o);
    expect_why(policy, 0, "another key");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: 1/s, key_type: user}]\n", o);
    expect_why(policy, 0, "of type `user`");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: 1/s, mode: \"off\"}]\n", o);
    expect_why(policy, 0, "is off");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: 1/s, algorithm: sliding_window_log}]\n", o);
    expect_why(policy, 0, "limit `a`");
    expect_decided(policy, "k", NULL, "1/1000000 1");
    sl_policy_unref(policy);
    policy = one_over(HEAD "limits: [{name: a, rate: 1/s, algorithm: fixed_window}]\n", override("k", "a", "9/s", 5));
    expect_why(policy, 0, "has no burst");
    sl_policy_unref(policy);
    loaded = load_with_store(HEAD "limits: [{name: a, rate: 1000/s, coordination: split, split: 4}]\n");
    o = override("k", NULL, "39/s", 0);
    policy = laid_over(loaded.policy, &o, 1, NOW);
    expect_why(policy, 0, "split in 4");
    expect_decided(policy, "k", NULL, "1000/1000000 1000");
    sl_policy_unref(policy);
    sl_diags_fini(&loaded.diags);
}

static void a_block_too_large_for_a_lowered_limit_becomes_the_default(void **state)
{
    struct loaded loaded =
        load_with_store(HEAD "limits: [{name: a, rate: 5000/m, coordination: leased, lease: {block: 100, ttl: 1s}}]\n");
    struct sl_override o = override("k", NULL, "50/m", 0);
    struct sl_policy *policy = laid_over(loaded.policy, &o, 1, NOW);
    struct sluice_request request = request_of("k", NULL);
    const struct sl_limit *variant = sl_policy_limit_for(policy, &request, sl_policy_limit(policy, 0));

    (void)state;
    assert_int_equal(variant->shapes[0].limit, 50);
    assert_int_equal(variant->shared->lease_block, 0);
    assert_int_equal(variant->shared->filters[0].limit, 100); /* the pre-filter goes with it */
    assert_int_equal(sl_policy_limit(policy, 0)->shared->lease_block, 100);
    sl_policy_unref(policy);
    sl_diags_fini(&loaded.diags);
}

static void too_many_variants_are_refused_with_a_way_out(void **state)
{
    enum { LIMITS = 1000, KEYS = 70 };
    struct sl_override list[KEYS];
    static char keys[KEYS][16];
    char *text = malloc(LIMITS * 60 + 100), *at = text;
    struct sl_policy *policy;

    (void)state;
    at += sprintf(at, HEAD "limits:\n");
    for (int i = 0; i < LIMITS; i++)
        at += sprintf(at, "  - {name: l%d, tier: t%d, rate: 1/s}\n", i, i);
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%02d", i);
        list[i] = override(keys[i], NULL, "2/s", (uint32_t)(1 + i));
    }
    policy = laid_over(must_load(text), list, KEYS, NOW);
    expect_why(policy, KEYS - 1, "name the limit");
    assert_string_equal(why_not(policy, 0), "");
    sl_policy_unref(policy);
    for (int i = 0; i < KEYS; i++)
        list[i].burst = 5; /* of one kind: they share their variants */
    policy = laid_over(must_load(text), list, KEYS, NOW);
    assert_string_equal(why_not(policy, KEYS - 1), "");
    assert_int_equal(sl_policy_n_active_overrides(policy), KEYS);
    sl_policy_unref(policy);
    free(text);
}

static void an_override_out_of_range_is_told_with_its_field(void **state)
{
    struct sl_override good = override("k", "a", "10/s", 0), o = good;
    char long_text[SL_OVERRIDE_COMMENT_MAX + 2];
    const char *field;

    (void)state;
    assert_null(sl_override_check(&good, &field));
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    o.key_len = 0;
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "key");
    o = good;
    o.key = long_text;
    o.key_len = SLUICE_KEY_MAX;
    assert_null(sl_override_check(&o, &field));
    o.key_len = SLUICE_KEY_MAX + 1;
    assert_non_null(sl_override_check(&o, &field));
    o = good;
    o.key = "a\nb";
    o.key_len = 3;
    assert_non_null(sl_override_check(&o, &field));
    o = good;
    o.key_type = "";
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "keyType");
    o = good;
    o.limit = "A b";
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "limit");
    o = good;
    o.burst = 1000000001;
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "burst");
    o = override("k", "a", "1/366d", 101); /* more than 100 years to fill */
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "burst");
    o = override("k", "a", "blocked", 3);
    assert_non_null(sl_override_check(&o, &field));
    o = good;
    o.comment = long_text;
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "comment");
    o = good;
    o.author = "";
    assert_non_null(sl_override_check(&o, &field));
    assert_string_equal(field, "author");
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static void a_bucket_is_the_same_with_and_without_an_override(void **state)
{
    struct sl_policy *base = must_load(HEAD "limits: [{name: a, rate: 100/m, burst: 500}]\n"), *over;
    struct sl_override o = override("k", NULL, "9000/m", 0);
    struct sluice_request request = request_of("k", NULL);
    struct sl_hash128 fp = resolve(base, &request)->items[0].fp, plain, told;
    const struct sl_resolution *r;

    (void)state;
    assert_true(sl_policy_plain_key(base, &request, &plain));
    over = laid_over(sl_policy_ref(base), &o, 1, NOW);
    r = resolve(over, &request);
    assert_memory_equal(&r->items[0].fp, &fp, sizeof fp);
    assert_int_equal(r->items[0].limit->index, 0);
    assert_string_equal(r->items[0].limit->name, "a");
    assert_true(sl_policy_bucket(over, sl_policy_limit_for(over, &request, sl_policy_limit(over, 0)), 0, &request, "",
                                 "", &told));
    assert_memory_equal(&told, &fp, sizeof fp);
    assert_false(sl_policy_plain_key(over, &request, &plain)); /* a batch must not take it for any other */
    assert_string_equal(sl_policy_hash(over), sl_policy_hash(base));
    sl_policy_unref(base); /* the other one holds it */
    assert_int_equal(resolve(over, &request)->items[0].shape->count, 9000);
    sl_policy_unref(over);
}

/* ---- beside the obvious way ------------------------------------------------------------------------------------- */

static const char *const rates[] = {"3/s", "100/m", "7/h", "blocked", "unlimited", "1000000/s"};
static const char *const some_keys[] = {"k1", "k2", "k3", "192.0.2.1", "kx"};
static const char *const some_types[] = {"api_key", "user", "address", "device"};

static const struct sl_override *obvious(const struct sl_override *list, size_t n, const struct sluice_request *r,
                                         const struct sl_limit *limit)
{
    const char *type = r->key_type ? r->key_type : "api_key";
    const struct sl_override *best = NULL;

    if (!(limit->per & SL_PER_KEY))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct sl_override *o = &list[i];

        if (strcmp(o->key, r->key) != 0 || strcmp(o->key_type, type) != 0 || sl_override_is_over(o, NOW) ||
            (o->limit && strcmp(o->limit, limit->name) != 0))
            continue;
        if (!best || (o->limit && !best->limit) || (!o->limit == !best->limit && o->set_us >= best->set_us))
            best = o;
    }
    return best;
}

/* What one limit with that rate is in a policy that has nothing else. */
static struct sl_policy *alone(const struct model_policy *model, const struct sl_override *o)
{
    char text[300], rate[SL_RATE_TEXT_MAX], burst[32] = "";

    sl_rate_format(&o->rate, rate);
    if (o->burst)
        snprintf(burst, sizeof burst, ", burst: %u", o->burst);
    snprintf(text, sizeof text, HEAD "limits: [{name: x, rate: %s%s}]\n%s", rate, burst,
             model->ceiling ? "ceiling: {rate: 1000/s}\n" : "");
    return must_load(text);
}

struct expected {
    unsigned n_items, n_dry;
    struct sl_shape items[SL_ITEMS_MAX], dry[SL_ITEMS_MAX];
    bool blocked, dry_blocked;
};

static void expect_limit(const struct model_policy *model, const struct sl_limit *limit, const struct sl_override *o,
                         struct sl_shape *shapes, unsigned *n, bool *blocked)
{
    struct sl_policy *other = o ? alone(model, o) : NULL;
    const struct sl_limit *as = other ? sl_policy_limit(other, 0) : limit;

    for (unsigned i = 0; i < as->n_rates; i++)
        shapes[(*n)++] = as->shapes[i];
    *blocked |= as->kind == SL_RATE_BLOCKED;
    sl_policy_unref(other);
}

static const struct sl_limit *limit_named(const struct sl_policy *policy, const char *name)
{
    for (size_t i = 0; i < sl_policy_n_limits(policy); i++)
        if (!strcmp(sl_policy_limit(policy, i)->name, name))
            return sl_policy_limit(policy, i);
    fail_msg("no limit %s", name);
    return NULL;
}

static void compare(const struct model_policy *model, const struct sl_policy *over, const struct sl_override *list,
                    size_t n, const struct sluice_request *request)
{
    const struct sl_resolution *r = resolve(over, request);
    struct expected e = {0};
    struct model_answer answer;

    model_resolve(model, request, &answer);
    assert_int_equal(r->denied, answer.denied);
    if (answer.denied || answer.unmatched)
        return;
    for (int i = 0; i < answer.n_layers; i++) {
        const struct sl_limit *won = answer.winners[i] ? limit_named(over, answer.winners[i]->name) : NULL;
        const struct sl_limit *dry = answer.dry[i] ? limit_named(over, answer.dry[i]->name) : NULL;

        if (won)
            expect_limit(model, won, obvious(list, n, request, won), e.items, &e.n_items, &e.blocked);
        if (dry)
            expect_limit(model, dry, obvious(list, n, request, dry), e.dry, &e.n_dry, &e.dry_blocked);
    }
    assert_int_equal(r->n_items, e.n_items);
    assert_int_equal(r->n_dry, e.n_dry);
    assert_int_equal(r->blocked != NULL, e.blocked);
    assert_int_equal(r->dry_blocked != NULL, e.dry_blocked);
    for (unsigned i = 0; i < e.n_items; i++)
        assert_true(sl_shape_equal(r->items[i].shape, &e.items[i]));
    for (unsigned i = 0; i < e.n_dry; i++)
        assert_true(sl_shape_equal(r->dry[i].shape, &e.dry[i]));
}

static size_t random_list(const struct model_policy *model, struct sl_override *list)
{
    size_t n = (size_t)rand() % 8;

    for (size_t i = 0; i < n; i++) {
        const char *limit =
            rand() % 2 && model->n_limits ? model->limits[(unsigned)rand() % model->n_limits].name : NULL;

        list[i] = override(some_keys[rand() % 5], limit, rates[rand() % 6], 0);
        if (list[i].rate.kind == SL_RATE_LIMITED && rand() % 2)
            list[i].burst = 1 + (uint32_t)rand() % 50;
        list[i].key_type = list[i].key[0] == '1' ? "address" : some_types[rand() % 4];
        if (!strcmp(list[i].key_type, "address"))
            list[i].key = "192.0.2.1", list[i].key_len = 9;
        list[i].set_us = NOW - 1 - (uint64_t)i;
        list[i].until_us = rand() % 4 ? 0 : rand() % 2 ? NOW : NOW + 1;
        for (size_t k = 0; k < i; k++) /* each known by another name */
            if (sl_override_compare(&list[k], &list[i]) == 0) {
                i--, n--;
                break;
            }
    }
    return n;
}

static void overrides_decide_as_lists_that_are_walked_do(void **state)
{
    static struct model_policy model;
    static char text[100000];

    (void)state;
    srand(4711);
    for (int round = 0; round < 300; round++) {
        struct sl_override list[8];
        struct sl_policy *over;
        size_t n;

        model_random(&model);
        model_write(&model, text, sizeof text);
        n = random_list(&model, list);
        over = laid_over(must_load(text), list, n, NOW);
        for (int i = 0; i < 40; i++) {
            static const char *const scopes[] = {"ab", "abc", "GET /a", "b", "abd", "zzz"};
            struct sluice_request request = request_of(some_keys[rand() % 5], scopes[rand() % 6]);

            if (rand() % 2) {
                request.key_type = request.key[0] == '1' ? "address" : some_types[rand() % 2];
                request.key_type_len = strlen(request.key_type);
            }
            if (rand() % 2) {
                request.address = "198.51.100.1";
                request.address_len = strlen(request.address);
            }
            compare(&model, over, list, n, &request);
        }
        sl_policy_unref(over);
    }
}

/* ---- explanations ----------------------------------------------------------------------------------------------- */

static void explain_says_which_override_applied(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 100/m}]\nceiling: {rate: 50/s, burst: 1000}\n";
    struct sl_override o = override("acct", "a", "9000/m", 0);
    struct sl_policy *policy;
    struct sluice_request request = request_of("acct", NULL);
    json_t *e, *found;
    char *printed = NULL;
    size_t size;
    FILE *out;

    (void)state;
    o.until_us = NOW + UINT64_C(3600000000);
    policy = laid_over(must_load(text), &o, 1, NOW);
    e = sl_policy_explain_json(policy, &request, 1);
    found = json_array_get(json_object_get(e, "overrides"), 0);
    assert_string_equal(json_string_value(json_object_get(found, "limit")), "a");
    assert_string_equal(json_string_value(json_object_get(found, "rate")), "9000/m");
    assert_string_equal(json_string_value(json_object_get(found, "author")), "ann");
    assert_non_null(json_string_value(json_object_get(found, "until")));
    json_decref(e);
    out = open_memstream(&printed, &size);
    sl_policy_explain_text(policy, &request, 1, out);
    fclose(out);
    assert_non_null(strstr(printed, "override"));
    assert_non_null(strstr(printed, "9000/m"));
    assert_non_null(strstr(printed, "ann"));
    free(printed);
    request = request_of("other", NULL);
    e = sl_policy_explain_json(policy, &request, 1);
    assert_int_equal(json_array_size(json_object_get(e, "overrides")), 0);
    json_decref(e);
    e = sl_policy_show_json(policy);
    assert_int_equal(json_integer_value(json_object_get(e, "overrides")), 1);
    json_decref(e);
    sl_policy_unref(policy);
}

/* ---- memory that runs out --------------------------------------------------------------------------------------- */

struct failing {
    size_t calls, fail_at;
};

static void *failing_realloc(void *ctx, void *p, size_t size)
{
    struct failing *f = ctx;

    if (size && ++f->calls == f->fail_at)
        return NULL;
    if (size)
        return realloc(p, size);
    free(p);
    return NULL;
}

static void memory_that_runs_out_leaves_the_policy_as_it_was(void **state)
{
    static const char text[] = HEAD "limits: [{name: a, rate: 1000/s, coordination: split}, {name: b, layer: l, rate: "
                                    "5/s, key: k}]\n";
    struct sl_override o[2] = {override("k", NULL, "900/s", 0), override("k", "none", "900/s", 0)};
    struct failing f = {.fail_at = 0};
    struct sl_policy_options options = {.secret = test_secret, .alloc = {failing_realloc, &f}, .has_store = true};
    struct sl_overrides *overrides = list_of(o, 2);
    struct sl_policy *policy, *over;
    struct sl_diags diags;
    int rc;

    (void)state;
    sl_diags_init(&diags, options.alloc);
    assert_int_equal(sl_policy_parse(text, strlen(text), "p", &options, &policy, &diags), 0);
    sl_diags_fini(&diags);
    for (size_t n = 1;; n++) {
        f = (struct failing){.fail_at = n};
        rc = sl_policy_override(policy, overrides, NOW, &over);
        if (rc == 0)
            break;
        assert_int_equal(rc, SL_ENOMEM);
        assert_true(n < 100);
    }
    expect_decided(policy, "j", NULL, "1000/1000000 1000");
    sl_policy_unref(policy);
    sl_policy_unref(over);
    sl_overrides_unref(overrides);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_override_replaces_rate_and_burst_for_its_key_alone),
        cmocka_unit_test(several_rates_become_the_one_of_the_override),
        cmocka_unit_test(the_ceiling_caps_what_an_override_gives),
        cmocka_unit_test(a_region_takes_its_share_of_an_override),
        cmocka_unit_test(the_burst_of_an_override_for_all_limits_is_for_buckets),
        cmocka_unit_test(the_one_that_names_the_limit_comes_first_then_the_newer),
        cmocka_unit_test(a_later_one_of_the_same_name_takes_its_place_in_a_list),
        cmocka_unit_test(an_override_is_not_in_force_from_its_end_on),
        cmocka_unit_test(a_limit_that_many_keys_share_is_never_overridden),
        cmocka_unit_test(what_does_not_fit_a_limit_leaves_it_as_it_is),
        cmocka_unit_test(a_block_too_large_for_a_lowered_limit_becomes_the_default),
        cmocka_unit_test(too_many_variants_are_refused_with_a_way_out),
        cmocka_unit_test(an_override_out_of_range_is_told_with_its_field),
        cmocka_unit_test(a_bucket_is_the_same_with_and_without_an_override),
        cmocka_unit_test(overrides_decide_as_lists_that_are_walked_do),
        cmocka_unit_test(explain_says_which_override_applied),
        cmocka_unit_test(memory_that_runs_out_leaves_the_policy_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
