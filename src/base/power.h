/* Sizes of tables that are found by a mask. */
#ifndef SL_BASE_POWER_H
#define SL_BASE_POWER_H

#include <stddef.h>

/* The least power of two that is at least n, within [least, most]; both are powers of two. */
static inline size_t sl_power_of_two(size_t n, size_t least, size_t most)
{
    size_t power = least;

    while (power < n && power < most)
        power *= 2;
    return power;
}

#endif
