/* What a policy gives to the shared tier: pre-filters, parts, owners of buckets, and the errors that belong to it. */
#include "support.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

static struct sl_policy *must_load_with_store(const char *text)
{
    struct loaded loaded = load_with_store(text);
    struct sl_policy *policy = loaded.policy;

    if (loaded.rc != 0)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.rc, 0);
    sl_diags_fini(&loaded.diags);
    return policy;
}

static const struct sl_limit *find(const struct sl_policy *policy, const char *name)
{
    for (size_t i = 0; i < sl_policy_n_limits(policy); i++)
        if (!strcmp(sl_policy_limit(policy, i)->name, name))
            return sl_policy_limit(policy, i);
    fail_msg("no limit %s", name);
    return NULL;
}

/* ---- which limits, and how -------------------------------------------------------------------------------------- */

static const char kinds[] =
    "version: 1\n"
    "endpoints: {e: {match: [e]}}\n"
    "limits:\n"
    "  - {name: auto, tier: a, rate: 100/s}\n"
    "  - {name: leaky, tier: b, rate: 100/s, algorithm: leaky_bucket}\n"
    "  - {name: window, tier: c, rate: 100/s, algorithm: fixed_window}\n"
    "  - {name: counter, tier: d, rate: 100/s, algorithm: sliding_window_counter}\n"
    "  - {name: log, tier: e, rate: 100/s, algorithm: sliding_window_log}\n"
    "  - {name: local, tier: f, rate: 100/s, coordination: local}\n"
    "  - {name: shared, tier: g, rate: 100/s, coordination: shared, local_factor: per_instance}\n"
    "  - {name: leased, tier: h, rate: 100/s, coordination: leased, lease: {block: 7, ttl: 3s}}\n"
    "  - {name: split, tier: i, rate: 103/s, burst: 205, coordination: split, split: 10}\n"
    "  - {name: synced, tier: j, rate: 100/s, coordination: synced, sync: {interval: 500ms}}\n"
    "  - {name: dry, tier: a, rate: 10/s, mode: dry_run}\n"
    "  - {name: open, tier: k, rate: unlimited, per: []}\n"
    "  - {name: shut, tier: l, rate: blocked}\n"
    "  - {name: plain, tier: m, rate: 100/s, coordination: synced}\n"
    "ceiling: {rate: 10000/s}\n";

static void a_limit_is_shared_unless_it_is_local_or_keeps_no_state(void **state)
{
    static const struct {
        const char *name;
        int coordination; /* -1: not shared */
    } rows[] = {
        {"auto", SL_COORD_AUTO},
        {"leaky", SL_COORD_SHARED},
        {"window", SL_COORD_AUTO},
        {"counter", SL_COORD_SHARED},
        {"log", SL_COORD_SHARED},
        {"local", -1},
        {"shared", SL_COORD_SHARED},
        {"leased", SL_COORD_LEASED},
        {"split", SL_COORD_SPLIT},
        {"synced", SL_COORD_SYNCED},
        {"dry", SL_COORD_AUTO},
        {"open", -1},
        {"shut", -1},
        {"plain", SL_COORD_SYNCED},
    };
    struct sl_policy *policy = must_load_with_store(kinds), *alone = must_load(kinds);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sl_limit *limit = find(policy, rows[i].name);

        assert_null(find(alone, rows[i].name)->shared);
        if (!!limit->shared != (rows[i].coordination >= 0))
            fail_msg("%s is%s shared", limit->name, limit->shared ? "" : " not");
        if (limit->shared)
            assert_int_equal(limit->shared->coordination, rows[i].coordination);
        if (limit->shared && limit->coordination != SL_COORD_SPLIT)
            assert_int_equal(limit->shared->n_parts, 0);
    }
    assert_null(sl_policy_ceiling(alone)->shared);
    assert_int_equal(sl_policy_ceiling(policy)->shared->coordination, SL_COORD_AUTO);
    assert_int_equal(sl_policy_ceiling(policy)->shared->filters[0].limit, 20000);
    assert_int_equal(find(policy, "leased")->shared->lease_block, 7);
    assert_int_equal(find(policy, "leased")->shared->lease_ttl_us, 3000000);
    assert_int_equal(find(policy, "auto")->shared->lease_block, 0);
    assert_int_equal(find(policy, "auto")->shared->lease_ttl_us, 1000000);
    assert_int_equal(find(policy, "synced")->shared->sync_interval_us, 500000);
    assert_int_equal(find(policy, "plain")->shared->sync_interval_us, 250000);
    assert_true(find(policy, "shared")->shared->per_instance);
    assert_false(find(policy, "auto")->shared->per_instance);
    sl_policy_unref(policy);
    sl_policy_unref(alone);
}

/* ---- pre-filters ------------------------------------------------------------------------------------------------ */

static struct sl_policy *one_limit(const char *fields)
{
    char text[400];
    int len = snprintf(text, sizeof text, "version: 1\nlimits:\n  - {name: l, on_store_failure: open, %s}\n", fields);

    assert_in_range(len, 1, sizeof text - 1);
    return must_load_with_store(text);
}

static void the_pre_filter_is_a_bucket_of_the_factor(void **state)
{
    static const struct {
        const char *fields;
        uint32_t count, burst;
    } rows[] = {
        {"rate: 100/s", 200, 200},
        {"rate: 100/s, burst: 250", 200, 500},
        {"rate: 100/s, burst: 250, local_factor: 1", 100, 250},
        {"rate: 3/m, burst: 5, local_factor: 1.5", 4, 7},
        {"rate: 1/d, local_factor: 1.999999", 1, 1},
        {"rate: 7/s, algorithm: fixed_window, local_factor: 3", 21, 21},
        {"rate: 7/s, algorithm: sliding_window_log", 14, 14},
        {"rate: 1000000000/s, burst: 600000000", 1000000000, 1000000000},
        {"rate: 1000/s, local_factor: 1000", 1000000, 1000000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sl_policy *policy = one_limit(rows[i].fields);
        const struct sl_shape *filter = &sl_policy_limit(policy, 0)->shared->filters[0];

        assert_int_equal(filter->algorithm, SL_TOKEN_BUCKET);
        assert_int_equal(filter->count, rows[i].count);
        assert_int_equal(filter->limit, rows[i].burst);
        assert_int_equal(filter->period_us, sl_policy_limit(policy, 0)->shapes[0].period_us);
        sl_policy_unref(policy);
    }
}

/* 100 years to fill, and a factor that lets the burst grow but not the rate. */
static void a_filter_never_takes_more_than_a_hundred_years(void **state)
{
    struct sl_policy *policy = one_limit("rate: 1/365d, burst: 100, local_factor: 1.5");
    const struct sl_shape *filter = &sl_policy_limit(policy, 0)->shared->filters[0];

    (void)state;
    assert_int_equal(filter->count, 1);
    assert_int_equal(filter->limit, 100); /* not 150 */
    sl_policy_unref(policy);
}

static uint64_t dice = UINT64_C(0x2545F4914F6CDD1D);

static uint32_t roll(uint32_t below)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (uint32_t)((dice >> 20) % below);
}

/* A number of any size up to `most`. */
static uint32_t roll_size(uint32_t most)
{
    uint32_t x = 1 + roll(UINT32_C(1) << (1 + roll(30)));

    return x > most ? most : x;
}

static const char *const algorithms[] = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window_counter"};

static void check_filters(const struct sl_limit *limit)
{
    for (unsigned i = 0; i < limit->n_rates; i++) {
        const struct sl_shape *filter = &limit->shared->filters[i], *shape = &limit->shapes[i];

        assert_int_equal(filter->algorithm, SL_TOKEN_BUCKET);
        assert_true(filter->count >= shape->count && filter->count <= SL_COUNT_MAX);
        assert_true(filter->limit >= shape->limit && filter->limit <= SL_COUNT_MAX);
        assert_true(filter->cap_us <= SL_LIFE_MAX_US);
    }
}

static void b11_filters_are_never_below_the_limit(void **state)
{
    char text[800];
    unsigned loaded_n = 0;

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        const char *algorithm = algorithms[roll(4)];
        bool bucket = strstr(algorithm, "bucket") != NULL;
        struct loaded loaded;
        size_t len;

        len = (size_t)snprintf(
            text, sizeof text, "version: 1\nlimits:\n  - {name: l, algorithm: %s, rate: %u/%us, local_factor: %u.%06u",
            algorithm, roll_size(SL_COUNT_MAX), 1 + roll(1000000), 1 + roll(roll(2) ? 3 : 999), roll(1000000));
        snprintf(text + len, sizeof text - len, bucket ? ", burst: %u}\n" : "}\n", roll_size(SL_COUNT_MAX));
        loaded = load_with_store(text);
        if (loaded.rc == 0) { /* else the burst takes too long to fill, which is tested elsewhere */
            check_filters(sl_policy_limit(loaded.policy, 0));
            loaded_n++;
        }
        unload(&loaded);
    }
    assert_true(loaded_n > 1000);
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static void check_parts(const struct sl_limit *limit, unsigned n)
{
    assert_int_equal(limit->shared->n_parts, n);
    for (unsigned i = 0; i < limit->n_rates; i++) {
        const struct sl_shape *whole = &limit->shapes[i], *parts = limit->shared->parts[i];
        uint64_t count = 0, burst = 0;

        for (unsigned at = 0; at < n; at++) {
            assert_int_equal(parts[at].algorithm, whole->algorithm);
            assert_int_equal(parts[at].period_us, whole->period_us);
            assert_in_range(parts[at].count, whole->count / n, whole->count / n + 1);
            assert_in_range(parts[at].limit, whole->limit / n, whole->limit / n + 1);
            count += parts[at].count;
            burst += parts[at].limit;
        }
        assert_int_equal(count, whole->count);
        assert_int_equal(burst, whole->limit);
    }
}

static void b11_parts_sum_exactly_and_are_never_empty(void **state)
{
    char text[800];

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        const char *algorithm = algorithms[roll(4)];
        bool bucket = strstr(algorithm, "bucket") != NULL;
        unsigned n = 2 + roll(255);
        uint32_t count = n * 10 + roll_size(SL_COUNT_MAX - n * 10), burst = n * 10 + roll_size(SL_COUNT_MAX - n * 10);
        struct sl_policy *policy;

        snprintf(text, sizeof text,
                 bucket ? "algorithm: %s, coordination: split, split: %u, rates: [{rate: %u/s, burst: %u}, %u/m]"
                        : "algorithm: %s, coordination: split, split: %u, rates: [%u/s, %u/h]",
                 algorithm, n, count, burst, burst);
        policy = one_limit(text);
        check_parts(sl_policy_limit(policy, 0), n);
        sl_policy_unref(policy);
    }
}

static void split_demands_something_for_every_part(void **state)
{
    static const struct {
        const char *fields, *field, *why;
    } rows[] = {
        {"rate: 79/s, coordination: split, split: 8", "limits[0].split", "10 times the largest cost, 1"},
        {"rate: 100/s, cost: 3, coordination: split", "limits[0].coordination", "10 times the largest cost, 3"},
        {"rate: 7/s, burst: 800, coordination: split, split: 8", "limits[0].split",
         "a COUNT of 7 cannot be split in 8"},
        {"rate: 100/s, burst: 7, cost: 0, coordination: split, split: 8", "limits[0].split",
         "a burst of 7 cannot be split in 8"},
        {"rate: 5/366d, burst: 480, coordination: split, split: 3", "limits[0].split", "at most 100 years"},
    };
    char text[800];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct loaded loaded;

        snprintf(text, sizeof text, "version: 1\nlimits:\n  - {name: l, %s}\n", rows[i].fields);
        for (unsigned with = 0; with < 2; with++) {
            loaded = with ? load_with_store(text) : load_text(text);
            expect_error(&loaded, 0, 0, rows[i].field, rows[i].why);
            unload(&loaded);
        }
    }
}

/* The limit is a bucket at the ceiling, and that is what is split. */
static void an_unlimited_limit_is_split_as_the_ceiling_makes_it(void **state)
{
    struct sl_policy *policy = must_load_with_store("version: 1\nceiling: {rate: 100/s}\nlimits:\n"
                                                    "  - {name: l, rate: unlimited, coordination: split}\n");
    struct loaded loaded = load_with_store("version: 1\nceiling: {rate: 39/s}\nlimits:\n"
                                           "  - {name: l, rate: unlimited, coordination: split}\n");

    (void)state;
    check_parts(sl_policy_limit(policy, 0), 4);
    expect_error(&loaded, 4, 46, "limits[0].coordination", "39 split in 4");
    sl_policy_unref(policy);
    unload(&loaded);
}

static void the_parts_of_a_policy_are_bounded(void **state)
{
    enum { LIMITS = 520 }; /* x 8 rates x 256 parts: beyond 2^20 */
    static char text[LIMITS * 200];
    size_t len = (size_t)snprintf(text, sizeof text,
                                  "version: 1\ndefaults: {coordination: split, split: 256, rates: "
                                  "[3000/s, 3000/m, 3000/h, 3000/d, 3000/2s, 3000/2m, 3000/2h, "
                                  "3000/2d]}\nlimits:\n");
    struct loaded loaded;

    (void)state;
    for (unsigned i = 0; i < LIMITS; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "  - {name: l%u, tier: t%u}\n", i, i);
    loaded = load_with_store(text);
    expect_error(&loaded, 0, 0, "defaults.coordination", "at most 1048576 parts altogether");
    assert_int_equal(loaded.diags.n_errors, 1);
    unload(&loaded);
}

/* ---- what the store cannot keep --------------------------------------------------------------------------------- */

static void b10_a_log_too_long_for_the_store_is_a_load_error(void **state)
{
    static const char text[] = "version: 1\nlimits:\n  - {name: l, algorithm: sliding_window_log, rate: 10001/h}\n";
    struct loaded alone = load_text(text), loaded = load_with_store(text);
    struct sl_policy *local = one_limit("algorithm: sliding_window_log, rate: 100000/h, coordination: local");

    (void)state;
    assert_int_equal(alone.rc, 0);
    expect_error(&loaded, 3, 52, "limits[0].rate", "at most 10000 entries");
    unload(&alone);
    unload(&loaded);
    sl_policy_unref(local);
}

/* ---- owners ----------------------------------------------------------------------------------------------------- */

static const char owners[] = "version: 1\n"
                             "endpoints: {e: {match: [\"e*\"]}, f: {match: [\"f*\"]}}\n"
                             "tiers: {keys: {tiered: gold}}\n"
                             "limits:\n"
                             "  - {name: key, rate: 100/s}\n"
                             "  - {name: key-endpoint, layer: a, per: [key, endpoint], rates: [10/s, 100/m]}\n"
                             "  - {name: address, layer: b, per: [address, scope], rate: 100/s}\n"
                             "  - {name: all, layer: c, per: [], rate: 100/s}\n"
                             "  - {name: tier, layer: d, per: [tier], rate: 100/s}\n"
                             "  - {name: try, layer: d, endpoint: e, per: [key, tier], rate: 5/s, mode: dry_run}\n"
                             "dedicated:\n"
                             "  - {keys: [whale], store: \"redis://one\"}\n"
                             "  - {keys: [shark, tiered, orca], store: \"redis://two\"}\n";

static bool same(struct sl_hash128 x, struct sl_hash128 y)
{
    return x.a == y.a && x.b == y.b;
}

static struct sluice_request from(const char *key, const char *key_type, const char *scope, const char *address)
{
    struct sluice_request request = request_of(key, scope);

    request.key_type = key_type;
    request.key_type_len = key_type ? strlen(key_type) : 0;
    request.address = address;
    request.address_len = address ? strlen(address) : 0;
    return request;
}

/* The owner of the first bucket of a limit, by the resolution; and the same by inspection. */
static struct sl_hash128 owner_of(const struct sl_policy *policy, const struct sluice_request *request,
                                  const char *limit)
{
    const struct sl_resolution *r = resolve(policy, request);

    for (unsigned i = 0; i < r->n_items + r->n_dry; i++) {
        const struct sl_item *item = i < r->n_items ? &r->items[i] : &r->dry[i - r->n_items];
        struct sl_hash128 owner = sl_item_owner(item, r->key_hash, r->address_hash), looked_up;
        unsigned store = 99;

        if (strcmp(item->limit->name, limit) != 0)
            continue;
        assert_true(sl_policy_bucket_owner(policy, item->limit, request, &item->fp, &looked_up, &store));
        assert_true(same(owner, looked_up));
        assert_int_equal(store, r->store);
        return owner;
    }
    fail_msg("no bucket of %s", limit);
    return (struct sl_hash128){0, 0};
}

static void buckets_of_one_key_have_one_owner(void **state)
{
    struct sl_policy *policy = must_load_with_store(owners);
    struct sluice_request request = from("k", NULL, "e1", "192.0.2.1"), elsewhere = from("k", NULL, "f", "192.0.2.9");
    struct sl_hash128 owner = owner_of(policy, &request, "key"), second;

    (void)state;
    assert_true(same(owner, resolve(policy, &request)->key_hash));
    assert_true(same(owner, owner_of(policy, &request, "key-endpoint")));
    assert_true(same(owner, owner_of(policy, &request, "try")));
    assert_true(same(owner, owner_of(policy, &elsewhere, "key")));
    assert_true(same(owner, owner_of(policy, &elsewhere, "key-endpoint")));
    /* what is left when the owner is taken away tells a limit's bucket from others of the owner */
    second = resolve(policy, &request)->items[1].fp;
    assert_false(same(second, resolve(policy, &request)->items[0].fp));
    sl_policy_unref(policy);
}

static void b66_b69_other_keys_and_key_types_are_other_owners(void **state)
{
    struct sl_policy *policy = must_load_with_store(owners);
    static const struct {
        const char *key, *type;
    } subjects[] = {{"k", NULL}, {"l", NULL}, {"k", "user"}, {"k", "device"}, {"kdevice", NULL}, {"whale", NULL}};
    enum { N = sizeof subjects / sizeof *subjects };
    struct sl_hash128 hashes[N];

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        struct sluice_request request = from(subjects[i].key, subjects[i].type, "e", NULL);

        hashes[i] = owner_of(policy, &request, "key");
        for (unsigned k = 0; k < i; k++)
            assert_false(same(hashes[i], hashes[k]));
    }
    struct sluice_request named = from("k", "api_key", "e", NULL);
    assert_true(same(hashes[0], owner_of(policy, &named, "key")));
    sl_policy_unref(policy);
}

/* Batches turn one key's answer into another's by the difference of the plain hashes. */
static void owners_of_plain_keys_differ_as_their_hashes_do(void **state)
{
    struct sl_policy *policy = must_load_with_store(owners);
    struct sluice_request x = from("k", "user", "e", NULL), y = from("another", "user", "e", NULL);
    struct sl_hash128 plain_x, plain_y, owner_x = owner_of(policy, &x, "key"), owner_y = owner_of(policy, &y, "key");

    (void)state;
    assert_true(sl_policy_plain_key(policy, &x, &plain_x));
    assert_true(sl_policy_plain_key(policy, &y, &plain_y));
    owner_x.a += plain_y.a - plain_x.a;
    owner_x.b += plain_y.b - plain_x.b;
    assert_true(same(owner_x, owner_y));
    sl_policy_unref(policy);
}

static void buckets_by_address_belong_to_the_address(void **state)
{
    struct sl_policy *policy = must_load_with_store(owners);
    struct sluice_request one = from("k", NULL, "e", "192.0.2.1"), other_key = from("l", "user", "f", "192.0.2.1");
    struct sluice_request other = from("k", NULL, "e", "192.0.2.2"),
                          by_address = from("192.0.2.1", "address", "e", NULL);
    struct sl_hash128 owner = owner_of(policy, &one, "address");

    (void)state;
    assert_true(same(owner, resolve(policy, &one)->address_hash));
    assert_true(same(owner, owner_of(policy, &other_key, "address")));
    assert_true(same(owner, owner_of(policy, &by_address, "address")));
    assert_false(same(owner, owner_of(policy, &other, "address")));
    assert_false(same(owner, resolve(policy, &one)->key_hash));
    sl_policy_unref(policy);
}

static void other_buckets_are_their_own_owners(void **state)
{
    struct sl_policy *policy = must_load_with_store(owners);
    struct sluice_request one = from("k", NULL, "f", NULL), other = from("l", NULL, "f", NULL);
    struct sl_hash128 unset;
    unsigned store;

    (void)state;
    assert_true(same(owner_of(policy, &one, "all"), owner_of(policy, &other, "all")));
    assert_true(same(owner_of(policy, &one, "tier"), owner_of(policy, &other, "tier")));
    assert_false(same(owner_of(policy, &one, "tier"), owner_of(policy, &one, "all")));
    assert_false(
        sl_policy_bucket_owner(policy, find(policy, "address"), &one, &(struct sl_hash128){1, 2}, &unset, &store));
    sl_policy_unref(policy);
}

/* Two instances with unlike policies meet in the same buckets, wherever limits agree. */
static void b74_owners_and_buckets_are_the_same_in_every_instance(void **state)
{
    static const char other_text[] = "version: 1\n"
                                     "tiers: {keys: {x: y}}\n"
                                     "limits:\n"
                                     "  - {name: first, layer: z, labels: {a: b}, key_type: t, rate: 1/s}\n"
                                     "  - {name: key, rate: 7/m}\n";
    struct sl_policy *policy = must_load_with_store(owners), *other = must_load_with_store(other_text);
    static const char *const types[] = {NULL, "user", "t", "nobody-names-this"};

    (void)state;
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        struct sluice_request request = from("k", types[i], NULL, NULL);
        struct sl_hash128 fp = resolve(policy, &request)->items[0].fp;

        assert_true(same(owner_of(policy, &request, "key"), owner_of(other, &request, "key")));
        assert_true(same(fp, resolve(other, &request)->items[0].fp));
    }
    sl_policy_unref(policy);
    sl_policy_unref(other);
}

/* ---- dedicated stores ------------------------------------------------------------------------------------------- */

static void dedicated_keys_have_their_store(void **state)
{
    static const struct {
        const char *key, *type;
        unsigned store;
    } rows[] = {{"k", NULL, 0},      {"whale", NULL, 1}, {"whale", "user", 1}, {"shark", NULL, 2},
                {"tiered", NULL, 2}, {"orca", NULL, 2},  {"whal", NULL, 0}};
    struct sl_policy *policy = must_load_with_store(owners);
    struct sluice_request request = from("tiered", NULL, "f", NULL);
    struct sl_hash128 hash;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sluice_request r = from(rows[i].key, rows[i].type, "e", NULL);

        assert_int_equal(resolve(policy, &r)->store, rows[i].store);
        assert_int_equal(sl_policy_plain_key(policy, &r, &hash), rows[i].store == 0);
    }
    assert_string_equal(resolve(policy, &request)->tier, "gold");
    assert_int_equal(sl_policy_n_dedicated(policy), 2);
    assert_string_equal(sl_policy_dedicated_store(policy, 1), "redis://two");
    sl_policy_unref(policy);
}

static void a_dedicated_key_is_in_no_tier_by_that(void **state)
{
    struct sl_policy *policy = must_load_with_store("version: 1\n"
                                                    "tiers: {unknown: deny, keys: {a: b}}\n"
                                                    "limits: [{name: l, rate: 1/s}]\n"
                                                    "dedicated: [{keys: [whale], store: \"redis://one\"}]\n");
    struct sluice_request request = from("whale", NULL, NULL, NULL);

    (void)state;
    assert_true(resolve(policy, &request)->denied);
    sl_policy_unref(policy);
}

static int picky(const char *text, char *why, size_t why_size)
{
    snprintf(why, why_size, "no host");
    return strcmp(text, "redis://:bad") ? 0 : SL_EINVALID;
}

static void dedicated_stores_are_looked_at_by_who_knows_them(void **state)
{
    static const char text[] = "version: 1\nlimits: []\ndedicated:\n"
                               "  - {keys: [a], store: \"redis://good\"}\n"
                               "  - {keys: [b], store: \"redis://:bad\"}\n"
                               "  - {keys: [c], store: \"memory:\"}\n"
                               "  - {keys: [a, d], store: \"rediss+sentinel://h/m\"}\n";
    struct sl_policy_options options = {
        .secret = test_secret, .alloc = sl_alloc_system(), .has_store = true, .check_store = picky};
    struct loaded loaded = {.policy = NULL};

    (void)state;
    sl_diags_init(&loaded.diags, sl_alloc_system());
    loaded.rc = sl_policy_parse(text, strlen(text), "p.yaml", &options, &loaded.policy, &loaded.diags);
    assert_int_equal(loaded.rc, SL_EPOLICY);
    expect_error(&loaded, 5, 24, "dedicated[1].store", "no host");
    expect_error(&loaded, 6, 24, "dedicated[2].store", "URL of a store");
    expect_error(&loaded, 7, 13, "dedicated[3].keys[0]", "a store already, in dedicated[0]");
    assert_int_equal(loaded.diags.n_errors, 3);
    unload(&loaded);
}

static void dedicated_stores_are_bounded(void **state)
{
    char text[2000];
    size_t len = (size_t)snprintf(text, sizeof text, "version: 1\nlimits: []\ndedicated:\n");
    struct loaded loaded;

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "  - {keys: [k%u], store: \"redis://h%u\"}\n", i, i);
    loaded = load_with_store(text);
    expect_error(&loaded, 0, 0, "dedicated", "at most 15 dedicated stores, not 16");
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_shared_unless_it_is_local_or_keeps_no_state),
        cmocka_unit_test(the_pre_filter_is_a_bucket_of_the_factor),
        cmocka_unit_test(a_filter_never_takes_more_than_a_hundred_years),
        cmocka_unit_test(b11_filters_are_never_below_the_limit),
        cmocka_unit_test(b11_parts_sum_exactly_and_are_never_empty),
        cmocka_unit_test(split_demands_something_for_every_part),
        cmocka_unit_test(an_unlimited_limit_is_split_as_the_ceiling_makes_it),
        cmocka_unit_test(the_parts_of_a_policy_are_bounded),
        cmocka_unit_test(b10_a_log_too_long_for_the_store_is_a_load_error),
        cmocka_unit_test(buckets_of_one_key_have_one_owner),
        cmocka_unit_test(b66_b69_other_keys_and_key_types_are_other_owners),
        cmocka_unit_test(owners_of_plain_keys_differ_as_their_hashes_do),
        cmocka_unit_test(buckets_by_address_belong_to_the_address),
        cmocka_unit_test(other_buckets_are_their_own_owners),
        cmocka_unit_test(b74_owners_and_buckets_are_the_same_in_every_instance),
        cmocka_unit_test(dedicated_keys_have_their_store),
        cmocka_unit_test(a_dedicated_key_is_in_no_tier_by_that),
        cmocka_unit_test(dedicated_stores_are_looked_at_by_who_knows_them),
        cmocka_unit_test(dedicated_stores_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
