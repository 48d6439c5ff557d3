/* Addresses as keys and networks: written in one spelling (RFC 5952), cut to a prefix, compared with CIDR blocks. */
#include "identity/address.h"

#include "base/err.h"

#include <string.h>

static char *put_decimal(char *out, unsigned value)
{
    if (value >= 100)
        *out++ = (char)('0' + value / 100);
    if (value >= 10)
        *out++ = (char)('0' + value / 10 % 10);
    *out++ = (char)('0' + value % 10);
    return out;
}

static char *put_hex(char *out, unsigned value)
{
    static const char digits[] = "0123456789abcdef";
    int shift = value > 0xfff ? 12 : value > 0xff ? 8 : value > 0xf ? 4 : 0;

    for (; shift >= 0; shift -= 4)
        *out++ = digits[value >> shift & 15];
    return out;
}

/* RFC 5952, 4.2: "::" replaces the longest run of two or more zero groups, the first of equals. */
static void longest_zeros(const unsigned groups[static 8], int *ret_start, int *ret_len)
{
    *ret_start = -1;
    *ret_len = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;

        while (i + n < 8 && groups[i + n] == 0)
            n++;
        if (n > *ret_len) {
            *ret_start = i;
            *ret_len = n;
        }
        i += n;
    }
}

static char *put_v6(char *out, const uint8_t bytes[static 16])
{
    unsigned groups[8];
    int start, n;

    for (int i = 0; i < 8; i++)
        groups[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
    longest_zeros(groups, &start, &n);
    for (int i = 0; i < 8; i++) {
        if (i == start) {
            *out++ = ':';
            *out++ = ':';
            i += n - 1;
            continue;
        }
        if (i > 0 && out[-1] != ':')
            *out++ = ':';
        out = put_hex(out, groups[i]);
    }
    return out;
}

/* Clears what is beyond the first prefix_len bits; returns true when something was set there. */
static bool clear_host_bits(uint8_t *bytes, unsigned n_bytes, unsigned prefix_len)
{
    bool had = false;

    for (unsigned i = prefix_len / 8; i < n_bytes; i++) {
        unsigned kept = i == prefix_len / 8 ? prefix_len % 8 : 0;
        uint8_t mask = (uint8_t)(0xff00u >> kept);

        had = had || (bytes[i] & (uint8_t)~mask) != 0;
        bytes[i] &= mask;
    }
    return had;
}

size_t sl_address_key(const struct sl_address *address, unsigned prefix_len, char buf[SL_ADDRESS_TEXT_MAX])
{
    char *out = buf;

    if (address->v4) {
        for (int i = 0; i < 4; i++) {
            if (i > 0)
                *out++ = '.';
            out = put_decimal(out, address->bytes[i]);
        }
    } else {
        uint8_t bytes[16];

        memcpy(bytes, address->bytes, sizeof bytes);
        clear_host_bits(bytes, 16, prefix_len);
        out = put_v6(out, bytes);
        if (prefix_len < 128) {
            *out++ = '/';
            out = put_decimal(out, prefix_len);
        }
    }
    *out = '\0';
    return (size_t)(out - buf);
}

/* The number behind a slash: decimal, no leading zero, at most `max`. */
static bool prefix_parse(const char *text, size_t len, unsigned max, unsigned *ret_prefix)
{
    unsigned value = 0;

    if (len == 0 || len > 3 || (len > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *ret_prefix = value;
    return value <= max;
}

int sl_address_normalise(const char *text, size_t len, unsigned prefix_len, char buf[SL_ADDRESS_TEXT_MAX],
                         size_t *ret_len)
{
    const char *slash = memchr(text, '/', len);
    struct sl_address address;

    if (sl_address_parse(text, slash ? (size_t)(slash - text) : len, &address))
        return SL_EINVALID;
    if (slash) {
        unsigned written;

        /* Only a key as sl_address_key writes it: another prefix would name many buckets, or part of one. */
        if (address.v4 || !prefix_parse(slash + 1, len - (size_t)(slash + 1 - text), 127, &written) ||
            written != prefix_len || clear_host_bits(address.bytes, 16, prefix_len))
            return SL_EINVALID;
    }
    *ret_len = sl_address_key(&address, prefix_len, buf);
    return 0;
}

/* The 128-bit form of an address, in which "::ffff:10.0.0.0/104" and "10.0.0.0/8" are the same network. */
static void widen(const struct sl_address *address, uint8_t out[static 16])
{
    memcpy(out, address->bytes, 16);
    if (address->v4) {
        memset(out, 0, 10);
        memset(out + 10, 0xff, 2);
        memcpy(out + 12, address->bytes, 4);
    }
}

int sl_cidr_parse(const char *text, size_t len, struct sl_cidr *ret_cidr, const char **ret_why)
{
    const char *slash = memchr(text, '/', len);
    size_t address_len = slash ? (size_t)(slash - text) : len;
    bool written_v4 = !memchr(text, ':', address_len);
    unsigned max = written_v4 ? 32 : 128, prefix_len = max;
    struct sl_cidr cidr;
    uint8_t wide[16];

    if (memchr(text, '%', len) || sl_address_parse(text, address_len, &cidr.address)) {
        *ret_why = "not an IP address or network such as 10.0.0.0/8 or fd00::/8";
        return SL_EINVALID;
    }
    if (slash && !prefix_parse(slash + 1, len - address_len - 1, max, &prefix_len)) {
        *ret_why = written_v4 ? "the prefix length must be a whole number from 0 to 32"
                              : "the prefix length must be a whole number from 0 to 128";
        return SL_EINVALID;
    }
    widen(&cidr.address, wide);
    if (clear_host_bits(wide, 16, written_v4 ? prefix_len + 96 : prefix_len)) {
        *ret_why = "bits behind the prefix are set; write the network's first address";
        return SL_EINVALID;
    }
    cidr.prefix_len = cidr.address.v4 && !written_v4 ? prefix_len - 96 : prefix_len;
    *ret_cidr = cidr;
    return 0;
}

bool sl_cidr_contains(const struct sl_cidr *cidr, const struct sl_address *address)
{
    unsigned whole = cidr->prefix_len / 8, rest = cidr->prefix_len % 8;

    if (cidr->address.v4 != address->v4 || memcmp(cidr->address.bytes, address->bytes, whole) != 0)
        return false;
    return rest == 0 || ((cidr->address.bytes[whole] ^ address->bytes[whole]) & (0xff00u >> rest) & 0xffu) == 0;
}

bool sl_cidrs_contain(const struct sl_cidr *cidrs, size_t n, const struct sl_address *address)
{
    for (size_t i = 0; i < n; i++) {
        if (sl_cidr_contains(&cidrs[i], address))
            return true;
    }
    return false;
}
