/* Who the client is behind proxies: what a client writes into a header never chooses its key. */
#include "identity/forwarded.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#define XFF SL_FORWARDED_XFF
#define RFC7239 SL_FORWARDED_RFC7239
#define SINGLE SL_FORWARDED_SINGLE

#define MALFORMED " malformed"

static struct sl_cidr trusted[3];

static int trust_private_networks(void **state)
{
    static const char *const networks[] = {"127.0.0.0/8", "10.0.0.0/8", "fd00::/8"};
    const char *why;

    (void)state;
    for (int i = 0; i < 3; i++) {
        if (sl_cidr_parse(networks[i], strlen(networks[i]), &trusted[i], &why))
            return -1;
    }
    return 0;
}

/* The client for a header of up to three lines (NULL: no such line), with " malformed" behind it when the walk met
 * something bad. */
static const char *client3(enum sl_forwarded_kind kind, const char *peer, const char *first, const char *second,
                           const char *third)
{
    static char out[SL_ADDRESS_TEXT_MAX + sizeof MALFORMED];
    const char *const texts[] = {first, second, third};
    struct sl_slice lines[3];
    struct sl_address address;
    struct sl_forwarded_result result;
    size_t n = 0;

    for (; n < 3 && texts[n]; n++)
        lines[n] = (struct sl_slice){texts[n], strlen(texts[n])};
    assert_int_equal(sl_address_parse(peer, strlen(peer), &address), 0);
    result = sl_forwarded_client(kind, &address, trusted, 3, lines, n);
    if (!result.from_header)
        assert_memory_equal(&result.client.bytes, address.bytes, 16);
    sl_address_key(&result.client, 128, out);
    if (result.malformed)
        snprintf(out + strlen(out), sizeof MALFORMED, "%s", MALFORMED);
    return out;
}

static const char *client(enum sl_forwarded_kind kind, const char *peer, const char *line)
{
    return client3(kind, peer, line, NULL, NULL);
}

static void the_walk_skips_trusted_hops_from_the_right(void **state)
{
    (void)state;
    assert_string_equal(client(XFF, "127.0.0.1", "203.0.113.9"), "203.0.113.9");
    assert_string_equal(client(XFF, "127.0.0.1", "6.6.6.6, 203.0.113.9, 10.1.2.3"), "203.0.113.9");
    assert_string_equal(client(XFF, "fd00::1", "203.0.113.9,fd00::2 ,10.0.0.1"), "203.0.113.9");
    assert_string_equal(client(XFF, "10.0.0.5", "10.0.0.1, 10.0.0.2, 10.0.0.3"), "10.0.0.1");
    assert_string_equal(client(XFF, "::ffff:10.0.0.5", "::ffff:203.0.113.9"), "203.0.113.9");
    assert_string_equal(client3(XFF, "127.0.0.1", NULL, NULL, NULL), "127.0.0.1");
    assert_string_equal(client(XFF, "127.0.0.1", ""), "127.0.0.1");
}

static void b81_leftmost_entry_is_never_believed(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        char line[80];

        snprintf(line, sizeof line, "%u.%u.%u.%u, 198.51.100.7", random_below(256), random_below(256),
                 random_below(256), random_below(256));
        assert_string_equal(client(XFF, "10.0.0.5", line), "198.51.100.7");
    }
}

static void b83_ports_in_a_list(void **state)
{
    (void)state;
    assert_string_equal(client(XFF, "10.0.0.5", "6.6.6.6, 198.51.100.7:5123"), "198.51.100.7");
    assert_string_equal(client(XFF, "10.0.0.5", "[2001:db8::7]:443"), "2001:db8::7");
    assert_string_equal(client(XFF, "10.0.0.5", "2001:db8::7"), "2001:db8::7");
    assert_string_equal(client(XFF, "10.0.0.5", "198.51.100.7, 10.0.0.9:80, [fd00::7]:80"), "198.51.100.7");
}

static void b84_bad_brackets_stop_at_the_last_good_hop(void **state)
{
    (void)state;
    assert_string_equal(client(XFF, "10.0.0.5", "[2001:db8::1]"), "2001:db8::1");
    assert_string_equal(client(XFF, "10.0.0.5", "[2001:db8::1"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "2001:db8::1], 10.0.0.9"), "10.0.0.9" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "203.0.113.1, [192.0.2.1], 10.0.0.9, 10.0.0.8"), "10.0.0.9" MALFORMED);
}

static void b85_garbage_is_decided_on_the_last_good_hop(void **state)
{
    static char commas[10241];

    (void)state;
    memset(commas, ',', sizeof commas - 1);
    assert_string_equal(client(XFF, "10.0.0.5", "${jndi:ldap://x/a}"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "203.0.113.9, {{7*7}}, 10.0.0.7"), "10.0.0.7" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "999.1.1.1"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "localhost"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "unknown, 10.0.0.9"), "10.0.0.9" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "203.0.113.9, _hidden"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "\x80\xff\xfe"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", commas), "10.0.0.5" MALFORMED);
    assert_string_equal(client(XFF, "10.0.0.5", "203.0.113.9,, ,10.0.0.9,"), "203.0.113.9");
    /* the client's garbage behind the client is never looked at */
    assert_string_equal(client(XFF, "10.0.0.5", "\"'<script>, 203.0.113.9"), "203.0.113.9");
}

static void b86_all_lines_are_one_list(void **state)
{
    (void)state;
    assert_string_equal(client3(XFF, "10.0.0.5", "203.0.113.9", "198.51.100.7", NULL), "198.51.100.7");
    assert_string_equal(client3(XFF, "10.0.0.5", "203.0.113.9", "198.51.100.7\t,\t10.0.0.1", "10.0.0.2"),
                        "198.51.100.7");
    assert_string_equal(client3(XFF, "10.0.0.5", "203.0.113.9", "", "10.0.0.2"), "203.0.113.9");
    assert_string_equal(client3(XFF, "10.0.0.5", "203.0.113.9", "garbage", "10.0.0.2"), "10.0.0.2" MALFORMED);
    assert_string_equal(client3(RFC7239, "10.0.0.5", "for=203.0.113.9", "for=198.51.100.7", "for=10.0.0.2"),
                        "198.51.100.7");
}

static void b87_headers_of_untrusted_peers_are_ignored(void **state)
{
    struct sl_address peer;

    (void)state;
    assert_int_equal(sl_address_parse("198.51.100.50", 13, &peer), 0);
    for (unsigned i = 1; i <= 200; i++) {
        char line[40];
        struct sl_slice span = {line, 0};
        struct sl_forwarded_result result;

        span.len = (size_t)snprintf(line, sizeof line, "203.0.113.%u", i);
        for (int kind = XFF; kind <= SINGLE; kind++) {
            result = sl_forwarded_client((enum sl_forwarded_kind)kind, &peer, NULL, 0, &span, 1);
            assert_false(result.from_header);
            assert_false(result.malformed);
            assert_memory_equal(result.client.bytes, peer.bytes, 16);
        }
        assert_string_equal(client(XFF, "198.51.100.50", line), "198.51.100.50");
    }
}

static void b89_forwarded_with_bare_ipv6_is_malformed(void **state)
{
    (void)state;
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=2001:db8:cafe::17"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"2001:db8::1:8080\""), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"2001:db8::1\", for=10.0.0.9"), "10.0.0.9" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"[2001:db8::1]:8080\""), "2001:db8::1");
}

static void forwarded_elements_are_read_by_their_grammar(void **state)
{
    (void)state;
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=192.0.2.60;proto=http;by=203.0.113.43"), "192.0.2.60");
    assert_string_equal(client(RFC7239, "10.0.0.5", "For=\"192.0.2.60:4711\" ; host=example.test:80"), "192.0.2.60");
    assert_string_equal(client(RFC7239, "10.0.0.5", "by=\"_x,for=6.6.6.6\";for=192.0.2.60"), "192.0.2.60");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=192.0.2.60;host=\"a\\\"b, for=6.6.6.6\""), "192.0.2.60");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=192.0.2.43, for=10.0.0.1, for=\"[fd00::1]\""), "192.0.2.43");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=unknown"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=_secret"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "proto=https"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=192.0.2.1;for=192.0.2.2"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=192.0.2.1;nonsense"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"\"192.0.2.1\"\""), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "192.0.2.1"), "10.0.0.5" MALFORMED);
    assert_string_equal(client(RFC7239, "10.0.0.5", "for="), "10.0.0.5" MALFORMED);
}

/* A client sends an open quote; the proxy appends its own element behind it. */
static void an_open_quote_cannot_swallow_the_proxys_element(void **state)
{
    (void)state;
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"6.6.6.6, for=198.51.100.7"), "198.51.100.7");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"6.6.6.6, for=\"[2001:db8::7]:443\""), "2001:db8::7");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"6.6.6.6\\, for=\"[2001:db8::7]:443\""), "2001:db8::7");
    assert_string_equal(client(RFC7239, "10.0.0.5", "for=\"6.6.6.6, for=10.0.0.9"), "10.0.0.9" MALFORMED);
}

static void a_single_value_header_holds_one_address(void **state)
{
    (void)state;
    assert_string_equal(client(SINGLE, "10.0.0.5", "203.0.113.9"), "203.0.113.9");
    assert_string_equal(client(SINGLE, "10.0.0.5", " [2001:db8::7]:443 "), "2001:db8::7");
    assert_string_equal(client(SINGLE, "10.0.0.5", "10.0.0.9"), "10.0.0.9");
    assert_string_equal(client(SINGLE, "10.0.0.5", "6.6.6.6, 203.0.113.9"), "10.0.0.5" MALFORMED);
    assert_string_equal(client3(SINGLE, "10.0.0.5", "6.6.6.6", "203.0.113.9", NULL), "10.0.0.5" MALFORMED);
    assert_string_equal(client(SINGLE, "10.0.0.5", ""), "10.0.0.5");
    assert_string_equal(client3(SINGLE, "10.0.0.5", NULL, NULL, NULL), "10.0.0.5");
}

/* Whatever a client writes in front, the address that the trusted proxy appended is the answer. */
static void random_prefixes_never_change_the_client(void **state)
{
    static const char alphabet[] = "\"\\,;=[]:. \t%for10a_\x80";

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char line[200], want[SL_ADDRESS_TEXT_MAX];
        unsigned n = random_below(60);
        size_t len = 0;

        while (len < n)
            line[len++] = alphabet[random_below(sizeof alphabet - 1)];
        snprintf(want, sizeof want, "203.0.113.%u", random_below(256));
        if (i % 2)
            snprintf(line + len, sizeof line - len, ", %s", want);
        else
            snprintf(line + len, sizeof line - len, ", for=\"%s:80\"", want);
        if (strcmp(client(i % 2 ? XFF : RFC7239, "10.0.0.5", line), want) != 0)
            fail_msg("%s", line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_walk_skips_trusted_hops_from_the_right),
        cmocka_unit_test(b81_leftmost_entry_is_never_believed),
        cmocka_unit_test(b83_ports_in_a_list),
        cmocka_unit_test(b84_bad_brackets_stop_at_the_last_good_hop),
        cmocka_unit_test(b85_garbage_is_decided_on_the_last_good_hop),
        cmocka_unit_test(b86_all_lines_are_one_list),
        cmocka_unit_test(b87_headers_of_untrusted_peers_are_ignored),
        cmocka_unit_test(b89_forwarded_with_bare_ipv6_is_malformed),
        cmocka_unit_test(forwarded_elements_are_read_by_their_grammar),
        cmocka_unit_test(an_open_quote_cannot_swallow_the_proxys_element),
        cmocka_unit_test(a_single_value_header_holds_one_address),
        cmocka_unit_test(random_prefixes_never_change_the_client),
    };

    random_start();
    return cmocka_run_group_tests(tests, trust_private_networks, NULL);
}
