/* Forwarding headers, addresses and networks from any bytes: first byte the kind of header, then its lines. Whatever
 * comes out must be stable: a client that is written and read again is the same client. */
#include "identity/forwarded.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAX 8

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_key(const struct sl_address *address, unsigned prefix_len)
{
    char key[SL_ADDRESS_TEXT_MAX], again[SL_ADDRESS_TEXT_MAX];
    size_t len = sl_address_key(address, prefix_len, key), again_len;

    check(len < sizeof key && key[len] == '\0');
    check(sl_address_normalise(key, len, prefix_len, again, &again_len) == 0);
    check(len == again_len && memcmp(key, again, len) == 0);
}

static void parse_alone(const char *text, size_t len)
{
    struct sl_address address;
    struct sl_cidr cidr;
    const char *why = NULL;

    if (sl_address_parse(text, len, &address) == 0)
        check_key(&address, 128);
    if (sl_address_parse_node(text, len, &address) == 0)
        check_key(&address, 64);
    if (sl_cidr_parse(text, len, &cidr, &why) == 0)
        check(sl_cidr_contains(&cidr, &cidr.address));
    else
        check(why != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sl_cidr trusted[] = {{.address = {.bytes = {10}, .v4 = true}, .prefix_len = 8},
                                             {.address = {.bytes = {0xfd}}, .prefix_len = 8}};
    const struct sl_address peer = {.bytes = {10, 0, 0, 5}, .v4 = true};
    struct sl_slice lines[LINES_MAX];
    struct sl_forwarded_result result;
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    size_t n = 0;

    if (size < 1)
        return 0;
    parse_alone(at, size - 1);
    while (n < LINES_MAX && at <= end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;

        lines[n++] = (struct sl_slice){at, (size_t)(stop - at)};
        at = stop + 1;
    }
    result = sl_forwarded_client((enum sl_forwarded_kind)(data[0] % 3), &peer, trusted, 2, lines, n);
    check_key(&result.client, 64);
    check(result.from_header || memcmp(&result.client.bytes, &peer.bytes, 16) == 0);
    return 0;
}
