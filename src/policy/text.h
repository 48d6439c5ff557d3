/* Small things about text: names, quoting in messages, spelling suggestions, UTF-8. Pure; any thread. */
#ifndef SL_POLICY_TEXT_H
#define SL_POLICY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* True when no byte is below 0x20 or 0x7f: what a key, scope, label and every string of a policy must satisfy. */
bool sl_text_printable(const char *text, size_t len);

/* A limit's or layer's name: 1 ... 63 of [a-z0-9._-]. */
bool sl_text_is_name(const char *text, size_t len);

/* The bytes before the first that is not valid UTF-8 (RFC 3629); len when all are. */
size_t sl_text_utf8_prefix(const char *text, size_t len);

/* Writes text for a message: at most about 40 bytes, bytes that are not printable ASCII as `?`, cut text ended by
 * "...". */
#define SL_QUOTE_MAX 48
const char *sl_text_quote(const char *text, size_t len, char buf[SL_QUOTE_MAX]);

/* The candidate that `text` was probably meant to be: fewest insertions, deletions, replacements and swaps of
 * neighbours, at most a third of its length; NULL when none is close. `candidate(ctx, i)` gives the i-th of n names. */
const char *sl_text_suggest(const char *text, size_t len, const char *(*candidate)(const void *ctx, size_t i),
                            const void *ctx, size_t n);

#endif
