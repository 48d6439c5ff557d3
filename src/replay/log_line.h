/* One line of the combined log format of Apache and nginx:
 *
 *     203.0.113.9 - frank [17/May/2015:10:05:03 +0000] "GET /search?q=1 HTTP/1.1" 200 2326 "referer" "agent"
 *
 * Only what a replay needs is read: who, when and what. Behind the status anything may stand. Bytes in, values out: the
 * results borrow from the line; nothing is unescaped. Pure; any thread. */
#ifndef SL_REPLAY_LOG_LINE_H
#define SL_REPLAY_LOG_LINE_H

#include "identity/forwarded.h"

#include <stddef.h>
#include <stdint.h>

enum sl_log_client {
    SL_LOG_ADDRESS, /* `first` is an IP address */
    SL_LOG_LIST,    /* "client, proxy peer": a forwarded list, unquoted, with the peer behind it */
    SL_LOG_OPAQUE,  /* `first` is something else, e.g. a host name */
};

struct sl_log_line {
    uint64_t t_us;
    enum sl_log_client client;
    struct sl_slice first;     /* the whole first field */
    struct sl_slice forwarded; /* SL_LOG_LIST: what a forwarding header would have held */
    struct sl_address peer;    /* SL_LOG_LIST: the last address, which is whom the server spoke to */
    struct sl_slice method;    /* a token */
    struct sl_slice path;      /* as written, without the query; never empty; may hold spaces or be no path ("*") */
};

/* Returns 0, or SL_EINVALID with *ret_why saying what is wrong (static storage) and *ret_line undefined. */
int sl_log_line_parse(const char *line, size_t len, struct sl_log_line *ret_line, const char **ret_why);

#endif
