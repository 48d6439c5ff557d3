/* The signature of a webhook's body, with which a receiver knows that it comes from here and when it was sent. */
#ifndef SL_NOTIFY_SIGN_H
#define SL_NOTIFY_SIGN_H

#include <stddef.h>
#include <stdint.h>

#define SL_SIGNATURE_MAX 96u

/* Writes "t=UNIX,v1=HEX": HMAC-SHA256 of "UNIX.BODY" under `secret`, in lower-case hex, NUL-terminated. Returns 0, or
 * SL_ENOMEM when the library that computes it fails. Any thread. */
int sl_sign(const char *secret, uint64_t unix_s, const char *body, size_t len, char ret_text[static SL_SIGNATURE_MAX]);

#endif
