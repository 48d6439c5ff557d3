/* What no request triggers: giving back, ending, reconciling. */
#include "fleet/lease_internal.h"

#define FLIGHT_MAX_US (10 * SL_SECOND_US) /* nobody waits for an answer so long: a debit never reported on */

/* What one lease has to be done for it, copied so that it can be done without the lock. */
struct chore {
    struct sl_lease_bucket bucket;
    struct sl_shape shape;
    struct sl_lease_terms terms;
    uint32_t back, debit;
    uint64_t window_store_us;
};

/* A charge that sl_ask_refund gives back plainly. What a refund is careful about, that the bucket became whole in between
 * and the tokens would be minted, does not count here: held and stored tokens together do not grow by it, and the store
 * holds no more than a whole bucket. So the charge lies in no past (nothing is subtracted for time gone by), and its state
 * is one that no bucket has, but in a window that must still be in force. */
static struct sl_decision charge_of(const struct chore *chore)
{
    struct sl_decision charge = {.allowed = true, .changed = true, .cost = chore->back, .now_us = SL_LEASE_CHARGED_US};

    if (chore->shape.algorithm == SL_FIXED_WINDOW)
        charge.after =
            (struct sl_state){.lo = (uint64_t)chore->shape.version << SL_STATE_VERSION_SHIFT | chore->window_store_us,
                              .hi = SL_LEASE_NO_COUNT};
    return charge;
}

/* Counted over whole seconds, so that a pause between two requests is not taken for the end. */
static bool has_cooled(struct sl_lease *l, uint64_t now_us)
{
    bool cool;

    if (!l->terms.automatic || sl_since(now_us, l->cool_us) < SL_SECOND_US)
        return false;
    cool = l->decisions * SL_SECOND_US < SL_LEASE_COOL * (now_us - l->cool_us);
    l->cool_us = now_us;
    l->decisions = 0;
    return cool;
}

static bool is_unused(const struct sl_lease *l, uint64_t now_us)
{
    return sl_since(now_us, l->used_us) >= l->terms.ttl_us;
}

/* Once an interval: up or down to the share. */
static uint32_t reconcile(struct sl_lease *l, uint64_t now_us)
{
    uint32_t share, tokens;

    if (now_us < l->share.due_us)
        return 0;
    l->share.due_us = now_us + l->terms.interval_us;
    share = sl_share_settle(l);
    if (l->held > share) {
        l->share.own -= l->held - share < l->share.own ? l->held - share : l->share.own;
        sl_lots_set_aside(l, l->held - share);
    }
    if (l->in_flight || l->held >= share || l->n_lots == SL_LEASE_LOTS || now_us < l->not_before_us)
        return 0;
    tokens = share - l->held < l->want ? share - l->held : l->want;
    sl_lease_fly(l, now_us, tokens);
    return tokens;
}

/* Returns true when the lease leaves its place. */
static bool tend(struct sl_leases *leases, struct sl_lease *l, uint64_t now_us, bool all, struct chore *ret_chore)
{
    sl_lots_expire(l, now_us);
    if (l->in_flight && sl_since(now_us, l->in_flight_us) >= FLIGHT_MAX_US) {
        sl_lease_lose(leases, l->in_flight);
        l->in_flight = 0;
    }
    if (all || has_cooled(l, now_us))
        sl_lease_retire(leases, l);
    if (is_unused(l, now_us))
        sl_lots_set_aside(l, l->held);
    else if (l->terms.interval_us && !l->retired)
        ret_chore->debit = reconcile(l, now_us);
    ret_chore->back = l->back < l->shape.limit ? l->back : l->shape.limit;
    l->back -= ret_chore->back;
    return !l->held && !l->back && !l->in_flight && (l->retired || is_unused(l, now_us));
}

static void copy(const struct sl_lease *l, struct chore *ret_chore)
{
    ret_chore->bucket = (struct sl_lease_bucket){.fp = l->fp, .who = l->who, .store = l->store};
    ret_chore->shape = l->shape;
    ret_chore->terms = l->terms;
    ret_chore->window_store_us = l->window_store_us;
}

/* Returns how many leases have something to do. Adds those that are left to *n_left. */
static unsigned tend_set(struct sl_leases *leases, struct sl_lease_set *set, uint64_t now_us, bool all,
                         struct chore chores[static SL_LEASE_WAYS], size_t *n_left)
{
    unsigned n = 0;

    sl_spin_lock(&set->lock);
    for (unsigned at = 0; at < SL_LEASE_WAYS; at++) {
        struct sl_lease *l = &set->leases[at];
        struct chore *chore = &chores[n];
        bool gone;

        if (!(atomic_load_explicit(&set->used, memory_order_relaxed) >> at & 1))
            continue;
        *chore = (struct chore){0};
        gone = tend(leases, l, now_us, all, chore);
        if (chore->back || chore->debit) {
            copy(l, chore);
            n++;
        }
        if (gone)
            sl_lease_drop(leases, set, l);
        *n_left += !gone;
    }
    sl_spin_unlock(&set->lock);
    return n;
}

static void run(struct chore *chore, const struct sl_lease_errands *errands)
{
    struct sl_decision charge = charge_of(chore);

    chore->bucket.shape = &chore->shape;
    if (chore->back)
        errands->give_back(errands->ctx, &chore->bucket, chore->back, &charge);
    if (chore->debit)
        errands->debit(errands->ctx, &chore->bucket, &chore->terms, chore->debit);
}

size_t sl_leases_sweep(struct sl_leases *leases, uint64_t now_us, bool all, const struct sl_lease_errands *errands)
{
    struct chore chores[SL_LEASE_WAYS];
    size_t n_left = 0;

    for (size_t i = 0; i <= leases->mask; i++) {
        struct sl_lease_set *set = &leases->sets[i];
        unsigned n;

        if (!atomic_load_explicit(&set->used, memory_order_relaxed))
            continue;
        n = tend_set(leases, set, now_us, all, chores, &n_left);
        for (unsigned k = 0; k < n; k++)
            run(&chores[k], errands);
    }
    return n_left;
}
