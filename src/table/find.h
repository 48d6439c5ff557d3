/* Finding the slot of a key: two groups, one line of tags each, and the state only where a tag matches. */
#ifndef SL_TABLE_FIND_H
#define SL_TABLE_FIND_H

#include "table/internal.h"

#if defined(__SSE2__) && !defined(SLUICE_TSAN)
#include <emmintrin.h>
#endif

/* Where a fingerprint may live. */
struct sl_site {
    uint64_t tag;
    struct sl_group *group[2];
};

static inline struct sl_site sl_site_of(const struct sl_table *t, struct sl_hash128 fp)
{
    uint64_t first = ((fp.b & UINT32_MAX) * t->n_groups) >> 32, second = ((fp.b >> 32) * t->n_groups) >> 32;

    if (SL_UNLIKELY(first == second))
        second = first + 1 == t->n_groups ? 0 : first + 1;
    return (struct sl_site){.tag = fp.a ? fp.a : 1, /* 0 marks a slot never used */
                            .group = {&t->groups[first], &t->groups[second]}};
}

/* The slots of a group with this tag: slot i is bit 2i. */
#if defined(__SSE2__) && !defined(SLUICE_TSAN)
static inline unsigned sl_group_match(const struct sl_group *g, uint64_t tag)
{
    const __m128i *line = (const __m128i *)(const void *)g->tags;
    __m128i want = _mm_set1_epi64x((long long)tag);
    __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_load_si128(&line[0]), want),
                                  _mm_cmpeq_epi32(_mm_load_si128(&line[1]), want));
    __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_load_si128(&line[2]), want),
                                   _mm_cmpeq_epi32(_mm_load_si128(&line[3]), want));
    unsigned halves = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));

    /* The machine keeps loads in order; this keeps the compiler from reading a state before the tags. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return halves & (halves >> 1) & 0x5555u;
}
#else
static inline unsigned sl_group_match(const struct sl_group *g, uint64_t tag)
{
    unsigned found = 0;

    for (unsigned i = 0; i < SL_GROUP_SLOTS; i++)
        found |= (unsigned)(sl_load(&g->tags[i]) == tag) << (2 * i);
    return found;
}
#endif

/* The slot of a key and its state, or NULL. A claimed slot is nobody's yet: the key it was taken from has lost it,
 * and the key it is for gets it under the stripe's lock. Reading the tag once more after the state is what ties the
 * two together. */
static inline struct sl_state *sl_find(const struct sl_site *site, struct sl_state *ret_state)
{
    for (unsigned n = 0; n < 2; n++) {
        struct sl_group *g = site->group[n];

        for (unsigned found = sl_group_match(g, site->tag); found; found &= found - 1) {
            unsigned i = (unsigned)__builtin_ctz(found) / 2;
            struct sl_state s = sl_state_load(&g->states[i]);

            if (sl_state_is_claim(s) || sl_load(&g->tags[i]) != site->tag)
                continue;
            *ret_state = s;
            return &g->states[i];
        }
    }
    return NULL;
}

#endif
