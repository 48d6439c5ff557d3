#include "store/net.h"

#include <stdio.h>
#include <string.h>

const char *sl_endpoint_text(const struct sl_endpoint *endpoint, char buf[static SL_ENDPOINT_TEXT_MAX])
{
    if (endpoint->is_unix)
        snprintf(buf, SL_ENDPOINT_TEXT_MAX, "%s", endpoint->host);
    else if (strchr(endpoint->host, ':'))
        snprintf(buf, SL_ENDPOINT_TEXT_MAX, "[%s]:%u", endpoint->host, endpoint->port);
    else
        snprintf(buf, SL_ENDPOINT_TEXT_MAX, "%s:%u", endpoint->host, endpoint->port);
    return buf;
}

bool sl_endpoint_equal(const struct sl_endpoint *a, const struct sl_endpoint *b)
{
    return a->is_unix == b->is_unix && a->port == b->port && strcmp(a->host, b->host) == 0;
}
