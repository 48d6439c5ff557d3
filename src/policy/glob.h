/* Globs over bytes: `*` is any run (slashes too), `?` exactly one byte, everything else itself. Pure; any thread. */
#ifndef SL_POLICY_GLOB_H
#define SL_POLICY_GLOB_H

#include <stdbool.h>
#include <stddef.h>

struct sl_glob {
    const char *text; /* borrowed */
    size_t len;
    size_t prefix_len;  /* literal bytes before the first wildcard; len when there is none */
    size_t literal_len; /* literal bytes in all */
};

/* Prepares a glob; every text is one. Borrows text. */
struct sl_glob sl_glob_init(const char *text, size_t len);

static inline bool sl_glob_is_literal(const struct sl_glob *glob)
{
    return glob->prefix_len == glob->len;
}

/* Time at most len(glob) * len(text); no recursion. */
bool sl_glob_match(const char *glob, size_t glob_len, const char *text, size_t text_len);

/* True when every text that `narrow` matches is matched by `wide` too. May miss some inclusions, never claims a wrong
 * one. */
bool sl_glob_covers(const char *wide, size_t wide_len, const char *narrow, size_t narrow_len);

/* True when some text is matched by both. Exact; both at most SL_GLOB_OVERLAP_MAX bytes, else true. */
#define SL_GLOB_OVERLAP_MAX 512
bool sl_glob_overlap(const char *x, size_t x_len, const char *y, size_t y_len);

#endif
