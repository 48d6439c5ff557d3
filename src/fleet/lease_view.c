/* What a lease knows of the world: the store's state as last heard, how much is asked for here, and from both, for a
 * synced lease, its share. */
#include "fleet/lease_internal.h"

#include "core/span.h"

#define PACE_US UINT64_C(32000)
#define MILLION 1000000u
#define FADE 8u /* intervals */
#define PART_UNIT 1024u
#define SUM_MAX (UINT64_MAX / 2)

void sl_view_note(struct sl_lease_view *view, const struct sl_decision *decision, uint64_t asked_us)
{
    if (decision->now_us < view->store_us)
        return;
    *view = (struct sl_lease_view){.state = decision->after, .store_us = decision->now_us, .asked_us = asked_us};
}

void sl_view_peek(const struct sl_lease_view *view, const struct sl_shape *shape, uint64_t now_us,
                  struct sl_decision *ret_decision)
{
    sl_decide(shape, view->state, view->store_us + sl_since(now_us, view->asked_us), 0, ret_decision);
}

void sl_pace_add(struct sl_pace *pace, uint64_t now_us, uint32_t tokens)
{
    uint64_t elapsed = sl_since(now_us, pace->since_us);

    if (elapsed >= PACE_US) {
        uint64_t per_s = (uint64_t)pace->tokens * MILLION / elapsed;

        if (elapsed < 4 * PACE_US && pace->per_s > 0)
            per_s = (pace->per_s + per_s + 1) / 2;
        *pace = (struct sl_pace){.since_us = now_us, .per_s = per_s < UINT32_MAX ? (uint32_t)per_s : UINT32_MAX};
    }
    pace->tokens = UINT32_MAX - pace->tokens > tokens ? pace->tokens + tokens : UINT32_MAX;
}

/* A rise shows at once, before its window is over. */
uint64_t sl_pace_now(const struct sl_pace *pace, uint64_t now_us)
{
    uint64_t elapsed = sl_since(now_us, pace->since_us);
    uint64_t per_s = (uint64_t)pace->tokens * MILLION / (elapsed > PACE_US ? elapsed : PACE_US);

    return per_s > pace->per_s ? per_s : pace->per_s;
}

static uint64_t faded(uint64_t sum, uint64_t next)
{
    sum = sum - sum / FADE + next;
    return sum < SUM_MAX ? sum : SUM_MAX;
}

/* All that was granted in the bucket between two views, in units of what one token takes; 0 when they do not tell. */
static unsigned __int128 granted_between(const struct sl_shape *shape, const struct sl_lease_view *from,
                                         const struct sl_lease_view *to)
{
    struct sl_span before, after;

    if (shape->algorithm == SL_FIXED_WINDOW) {
        if (sl_state_whole_us(from->state) != sl_state_whole_us(to->state) || to->state.hi < from->state.hi)
            return 0;
        return to->state.hi - from->state.hi;
    }
    before = sl_bucket_debt(from->state, from->store_us);
    after = sl_bucket_debt(to->state, to->store_us);
    after.us += to->store_us - from->store_us; /* what refilled meanwhile */
    if (!sl_span_is_more(after, before))
        return 0;
    after = sl_span_sub(after, before, shape->n);
    return (unsigned __int128)after.us * shape->n + after.frac;
}

/* Our part of the grants of the last intervals, once the store was heard of long enough for it to be told. Both sums fade, and
 * are divided only then: grants come in lumps, and a mean of ratios would add up to more than one over the instances. */
static void settle_part(struct sl_lease *l)
{
    struct sl_lease_share *share = &l->share;
    uint64_t token = l->shape.algorithm == SL_FIXED_WINDOW ? 1 : l->shape.token_us * l->shape.n + l->shape.token_frac;
    unsigned __int128 all;

    if (!share->since.store_us || l->view.store_us < share->since.store_us + l->terms.interval_us / 2)
        return;
    all = granted_between(&l->shape, &share->since, &l->view) * PART_UNIT / token;
    if (all > 0) {
        share->own_sum = faded(share->own_sum, share->own * PART_UNIT);
        share->all_sum = faded(share->all_sum, all < SUM_MAX ? (uint64_t)all : SUM_MAX);
    }
    share->since = l->view;
    share->own = 0;
}

/* What the limit lets through in an interval. */
static uint64_t interval_tokens(const struct sl_lease *l)
{
    return (uint64_t)((unsigned __int128)l->shape.count * l->terms.interval_us / l->shape.period_us);
}

uint32_t sl_share_settle(struct sl_lease *l)
{
    struct sl_lease_share *share = &l->share;
    uint64_t wanted, part;

    settle_part(l);
    share->demand_average =
        share->met ? (uint32_t)(((uint64_t)share->demand_average + share->demand + 1) / 2) : share->demand;
    share->met = true;
    share->demand = 0;
    /* Some more than the average: else every other interval would run out. */
    wanted = share->demand_average + share->demand_average / 4u + 1u;
    part = interval_tokens(l);
    if (share->own_sum < share->all_sum) /* an eighth less: parts of several instances are of several moments */
        part = (uint64_t)((unsigned __int128)(part - part / 8) * share->own_sum / share->all_sum);
    wanted = part < wanted ? part : wanted;
    wanted = wanted < l->terms.block ? wanted : l->terms.block;
    return wanted > 0 ? (uint32_t)wanted : 1;
}
