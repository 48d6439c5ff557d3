/* Bytes that belong to somebody else: a pointer and a length, no NUL behind them. Whoever takes a slice borrows it; its
 * function says for how long. */
#ifndef SL_BASE_SLICE_H
#define SL_BASE_SLICE_H

#include <stddef.h>

struct sl_slice {
    const char *text; /* NULL only when len is 0 */
    size_t len;
};

#endif
