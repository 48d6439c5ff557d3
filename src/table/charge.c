/* Look, charge, refund, reset. */
#include "table/table.h"

#include "core/decide.h"
#include "table/insert.h"
#include "table/log.h"

/* The state as core wants it, without the table's bits. */
static inline struct sl_state core_state(struct sl_state s)
{
    return (struct sl_state){.lo = s.lo & ~(SL_STATE_CLAIM | SL_STATE_LOG), .hi = s.hi & ~SL_GEN_BITS};
}

static inline struct sl_state slot_state(struct sl_state core, struct sl_state old)
{
    return (struct sl_state){.lo = core.lo, .hi = core.hi | (old.hi & SL_GEN_BITS)};
}

/* The furthest a state can be ahead of the reading it was made with. */
static inline uint64_t reach_us(const struct sl_shape *shape)
{
    switch (shape->algorithm) {
    case SL_TOKEN_BUCKET:
    case SL_LEAKY_BUCKET:
        return shape->cap_us + 1;
    case SL_FIXED_WINDOW:
        return shape->period_us;
    default:
        return 2 * shape->period_us;
    }
}

/* Core decides under a newer reading of another thread as long as it is newer by less than SL_STALE_MAX_US, and
 * takes what lies further ahead for damage. A thread that slept longer between reading the clock and deciding must
 * read it again. */
static inline uint64_t decision_time(struct sl_table *t, const struct sl_shape *shape, struct sl_state s,
                                     uint64_t now_us)
{
    uint64_t whole_us = sl_state_whole_us(s);

    if (SL_LIKELY(whole_us <= now_us + SL_STALE_MAX_US) || whole_us - now_us <= SL_STALE_MAX_US + reach_us(shape))
        return now_us;
    return sl_anchor_catch_up(t, now_us, whole_us - reach_us(shape));
}

/* One attempt on a slot that holds a state of constant size. False: it changed meanwhile. */
static inline bool judge_word(struct sl_table *t, struct sl_state *slot, struct sl_state s,
                              const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                              struct sl_decision *ret_decision)
{
    now_us = decision_time(t, shape, s, now_us);
    sl_decide_inline(shape, core_state(s), now_us, cost, ret_decision);
    if (spend && ret_decision->changed)
        return sl_state_swap(slot, s, slot_state(ret_decision->after, s));
    /* Nothing to write; but what was read must have been this key's state, all of it, at one moment. */
    return sl_state_same(sl_state_load(slot), s);
}

static inline void judge(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                         uint32_t cost, bool spend, struct sl_decision *ret_decision)
{
    struct sl_site site = sl_site_of(t, fp);
    bool done = false;

    while (!done) {
        struct sl_state s, *slot = sl_find(&site, &s);

        if (!slot && spend)
            done = sl_insert(t, &site, shape, now_us, cost, ret_decision);
        else if (!slot) {
            sl_decide_fresh(shape, now_us, cost, ret_decision);
            done = true;
        } else if (SL_UNLIKELY(shape->algorithm == SL_SLIDING_WINDOW_LOG))
            done = sl_log_judge(t, slot, s, site.tag, shape, now_us, cost, spend, ret_decision);
        else if (SL_UNLIKELY(sl_state_is_log(s))) /* a damaged region: no other shape has this tag */
            sl_log_clear(t, slot, s, site.tag);
        else
            done = judge_word(t, slot, s, shape, now_us, cost, spend, ret_decision);
    }
}

void sl_table_look(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                   uint32_t cost, struct sl_decision *ret_decision)
{
    judge(table, fp, shape, now_us, cost, false, ret_decision);
}

void sl_table_charge(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                     uint32_t cost, struct sl_decision *ret_decision)
{
    judge(table, fp, shape, now_us, cost, true, ret_decision);
}

static bool refund_word(struct sl_table *t, struct sl_state *slot, struct sl_state s, const struct sl_shape *shape,
                        const struct sl_decision *charge)
{
    struct sl_state next;

    if (!sl_refund(shape, core_state(s), charge, sl_table_now(t), &next))
        return sl_state_same(sl_state_load(slot), s);
    return sl_state_swap(slot, s, slot_state(next, s));
}

void sl_table_refund(struct sl_table *table, struct sl_hash128 fp, const struct sl_shape *shape,
                     const struct sl_decision *charge)
{
    struct sl_site site = sl_site_of(table, fp);
    bool done = !charge->allowed || charge->cost == 0;

    while (!done) {
        struct sl_state s, *slot = sl_find(&site, &s);

        if (!slot)
            return; /* evicted: all is forgiven already */
        if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
            done = sl_log_refund(table, slot, s, site.tag, shape, charge->now_us, charge->cost);
        else
            done = sl_state_is_log(s) || refund_word(table, slot, s, shape, charge);
    }
}

bool sl_table_reset(struct sl_table *table, struct sl_hash128 fp)
{
    struct sl_site site = sl_site_of(table, fp);
    uint64_t now_us = sl_table_now(table);

    for (;;) {
        struct sl_state s, *slot = sl_find(&site, &s);

        if (!slot || sl_state_is_free(s, now_us))
            return false;
        if (sl_log_clear(table, slot, s, site.tag))
            return true;
    }
}

/* A function that does nothing but prefetch is free of effects in the compiler's eyes, and link-time optimisation drops
 * the calls of it; this is an effect. */
static inline void keep_prefetch(void)
{
    __asm__ volatile("");
}

void sl_table_prefetch(const struct sl_table *table, struct sl_hash128 fp)
{
    struct sl_site site = sl_site_of(table, fp);

    __builtin_prefetch(site.group[0]->tags);
    keep_prefetch();
}

static inline bool prefetch_found(const struct sl_group *group, uint64_t tag)
{
    unsigned found = sl_group_match(group, tag);

    if (found)
        __builtin_prefetch(&group->states[__builtin_ctz(found) / 2], 1);
    return found != 0;
}

bool sl_table_prefetch_state(const struct sl_table *table, struct sl_hash128 fp)
{
    struct sl_site site = sl_site_of(table, fp);
    bool found = prefetch_found(site.group[0], site.tag);

    if (!found)
        __builtin_prefetch(site.group[1]->tags);
    keep_prefetch();
    return found;
}

void sl_table_prefetch_second(const struct sl_table *table, struct sl_hash128 fp)
{
    struct sl_site site = sl_site_of(table, fp);

    prefetch_found(site.group[1], site.tag);
    keep_prefetch();
}
