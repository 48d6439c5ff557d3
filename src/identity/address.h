/* Client addresses: parsed strictly, compared as bytes, grouped, and written in one spelling.
 *
 * IPv4 is four decimal octets without leading zeros (never octal). IPv6 is RFC 4291 text, any case; a zone id
 * ("%eth0": 1 ... 64 unreserved characters and percent signs) is dropped, an IPv4-mapped address (::ffff:1.2.3.4 in any
 * spelling) is the IPv4 address. Pure; any thread. */
#ifndef SL_IDENTITY_ADDRESS_H
#define SL_IDENTITY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct sl_address {
    uint8_t bytes[16]; /* IPv4: the first four, the rest zero */
    bool v4;
};

/* The longest text sl_address_key writes, NUL included. */
#define SL_ADDRESS_TEXT_MAX 52

/* Parses exactly len bytes: a bare address, no port, no brackets. Returns 0 or SL_EINVALID. */
int sl_address_parse(const char *text, size_t len, struct sl_address *ret_address);

/* Parses one element of a forwarding header: optional spaces, quotes, brackets, port, zone ("203.0.113.9:51",
 * "\"[2001:db8::7]:443\"", " 2001:db8::7 "). Returns 0; SL_EINVALID for `unknown`, obfuscated identifiers and
 * garbage. */
int sl_address_parse_node(const char *text, size_t len, struct sl_address *ret_address);

/* From an IPv4 or IPv6 socket address. Returns 0; SL_EUNSUPPORTED for another family. */
int sl_address_from_sockaddr(const struct sockaddr *sa, struct sl_address *ret_address);

/* The key of an address: IPv4 as it is ("192.0.2.1"); IPv6 in RFC 5952 text, cut to prefix_len bits (1 ... 128)
 * and, when that is less than 128, with the prefix written: "2001:db8:1:2::/64". Returns the length; buf is
 * NUL-terminated. */
size_t sl_address_key(const struct sl_address *address, unsigned prefix_len, char buf[SL_ADDRESS_TEXT_MAX]);

/* Normalises an address or an own key ("2001:db8:1:2::/64") given as text to the key under prefix_len: what
 * `address` and a key of type address go through before they are looked up. Returns 0 and the length in *ret_len, or
 * SL_EINVALID, also for a key under another prefix or with bits set behind it. */
int sl_address_normalise(const char *text, size_t len, unsigned prefix_len, char buf[SL_ADDRESS_TEXT_MAX],
                         size_t *ret_len);

struct sl_cidr {
    struct sl_address address; /* bits beyond prefix_len are zero */
    unsigned prefix_len;       /* 0 ... 32 for IPv4, 0 ... 128 for IPv6 */
};

/* Parses "10.0.0.0/8", "fd00::/8" or a bare address. Host bits that are set are an error that *ret_why names. */
int sl_cidr_parse(const char *text, size_t len, struct sl_cidr *ret_cidr, const char **ret_why);

bool sl_cidr_contains(const struct sl_cidr *cidr, const struct sl_address *address);

/* True when any of n contains the address. */
bool sl_cidrs_contain(const struct sl_cidr *cidrs, size_t n, const struct sl_address *address);

#endif
