/* Moments as people write them on a command line. */
#ifndef SL_CLI_MOMENT_H
#define SL_CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

struct moment {
    bool given;
    bool minute; /* no seconds were written: the minute that begins at `ms` is meant */
    int64_t ms;  /* Unix */
};

/* Reads "12:03" or "12:03:04" (local; the last time it was so, at now_ms or before), "2026-01-31 12:03[:04]" or with a `T`
 * (local; with `Z` behind it UTC), or "10m", which is so long before now. Returns 0, or -1. */
int moment_read(const char *text, int64_t now_ms, struct moment *ret_moment);

#endif
