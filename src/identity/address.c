/* Addresses: text to bytes. Hand-written because inet_pton needs a NUL and knows neither zones, ports nor brackets;
 * tests compare the two on random input. */
#include "identity/address.h"

#include "base/err.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define ZONE_MAX 64

/* Where a parser stands: the bytes from `at` up to `end` are still to be read. */
struct cursor {
    const char *at, *end;
};

static bool more(const struct cursor *c)
{
    return c->at < c->end;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* One octet: 0 ... 255 with no leading zero, because 010 is ten to one reader and eight to another. */
static bool read_octet(struct cursor *c, uint8_t *ret)
{
    const char *start = c->at;
    unsigned value = 0;

    while (more(c) && is_digit(*c->at) && c->at - start < 3)
        value = value * 10 + (unsigned)(*c->at++ - '0');
    if (c->at == start || value > 255 || (*start == '0' && c->at - start > 1))
        return false;
    *ret = (uint8_t)value;
    return true;
}

static bool read_v4(struct cursor *c, uint8_t out[static 4])
{
    for (int i = 0; i < 4; i++) {
        if (i > 0) {
            if (!more(c) || *c->at != '.')
                return false;
            c->at++;
        }
        if (!read_octet(c, &out[i]))
            return false;
    }
    return true;
}

/* Up to four hex digits; returns how many there were. */
static int read_group(struct cursor *c, unsigned *ret)
{
    int n = 0, digit;

    *ret = 0;
    while (more(c) && n < 4 && (digit = hex_value(*c->at)) >= 0) {
        *ret = *ret << 4 | (unsigned)digit;
        c->at++;
        n++;
    }
    return n;
}

/* The colon between groups, or the one "::". Returns false when neither may stand here. */
static bool read_colon(struct cursor *c, int n_bytes, int *gap)
{
    if (!more(c) || *c->at != ':')
        return false;
    c->at++;
    if (more(c) && *c->at == ':') {
        if (*gap >= 0)
            return false;
        *gap = n_bytes;
        c->at++;
        return true;
    }
    return more(c); /* a single colon must be followed by a group */
}

/* Moves the groups behind "::" to the end. Returns false when the groups and the gap do not make 128 bits. */
static bool fill_gap(uint8_t out[static 16], int n_bytes, int gap)
{
    int tail;

    if (gap < 0)
        return n_bytes == 16;
    if (n_bytes > 14) /* "::" stands for at least one group */
        return false;
    tail = n_bytes - gap;
    memmove(out + 16 - tail, out + gap, (size_t)tail);
    memset(out + gap, 0, (size_t)(16 - n_bytes));
    return true;
}

/* RFC 4291, 2.2: reads until the end; anything left over is an error. */
static bool read_v6(struct cursor *c, uint8_t out[static 16])
{
    int n = 0, gap = -1;

    if (more(c) && *c->at == ':' && (c->end - c->at < 2 || c->at[1] != ':'))
        return false;
    if (more(c) && *c->at == ':' && !read_colon(c, 0, &gap))
        return false;
    while (more(c)) {
        const char *start = c->at;
        unsigned group;

        if (n > 14 || read_group(c, &group) == 0)
            return false;
        if (more(c) && *c->at == '.') {
            c->at = start;
            if (n > 12 || !read_v4(c, out + n) || more(c))
                return false;
            n += 4;
            break;
        }
        out[n] = (uint8_t)(group >> 8);
        out[n + 1] = (uint8_t)group;
        n += 2;
        if (more(c) && !read_colon(c, n, &gap))
            return false;
    }
    return fill_gap(out, n, gap);
}

/* An IPv4-mapped address is the IPv4 address, however it was spelled. */
static void unmap(struct sl_address *address)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    if (memcmp(address->bytes, mapped, sizeof mapped) != 0)
        return;
    memcpy(address->bytes, address->bytes + 12, 4);
    memset(address->bytes + 4, 0, 12);
    address->v4 = true;
}

/* RFC 6874: unreserved characters and percent-escapes; never empty. */
static bool zone_ok(const char *zone, size_t len)
{
    if (len == 0 || len > ZONE_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = zone[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !is_digit(c) && c != '-' && c != '.' && c != '_' && c != '~' && c != '%')
            return false;
    }
    return true;
}

static int parse_v6(const char *text, size_t len, struct sl_address *ret_address)
{
    const char *zone = memchr(text, '%', len);
    struct cursor c = {text, zone ? zone : text + len};
    struct sl_address address = {.v4 = false};

    if (zone && !zone_ok(zone + 1, len - (size_t)(zone + 1 - text)))
        return SL_EINVALID;
    if (!read_v6(&c, address.bytes))
        return SL_EINVALID;
    unmap(&address);
    *ret_address = address;
    return 0;
}

int sl_address_parse(const char *text, size_t len, struct sl_address *ret_address)
{
    struct cursor c = {text, text + len};
    struct sl_address address = {.v4 = true};

    if (len == 0)
        return SL_EINVALID;
    if (len >= 2 && memchr(text, ':', len < 5 ? len : 5)) /* a group is at most four digits long */
        return parse_v6(text, len, ret_address);
    if (!read_v4(&c, address.bytes) || more(&c))
        return SL_EINVALID;
    *ret_address = address;
    return 0;
}

/* A port of RFC 7239: one to five digits, or an obfuscated one, which begins with an underscore. */
static bool port_ok(const char *port, size_t len)
{
    unsigned value = 0;

    if (len > 1 && port[0] == '_')
        return zone_ok(port + 1, len - 1) && !memchr(port, '%', len);
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(port[i]))
            return false;
        value = value * 10 + (unsigned)(port[i] - '0');
    }
    return value <= 65535;
}

/* "[v6]" or "[v6]:port". Brackets around IPv4 are no address. */
static int parse_bracketed(const char *text, size_t len, struct sl_address *ret_address)
{
    const char *close = memchr(text, ']', len);
    const char *end = text + len;

    if (!close || !memchr(text, ':', (size_t)(close - text)))
        return SL_EINVALID;
    if (close + 1 != end && (close[1] != ':' || !port_ok(close + 2, (size_t)(end - close - 2))))
        return SL_EINVALID;
    return parse_v6(text + 1, (size_t)(close - text - 1), ret_address);
}

int sl_address_parse_node(const char *text, size_t len, struct sl_address *ret_address)
{
    const char *colon;

    while (len > 0 && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"')
        text++, len -= 2;
    if (len == 0)
        return SL_EINVALID;
    if (text[0] == '[')
        return parse_bracketed(text, len, ret_address);
    /* One colon is a port; two or more are an IPv6 address, whose last group is never taken for a port. */
    colon = memchr(text, ':', len);
    if (colon && !memchr(colon + 1, ':', len - (size_t)(colon + 1 - text))) {
        if (!port_ok(colon + 1, len - (size_t)(colon + 1 - text)))
            return SL_EINVALID;
        len = (size_t)(colon - text);
    }
    return sl_address_parse(text, len, ret_address);
}

int sl_address_from_sockaddr(const struct sockaddr *sa, struct sl_address *ret_address)
{
    struct sl_address address = {.v4 = false};

    if (sa->sa_family == AF_INET) {
        address.v4 = true;
        memcpy(address.bytes, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        memcpy(address.bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
        unmap(&address);
    } else {
        return SL_EUNSUPPORTED;
    }
    *ret_address = address;
    return 0;
}
