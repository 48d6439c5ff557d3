/* Comparing and searching few bytes, inline: on the decision path a call into the C library costs more than that. */
#ifndef SL_POLICY_BYTES_H
#define SL_POLICY_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline uint64_t sl_load64(const void *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint32_t sl_load32(const void *p)
{
    uint32_t x;

    memcpy(&x, p, sizeof x);
    return x;
}

/* memcmp(...) == 0, reading only the n bytes of each. */
static inline bool sl_bytes_equal(const char *x, const char *y, size_t n)
{
    uint64_t differ = 0;
    size_t i = 0;

    if (n >= 8) {
        for (; i + 8 <= n; i += 8)
            differ |= sl_load64(x + i) ^ sl_load64(y + i);
        return (differ | (sl_load64(x + n - 8) ^ sl_load64(y + n - 8))) == 0; /* the last eight, some of them twice */
    }
    if (n >= 4)
        return ((sl_load32(x) ^ sl_load32(y)) | (sl_load32(x + n - 4) ^ sl_load32(y + n - 4))) == 0;
    for (; i < n; i++)
        differ |= (uint64_t)(x[i] != y[i]);
    return differ == 0;
}

/* How many bytes sl_byte_find may read beyond the n it searches. */
#define SL_BYTE_FIND_PAD 16

/* The index of the first `byte` among n, or n. The array must be readable up to SL_BYTE_FIND_PAD bytes beyond. */
static inline uint32_t sl_byte_find(const uint8_t *bytes, uint32_t n, uint8_t byte)
{
#ifdef __SSE2__
    for (uint32_t i = 0; i < n; i += 16) {
        __m128i chunk = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        unsigned hits = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8((char)byte)));

        if (hits) {
            i += (uint32_t)__builtin_ctz(hits);
            return i < n ? i : n;
        }
    }
    return n;
#else
    const uint8_t *hit = memchr(bytes, byte, n);

    return hit ? (uint32_t)(hit - bytes) : n;
#endif
}

#endif
