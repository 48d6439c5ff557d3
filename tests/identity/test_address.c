/* Addresses: one key per client, whatever the spelling; anything that is no address is refused, never guessed at. */
#include "identity/address.h"

#include "base/err.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#define ROUNDS 100000

/* The key of an address under a prefix, or "refused". */
static const char *key(const char *text, unsigned prefix_len)
{
    static char buf[4][SL_ADDRESS_TEXT_MAX];
    static unsigned turn;
    char *out = buf[turn++ % 4];
    size_t len;

    if (sl_address_normalise(text, strlen(text), prefix_len, out, &len))
        return "refused";
    assert_int_equal(len, strlen(out));
    return out;
}

/* The full address of a node of a forwarding header, or "refused". */
static const char *node(const char *text)
{
    static char out[SL_ADDRESS_TEXT_MAX];
    struct sl_address address;

    if (sl_address_parse_node(text, strlen(text), &address))
        return "refused";
    sl_address_key(&address, 128, out);
    return out;
}

static void b75_low_64_bits_do_not_make_new_keys(void **state)
{
    (void)state;
    for (int i = 1; i <= 9; i++) {
        char text[40];

        snprintf(text, sizeof text, "2001:db8:1:2::%d", i);
        assert_string_equal(key(text, 64), "2001:db8:1:2::/64");
    }
    assert_string_equal(key("2001:db8:1:3::1", 64), "2001:db8:1:3::/64");
    assert_string_equal(key("2001:db8:1:2:3:4:5:6", 128), "2001:db8:1:2:3:4:5:6");
    assert_string_equal(key("2001:db8:1:2:3:4:5:6", 48), "2001:db8:1::/48");
    assert_string_equal(key("ffff::", 1), "8000::/1");
    assert_string_equal(key("2001:db8:ffff:ffff::", 33), "2001:db8:8000::/33");
    assert_string_equal(key("2001:db8::ff", 127), "2001:db8::fe/127");
}

static void b77_mapped_ipv4_is_never_masked(void **state)
{
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6};
    struct sl_address address;
    char out[SL_ADDRESS_TEXT_MAX];

    (void)state;
    for (unsigned prefix = 1; prefix <= 128; prefix++) {
        assert_string_equal(key("::ffff:192.0.2.1", prefix), "192.0.2.1");
        assert_string_equal(key("::FFFF:c633:6401", prefix), "198.51.100.1");
        assert_string_equal(key("0:0:0:0:0:ffff:192.0.2.1", prefix), "192.0.2.1");
    }
    inet_pton(AF_INET6, "::ffff:192.0.2.1", &peer.sin6_addr);
    assert_int_equal(sl_address_from_sockaddr((struct sockaddr *)&peer, &address), 0);
    assert_true(address.v4);
    sl_address_key(&address, 64, out);
    assert_string_equal(out, "192.0.2.1");
}

static void b79_spellings_of_one_address_share_a_key(void **state)
{
    (void)state;
    assert_string_equal(key("2001:DB8:0:0::1", 128), "2001:db8::1");
    assert_string_equal(key("2001:db8::0001", 128), "2001:db8::1");
    assert_string_equal(key("2001:0db8:0000:0000:0000:0000:0000:0001", 128), "2001:db8::1");
    assert_string_equal(key("192.000.002.001", 64), "refused");
    assert_string_equal(key("0300.0.2.1", 64), "refused");
    assert_string_equal(key("0xc0.0.2.1", 64), "refused");
    assert_string_equal(key("192.0.513", 64), "refused");
    assert_string_equal(key("3221225985", 64), "refused");
    assert_string_equal(key("0.0.0.0", 64), "0.0.0.0");
}

static void b80_zone_ids_are_dropped_and_empty_ones_refused(void **state)
{
    (void)state;
    assert_string_equal(key("fe80::1%eth0", 128), "fe80::1");
    assert_string_equal(key("fe80::1%eth0.100", 128), "fe80::1");
    assert_string_equal(key("fe80::1%25eth0", 128), "fe80::1");
    assert_string_equal(key("1:2:3:4:5:6:7::%a.b", 128), "1:2:3:4:5:6:7:0");
    assert_string_equal(key("fe80::1%", 128), "refused");
    assert_string_equal(key("fe80::1%a b", 128), "refused");
    assert_string_equal(key("192.0.2.1%eth0", 128), "refused");
    assert_string_equal(node("fe80::1%eth0.100"), "fe80::1");
    assert_string_equal(node("[fe80::1%25eth0]:80"), "fe80::1");
    assert_string_equal(node("fe80::1%"), "refused");
}

static void b83_ports_are_taken_off(void **state)
{
    (void)state;
    assert_string_equal(node("198.51.100.7:5123"), "198.51.100.7");
    assert_string_equal(node("198.51.100.7:5124"), "198.51.100.7");
    assert_string_equal(node("[2001:db8::7]:443"), "2001:db8::7");
    assert_string_equal(node("2001:db8::7"), "2001:db8::7");
    assert_string_equal(node("\"[2001:db8::7]:443\""), "2001:db8::7");
    assert_string_equal(node("[2001:db8::7]:_obf"), "2001:db8::7");
    assert_string_equal(node("198.51.100.7:"), "refused");
    assert_string_equal(node("198.51.100.7:65536"), "refused");
    assert_string_equal(node("198.51.100.7:80x"), "refused");
    assert_string_equal(node("[2001:db8::7]443"), "refused");
    assert_string_equal(node("[2001:db8::7]:"), "refused");
    assert_string_equal(node(" \t198.51.100.7 \t"), "198.51.100.7");
}

static void b84_brackets_without_a_port(void **state)
{
    (void)state;
    assert_string_equal(node("[2001:db8::1]"), "2001:db8::1");
    assert_string_equal(node("[2001:db8::1"), "refused");
    assert_string_equal(node("2001:db8::1]"), "refused");
    assert_string_equal(node("[192.0.2.1]"), "refused");
    assert_string_equal(node("[]"), "refused");
    assert_string_equal(node("[::ffff:192.0.2.1]"), "192.0.2.1");
}

static void b85_garbage_is_refused(void **state)
{
    static const char *const garbage[] = {"",
                                          " ",
                                          "${jndi:ldap://x}",
                                          "{{7*7}}",
                                          "999.1.1.1",
                                          "1.2.3",
                                          "1.2.3.4.5",
                                          "1.2.3.",
                                          ".1.2.3",
                                          "localhost",
                                          "unknown",
                                          "_hidden",
                                          "\"",
                                          "\"\"",
                                          "\"1.2.3.4",
                                          "1.2.3.4\"",
                                          ":",
                                          ":::",
                                          "1:",
                                          ":1",
                                          "::1::",
                                          "1:2:3:4:5:6:7",
                                          "1:2:3:4:5:6:7:8:9",
                                          "1::2:3:4:5:6:7:8",
                                          "12345::",
                                          "::1.2.3.4:5",
                                          "::1.2.3.256",
                                          "\xff\xfe",
                                          "1.2.3.4\x80"};

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        assert_string_equal(node(garbage[i]), "refused");
        assert_string_equal(key(garbage[i], 64), "refused");
    }
    assert_int_equal(sl_address_parse("1.2.3.4\0", 8, &(struct sl_address){0}), SL_EINVALID);
}

static void keys_are_their_own_normal_form(void **state)
{
    (void)state;
    assert_string_equal(key("2001:db8:1:2::/64", 64), "2001:db8:1:2::/64");
    assert_string_equal(key("2001:db8:1:2::/64", 56), "refused");
    assert_string_equal(key("2001:db8:1:2::1/64", 64), "refused");
    assert_string_equal(key("2001:db8::/128", 128), "refused");
    assert_string_equal(key("192.0.2.0/24", 24), "refused");
    assert_string_equal(key("2001:db8::/", 64), "refused");
    assert_string_equal(key("2001:db8::/064", 64), "refused");
}

static void other_socket_families_are_unsupported(void **state)
{
    struct sockaddr sa = {.sa_family = AF_UNIX};
    struct sl_address address;

    (void)state;
    assert_int_equal(sl_address_from_sockaddr(&sa, &address), SL_EUNSUPPORTED);
}

/* Text that is often an address and often nearly one. */
static size_t random_text(char *out)
{
    static const char *const pieces[] = {":",   "::",  ".",  "0",         "1",   "ffff", "FFFF", "abcd", "12",
                                         "255", "256", "00", "192.0.2.1", "db8", "g",    "%",    "12345"};
    unsigned n = random_below(18);
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        const char *piece = i % 2 ? ":" : pieces[random_below(17)];

        if (random_below(5) == 0)
            piece = pieces[random_below(17)];
        len += (size_t)sprintf(out + len, "%s", piece);
    }
    return len;
}

static void random_text_is_read_as_inet_pton_reads_it(void **state)
{
    unsigned good = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS * 5; i++) {
        char text[400];
        size_t len = random_text(text);
        struct sl_address address;
        uint8_t want[16] = {0};
        bool v6 = strchr(text, ':') != NULL;
        int ok = strchr(text, '%') ? 0 : inet_pton(v6 ? AF_INET6 : AF_INET, text, want);

        if (strchr(text, '%')) /* zones are ours */
            continue;
        if ((sl_address_parse(text, len, &address) == 0) != (ok == 1))
            fail_msg("%s: inet_pton says %d", text, ok);
        if (ok != 1)
            continue;
        good++;
        if (v6 && address.v4)
            assert_memory_equal(address.bytes, want + 12, 4);
        else
            assert_memory_equal(address.bytes, want, 16);
    }
    assert_true(good > ROUNDS / 100);
}

/* Random addresses with runs of zeros, written by inet_ntop and by us. */
static void formatting_is_that_of_inet_ntop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sl_address address = {.v4 = random_below(4) == 0}, back;
        char want[INET6_ADDRSTRLEN], got[SL_ADDRESS_TEXT_MAX];

        for (unsigned b = 0; b < (address.v4 ? 4 : 16); b += 2) {
            unsigned group = random_below(3) ? 0 : (unsigned)random_next() & (random_below(2) ? 0xffff : 0xff);

            address.bytes[b] = (uint8_t)(group >> 8);
            address.bytes[b + 1] = (uint8_t)group;
        }
        if (!address.v4 && !memcmp(address.bytes, (uint8_t[10]){0}, 10))
            address.bytes[0] = 0x20; /* inet_ntop writes ::/80 with dots */
        inet_ntop(address.v4 ? AF_INET : AF_INET6, address.bytes, want, sizeof want);
        assert_int_equal(sl_address_key(&address, 128, got), strlen(want));
        assert_string_equal(got, want);
        assert_int_equal(sl_address_parse(got, strlen(got), &back), 0);
        assert_memory_equal(back.bytes, address.bytes, 16);
    }
}

static void getaddrinfo_agrees_on_addresses_of_people(void **state)
{
    static const char *const texts[] = {
        "192.0.2.1",       "255.255.255.255", "::", "::1", "fe80::1", "2001:db8::7", "ff02::1:ff00:7",
        "1:2:3:4:5:6:7:8", "64:ff9b::1.2.3.4"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
        struct sl_address ours, theirs;

        assert_int_equal(getaddrinfo(texts[i], NULL, &hints, &found), 0);
        assert_int_equal(sl_address_from_sockaddr(found->ai_addr, &theirs), 0);
        assert_int_equal(sl_address_parse(texts[i], strlen(texts[i]), &ours), 0);
        assert_memory_equal(ours.bytes, theirs.bytes, 16);
        assert_int_equal(ours.v4, theirs.v4);
        freeaddrinfo(found);
    }
}

static bool bit(const struct sl_address *a, unsigned i)
{
    return a->bytes[i / 8] >> (7 - i % 8) & 1;
}

static void random_networks_contain_what_a_bit_loop_says(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sl_cidr cidr = {.address.v4 = random_below(2)};
        struct sl_address address = {.v4 = random_below(8) ? cidr.address.v4 : !cidr.address.v4};
        unsigned bits = cidr.address.v4 ? 32 : 128, flip = random_below(bits);
        bool want = address.v4 == cidr.address.v4;

        cidr.prefix_len = random_below(bits + 1);
        for (unsigned b = 0; b < bits; b++) {
            bool one = random_below(2);

            if (one && b < cidr.prefix_len)
                cidr.address.bytes[b / 8] |= (uint8_t)(0x80 >> b % 8);
            if (one)
                address.bytes[b / 8] |= (uint8_t)(0x80 >> b % 8);
        }
        if (address.v4)
            memset(address.bytes + 4, 0, 12);
        if (random_below(2))
            address.bytes[flip / 8] ^= (uint8_t)(0x80 >> flip % 8);
        for (unsigned b = 0; want && b < cidr.prefix_len; b++)
            want = bit(&cidr.address, b) == bit(&address, b);
        assert_int_equal(sl_cidr_contains(&cidr, &address), want);
        assert_int_equal(sl_cidrs_contain(&cidr, 1, &address), want);
    }
    assert_false(sl_cidrs_contain(NULL, 0, &(struct sl_address){0}));
}

/* "10.0.0.0/8" as parsed, written back; or why it was refused. */
static const char *network(const char *text)
{
    static char out[SL_ADDRESS_TEXT_MAX + 40];
    char address[SL_ADDRESS_TEXT_MAX];
    const char *why = NULL;
    struct sl_cidr cidr;

    if (sl_cidr_parse(text, strlen(text), &cidr, &why)) {
        assert_non_null(why);
        return why;
    }
    sl_address_key(&cidr.address, 128, address);
    snprintf(out, sizeof out, "%s %u%s", address, cidr.prefix_len, cidr.address.v4 ? " v4" : "");
    return out;
}

static void networks_are_parsed_strictly(void **state)
{
    (void)state;
    assert_string_equal(network("10.0.0.0/8"), "10.0.0.0 8 v4");
    assert_string_equal(network("0.0.0.0/0"), "0.0.0.0 0 v4");
    assert_string_equal(network("192.0.2.1"), "192.0.2.1 32 v4");
    assert_string_equal(network("fd00::/8"), "fd00:: 8");
    assert_string_equal(network("::/0"), ":: 0");
    assert_string_equal(network("2001:db8::1"), "2001:db8::1 128");
    assert_string_equal(network("::ffff:10.0.0.0/104"), "10.0.0.0 8 v4");
    assert_string_equal(network("::ffff:0:0/96"), "0.0.0.0 0 v4");
    assert_non_null(strstr(network("::ffff:10.0.0.0/80"), "behind the prefix"));
    assert_non_null(strstr(network("10.0.0.1/8"), "behind the prefix"));
    assert_non_null(strstr(network("fd00::1/64"), "behind the prefix"));
    assert_non_null(strstr(network("10.0.0.0/33"), "0 to 32"));
    assert_non_null(strstr(network("10.0.0.0/"), "0 to 32"));
    assert_non_null(strstr(network("10.0.0.0/08"), "0 to 32"));
    assert_non_null(strstr(network("10.0.0.0/-1"), "0 to 32"));
    assert_non_null(strstr(network("fd00::/129"), "0 to 128"));
    assert_non_null(strstr(network("10.0.0/8"), "not an IP address"));
    assert_non_null(strstr(network("fe80::%eth0/64"), "not an IP address"));
    assert_non_null(strstr(network(""), "not an IP address"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b75_low_64_bits_do_not_make_new_keys),
        cmocka_unit_test(b77_mapped_ipv4_is_never_masked),
        cmocka_unit_test(b79_spellings_of_one_address_share_a_key),
        cmocka_unit_test(b80_zone_ids_are_dropped_and_empty_ones_refused),
        cmocka_unit_test(b83_ports_are_taken_off),
        cmocka_unit_test(b84_brackets_without_a_port),
        cmocka_unit_test(b85_garbage_is_refused),
        cmocka_unit_test(keys_are_their_own_normal_form),
        cmocka_unit_test(other_socket_families_are_unsupported),
        cmocka_unit_test(random_text_is_read_as_inet_pton_reads_it),
        cmocka_unit_test(formatting_is_that_of_inet_ntop),
        cmocka_unit_test(getaddrinfo_agrees_on_addresses_of_people),
        cmocka_unit_test(random_networks_contain_what_a_bit_loop_says),
        cmocka_unit_test(networks_are_parsed_strictly),
    };

    random_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
