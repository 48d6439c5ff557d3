/* Who the client is, behind proxies (SPEC section 7).
 *
 * The peer's address counts unless the peer is trusted; then the one configured header is walked from the right,
 * over all its lines in order, and the first address that is not a trusted proxy is the client; all trusted: the
 * leftmost. A bad element stops the walk at the last good address: `unknown`, an obfuscated identifier, garbage, an
 * element of Forwarded without for= or with an IPv6 address outside brackets. Empty elements are skipped. Pure; any
 * thread. */
#ifndef SL_IDENTITY_FORWARDED_H
#define SL_IDENTITY_FORWARDED_H

#include "base/slice.h"
#include "identity/address.h"

#include <stddef.h>

enum sl_forwarded_kind {
    SL_FORWARDED_XFF,     /* X-Forwarded-For and headers of its form: a comma-separated list of nodes */
    SL_FORWARDED_RFC7239, /* Forwarded: for=...;by=..., for=... */
    SL_FORWARDED_SINGLE,  /* X-Real-IP and its like: one address; a list in it is garbage */
};

struct sl_forwarded_result {
    struct sl_address client;
    bool from_header; /* false: the peer itself */
    bool malformed;   /* the walk met something that is no address (for a counter) */
};

/* peer: the connection's address. trusted: the policy's trusted_proxies. lines: the values of every line of the
 * configured header, in the order received; borrows them for the call. Always gives an answer. */
struct sl_forwarded_result sl_forwarded_client(enum sl_forwarded_kind kind, const struct sl_address *peer,
                                               const struct sl_cidr *trusted, size_t n_trusted,
                                               const struct sl_slice *lines, size_t n_lines);

#endif
