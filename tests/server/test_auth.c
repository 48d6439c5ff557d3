/* /auth on a clock that stands still: who is asked for, what for, and what is answered. */
#include "door.h"

#include <stdio.h>
#include <string.h>

#define IDENTITY                                                                                   \
    "identity: {order: [api_key, user, address], headers: {api_key: X-Api-Key, user: X-User-Id}, " \
    "trusted_headers: [user], trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]}\n"

#define assert_header(door, name, want)                     \
    do {                                                    \
        assert_non_null(door_header(door, name));           \
        assert_string_equal(door_header(door, name), want); \
    } while (0)

#define ASK "GET /auth\nX-Api-Key: k\n"

static void b56_retry_after_is_honest(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: slow, rate: 1/10s}]\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_null(door_header(&d, "Retry-After"));
    d.kit.now_us += 1000;
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_header(&d, "Retry-After", "10");
    d.kit.now_us = T0_US + 9500000;
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_header(&d, "Retry-After", "1");
    assert_non_null(strstr(door_body(&d), "Retry in about 1 second.\""));
    d.kit.now_us += 1000000;
    assert_int_equal(door_ask(&d, ASK), 200);
    door_close(&d);
}

static void b60_reset_stays_the_windows_end(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: w, rate: 2/60s, algorithm: fixed_window}]\n");
    d.kit.now_us = T0_MINUTE_US + MINUTE_US;
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_header(&d, "RateLimit-Reset", "60");
    d.kit.now_us += 2000000;
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_header(&d, "RateLimit-Reset", "58");
    d.kit.now_us += 3000000;
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_header(&d, "RateLimit-Reset", "55");
    assert_header(&d, "Retry-After", "55");
    door_close(&d);
}

static void b62_resets_are_delta_seconds_always(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "http: {headers: x}\nlimits: [{name: w, rate: 2/60s, algorithm: fixed_window}]\n");
    d.kit.now_us = T0_MINUTE_US + MINUTE_US + 30000000;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(door_ask(&d, ASK), i < 2 ? 200 : 429);
        assert_header(&d, "RateLimit-Reset", "30");
        assert_header(&d, "X-RateLimit-Reset", "30");
        assert_header(&d, "X-RateLimit-Limit", "2");
    }
    door_close(&d);
    door_open(&d, "http: {headers: draft}\nlimits: [{name: w, rate: 2/60s, algorithm: fixed_window}]\n");
    d.kit.now_us = T0_MINUTE_US + MINUTE_US + 30000000;
    for (int i = 0; i < 3; i++) {
        door_ask(&d, ASK);
        assert_header(&d, "RateLimit", i == 0 ? "\"w\";r=1;t=30" : "\"w\";r=0;t=30");
        assert_header(&d, "RateLimit-Policy", "\"w\";q=2;w=60");
    }
    door_close(&d);
}

static void b63_zero_is_a_value(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: one, rate: 1/s}]\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_header(&d, "RateLimit-Limit", "1");
    assert_header(&d, "RateLimit-Remaining", "0");
    d.kit.now_us += 2000000;
    assert_int_equal(door_ask(&d, "GET /auth/peek\nX-Api-Key: k\n"), 200);
    door_close(&d);
    door_open(&d, "endpoints: {peek: {match: [\"GET /peek\"], cost: 0}}\nlimits: [{name: one, rate: 1/s}]\n");
    assert_int_equal(door_ask(&d, "GET /auth/peek\nX-Api-Key: k\n"), 200);
    assert_header(&d, "RateLimit-Reset", "0");
    assert_header(&d, "RateLimit-Remaining", "1");
    door_close(&d);
}

static void b65_remaining_never_falls_below_zero(void **state)
{
    static const char *const want[] = {"4", "3", "2", "1", "0", "0", "0", "0"};
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: five, rate: 5/m, algorithm: fixed_window}]\n");
    for (int i = 0; i < 8; i++) {
        assert_int_equal(door_ask(&d, ASK), i < 5 ? 200 : 429);
        assert_header(&d, "RateLimit-Remaining", want[i]);
    }
    door_close(&d);
}

static void unknown_values_send_no_header(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: all, rate: unlimited}]\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_int_equal(d.response.n_headers, 0);
    assert_int_equal(d.response.body.len, 0);
    door_close(&d);
    door_open(&d, "http: {headers: draft}\nlimits: [{name: all, rate: unlimited}]\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_int_equal(d.response.n_headers, 0);
    door_close(&d);
}

static void never_has_no_retry_after(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "endpoints: {big: {match: [\"GET /big\"], cost: 7}}\nlimits: [{name: five, rate: 5/m}]\n");
    assert_int_equal(door_ask(&d, "GET /auth/big\nX-Api-Key: k\n"), 429);
    assert_null(door_header(&d, "Retry-After"));
    assert_header(&d, "RateLimit-Limit", "5");
    assert_non_null(strstr(door_body(&d), "\"code\":\"cost_exceeds_limit\""));
    door_close(&d);
    door_open(&d, "limits: [{name: shut, rate: blocked}]\n");
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_null(door_header(&d, "Retry-After"));
    assert_non_null(strstr(door_body(&d), "\"code\":\"blocked\""));
    door_close(&d);
    door_open(&d, "unmatched: deny\nlimits: [{name: other, key: x, rate: 1/s}]\n");
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_non_null(strstr(door_body(&d), "\"code\":\"unmatched\""));
    door_close(&d);
}

static void warnings_name_the_limit(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "limits: [{name: ten, rate: 10/m, warn_at: 80%}]\n");
    for (int i = 0; i < 7; i++)
        assert_int_equal(door_ask(&d, ASK), 200);
    assert_null(door_header(&d, "RateLimit-Warning"));
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_header(&d, "RateLimit-Warning", "\"ten\";at=80");
    door_close(&d);
}

static void draft_lists_every_rate_and_layer(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "http: {headers: draft}\nlimits:\n"
                  "  - {name: two, rates: [10/s, 100/90s]}\n"
                  "  - {name: edge, layer: edge, rate: 7/1500ms}\n"
                  "  - {name: tried, layer: edge, rate: 1/s, mode: dry_run}\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_header(&d, "RateLimit-Policy", "\"two\";q=10;w=1, \"two\";q=100;w=90, \"edge\";q=7");
    assert_header(&d, "RateLimit", "\"two\";r=9;t=1, \"two\";r=99;t=1, \"edge\";r=6;t=1");
    assert_null(door_header(&d, "RateLimit-Limit"));
    door_close(&d);
}

static void problems_name_the_violated_policies(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, "http: {errors: problem}\nlimits:\n"
                  "  - {name: wide, rate: 100/m}\n"
                  "  - {name: narrow, layer: edge, rate: 1/m}\n");
    assert_int_equal(door_ask(&d, ASK), 200);
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_string_equal(d.response.content_type, "application/problem+json");
    assert_non_null(strstr(door_body(&d), "#quota-exceeded\""));
    assert_non_null(strstr(door_body(&d), "\"violated-policies\":[\"narrow\"]"));
    assert_non_null(strstr(door_body(&d), "\"status\":429"));
    door_close(&d);
}

static void the_body_of_a_rejection(void **state)
{
    struct door d;
    char first[64];

    (void)state;
    door_open(&d, "limits: [{name: one, rate: 1/m}]\n");
    door_ask(&d, ASK);
    assert_int_equal(door_ask(&d, ASK), 429);
    assert_string_equal(d.response.content_type, "application/json");
    assert_non_null(strstr(door_body(&d),
                           "{\"error\":{\"code\":\"rate_limited\",\"message\":\"Rate limit exceeded. Retry in "
                           "about 60 seconds.\",\"requestId\":\"req_"));
    snprintf(first, sizeof first, "%s", strstr(door_body(&d), "req_"));
    assert_int_equal(door_ask(&d, "GET /auth?deny=403\nX-Api-Key: k\n"), 403);
    assert_header(&d, "Retry-After", "60");
    assert_null(strstr(door_body(&d), first)); /* every answer has an id of its own */
    assert_int_equal(door_ask(&d, "GET /auth/?deny=403\nX-Api-Key: k\n"), 429);
    assert_int_equal(door_ask(&d, "GET /auth?deny=500\nX-Api-Key: k\n"), 400);
    door_close(&d);
}

/* The limit is 1 for each bucket: a second 200 shows another bucket. */
static void identity_comes_in_the_policys_order(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, IDENTITY "limits: [{name: one, rate: 1/m}]\n");
    assert_int_equal(door_ask(&d, "GET /auth\nX-Api-Key: a\nX-User-Id: u\nX-Forwarded-For: 203.0.113.1\n"), 200);
    assert_int_equal(door_ask(&d, "GET /auth\nx-api-key: a\n"), 429);
    assert_int_equal(door_ask(&d, "GET /auth\nX-User-Id: a\n"), 200); /* the same text, another type */
    assert_int_equal(door_ask(&d, "GET /auth\nX-User-Id: a\nX-Api-Key: \n"), 429);
    assert_int_equal(door_ask(&d, "GET /auth\nX-Forwarded-For: 203.0.113.1\n"), 200);
    assert_int_equal(door_ask(&d, "GET /auth\nX-Forwarded-For: 203.0.113.1, 10.0.0.9\n"), 429);
    d.peer = "198.51.100.5"; /* not trusted: what it says of users is not read */
    assert_int_equal(door_ask(&d, "GET /auth\nX-User-Id: new\n"), 200);
    assert_int_equal(door_ask(&d, "GET /auth\nX-User-Id: newer\n"), 429);
    door_close(&d);
}

static void a_header_given_twice_is_refused(void **state)
{
    struct door d;

    (void)state;
    door_open(&d, IDENTITY "limits: [{name: one, rate: 1/m}]\n");
    assert_int_equal(door_ask(&d, "GET /auth\nX-Api-Key: a\nX-Api-Key: b\n"), 400);
    assert_non_null(strstr(door_body(&d), "\"field\":\"x-api-key\""));
    assert_int_equal(door_ask(&d, "GET /auth\nX-Forwarded-Uri: /a\nX-Forwarded-Uri: /b\n"), 400);
    assert_int_equal(door_ask(&d, "GET /auth\nX-Api-Key: a\n"), 200);
    door_close(&d);
}

static void b72_empty_and_oversized_keys(void **state)
{
    struct door d;
    char text[1024];

    (void)state;
    door_open(&d, "limits: [{name: one, rate: 1/m}]\n" IDENTITY);
    assert_int_equal(door_ask(&d, "GET /auth\nX-Api-Key: \n"), 200); /* empty is absent: the address counts */
    assert_int_equal(door_ask(&d, "GET /auth\n"), 429);
    snprintf(text, sizeof text, "GET /auth\nX-Api-Key: %0512d\n", 1);
    assert_int_equal(door_ask(&d, text), 200);
    snprintf(text, sizeof text, "GET /auth\nX-Api-Key: %0513d\n", 1);
    assert_int_equal(door_ask(&d, text), 400);
    assert_non_null(strstr(door_body(&d), "\"field\":\"key\""));
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"\"}"), 400);
    snprintf(text, sizeof text, "POST /check\n\n{\"key\":\"%0513d\"}", 1);
    assert_int_equal(door_ask(&d, text), 400);
    door_close(&d);
}

static void b85_garbage_in_a_forwarding_header(void **state)
{
    static const char *const garbage[] = {"{{7*7}}", "999.1.1.1", "localhost", ",,,,,,", "\x80\xff", "unknown"};
    struct door d;
    char text[256], commas[10240];

    (void)state;
    door_open(&d, IDENTITY "limits: [{name: many, rate: 100/m}]\n");
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        snprintf(text, sizeof text, "GET /auth\nX-Forwarded-For: %s\n", garbage[i]);
        assert_int_equal(door_ask(&d, text), 200);
    }
    snprintf(commas, sizeof commas, "GET /auth\nX-Forwarded-For: %10200d\n", 0);
    for (char *at = commas + 27; *at != '\n'; at++)
        *at = ',';
    assert_int_equal(door_ask(&d, commas), 200);
    assert_header(&d, "RateLimit-Remaining", "93"); /* all seven on the peer's bucket */
    assert_true(atomic_load(&d.service.counters.bad_forwarded) >= 4);
    door_close(&d);
}

static void b87_headers_of_an_untrusted_peer_count_for_nothing(void **state)
{
    struct door d;
    char text[128];

    (void)state;
    door_open(&d, "limits: [{name: many, rate: 1000/m}]\n");
    d.peer = "198.51.100.50";
    for (int i = 1; i <= 200; i++) {
        snprintf(text, sizeof text, "GET /auth\nX-Forwarded-For: 203.0.113.%d\n", i);
        assert_int_equal(door_ask(&d, text), 200);
    }
    assert_header(&d, "RateLimit-Remaining", "800");
    door_close(&d);
}

#define ENDPOINTS "endpoints: {a: {match: [\"PUT /a/b\"]}, own: {match: [\"GET /own\"]}}\n"
#define ENDPOINT_LIMITS                                                        \
    "limits: [{name: rest, rate: 1000/m}, {name: a, endpoint: a, rate: 7/m}, " \
    "{name: own, endpoint: own, rate: 9/m}]\n"

static void the_scope_is_the_original_request(void **state)
{
    static const char *const same[] = {
        "GET /auth\nX-Forwarded-Method: PUT\nX-Forwarded-Uri: /a/b?x=1\n",
        "GET /auth/own\nX-Forwarded-Method: PUT\nX-Forwarded-Uri: //a/./c/../%62\n",
        "GET /auth\nX-Original-Method: PUT\nX-Original-Uri: https://host/a/b#f\n",
        "PUT /auth\nX-Original-Uri: /a/b\n",
        "PUT /auth/a/b\n",
        "PUT /auth/%61/b?y\n",
    };
    struct door d;

    (void)state;
    door_open(&d, IDENTITY ENDPOINTS ENDPOINT_LIMITS);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(door_ask(&d, same[i]), 200);
        assert_header(&d, "RateLimit-Limit", "7");
    }
    assert_int_equal(door_ask(&d, "GET /auth/own\n"), 200);
    assert_header(&d, "RateLimit-Limit", "9");
    d.peer = "198.51.100.5";
    assert_int_equal(door_ask(&d, "GET /auth/own\nX-Forwarded-Method: PUT\nX-Forwarded-Uri: /a/b\n"), 200);
    assert_header(&d, "RateLimit-Limit", "9");
    assert_int_equal(door_ask(&d, "GET /auth/%zz\n"), 400);
    assert_int_equal(door_ask(&d, "GET /authority\n"), 404);
    door_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b56_retry_after_is_honest),
        cmocka_unit_test(b60_reset_stays_the_windows_end),
        cmocka_unit_test(b62_resets_are_delta_seconds_always),
        cmocka_unit_test(b63_zero_is_a_value),
        cmocka_unit_test(b65_remaining_never_falls_below_zero),
        cmocka_unit_test(unknown_values_send_no_header),
        cmocka_unit_test(never_has_no_retry_after),
        cmocka_unit_test(warnings_name_the_limit),
        cmocka_unit_test(draft_lists_every_rate_and_layer),
        cmocka_unit_test(problems_name_the_violated_policies),
        cmocka_unit_test(the_body_of_a_rejection),
        cmocka_unit_test(identity_comes_in_the_policys_order),
        cmocka_unit_test(a_header_given_twice_is_refused),
        cmocka_unit_test(b72_empty_and_oversized_keys),
        cmocka_unit_test(b85_garbage_in_a_forwarding_header),
        cmocka_unit_test(b87_headers_of_an_untrusted_peer_count_for_nothing),
        cmocka_unit_test(the_scope_is_the_original_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
