/* The memo gives the answers that resolution would give, keeps what comes twice, and nothing of what it should not. */
#include "kit.h"

#include "limiter/memo.h"

#include <stdio.h>
#include <string.h>

static struct sl_memo memo;

/* An answer that is told apart by the cost of its one bucket. */
static struct sl_consult answer(struct sl_item *item, uint32_t cost)
{
    *item = (struct sl_item){.cost = cost};
    return (struct sl_consult){.items = item, .n_items = 1};
}

static bool find(const struct sluice_request *request, struct sl_memo_query *query, uint32_t *ret_cost)
{
    const struct sl_consult *found = sl_memo_find(&memo, request, query);

    if (found)
        *ret_cost = found->items[0].cost;
    return found != NULL;
}

/* Offers until it is found; returns after how many offers. */
static unsigned teach(const struct sluice_request *request, uint32_t cost)
{
    struct sl_memo_query query;
    struct sl_item item;
    struct sl_consult consult = answer(&item, cost);
    unsigned offers = 0;
    uint32_t got;

    while (!find(request, &query, &got) && offers < 10) {
        sl_memo_offer(&query, request, &consult);
        offers++;
    }
    return offers;
}

static void a_request_is_kept_when_it_comes_twice(void **state)
{
    struct sluice_request request = kit_request("k", "GET /", 1);
    struct sl_memo_query query;
    uint32_t cost = 0;

    (void)state;
    memset(&memo, 0, sizeof memo);
    assert_false(find(&request, &query, &cost));
    assert_int_equal(teach(&request, 7), 2);
    assert_true(find(&request, &query, &cost));
    assert_int_equal(cost, 7);
}

static void what_the_shared_tier_needs_is_kept_too(void **state)
{
    struct sluice_request request = kit_request("k", "GET /", 1);
    struct sl_memo_query query;
    struct sl_item item;
    struct sl_consult consult = answer(&item, 7);
    const struct sl_consult *found;

    (void)state;
    memset(&memo, 0, sizeof memo);
    consult.shared = true;
    consult.store = 3;
    consult.key_hash = (struct sl_hash128){1, 2};
    consult.address_hash = (struct sl_hash128){4, 5};
    while (!(found = sl_memo_find(&memo, &request, &query)))
        sl_memo_offer(&query, &request, &consult);
    assert_true(found->shared);
    assert_int_equal(found->store, 3);
    assert_true(found->key_hash.a == 1 && found->key_hash.b == 2);
    assert_true(found->address_hash.a == 4 && found->address_hash.b == 5);
}

static void keys_that_never_come_again_drive_nobody_out(void **state)
{
    struct sluice_request hot = kit_request("hot", "GET /", 1);
    struct sl_memo_query query;
    uint32_t cost = 0;

    (void)state;
    memset(&memo, 0, sizeof memo);
    teach(&hot, 7);
    for (unsigned i = 0; i < 100000; i++) {
        char key[24];
        struct sl_item item;
        struct sl_consult consult = answer(&item, 9);

        snprintf(key, sizeof key, "flood-%u", i);
        struct sluice_request request = kit_request(key, "GET /", 1);

        assert_false(find(&request, &query, &cost));
        sl_memo_offer(&query, &request, &consult);
    }
    assert_true(find(&hot, &query, &cost));
    assert_int_equal(cost, 7);
}

static struct sluice_request with(const char *key, const char *scope, const char *type, const char *tier,
                                  const char *address, int64_t cost)
{
    struct sluice_request r = kit_request(key, scope, cost);

    r.key_type = type, r.key_type_len = type ? strlen(type) : 0;
    r.tier = tier, r.tier_len = tier ? strlen(tier) : 0;
    r.address = address, r.address_len = address ? strlen(address) : 0;
    return r;
}

/* Same bytes in other fields, same lengths with other bytes, absent and empty: all apart. */
static void every_field_tells_requests_apart(void **state)
{
    const struct sluice_request requests[] = {
        with("abcdefghi", "scope", "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", "scope", "user", "pro", "192.0.2.1", 2),
        with("abcdefghi", "scope", "user", "pro", "192.0.2.1", SLUICE_COST_DEFAULT),
        with("abcdXfghi", "scope", "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", "scXpe", "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", "scope", "usXr", "pro", "192.0.2.1", 1),
        with("abcdefghi", "scope", "user", "prX", "192.0.2.1", 1),
        with("abcdefghi", "scope", "user", "pro", "192.0.2.X", 1),
        with("abcdefghis", "cope", "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", "scopeuser", NULL, "pro", "192.0.2.1", 1),
        with("abcdefghi", "", "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", NULL, "user", "pro", "192.0.2.1", 1),
        with("abcdefghi", NULL, NULL, NULL, NULL, 1),
    };
    struct sl_memo_query query;
    struct sl_item item;

    (void)state;
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        uint32_t cost = 0;

        memset(&memo, 0, sizeof memo);
        assert_int_equal(teach(&requests[i], i), 2);
        for (unsigned j = 0; j < sizeof requests / sizeof *requests; j++)
            assert_int_equal(find(&requests[j], &query, &cost), i == j);
        /* even at the same place: the bytes decide, not the hash */
        struct sl_memo_entry *place = query.entry;
        struct sl_consult consult = answer(&item, 99);

        place->candidate = query.hash;
        sl_memo_offer(&query, &requests[sizeof requests / sizeof *requests - 1], &consult);
        assert_true(find(&requests[sizeof requests / sizeof *requests - 1], &query, &cost));
        assert_int_equal(cost, 99);
    }
}

static void what_is_long_or_labelled_or_wide_is_not_kept(void **state)
{
    static char text[200];
    struct sluice_label label = {"a", 1, "b", 1};
    struct sl_item items[SL_MEMO_ITEMS + 1] = {{.cost = 1}};
    struct sl_consult wide = {.items = items, .n_items = 3, .dry = items, .n_dry = SL_MEMO_ITEMS - 2};
    struct sluice_request request;
    struct sl_memo_query query;
    uint32_t cost;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    memset(&memo, 0, sizeof memo);
    request = kit_request("k", NULL, 1);
    request.key = text;
    request.key_len = 127;
    assert_int_equal(teach(&request, 1), 2);
    request.key_len = 128;
    assert_int_equal(teach(&request, 1), 10);
    request.key_len = 100;
    request.scope = text;
    request.scope_len = SL_MEMO_BYTES - 100;
    assert_int_equal(teach(&request, 1), 2);
    request.scope_len++;
    assert_int_equal(teach(&request, 1), 10);
    request = kit_request("labelled", NULL, 1);
    request.labels = &label;
    request.n_labels = 1;
    assert_int_equal(teach(&request, 1), 10);
    request = kit_request("wide", NULL, 1);
    for (int i = 0; i < 3; i++) {
        assert_false(find(&request, &query, &cost));
        sl_memo_offer(&query, &request, &wide);
    }
    request.key = NULL; /* invalid, and not looked at */
    assert_int_equal(teach(&request, 1), 10);
}

#define POLICY                                                             \
    "tiers: {default: free, anonymous: guest, keys: {a: pro, b: guest}}\n" \
    "endpoints:\n  dear: {match: [\"GET /dear*\"], cost: 3}\n"             \
    "limits:\n"                                                            \
    "  - {name: free, tier: free, rate: 20/m}\n"                           \
    "  - {name: pro, tier: pro, rates: [50/m, 70/h], warn_at: 50%}\n"      \
    "  - {name: guest, tier: guest, rate: 9/m, algorithm: fixed_window}\n" \
    "  - {name: dear, endpoint: dear, per: [key, scope], rate: 15/m}\n"    \
    "  - {name: shut, layer: gate, key: bad, rate: blocked}\n"             \
    "  - {name: where, layer: address, per: [address], rate: 40/m}\n"      \
    "  - {name: tried, layer: trial, rate: 5/m, mode: dry_run}\n"

/* A request out of a few hundred. */
static struct sluice_request any_request(unsigned r)
{
    static const char *const keys[] = {"a", "b", "c", "192.0.2.1", "bad", "2001:db8::1"};
    static const char *const scopes[] = {NULL, "", "GET /dear/1", "GET /dear/2", "GET /cheap"};
    static const char *const types[] = {NULL, "user", "api_key"};
    static const char *const tiers[] = {NULL, NULL, "pro", "none"};
    static const char *const addresses[] = {NULL, NULL, "192.0.2.1", "::ffff:192.0.2.1"};

    return with(keys[r % 6], scopes[r / 6 % 5], r / 30 % 4 == 3 && r % 2 ? "address" : types[r / 30 % 3],
                tiers[r / 120 % 4], addresses[r / 480 % 4], (int64_t)(r / 1920 % 4) - 1);
}

/* Singles go through the memo, batches do not: both must decide alike, on limiters that see the same requests. */
static void verdicts_are_those_of_resolution(void **state)
{
    struct kit with_memo, without;
    unsigned seed = 12345, invalid = 0, rejected = 0;

    (void)state;
    kit_open(&with_memo, POLICY);
    kit_open(&without, POLICY);
    for (unsigned i = 0; i < 6000; i++) {
        struct sluice_request request;
        unsigned times;

        seed = seed * 1103515245 + 12345;
        request = any_request(seed >> 12);
        times = 1 + (seed >> 8) % 4;
        for (unsigned n = 0; n < times; n++) {
            struct sluice_verdict x, y;
            int err = sl_limiter_check(with_memo.limiter, &request, &x, NULL, NULL, NULL);

            assert_int_equal(sl_limiter_check_batch(without.limiter, &request, 1, &y, NULL, NULL, NULL, NULL), err);
            invalid += err != 0;
            if (err != 0)
                continue;
            rejected += !x.allowed;
            assert_int_equal(x.allowed, y.allowed);
            assert_int_equal(x.reason, y.reason);
            assert_int_equal(x.limit, y.limit);
            assert_int_equal(x.remaining, y.remaining);
            assert_int_equal(x.retry_after_ms, y.retry_after_ms);
            assert_int_equal(x.reset_at_ms, y.reset_at_ms);
            assert_int_equal(x.dry_run_retry_after_ms, y.dry_run_retry_after_ms);
            assert_string_equal(x.policy, y.policy);
            assert_string_equal(x.dry_run_policy, y.dry_run_policy);
        }
        with_memo.now_us += 300000;
        without.now_us += 300000;
    }
    assert_in_range(invalid, 100, 6000); /* keys of type address that are none */
    assert_in_range(rejected, 1000, 12000);
    kit_close(&with_memo);
    kit_close(&without);
}

static void a_reload_starts_with_an_empty_memo(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k, "limits:\n  - {name: old, rate: 100/m}\n");
    assert_int_equal(kit_admitted(&k, "a", NULL, 5), 5);
    kit_reload(&k, "limits:\n  - {name: new, rate: 50/m}\n");
    assert_string_equal(kit_check(&k, "a", NULL, 1).policy, "new");
    assert_int_equal(kit_check(&k, "a", NULL, 1).remaining, 48);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_kept_when_it_comes_twice),
        cmocka_unit_test(what_the_shared_tier_needs_is_kept_too),
        cmocka_unit_test(keys_that_never_come_again_drive_nobody_out),
        cmocka_unit_test(every_field_tells_requests_apart),
        cmocka_unit_test(what_is_long_or_labelled_or_wide_is_not_kept),
        cmocka_unit_test(verdicts_are_those_of_resolution),
        cmocka_unit_test(a_reload_starts_with_an_empty_memo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
