#include "store/slots.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* CRC16 as XMODEM has it: polynomial 0x1021, from zero, the highest bit first. */
static uint16_t crc16(const char *bytes, size_t len)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)((unsigned char)bytes[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

unsigned sl_slot_of(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    const char *close = open ? memchr(open, '}', (size_t)(key + len - open)) : NULL;

    if (close && close > open + 1) {
        key = open + 1;
        len = (size_t)(close - key);
    }
    return crc16(key, len) % SL_SLOTS;
}

/* The value of "ip" in the metadata of a server, if there is one: [host, port, id, [name, value, ...]]. */
static bool metadata_ip(const struct sl_reply *server, char *buf, size_t size)
{
    const struct sl_reply *metadata;

    if (server->n < 4 || !sl_reply_is_array(server->elements[3], 2))
        return false;
    metadata = server->elements[3];
    for (size_t i = 0; i + 1 < metadata->n; i += 2) {
        if (sl_reply_is(metadata->elements[i], "ip"))
            return sl_reply_copy(metadata->elements[i + 1], buf, size) && buf[0];
    }
    return false;
}

/* One server of a range. Returns 0 or SL_EFORMAT; host "" when it cannot be told. */
static int read_server(const struct sl_reply *server, const struct sl_endpoint *asked, struct sl_endpoint *ret_endpoint)
{
    const struct sl_reply *host, *port;

    *ret_endpoint = (struct sl_endpoint){.port = 0};
    if (!sl_reply_is_array(server, 2))
        return SL_EFORMAT;
    host = server->elements[0];
    port = server->elements[1];
    if (port->type != SL_REPLY_INTEGER || port->integer < 0 || port->integer > 65535)
        return SL_EFORMAT;
    ret_endpoint->port = (uint16_t)port->integer;
    if (host->type == SL_REPLY_NIL || sl_reply_is(host, "")) {
        memcpy(ret_endpoint->host, asked->host, sizeof asked->host);
        return 0;
    }
    if (!sl_reply_copy(host, ret_endpoint->host, sizeof ret_endpoint->host))
        return SL_EFORMAT;
    if (strcmp(ret_endpoint->host, "?") == 0 && !metadata_ip(server, ret_endpoint->host, sizeof ret_endpoint->host))
        ret_endpoint->host[0] = '\0';
    if (!ret_endpoint->port)
        ret_endpoint->host[0] = '\0';
    return 0;
}

static int read_range(const struct sl_reply *item, const struct sl_endpoint *asked, struct sl_slot_range *ret_range)
{
    const struct sl_reply *from, *to;

    if (!sl_reply_is_array(item, 3))
        return SL_EFORMAT;
    from = item->elements[0];
    to = item->elements[1];
    if (from->type != SL_REPLY_INTEGER || to->type != SL_REPLY_INTEGER || from->integer < 0 ||
        from->integer > to->integer || to->integer >= SL_SLOTS)
        return SL_EFORMAT;
    ret_range->from = (uint16_t)from->integer;
    ret_range->to = (uint16_t)to->integer;
    return read_server(item->elements[2], asked, &ret_range->master);
}

int sl_slots_read(const struct sl_reply *reply, const struct sl_endpoint *asked, const struct sl_alloc *alloc,
                  struct sl_slot_range **ret_ranges)
{
    struct sl_slot_range *ranges;

    if (!sl_reply_is_array(reply, 0) || reply->n > SL_SLOT_RANGES_MAX)
        return SL_EFORMAT;
    ranges = sl_calloc(alloc, reply->n + 1, sizeof *ranges);
    if (!ranges)
        return SL_ENOMEM;
    for (size_t i = 0; i < reply->n; i++) {
        if (read_range(reply->elements[i], asked, &ranges[i])) {
            sl_free(alloc, ranges);
            return SL_EFORMAT;
        }
    }
    *ret_ranges = ranges;
    return (int)reply->n;
}

static bool is_among(const struct sl_endpoint *endpoints, unsigned n, const struct sl_endpoint *endpoint)
{
    for (unsigned i = 0; i < n; i++) {
        if (sl_endpoint_equal(&endpoints[i], endpoint))
            return true;
    }
    return false;
}

unsigned sl_slots_servers(const struct sl_reply *reply, const struct sl_endpoint *asked,
                          struct sl_endpoint *ret_endpoints, unsigned max)
{
    unsigned n = 0;

    for (size_t i = 0; i < reply->n; i++) {
        const struct sl_reply *item = reply->elements[i];

        if (!sl_reply_is_array(item, 3))
            continue;
        for (size_t j = 2; j < item->n && n < max; j++) {
            struct sl_endpoint endpoint;

            if (read_server(item->elements[j], asked, &endpoint) == 0 && endpoint.host[0] &&
                !is_among(ret_endpoints, n, &endpoint))
                ret_endpoints[n++] = endpoint;
        }
    }
    return n;
}

/* A decimal number of at most `max` that ends at `end`. */
static bool read_number(const char *at, const char *end, unsigned max, unsigned *ret_number)
{
    unsigned number = 0;

    if (at == end)
        return false;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        number = number * 10 + (unsigned)(*at - '0');
        if (number > max)
            return false;
    }
    *ret_number = number;
    return true;
}

int sl_slots_redirect(const char *text, size_t len, const struct sl_endpoint *asked, unsigned *ret_slot,
                      struct sl_endpoint *ret_endpoint)
{
    const char *end = text + len, *slot = memchr(text, ' ', len), *host, *host_end;
    unsigned port;

    host = slot ? memchr(slot + 1, ' ', (size_t)(end - slot - 1)) : NULL;
    if (!host || !read_number(slot + 1, host, SL_SLOTS - 1, ret_slot))
        return SL_EFORMAT;
    host++;
    host_end = memrchr(host, ':', (size_t)(end - host));
    if (!host_end || !read_number(host_end + 1, end, 65535, &port) || !port || host_end - host > SL_HOST_MAX ||
        memchr(host, '\0', (size_t)(host_end - host)))
        return SL_EFORMAT;
    *ret_endpoint = (struct sl_endpoint){.port = (uint16_t)port};
    memcpy(ret_endpoint->host, host_end == host ? asked->host : host,
           host_end == host ? strlen(asked->host) : (size_t)(host_end - host));
    return 0;
}
