/* The few atomic steps the table is made of.
 *
 * A 16-byte state is replaced by one compare-and-swap (cmpxchg16b, through __sync so that it is inlined; __atomic
 * on 16 bytes would call a library). It is read as lo, hi, lo: the same code on every machine and under
 * ThreadSanitizer. What such a read can miss is a lo that left and came back within nanoseconds; a charge made
 * on it fails its compare-and-swap, and a rejection is confirmed by a second read. */
#ifndef SL_TABLE_ATOMIC_H
#define SL_TABLE_ATOMIC_H

#include "core/state.h"

#include <stdbool.h>
#include <stdint.h>

#define SL_LIKELY(x) __builtin_expect(!!(x), 1)
#define SL_UNLIKELY(x) __builtin_expect(!!(x), 0)

static inline struct sl_state sl_state_load(const struct sl_state *p)
{
    struct sl_state s;
    uint64_t again;

    s.lo = __atomic_load_n(&p->lo, __ATOMIC_ACQUIRE);
    for (;;) {
        s.hi = __atomic_load_n(&p->hi, __ATOMIC_ACQUIRE);
        again = __atomic_load_n(&p->lo, __ATOMIC_ACQUIRE);
        if (SL_LIKELY(again == s.lo))
            return s;
        s.lo = again;
    }
}

/* Replaces `old` by `new`; false when something else was there. A full barrier. `p` is 16-byte aligned. */
static inline bool sl_state_swap(struct sl_state *p, struct sl_state old, struct sl_state new)
{
    return __sync_bool_compare_and_swap((unsigned __int128 *)(void *)p, (unsigned __int128)old.hi << 64 | old.lo,
                                        (unsigned __int128)new.hi << 64 | new.lo);
}

static inline bool sl_state_same(struct sl_state x, struct sl_state y)
{
    return ((x.lo ^ y.lo) | (x.hi ^ y.hi)) == 0;
}

static inline uint64_t sl_load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void sl_store(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline uint32_t sl_load32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void sl_store32(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline bool sl_swap(uint64_t *p, uint64_t old, uint64_t new)
{
    return __atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline void sl_add(uint64_t *p, uint64_t v)
{
    __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

/* Raises *p to at least v. */
static inline void sl_raise(uint64_t *p, uint64_t v)
{
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (old < v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
}

#endif
