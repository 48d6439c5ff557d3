/* When a lease asks for more, and how much; and what comes of it. */
#include "fleet/lease_internal.h"

#include "core/span.h"

#define NEAR_BLOCKS 50u       /* the bucket is near its limit when it has less than so many blocks left */
#define NEAR_SPEND_US 100000u /* then no more is asked for than is spent here in this time */
#define FAIL_WAIT_US 10000u
#define FAIL_DOUBLINGS 6u
#define AHEAD_MAX_US (SL_STALE_MAX_US - 100000)

/* A full debt must be a whole number of tokens, so it is rounded down to one: the store makes sure of that. The version
 * stays: to the store, the bucket's own shape and this one have the same states. */
void sl_lease_shape(const struct sl_shape *shape, const struct sl_lease_terms *terms, struct sl_shape *ret_shape)
{
    uint64_t ahead_us = terms->ahead_us > terms->interval_us ? terms->ahead_us : terms->interval_us;
    uint64_t token = shape->token_us * shape->n + shape->token_frac, tokens;
    struct sl_span ahead;

    *ret_shape = *shape;
    if (shape->algorithm != SL_TOKEN_BUCKET)
        return;
    if (ahead_us > AHEAD_MAX_US)
        ahead_us = AHEAD_MAX_US;
    tokens = ahead_us * shape->n / token; /* 10^6 * 10^9 at most */
    if (tokens > SL_COUNT_MAX - shape->limit)
        tokens = SL_COUNT_MAX - shape->limit;
    ahead = sl_span_of_tokens(shape, (uint32_t)tokens);
    if (ahead.us + shape->cap_us >= SL_LIFE_MAX_US)
        return;
    ahead = sl_span_add(sl_full_debt(shape), ahead, shape->n);
    ret_shape->limit += (uint32_t)tokens;
    ret_shape->cap_us = ahead.us;
    ret_shape->cap_frac = ahead.frac;
}

static uint32_t low_water(struct sl_leases *leases, const struct sl_lease *l, uint64_t now_us)
{
    uint64_t pace = sl_pace_now(&l->pace, now_us), most = l->terms.block / 2;
    uint64_t low = (pace * sl_lease_rtt_us(leases) + SL_SECOND_US - 1) / SL_SECOND_US + 1;

    return (uint32_t)(low < most ? low : most);
}

/* Near the limit tokens that lie here unspent are missed elsewhere. */
static uint32_t near_limit(const struct sl_lease *l, uint64_t now_us, uint32_t tokens, uint32_t cost)
{
    struct sl_decision peek;
    uint64_t spend;

    if (!l->view.store_us)
        return tokens;
    spend = sl_pace_now(&l->pace, now_us) * NEAR_SPEND_US / SL_SECOND_US;
    spend = spend > cost ? spend : cost;
    if (spend >= tokens)
        return tokens;
    sl_view_peek(&l->view, &l->shape, now_us, &peek);
    return sl_decision_remaining(&l->shape, &peek) < (uint64_t)NEAR_BLOCKS * l->terms.block ? (uint32_t)spend : tokens;
}

void sl_lease_fly(struct sl_lease *l, uint64_t now_us, uint32_t tokens)
{
    l->asked = true;
    l->in_flight = tokens;
    l->in_flight_us = now_us;
}

uint32_t sl_lease_renew(struct sl_leases *leases, struct sl_lease *l, uint64_t now_us, uint32_t cost)
{
    uint32_t tokens;

    if (l->in_flight || l->held >= l->terms.block || l->n_lots == SL_LEASE_LOTS || now_us < l->not_before_us)
        return 0;
    if (l->terms.interval_us) {
        if (l->asked)
            return 0;
    } else if (l->held > low_water(leases, l, now_us) && (l->held >= cost || cost > l->terms.block)) {
        return 0;
    }
    tokens = l->terms.block - l->held;
    tokens = tokens < l->want ? tokens : l->want;
    if (!l->terms.interval_us)
        tokens = near_limit(l, now_us, tokens, cost);
    else if (l->terms.first && l->terms.first < tokens)
        tokens = l->terms.first;
    sl_lease_fly(l, now_us, tokens);
    return tokens;
}

/* ---- what comes back */

static bool is_with(const struct sl_lease *l, const struct sl_lease_bucket *bucket)
{
    return l->store == bucket->store && sl_shape_equal(&l->shape, bucket->shape);
}

/* Whose debit it was: told by amount, shape and store; of two equal ones the retired one's, which was asked for earlier.
 * `bucket` may be NULL. */
static struct sl_lease *flown(struct sl_lease_set *set, struct sl_hash128 fp, const struct sl_lease_bucket *bucket,
                              uint32_t debit)
{
    struct sl_lease *l, *found = NULL;
    int at = -1;

    while ((l = sl_lease_next(set, fp, &at)))
        if (l->in_flight == debit && (!bucket || is_with(l, bucket)) && (!found || l->retired))
            found = l;
    return found;
}

/* When the store would have let through what it booked, by our clock. Counted from when the answer came, not from when it was
 * asked for: a little late, never early, else the long-run rate would be exceeded by what is earned in a time of flight. */
static uint64_t usable_from_us(const struct sl_shape *shape, const struct sl_decision *d, uint64_t now_us)
{
    struct sl_span debt, full = sl_full_debt(shape);

    if (shape->algorithm != SL_TOKEN_BUCKET)
        return 0;
    debt = sl_bucket_debt(d->after, d->now_us);
    if (!sl_span_is_more(debt, full))
        return 0;
    debt = sl_span_sub(debt, full, shape->n);
    return now_us + debt.us + (debt.frac != 0);
}

/* Tokens of another window than those that are there: of a newer one, which ends the older; or too late. */
static bool enter_window(struct sl_lease *l, const struct sl_decision *d, uint64_t asked_us, uint64_t now_us)
{
    uint64_t end_us = sl_state_whole_us(d->after), ends_us = asked_us + (end_us - d->now_us);

    if (ends_us <= now_us || end_us < l->window_store_us)
        return false;
    if (end_us == l->window_store_us) {
        l->window_ends_us = ends_us < l->window_ends_us ? ends_us : l->window_ends_us;
        return true;
    }
    l->n_lots = 0;
    l->held = l->back = 0;
    l->window_store_us = end_us;
    l->window_ends_us = ends_us;
    l->window_since_us = now_us;
    return true;
}

static void grant(struct sl_lease *l, const struct sl_decision *d, uint64_t asked_us, uint64_t now_us)
{
    uint64_t from_us = usable_from_us(&l->shape, d, now_us);
    uint32_t room, tokens = d->cost;

    l->want = tokens > l->terms.block / 2 ? l->terms.block : 2 * tokens;
    l->not_before_us = 0;
    if (l->shape.algorithm == SL_FIXED_WINDOW && !enter_window(l, d, asked_us, now_us))
        return;
    room = l->retired || l->held >= l->terms.block ? 0 : l->terms.block - l->held;
    room = room < tokens ? room : tokens;
    sl_lots_add(l, from_us, from_us > now_us ? from_us : now_us, room);
    l->back += tokens - room;
}

static void shrink(struct sl_lease *l, const struct sl_lease_terms *terms, const struct sl_decision *d,
                   uint64_t asked_us)
{
    struct sl_decision again;
    struct sl_numbers numbers;
    struct sl_shape shape;
    uint32_t fits;

    sl_lease_shape(&l->shape, terms, &shape);
    fits = sl_decision_remaining(&shape, d);
    l->want = d->cost / 2 < fits ? d->cost / 2 : fits;
    if (l->want < 1)
        l->want = 1;
    sl_decide(&shape, d->before, d->now_us, l->want, &again);
    sl_decision_main_numbers(&shape, &again, &numbers);
    l->not_before_us = asked_us + (uint64_t)numbers.retry_after_ms * SL_MS_US;
}

void sl_lease_granted(struct sl_leases *leases, const struct sl_lease_bucket *bucket,
                      const struct sl_lease_terms *terms, const struct sl_decision *decision, uint64_t asked_us,
                      uint64_t now_us)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, bucket->fp);
    struct sl_lease *l;

    sl_spin_lock(&set->lock);
    l = flown(set, bucket->fp, bucket, decision->cost);
    if (!l) { /* of a lease that is no more */
        if (decision->allowed)
            sl_lease_lose(leases, decision->cost);
    } else {
        l->in_flight = 0;
        l->fails = 0;
        if (!l->share.since.store_us)
            sl_view_note(&l->share.since, &(struct sl_decision){.after = decision->before, .now_us = decision->now_us},
                         asked_us);
        sl_view_note(&l->view, decision, asked_us);
        if (decision->allowed) {
            l->share.own += decision->cost;
            grant(l, decision, asked_us, now_us);
        } else {
            shrink(l, terms, decision, asked_us);
        }
    }
    sl_spin_unlock(&set->lock);
}

void sl_lease_failed(struct sl_leases *leases, struct sl_hash128 fp, uint32_t debit, bool lost)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, fp);
    struct sl_lease *l;

    sl_spin_lock(&set->lock);
    l = flown(set, fp, NULL, debit);
    if (l) {
        l->in_flight = 0;
        l->not_before_us = l->used_us + ((uint64_t)FAIL_WAIT_US << l->fails);
        l->fails += l->fails < FAIL_DOUBLINGS;
    }
    if (lost)
        sl_lease_lose(leases, debit);
    sl_spin_unlock(&set->lock);
}

uint32_t sl_lease_heard(struct sl_leases *leases, struct sl_hash128 fp, const struct sl_shape *shape,
                        const struct sl_decision *decision, uint64_t asked_us)
{
    struct sl_lease_set *set = sl_lease_set_of(leases, fp);
    struct sl_lease *l;
    uint32_t unspent = 0;
    int at = -1;

    sl_spin_lock(&set->lock);
    while ((l = sl_lease_next(set, fp, &at))) {
        if (l->retired || !sl_shape_equal(&l->shape, shape))
            continue;
        unspent = sl_lots_usable(l, asked_us);
        sl_view_note(&l->view, decision, asked_us);
        l->share.own += decision->allowed ? decision->cost : 0;
    }
    sl_spin_unlock(&set->lock);
    return unspent;
}
