/* SHA-256 of a policy's texts. Any thread. */
#ifndef SL_POLICY_DIGEST_H
#define SL_POLICY_DIGEST_H

#include <stddef.h>

/* Of the body alone the digest is that of the file (`sha256sum policy.yaml`); a keys_file is appended after a NUL,
 * which no body holds. `keys` may be NULL. Writes 64 hex digits and a NUL. Returns 0 or SL_ENOMEM. */
int sl_digest(const char *body, size_t body_len, const char *keys, size_t keys_len, char ret_hex[65]);

#endif
