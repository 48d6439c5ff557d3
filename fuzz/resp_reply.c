/* What a server may send: whatever the bytes and however they are cut, replies within the bounds or an error; and
 * what reads a whole reply (the slots of a Cluster, a redirection) takes it or refuses it. The first byte says how
 * the rest is cut. */
#include "base/err.h"
#include "store/reply.h"
#include "store/result.h"
#include "store/slots.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sl_endpoint asked = {.port = 1, .host = "h"};

static void require(int holds)
{
    if (!holds)
        abort();
}

static size_t walk(const struct sl_reply *reply)
{
    size_t bytes = 1;

    switch (reply->type) {
    case SL_REPLY_STRING:
    case SL_REPLY_STATUS:
    case SL_REPLY_ERROR:
        require(reply->text[reply->n] == '\0');
        return bytes + reply->n;
    case SL_REPLY_ARRAY:
        for (size_t i = 0; i < reply->n; i++)
            bytes += walk(reply->elements[i]);
        return bytes;
    default:
        return bytes;
    }
}

static void read_slots(const struct sl_reply *reply)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_endpoint servers[8];
    struct sl_slot_range *ranges;
    int n = sl_slots_read(reply, &asked, &alloc, &ranges);

    require(n >= 0 || n == SL_EFORMAT || n == SL_ENOMEM);
    if (n < 0)
        return;
    for (int i = 0; i < n; i++)
        require(ranges[i].from <= ranges[i].to && ranges[i].to < SL_SLOTS);
    sl_free(&alloc, ranges);
    require(sl_slots_servers(reply, &asked, servers, 8) <= 8);
}

static void read_error(const struct sl_reply *reply)
{
    struct sl_endpoint endpoint;
    unsigned slot;

    require(sl_result_of_error(reply->text, reply->n) < SL_RESULTS);
    if (sl_slots_redirect(reply->text, reply->n, &asked, &slot, &endpoint) == 0)
        require(slot < SL_SLOTS && endpoint.port && endpoint.host[0] && strlen(endpoint.host) <= SL_HOST_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_reply_reader *reader;
    size_t piece = size ? data[0] % 64 + 1u : 1;
    const struct sl_reply *reply;
    const char *why = NULL;
    int found = 0;

    reader = sl_reply_reader_new(&alloc, BYTES_MAX);
    require(reader != NULL);
    for (size_t at = 1; at < size && found >= 0; at += piece) {
        require(sl_reply_feed(reader, (const char *)data + at, size - at < piece ? size - at : piece) == 0);
        while ((found = sl_reply_next(reader, &reply, &why)) > 0) {
            require(walk(reply) <= BYTES_MAX);
            read_slots(reply);
            if (reply->type == SL_REPLY_ERROR)
                read_error(reply);
        }
    }
    require(found == 0 || (found == SL_EFORMAT && why && *why));
    sl_reply_reader_free(reader);
    return 0;
}
