/* Sliding logs in slots. A log of one hit needs no chunk: the state is the hit. From the second hit on the state
 * names a list in the arena, and whoever reads or changes the list writes himself into the state as its owner
 * first.
 *
 * The lock is never taken from an owner who is slow, only from one who is dead (process.c): a list, unlike a state
 * word, cannot be changed by two. What the dead left is counted anew before it is used. */
#include "table/log.h"

#include "table/chain.h"
#include "table/insert.h"

/* Patience before the first and between further looks whether an owner lives. */
#define ALIVE_CHECK_US 1000u

static struct sl_state make_state(const struct sl_shape *shape, uint64_t newest_us, uint32_t owner, uint32_t value)
{
    return (struct sl_state){
        .lo = SL_STATE_LOG | (uint64_t)shape->version << SL_STATE_VERSION_SHIFT |
              ((newest_us + shape->period_us) & SL_STATE_WHOLE_MASK),
        .hi = (uint64_t)owner << 32 | (value & SL_VALUE_MASK),
    };
}

struct sl_state sl_log_first(const struct sl_shape *shape, uint64_t t_us, uint32_t cost)
{
    return make_state(shape, t_us, SL_OWNER_INLINE, cost);
}

static struct sl_state with_gen_of(struct sl_state s, struct sl_state old)
{
    s.hi |= old.hi & SL_GEN_BITS;
    return s;
}

/* A slot of the same generation in which nothing is. */
static struct sl_state empty_like(struct sl_state old)
{
    return with_gen_of((struct sl_state){0}, old);
}

static const uint64_t *tag_of(const struct sl_table *t, const struct sl_state *slot)
{
    size_t at = (size_t)((const unsigned char *)slot - (const unsigned char *)t->groups);
    const struct sl_group *g = &t->groups[at / sizeof *g];

    return &g->tags[slot - g->states];
}

bool sl_log_is_idle(struct sl_table *t, struct sl_state s)
{
    return !sl_log_is_locked(s) || !sl_owner_is_alive(t, sl_log_owner(s));
}

/* Locks the list that the slot names and opens it. Returns false when there is no such list (any more); *s is then
 * of no use. On success *s is the state as it was, unlocked. */
static bool lock(struct sl_table *t, struct sl_state *slot, uint64_t tag, struct sl_state *s,
                 struct sl_chain *ret_chain)
{
    uint32_t me = sl_self_owner(t);
    struct sl_wait wait = {0};
    uint64_t checked_us = 0, waited_us;

    for (;; *s = sl_state_load(slot)) {
        bool taken_over = false;

        if (!sl_state_is_log(*s) || sl_log_is_inline(*s) || me == 0)
            return false;
        if (!sl_chunk_at(t, sl_log_value(*s))) { /* a damaged region: there is no list, and nobody to wait for */
            sl_state_swap(slot, *s, empty_like(*s));
            return false;
        }
        if (sl_log_is_locked(*s)) {
            waited_us = sl_wait_turn(&wait);
            if (waited_us < checked_us + ALIVE_CHECK_US)
                continue;
            checked_us = waited_us;
            if (sl_owner_is_alive(t, sl_log_owner(*s)))
                continue;
            taken_over = true;
        }
        if (!sl_state_swap(slot, *s, sl_log_with_owner(*s, me)))
            continue;
        sl_at(t, SL_POINT_LOG_LOCKED);
        *s = sl_log_with_owner(*s, 0);
        if (sl_load(tag_of(t, slot)) == tag && sl_chain_open(t, sl_log_value(*s), tag, ret_chain)) {
            if (taken_over) {
                sl_add(&t->header->locks_recovered, 1);
                sl_chain_recount(ret_chain, NULL, NULL);
            }
            return true;
        }
        /* Another key's by now: leave it as it was. Ours, but no list of ours: a damaged region, the hits are lost. */
        sl_state_swap(slot, sl_log_with_owner(*s, me), sl_load(tag_of(t, slot)) == tag ? empty_like(*s) : *s);
        return false;
    }
}

/* Ends a holding that began with `s`: stores `next`. */
static void unlock(struct sl_table *t, struct sl_state *slot, struct sl_state s, struct sl_state next)
{
    sl_state_swap(slot, sl_log_with_owner(s, sl_self_owner(t)), next);
    sl_at(t, SL_POINT_LOG_UNLOCKED);
}

/* The one hit of an inline log as of now; cost 0 when it is not in force. A hit made under another PERIOD keeps its
 * cost and is taken as made now: its time is not known any more, and later is stricter. */
static uint32_t inline_hit(const struct sl_shape *shape, struct sl_state s, uint64_t now_us, uint64_t *ret_t_us)
{
    uint64_t whole_us = sl_state_whole_us(s);
    bool same_shape = (s.lo >> SL_STATE_VERSION_SHIFT & SL_STATE_VERSION_MASK) == shape->version;

    *ret_t_us = 0;
    if (!sl_state_is_log(s) || !sl_log_is_inline(s) || sl_state_is_free(s, now_us))
        return 0;
    *ret_t_us = same_shape && whole_us > shape->period_us ? whole_us - shape->period_us : now_us;
    return sl_log_in_force(shape, *ret_t_us, now_us) ? sl_log_value(s) : 0;
}

static struct sl_state second_hit(struct sl_table *t, const struct sl_shape *shape, uint64_t tag, uint64_t first_us,
                                  uint32_t first_cost, uint64_t now_us, uint32_t cost)
{
    uint32_t head;

    if (first_us == now_us)
        return make_state(shape, now_us, SL_OWNER_INLINE, first_cost + cost);
    head = sl_chain_new(t, tag, (uint64_t[2]){first_us, now_us}, (uint32_t[2]){first_cost, cost});
    if (head)
        return make_state(shape, now_us, 0, head);
    sl_add(&t->header->log_folded, 1);
    return make_state(shape, now_us, SL_OWNER_INLINE, first_cost + cost);
}

/* A log that is empty or one hit: lock-free like any other state. */
static bool judge_inline(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                         const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                         struct sl_decision *ret_decision)
{
    uint64_t hit_us, freed = 0;
    uint32_t hit = inline_hit(shape, s, now_us, &hit_us);
    struct sl_state next;

    if (hit && hit_us > now_us) {
        now_us = sl_anchor_catch_up(t, now_us, hit_us);
        if (hit_us > now_us)
            hit_us = now_us; /* made by no clock of ours: a damaged region */
    }
    sl_log_decide(shape, hit, hit ? hit_us : 0, now_us, cost, ret_decision);
    if (!ret_decision->allowed && !ret_decision->never)
        sl_log_fit(shape, ret_decision, &freed, hit_us, hit);
    if (!spend || !ret_decision->changed)
        return sl_state_same(sl_state_load(slot), s);
    next =
        hit ? second_hit(t, shape, tag, hit_us, hit, now_us, cost) : make_state(shape, now_us, SL_OWNER_INLINE, cost);
    if (sl_state_swap(slot, s, with_gen_of(next, s)))
        return true;
    if (!sl_log_is_inline(next))
        sl_chunk_give(t, sl_log_value(next));
    return false;
}

/* The time at which the list is judged: not before its newest hit, nor before hits were dropped from it. */
static uint64_t judged_at(struct sl_chain *c, uint64_t now_us)
{
    uint64_t newest_us = sl_chain_newest_us(c);
    uint64_t latest_us = c->h->seen_us > newest_us ? c->h->seen_us : newest_us;

    return sl_anchor_catch_up(c->t, now_us, latest_us);
}

/* A list with hits that no clock of ours made: all of it becomes one hit, now. */
static struct sl_state heal(struct sl_chain *c, const struct sl_shape *shape, uint64_t now_us)
{
    uint32_t sum = c->h->sum < shape->limit ? c->h->sum : shape->limit;

    return make_state(shape, now_us, SL_OWNER_INLINE, sum);
}

static struct sl_state charge_list(struct sl_chain *c, const struct sl_shape *shape, uint64_t now_us, uint32_t cost)
{
    if (sl_chain_is_empty(c))
        return make_state(shape, now_us, SL_OWNER_INLINE, cost);
    if (!sl_chain_append(c, now_us, cost))
        sl_add(&c->t->header->log_folded, 1);
    return make_state(shape, now_us, 0, c->head);
}

static bool judge_list(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                       const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                       struct sl_decision *ret_decision)
{
    struct sl_chain c;
    struct sl_state next;

    if (!lock(t, slot, tag, &s, &c))
        return false;
    now_us = judged_at(&c, now_us);
    if (sl_chain_newest_us(&c) > now_us) {
        next = heal(&c, shape, now_us);
        unlock(t, slot, s, with_gen_of(next, s));
        sl_chain_free(&c);
        return false;
    }
    sl_chain_expire(&c, shape, now_us);
    sl_log_decide(shape, c.h->sum, sl_chain_newest_us(&c), now_us, cost, ret_decision);
    if (!ret_decision->allowed && !ret_decision->never)
        sl_chain_fit(&c, shape, ret_decision);
    next = s;
    if (spend && ret_decision->changed)
        next = with_gen_of(charge_list(&c, shape, now_us, cost), s);
    unlock(t, slot, s, next);
    if (sl_log_is_inline(next))
        sl_chain_free(&c); /* not in the slot any more, so nobody else's */
    return true;
}

/* No place among the processes for this one: it may not lock, so it may not admit. */
static bool judge_nothing(const struct sl_shape *shape, uint64_t now_us, uint32_t cost,
                          struct sl_decision *ret_decision)
{
    sl_log_decide(shape, shape->limit, now_us, now_us, cost, ret_decision);
    if (!ret_decision->allowed)
        ret_decision->log_fit_us = now_us + SL_SECOND_US;
    return true;
}

bool sl_log_judge(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                  const struct sl_shape *shape, uint64_t now_us, uint32_t cost, bool spend,
                  struct sl_decision *ret_decision)
{
    if (!sl_state_is_log(s) || sl_log_is_inline(s))
        return judge_inline(t, slot, s, tag, shape, now_us, cost, spend, ret_decision);
    if (!spend && sl_state_is_free(s, now_us)) {
        sl_decide_fresh(shape, now_us, cost, ret_decision);
        return sl_state_same(sl_state_load(slot), s);
    }
    if (sl_self_owner(t) == 0)
        return judge_nothing(shape, now_us, cost, ret_decision);
    return judge_list(t, slot, s, tag, shape, now_us, cost, spend, ret_decision);
}

static bool refund_inline(struct sl_state *slot, struct sl_state s, const struct sl_shape *shape, uint64_t t_us,
                          uint32_t cost)
{
    struct sl_state next = s;

    if (sl_state_whole_us(s) != ((t_us + shape->period_us) & SL_STATE_WHOLE_MASK))
        return true;
    if (cost >= sl_log_value(s))
        next = empty_like(s);
    else
        next.hi -= cost;
    return sl_state_swap(slot, s, next);
}

bool sl_log_refund(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag,
                   const struct sl_shape *shape, uint64_t t_us, uint32_t cost)
{
    struct sl_chain c;
    struct sl_state next;

    if (!sl_state_is_log(s))
        return true;
    if (sl_log_is_inline(s))
        return refund_inline(slot, s, shape, t_us, cost);
    if (sl_self_owner(t) == 0)
        return true;
    if (!lock(t, slot, tag, &s, &c))
        return false;
    sl_chain_remove(&c, t_us, cost);
    next = sl_chain_is_empty(&c) ? empty_like(s) : with_gen_of(make_state(shape, sl_chain_newest_us(&c), 0, c.head), s);
    unlock(t, slot, s, next);
    if (!sl_state_is_log(next))
        sl_chain_free(&c);
    return true;
}

bool sl_log_clear(struct sl_table *t, struct sl_state *slot, struct sl_state s, uint64_t tag)
{
    struct sl_chain c;

    if (!sl_state_is_log(s) || !sl_log_is_locked(s)) {
        /* Nobody is at the list, and from this swap on nobody can get to it. */
        if (!sl_state_swap(slot, s, empty_like(s)))
            return false;
        sl_log_free(t, s, tag);
        return true;
    }
    if (!lock(t, slot, tag, &s, &c))
        return false;
    unlock(t, slot, s, empty_like(s));
    sl_chain_free(&c);
    return true;
}

void sl_log_free(struct sl_table *t, struct sl_state s, uint64_t tag)
{
    struct sl_chain c;

    if (sl_state_is_log(s) && !sl_log_is_inline(s) && sl_chain_open(t, sl_log_value(s), tag, &c))
        sl_chain_free(&c);
}
