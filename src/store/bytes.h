/* Big-endian integers of 1 to 8 bytes, as the store's values and messages have them. For src/store and modules/. */
#ifndef SL_STORE_BYTES_H
#define SL_STORE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Writes the low `len` bytes of x; returns where to go on. */
static inline uint8_t *sl_put(uint8_t *p, uint64_t x, unsigned len)
{
    for (unsigned i = len; i > 0; i--, x >>= 8)
        p[i - 1] = (uint8_t)x;
    return p + len;
}

/* Reads `len` bytes. */
static inline uint64_t sl_get(const uint8_t *p, unsigned len)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < len; i++)
        x = x << 8 | p[i];
    return x;
}

#endif
