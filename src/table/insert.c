/* Giving a slot to a key.
 *
 * Under the stripe lock of the key: look at all sixteen slots once more; choose a victim; then four writes, each a
 * compare-and-swap on what was seen, so that a holder who slept through a take-over of its lock fails harmlessly at
 * the next one:
 *
 *   1. state  -> claim {nonce of this holding, tag}    from here the slot is not its old key's any more
 *   2. (is the lock still ours? if not, leave the claim to whoever needs the key or a slot next)
 *   3. tag    -> ours
 *   4. claim  -> first state                           from here the key has a bucket
 *
 * Killed between any two: the claim stays. The next inserter of the same key finds it among the sixteen and
 * finishes it; for anybody else it is a free slot as soon as its nonce is not that of the stripe's lock.
 *
 * Why a key never has two live slots: a holder fills a slot only if it found none under the lock and still held the
 * lock after its claim was visible. A later holder began after that moment, so it finds the claim or what came of
 * it.
 *
 * Why a slow writer cannot mint with an old clock reading: before a slot is taken from a key, the stripe of *that*
 * key learns the time; if the key is created again, it starts no earlier. */
#include "table/insert.h"

#include "core/decide.h"
#include "core/log.h"
#include "table/log.h"

/* The second group is considered only when the first has fewer free slots than this: most keys are then found with one
 * line of tags, and two choices still even out the rest (docs/table.md). */
#define ENOUGH_FREE 5u

#define GIVE_UP_WAITING_US 50000u

enum found { FOUND_FREE, FOUND_LIVE, FOUND_BUSY, FOUND_OURS, FOUND_OUR_CLAIM };

struct seen_slot {
    struct sl_group *group;
    unsigned idx;
    uint64_t tag;
    struct sl_state state;
    enum found what;
};

void sl_decide_fresh(const struct sl_shape *shape, uint64_t now_us, uint32_t cost, struct sl_decision *ret_decision)
{
    if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
        sl_log_decide(shape, 0, 0, now_us, cost, ret_decision);
    else
        sl_decide_inline(shape, (struct sl_state){0}, now_us, cost, ret_decision);
}

/* A claim is in progress while the lock it was made under is still held by the same holder. */
static bool claim_in_progress(const struct sl_table *t, struct sl_state claim)
{
    const struct sl_stripe *s = sl_stripe_of(t, claim.hi);

    return (__atomic_load_n(&s->lock, __ATOMIC_SEQ_CST) & SL_CLAIM_NONCE_MASK) == (claim.lo & SL_CLAIM_NONCE_MASK);
}

static enum found judge_slot(struct sl_table *t, const struct seen_slot *v, uint64_t tag, uint64_t now_us)
{
    if (sl_state_is_claim(v->state)) {
        if (v->state.hi == tag)
            return FOUND_OUR_CLAIM;
        return claim_in_progress(t, v->state) ? FOUND_BUSY : FOUND_FREE;
    }
    if (v->tag == tag)
        return FOUND_OURS;
    if (v->tag == 0)
        return FOUND_FREE;
    if (sl_state_is_log(v->state) && !sl_log_is_idle(t, v->state))
        return FOUND_BUSY;
    return sl_state_is_free(v->state, now_us) ? FOUND_FREE : FOUND_LIVE;
}

/* A slot's tag and state as they stood together at one moment. */
static struct seen_slot see_slot(struct sl_table *t, struct sl_group *g, unsigned idx, uint64_t tag, uint64_t now_us)
{
    struct seen_slot v = {.group = g, .idx = idx, .state = sl_state_load(&g->states[idx])};
    struct sl_state again;

    for (;;) {
        v.tag = sl_load(&g->tags[idx]);
        again = sl_state_load(&g->states[idx]);
        if (sl_state_same(again, v.state))
            break;
        v.state = again;
    }
    v.what = judge_slot(t, &v, tag, now_us);
    return v;
}

/* Which of two slots to take: a free one before a live one; the one that was or will be whole first. */
static bool is_better(const struct seen_slot *x, const struct seen_slot *y)
{
    if (x->what != y->what)
        return x->what < y->what;
    if (sl_state_is_claim(x->state) || sl_state_is_claim(y->state))
        return sl_state_is_claim(x->state) > sl_state_is_claim(y->state);
    return sl_state_whole_us(x->state) < sl_state_whole_us(y->state);
}

/* Looks at all slots a key may have. Returns FOUND_OURS or FOUND_OUR_CLAIM (with the slot) if the key has one, else
 * the slot to take: FOUND_FREE, FOUND_LIVE, or FOUND_BUSY when every slot is in somebody's hands. */
static struct seen_slot survey(struct sl_table *t, const struct sl_site *site, uint64_t now_us)
{
    struct seen_slot best[2], claim = {0};
    unsigned n_free[2] = {0, 0};

    for (unsigned n = 0; n < 2; n++) {
        for (unsigned i = 0; i < SL_GROUP_SLOTS; i++) {
            struct seen_slot v = see_slot(t, site->group[n], i, site->tag, now_us);

            if (v.what == FOUND_OURS)
                return v;
            if (v.what == FOUND_OUR_CLAIM)
                claim = v;
            n_free[n] += v.what == FOUND_FREE;
            if (i == 0 || is_better(&v, &best[n]))
                best[n] = v;
        }
    }
    if (claim.group)
        return claim;
    if (n_free[0] >= ENOUGH_FREE || n_free[0] > n_free[1])
        return best[0];
    if (n_free[1] > n_free[0])
        return best[1];
    return is_better(&best[1], &best[0]) ? best[1] : best[0];
}

static unsigned generation_after(const struct seen_slot *v)
{
    return (sl_state_is_claim(v->state) ? sl_claim_gen(v->state) : sl_state_gen(v->state)) + 1;
}

/* What has to be known before and done after a slot is taken from its key. */
static void count_victim(struct sl_table *t, const struct seen_slot *v, uint64_t now_us)
{
    if (v->what == FOUND_OUR_CLAIM || sl_state_is_claim(v->state)) {
        sl_add(&t->header->locks_recovered, 1);
        return;
    }
    if (v->what == FOUND_LIVE) {
        uint64_t whole_us = sl_state_whole_us(v->state);

        sl_add(&t->header->evictions, 1);
        sl_add(&t->header->forgiven_us, whole_us > now_us ? whole_us - now_us : 0);
    }
    if (sl_state_is_log(v->state))
        sl_log_free(t, v->state, v->tag);
}

static bool write_tag(const struct seen_slot *v, struct sl_state claim, uint64_t tag)
{
    uint64_t *place = &v->group->tags[v->idx];

    for (;;) {
        uint64_t old = sl_load(place);

        if (old == tag)
            return true;
        if (!sl_state_same(sl_state_load(&v->group->states[v->idx]), claim))
            return false;
        if (sl_swap(place, old, tag))
            return true;
    }
}

/* The four writes. False: somebody was faster; nothing is ours. */
static bool take_slot(struct sl_table *t, const struct seen_slot *v, struct sl_stripe *stripe, uint64_t mine,
                      uint64_t tag, struct sl_state first, uint64_t now_us)
{
    struct sl_state *place = &v->group->states[v->idx];
    unsigned gen = generation_after(v);
    struct sl_state claim = sl_claim_make(mine, gen, tag);

    if (v->tag != 0)
        sl_raise(&sl_stripe_of(t, v->tag)->seen_us, now_us);
    if (!sl_state_swap(place, v->state, claim))
        return false;
    sl_at(t, SL_POINT_CLAIMED);
    count_victim(t, v, now_us);
    if (__atomic_load_n(&stripe->lock, __ATOMIC_SEQ_CST) != mine || !write_tag(v, claim, tag))
        return false;
    sl_at(t, SL_POINT_TAGGED);
    first.hi |= sl_gen_bits(gen);
    if (!sl_state_swap(place, claim, first))
        return false;
    sl_at(t, SL_POINT_FILLED);
    return true;
}

/* The time a new bucket of this stripe starts at: a claim on its slot may have been made by a newer clock reading. */
static uint64_t start_us(struct sl_table *t, const struct sl_stripe *stripe, uint64_t now_us)
{
    return sl_anchor_catch_up(t, now_us, sl_load(&stripe->seen_us));
}

/* The slot to take, as survey says. An old reading of the clock takes slots for live that are not any more, so before
 * anybody is evicted the clock is read again; *judged_us becomes the time that the answer is as of. */
static struct seen_slot choose(struct sl_table *t, const struct sl_site *site, uint64_t *judged_us)
{
    struct sl_wait wait = {0};
    struct seen_slot v = survey(t, site, *judged_us);

    while (v.what == FOUND_BUSY && sl_wait_turn(&wait) < GIVE_UP_WAITING_US)
        v = survey(t, site, *judged_us);
    if (v.what == FOUND_LIVE) {
        uint64_t real_us = sl_table_now(t);

        if (real_us > *judged_us) {
            *judged_us = real_us;
            v = survey(t, site, real_us);
        }
    }
    return v;
}

static bool insert_locked(struct sl_table *t, const struct sl_site *site, struct sl_stripe *stripe, uint64_t mine,
                          const struct sl_shape *shape, uint64_t now_us, uint32_t cost,
                          struct sl_decision *ret_decision)
{
    uint64_t judged_us = now_us;
    struct seen_slot v = choose(t, site, &judged_us);
    struct sl_state first;

    if (v.what == FOUND_OURS || (v.what == FOUND_BUSY && sl_state_is_log(v.state)))
        return false;
    sl_at(t, SL_POINT_SCANNED);
    now_us = start_us(t, stripe, now_us);
    sl_decide_fresh(shape, now_us, cost, ret_decision);
    first = ret_decision->after;
    if (shape->algorithm == SL_SLIDING_WINDOW_LOG)
        first = sl_log_first(shape, now_us, cost);
    return take_slot(t, &v, stripe, mine, site->tag, first, judged_us);
}

bool sl_insert(struct sl_table *t, const struct sl_site *site, const struct sl_shape *shape, uint64_t now_us,
               uint32_t cost, struct sl_decision *ret_decision)
{
    struct sl_stripe *stripe;
    uint64_t mine;
    bool done;

    sl_decide_fresh(shape, now_us, cost, ret_decision);
    if (!ret_decision->changed)
        return true;
    stripe = sl_stripe_of(t, site->tag);
    mine = sl_stripe_lock(t, stripe);
    done = insert_locked(t, site, stripe, mine, shape, now_us, cost, ret_decision);
    sl_stripe_unlock(stripe, mine);
    return done;
}
