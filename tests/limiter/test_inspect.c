/* Finding and resetting the buckets of one key. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

#define POLICY                                                                                              \
    "endpoints:\n  a: {match: [\"GET /a*\"]}\n  b: {match: [\"GET /b*\"]}\n"                                \
    "limits:\n"                                                                                             \
    "  - {name: two, rates: [10/m, 20/h]}\n"                                                                \
    "  - {name: each, layer: endpoints, per: [key, endpoint], rate: 5/m}\n"                                 \
    "  - {name: only-b, layer: b, endpoint: b, per: [key, endpoint], algorithm: fixed_window, rate: 7/m}\n" \
    "  - {name: log, layer: log, algorithm: sliding_window_log, rate: 30/m}\n"                              \
    "  - {name: all, layer: backend, per: [], rate: 1000/m}\n"                                              \
    "  - {name: someone, layer: x, key: someone, rate: 3/m}\n"                                              \
    "  - {name: users, layer: x, key_type: user, rate: 3/m}\n"                                              \
    "  - {name: by-address, layer: z, per: [address], rate: 9/m}\n"                                         \
    "  - {name: tried, layer: trial, rate: 4/m, mode: dry_run}\n"                                           \
    "  - {name: off, layer: trial, rate: 4/m, mode: off}\n"

struct found {
    char text[2000];
    unsigned n;
};

static void note(void *ctx, const struct sl_bucket_info *info)
{
    struct found *found = ctx;
    size_t len = strlen(found->text);

    snprintf(found->text + len, sizeof found->text - len, "%s/%u/%s=%d;", info->limit->name, info->rate_idx,
             info->endpoint, (int)info->numbers.remaining);
    found->n++;
}

static struct found inspect(struct kit *k, const struct sluice_request *request)
{
    struct found found = {.n = 0};

    size_t n = sl_limiter_inspect(k->limiter, request, note, &found);

    assert_int_equal(n, found.n);
    return found;
}

static void every_live_bucket_of_the_key_is_told(void **state)
{
    struct kit k;
    struct sluice_request key = kit_request("k", NULL, 1);

    (void)state;
    kit_open(&k, POLICY);
    assert_int_equal(inspect(&k, &key).n, 0);
    kit_check(&k, "k", "GET /a", 1);
    kit_check(&k, "k", "GET /b", 1);
    kit_check(&k, "k", "elsewhere", 1);
    kit_check(&k, "stranger", "GET /a", 1);
    assert_string_equal(inspect(&k, &key).text, "two/0/=7;two/1/=17;each/0/=4;each/0/a=4;each/0/b=4;only-b/0/b=6;"
                                                "log/0/=27;all/0/=996;tried/0/=1;");
    key = kit_request("k", "GET /a", 1);
    assert_string_equal(inspect(&k, &key).text, "two/0/=7;two/1/=17;each/0/a=4;log/0/=27;all/0/=996;tried/0/=1;");
    key = kit_request("nobody", NULL, 1);
    assert_string_equal(inspect(&k, &key).text, "all/0/=996;");
    k.now_us += 3600 * SL_SECOND_US;
    key = kit_request("k", NULL, 1);
    assert_int_equal(inspect(&k, &key).n, 0);
    kit_close(&k);
}

static void a_reset_forgets_what_is_the_keys_own(void **state)
{
    struct kit k;
    struct sluice_request key = kit_request("k", NULL, 1);

    (void)state;
    kit_open(&k, POLICY);
    kit_check(&k, "k", "GET /a", 4);
    kit_check(&k, "k", "GET /b", 4);
    kit_check(&k, "other", "GET /b", 4);
    assert_int_equal(sl_limiter_reset(k.limiter, &key), 7);
    assert_string_equal(inspect(&k, &key).text, "all/0/=988;");
    assert_int_equal(sl_limiter_reset(k.limiter, &key), 0);
    assert_string_equal(kit_check(&k, "k", "GET /a", 0).policy, "all"); /* what is its own is whole */
    assert_int_equal(kit_check(&k, "other", "GET /b", 0).remaining, 1);
    kit_close(&k);
}

static void buckets_of_an_address_are_found_by_it(void **state)
{
    struct kit k;
    struct sluice_request request = kit_request("k", NULL, 2);
    struct found found;

    (void)state;
    kit_open(&k, "limits:\n  - {name: by-address, layer: z, per: [address], rate: 9/m}\n"
                 "ceiling: {rate: 100/m, burst: 100}\n");
    request.address = "::ffff:192.0.2.1";
    request.address_len = strlen(request.address);
    assert_string_equal(kit_decide(&k, &request).policy, "by-address");
    found = inspect(&k, &request);
    assert_non_null(strstr(found.text, "by-address/0/=7;"));

    struct sluice_request plain = kit_request("192.0.2.1", NULL, 1);

    plain.key_type = "address";
    plain.key_type_len = 7;
    assert_string_equal(inspect(&k, &plain).text, "by-address/0/=7;");
    assert_int_equal(sl_limiter_reset(k.limiter, &plain), 1);
    assert_int_equal(inspect(&k, &plain).n, 0);
    kit_close(&k);
}

static void the_ceilings_own_buckets_are_found_too(void **state)
{
    struct kit k;
    struct sluice_request request = kit_request("nobody", NULL, 3);

    (void)state;
    kit_open(&k, "limits:\n  - {name: one, key: someone, rate: 9/m}\nceiling: {rate: 100/m, burst: 100}\n");
    kit_decide(&k, &request);
    assert_string_equal(inspect(&k, &request).text, "/0/=97;");
    assert_int_equal(sl_limiter_reset(k.limiter, &request), 1);
    kit_close(&k);
}

static void a_bad_request_finds_nothing(void **state)
{
    struct kit k;
    struct sluice_request request = kit_request("", NULL, 1);

    (void)state;
    kit_open(&k, POLICY);
    assert_int_equal(inspect(&k, &request).n, 0);
    assert_int_equal(sl_limiter_reset(k.limiter, &request), 0);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_live_bucket_of_the_key_is_told),
        cmocka_unit_test(a_reset_forgets_what_is_the_keys_own),
        cmocka_unit_test(buckets_of_an_address_are_found_by_it),
        cmocka_unit_test(the_ceilings_own_buckets_are_found_too),
        cmocka_unit_test(a_bad_request_finds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
