/* Scopes of HTTP requests: `METHOD /path`.
 *
 * The path comes without the query and fragment; unreserved percent-escapes are decoded (RFC 3986, 2.3), the hex
 * digits of others made upper case, spaces and bytes from 0x80 escaped, `//` and dot segments merged, so that one
 * endpoint has one spelling. Absolute-form targets lose scheme and authority; an empty path is "/"; "*" and the
 * authority of CONNECT stay as they are. Pure; any thread. */
#ifndef SL_IDENTITY_SCOPE_H
#define SL_IDENTITY_SCOPE_H

#include <stddef.h>

/* Writes the scope into buf and its length into *ret_len. `target` is a request target ("/a/../b?x=1",
 * "http://h/p", "*"). Returns 0; SL_EINVALID for control characters, a bad escape, %00, or a method that is no
 * token, or a target of none of those forms; SL_ENOMEM when buf_size is too small (the scope limit, see policy.h). */
int sl_scope_from_http(const char *method, size_t method_len, const char *target, size_t target_len, char *buf,
                       size_t buf_size, size_t *ret_len);

#endif
