/* Tiers that stand elsewhere (`tiers.keys_store`): who is asked about, and that every decision has the latest answer. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

#define POLICY                                                                                               \
    "tiers: {default: free, anonymous: anon, keys: {k_table: silver}, keys_store: true}\n"                   \
    "limits:\n  - {name: free, tier: free, rate: 10/m}\n  - {name: silver, tier: silver, rate: 50/m}\n"      \
    "  - {name: gold, tier: gold, rate: 100/m, per: [key, tier]}\n  - {name: anon, tier: anon, rate: 5/m}\n" \
    "  - {name: named, key: k_named, tier: gold, rate: 70/m}\n"

static struct kit kit;
static const char *tier; /* of every key; NULL: not known */
static unsigned asked;
static char asked_for[SLUICE_KEY_MAX + 1];

static bool key_tier(void *ctx, const char *key, size_t len, char *ret_tier, size_t *ret_len)
{
    assert_ptr_equal(ctx, &kit);
    asked++;
    snprintf(asked_for, sizeof asked_for, "%.*s", (int)len, key);
    if (!tier)
        return false;
    *ret_len = strlen(tier);
    memcpy(ret_tier, tier, *ret_len);
    return true;
}

static int open_kit(void **state)
{
    (void)state;
    kit_open(&kit, POLICY);
    sl_limiter_set_key_tier(kit.limiter, key_tier, &kit);
    tier = NULL;
    asked = 0;
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close(&kit);
    return 0;
}

static const char *policy_of(const char *key)
{
    static struct sluice_verdict verdict;

    verdict = kit_check(&kit, key, NULL, 0);
    return verdict.policy;
}

/* However often the same request came before: no memo keeps what may change. */
static void every_decision_has_the_latest_answer(void **state)
{
    static const char *const tiers[] = {NULL, "gold", "silver", "platinum", "gold", NULL};
    static const char *const policies[] = {"free", "gold", "silver", "free", "gold", "free"};

    (void)state;
    for (unsigned i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        tier = tiers[i];
        for (unsigned k = 0; k < 5; k++)
            assert_string_equal(policy_of("acme"), policies[i]);
    }
    assert_int_equal(asked, 30);
}

static void those_whose_tier_is_known_are_not_asked_about(void **state)
{
    struct sluice_request request = kit_request("acme", NULL, 0);

    (void)state;
    tier = "gold";
    request.tier = "silver";
    request.tier_len = 6;
    for (unsigned i = 0; i < 5; i++) {
        assert_string_equal(kit_decide(&kit, &request).policy, "silver");
        assert_string_equal(policy_of("k_table"), "silver");
    }
    assert_int_equal(asked, 0);
    assert_string_equal(policy_of("k_named"), "named"); /* named by a limit, but in no table */
    assert_int_equal(asked, 1);
}

/* Addresses are asked about in the spelling under which they are counted; unknown ones stay anonymous. */
static void addresses_are_asked_about_in_one_spelling(void **state)
{
    struct sluice_request request = kit_request("2001:DB8:0:0:1::7", NULL, 0);

    (void)state;
    request.key_type = "address";
    request.key_type_len = 7;
    assert_string_equal(kit_decide(&kit, &request).policy, "anon");
    assert_string_equal(asked_for, "2001:db8::/64");
    tier = "gold";
    assert_string_equal(kit_decide(&kit, &request).policy, "gold");
}

static void batches_ask_about_each_key(void **state)
{
    struct sluice_request requests[40];
    struct sluice_verdict verdicts[40];
    char keys[40][8];

    (void)state;
    tier = "gold";
    for (unsigned i = 0; i < 40; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        requests[i] = kit_request(keys[i], NULL, 1);
    }
    assert_int_equal(sl_limiter_check_batch(kit.limiter, requests, 40, verdicts, NULL, NULL, NULL, NULL), 0);
    assert_int_equal(asked, 40);
    for (unsigned i = 0; i < 40; i++)
        assert_string_equal(verdicts[i].policy, "gold");
}

static void count_bucket(void *ctx, const struct sl_bucket_info *info)
{
    *(unsigned *)ctx += strcmp(info->limit->name, "gold") == 0;
}

/* The bucket of a limit that separates by tier is found under the tier it was charged under. */
static void inspection_and_reset_see_the_same_tier(void **state)
{
    struct sluice_request request = kit_request("acme", NULL, 0);
    unsigned n = 0;

    (void)state;
    tier = "gold";
    assert_int_equal(kit_check(&kit, "acme", NULL, 3).remaining, 97);
    sl_limiter_inspect(kit.limiter, &request, count_bucket, &n);
    assert_int_equal(n, 1);
    assert_int_equal(sl_limiter_reset(kit.limiter, &request), 1);
    assert_int_equal(kit_check(&kit, "acme", NULL, 0).remaining, 100);
}

static void nobody_is_asked_without_keys_store(void **state)
{
    (void)state;
    tier = "gold";
    kit_reload(&kit, "tiers: {default: free}\nlimits:\n  - {name: free, tier: free, rate: 10/m}\n");
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(policy_of("acme"), "free");
    assert_int_equal(asked, 0);
    kit_reload(&kit, POLICY);
    assert_string_equal(policy_of("acme"), "gold");
    sl_limiter_set_key_tier(kit.limiter, NULL, NULL);
    assert_string_equal(policy_of("acme"), "free");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_decision_has_the_latest_answer),      TEST(those_whose_tier_is_known_are_not_asked_about),
        TEST(addresses_are_asked_about_in_one_spelling), TEST(batches_ask_about_each_key),
        TEST(inspection_and_reset_see_the_same_tier),    TEST(nobody_is_asked_without_keys_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
