/* The part of a decision that touches no network.
 *
 * In this order, so that what is cheap and final comes first and little has to be given back when it rejects: the limits
 * decided in the table (looked at only), the pre-filters, leased tokens, known rejections. Then the table is charged; and
 * what the store must say becomes a flight. */
#include "fleet/internal.h"

#include "base/err.h"

struct near {
    struct sl_near_call *call;
    struct sl_fleet *fleet;
    struct sl_table *table;
    struct sl_snapshot *snapshot;
    unsigned slot;
    const struct sl_consult *consult;
    uint64_t now_us;
    unsigned instances;
    unsigned n_store; /* parts to be asked of the store */
    struct sl_part parts[SL_PARTS_MAX];
};

static const struct sl_item *whole(const struct sl_consult *consult, unsigned i)
{
    return i < consult->n_items ? &consult->items[i] : &consult->dry[i - consult->n_items];
}

/* Only what every path reads is set: a part is some 300 bytes, and most requests have one. */
static void begin_part(struct near *n, unsigned i)
{
    struct sl_part *part = &n->parts[i];
    const struct sl_item *item = whole(n->consult, i);

    part->item = *item;
    part->telling.how = SL_TOLD_TABLE;
    part->telling.source = SLUICE_LOCAL;
    part->telling.share = 0;
    part->state = SL_PART_TABLE;
    part->split_at = 0;
    part->store = 0;
    if (!item->limit->shared)
        return;
    part->state = SL_PART_STORE;
    part->owner = sl_item_owner(item, n->consult->key_hash, n->consult->address_hash);
    if (n->consult->store && item->limit->per & SL_PER_KEY)
        part->store =
            (uint16_t)sl_fleet_store(n->fleet, sl_policy_dedicated_store(n->snapshot->policy, n->consult->store - 1u));
}

/* Rejected by what this instance knows: the figures are of the filter's bucket, told of the whole limit. */
static void tell_filter(struct sl_part *part, const struct sl_shape *filter, const struct sl_decision *decision,
                        int64_t store_wait_ms)
{
    struct sl_numbers *numbers = &part->telling.numbers;

    sl_decision_numbers(filter, decision, numbers);
    numbers->limit = part->item.shape->limit;
    numbers->remaining = 0;
    if (store_wait_ms > numbers->retry_after_ms)
        numbers->retry_after_ms = store_wait_ms;
    if (numbers->reset_after_ms < numbers->retry_after_ms)
        numbers->reset_after_ms = numbers->retry_after_ms;
    part->decision = *decision;
    part->decision.never = false;
    part->telling.how = SL_TOLD_NUMBERS;
    part->state = SL_PART_KNOWN;
}

#define BELIEVED_US UINT64_C(1000000)

/* Is the request known to be rejected? Leased tokens that others give back make room within their ttl; and after a while the
 * store is asked again in any case, for a bucket that was reset or refunded elsewhere. */
static bool known(const struct near *n, const struct sl_part *part, struct sl_decision *ret_decision)
{
    const struct sl_limit_shared *shared = part->item.limit->shared;
    bool leasing = shared->coordination != SL_COORD_SHARED && shared->coordination != SL_COORD_SPLIT;
    uint64_t keep_us = leasing && shared->lease_ttl_us < BELIEVED_US ? shared->lease_ttl_us : BELIEVED_US;

    return sl_deny_find(n->fleet->deny, part->item.fp, part->item.shape, n->now_us, keep_us, part->item.cost,
                        ret_decision);
}

/* The wait of the store's last rejection, 0 when there is none. */
static int64_t known_wait_ms(const struct near *n, const struct sl_part *part)
{
    struct sl_decision rejection;
    struct sl_numbers numbers;

    if (!known(n, part, &rejection))
        return 0;
    sl_decision_main_numbers(part->item.shape, &rejection, &numbers);
    return numbers.retry_after_ms;
}

/* A cost that the limit can never hold is for the store's arithmetic to say, not the filter's. */
static bool is_filtered(const struct sl_part *part)
{
    return part->state == SL_PART_STORE && part->item.cost > 0 && part->item.cost <= part->item.shape->limit;
}

/* Looks at all filters, then charges all: nothing is charged when one rejects. */
static bool pass_filters(struct near *n)
{
    struct sl_shape scratch;
    struct sl_decision decision;
    bool pass = true;

    for (unsigned i = 0; i < n->consult->n_items; i++) {
        struct sl_part *part = &n->parts[i];
        const struct sl_shape *filter;

        if (!is_filtered(part))
            continue;
        filter = sl_filter_shape(&part->item, n->instances, &scratch);
        sl_table_look(n->table, sl_filter_name(part->item.fp), filter, n->now_us, part->item.cost, &decision);
        if (decision.allowed || part->item.cost > filter->limit)
            continue;
        tell_filter(part, filter, &decision, known_wait_ms(n, part));
        pass = false;
    }
    for (unsigned i = 0; pass && i < n->consult->n_items; i++) {
        struct sl_part *part = &n->parts[i];

        if (is_filtered(part))
            sl_table_charge(n->table, sl_filter_name(part->item.fp),
                            sl_filter_shape(&part->item, n->instances, &scratch), n->now_us, part->item.cost,
                            &decision);
    }
    return pass;
}

static bool look_at_table(struct near *n, unsigned from, unsigned to)
{
    bool room = true;

    for (unsigned i = from; i < to; i++) {
        struct sl_part *part = &n->parts[i];

        if (part->state != SL_PART_TABLE)
            continue;
        sl_table_look(n->table, part->item.fp, part->item.shape, n->now_us, part->item.cost, &part->decision);
        room = room && part->decision.allowed;
    }
    return room;
}

/* ---- leases */

static void send_debit(const struct near *n, const struct sl_part *part, const struct sl_lease_terms *terms,
                       uint32_t tokens)
{
    struct sl_errand errand = {.fp = part->item.fp,
                               .who = part->owner,
                               .store = part->store,
                               .tokens = tokens,
                               .shape = *part->item.shape,
                               .terms = *terms};

    if (n->call->lane)
        sl_lane_debit(n->call->lane, &errand);
    else
        sl_fleet_add_errand(n->fleet, &errand);
}

static void tell_lease(const struct near *n, struct sl_part *part, bool allowed)
{
    part->telling.how = SL_TOLD_NUMBERS;
    part->decision.allowed = allowed;
    part->decision.never = false;
    part->decision.now_us = n->now_us;
    part->state = allowed ? SL_PART_LEASED : SL_PART_KNOWN;
}

/* True unless the lease says that its tokens are for later. */
static bool try_lease(struct near *n, struct sl_part *part)
{
    const struct sl_limit *limit = part->item.limit;
    struct sl_lease_bucket bucket = {
        .fp = part->item.fp, .who = part->owner, .store = part->store, .shape = part->item.shape};
    struct sl_lease_terms terms;
    uint32_t debit = 0;
    bool begin = true;
    enum sl_lease_answer answer;

    if (!sl_lease_terms_of(limit, part->item.shape, n->instances, &terms))
        return true;
    if (terms.automatic)
        begin = sl_heat_add(n->fleet->heat, part->item.fp, n->now_us) >= SL_LEASE_HOT;
    answer = sl_lease_take(n->fleet->leases, &bucket, &terms, n->now_us, part->item.cost, begin, &part->telling.numbers,
                           &debit);
    if (debit > 0)
        send_debit(n, part, &terms, debit);
    if (answer == SL_LEASE_NONE)
        return true;
    tell_lease(n, part, answer == SL_LEASE_TAKEN);
    return answer == SL_LEASE_TAKEN;
}

/* ---- known rejections */

static bool is_denied(struct near *n, struct sl_part *part, const struct sl_item *item)
{
    if (!known(n, part, &part->decision))
        return false;
    sl_part_tell(part, item, SLUICE_LOCAL);
    part->state = SL_PART_KNOWN;
    return true;
}

/* All rates of a split limit go to the same part, so that one operation charges them. */
static void choose_part(struct near *n, unsigned from, unsigned to)
{
    const struct sl_limit_shared *shared = n->parts[from].item.limit->shared;
    unsigned first = (n->call->lane ? n->call->lane->rotor++ : (unsigned)(n->now_us / 7)) % shared->n_parts;

    for (unsigned try = 0; try < 2; try++) {
        unsigned at = (first + try) % shared->n_parts;
        struct sl_decision rejection;
        bool free = true;

        for (unsigned i = from; i < to; i++) {
            const struct sl_item *item = whole(n->consult, i);
            struct sl_hash128 owner = sl_item_owner(item, n->consult->key_hash, n->consult->address_hash);

            sl_part_split(&n->parts[i], item, owner, at);
            free = free && !known(n, &n->parts[i], &rejection);
        }
        if (free)
            return;
    }
}

/* One limit's buckets: paid with leased tokens, known to be rejected, or left for the store. */
static bool consult_limit(struct near *n, unsigned from, unsigned to)
{
    const struct sl_limit *limit = n->parts[from].item.limit;
    bool room = true;

    if (!limit->shared || n->parts[from].state != SL_PART_STORE)
        return true;
    if (limit->shared->n_parts)
        choose_part(n, from, to);
    for (unsigned i = from; i < to; i++) {
        struct sl_part *part = &n->parts[i];

        if (part->item.cost > 0 && !limit->shared->n_parts && atomic_load(&n->fleet->ready))
            room = try_lease(n, part) && room;
        if (part->state == SL_PART_STORE && part->item.cost > 0 && is_denied(n, part, whole(n->consult, i)))
            room = false;
        n->n_store += part->state == SL_PART_STORE;
    }
    return room;
}

static unsigned limit_end(const struct near *n, unsigned from, unsigned to)
{
    unsigned end = from + 1;

    while (end < to && n->parts[end].item.limit == n->parts[from].item.limit)
        end++;
    return end;
}

static bool consult_limits(struct near *n, unsigned from, unsigned to)
{
    bool room = true;

    for (unsigned end; from < to; from = end) {
        end = limit_end(n, from, to);
        room = consult_limit(n, from, end) && room;
    }
    return room;
}

/* ---- charging the table */

/* The parts that the table decides, of those in [from, to), which were looked at. */
static bool charge_table(struct near *n, unsigned from, unsigned to)
{
    struct sl_item items[SL_ITEMS_MAX];
    struct sl_decision decisions[SL_ITEMS_MAX];
    unsigned m = 0;
    bool charged;

    for (unsigned i = from; i < to; i++)
        if (n->parts[i].state == SL_PART_TABLE) {
            items[m] = n->parts[i].item;
            decisions[m++] = n->parts[i].decision;
        }
    charged = m == 0 || sl_items_charge(n->table, items, m, n->now_us, decisions);
    for (unsigned i = from, k = 0; i < to; i++)
        if (n->parts[i].state == SL_PART_TABLE)
            n->parts[i].decision = decisions[k++];
    return charged;
}

/* ---- dry-run limits */

/* What is not asked of the store after all reads as if it had room. */
static void leave_unasked(struct near *n, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct sl_part *part = &n->parts[i];

        if (part->state != SL_PART_STORE)
            continue;
        part->state = SL_PART_KNOWN;
        part->decision = (struct sl_decision){.allowed = true, .now_us = n->now_us};
        part->telling.how = SL_TOLD_UNKNOWN;
        part->telling.numbers = (struct sl_numbers){.limit = whole(n->consult, i)->shape->limit, .remaining = -1};
    }
}

static void undo_leased(struct near *n, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        if (n->parts[i].state == SL_PART_LEASED)
            sl_part_undo(n->fleet, &n->parts[i]);
}

/* Each stands for itself. A limit that has refused already is not asked of the store for its other rates. Of a rejected
 * request only what is known here is told. */
static void consult_dry(struct near *n, bool allowed)
{
    unsigned to = n->consult->n_items + n->consult->n_dry;

    for (unsigned from = n->consult->n_items, end; from < to; from = end) {
        unsigned n_store = n->n_store;

        end = limit_end(n, from, to);
        look_at_table(n, from, end);
        for (unsigned i = from; !allowed && i < end; i++)
            if (n->parts[i].state == SL_PART_STORE && n->parts[i].item.cost > 0)
                is_denied(n, &n->parts[i], whole(n->consult, i));
        if (allowed && consult_limit(n, from, end))
            continue;
        undo_leased(n, from, end);
        leave_unasked(n, from, end);
        n->n_store = n_store;
    }
}

/* Those that had room are charged, when the request is allowed. */
static void charge_dry(struct near *n)
{
    unsigned to = n->consult->n_items + n->consult->n_dry;

    for (unsigned from = n->consult->n_items, end; from < to; from = end) {
        bool room = true;

        end = limit_end(n, from, to);
        for (unsigned i = from; i < end; i++)
            room = room && n->parts[i].decision.allowed;
        if (room)
            charge_table(n, from, end);
    }
}

/* ---- the whole */

static int finish(struct near *n, bool allowed, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    sl_parts_verdict(n->fleet, n->snapshot, n->slot, n->snapshot->policy, n->consult, n->parts, allowed, n->now_us,
                     ret_verdict, report);
    return SL_DECIDED;
}

/* And not a limit of the table alone. */
static bool is_known_here(const struct near *n)
{
    for (unsigned i = 0; i < n->consult->n_items; i++)
        if (n->parts[i].state == SL_PART_KNOWN && !n->parts[i].decision.allowed)
            return true;
    return false;
}

static int reject(struct near *n, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    if (is_known_here(n))
        sl_fleet_add(n->fleet, SL_FC_NEAR_REJECTED, 1);
    undo_leased(n, 0, n->consult->n_items);
    leave_unasked(n, 0, n->consult->n_items);
    consult_dry(n, false);
    return finish(n, false, ret_verdict, report);
}

/* Out of memory: as if no store answered. Dry-run limits that need none are charged as ever. */
static int do_without(struct near *n, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    unsigned n_items = n->consult->n_items, n_all = n_items + n->consult->n_dry;
    bool allowed = true;

    for (unsigned i = 0; i < n_items; i++)
        if (n->parts[i].state == SL_PART_STORE) {
            sl_part_degrade(n->fleet, &n->parts[i], whole(n->consult, i), n->now_us, 0);
            allowed = allowed && n->parts[i].decision.allowed;
        }
    leave_unasked(n, n_items, n_all);
    for (unsigned i = 0; !allowed && i < n_items; i++)
        sl_part_undo(n->fleet, &n->parts[i]);
    if (allowed)
        charge_dry(n);
    else
        undo_leased(n, n_items, n_all);
    return finish(n, allowed, ret_verdict, report);
}

static int take_off(struct near *n, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    struct sl_flight *flight = sl_flight_new(n->fleet, n->snapshot->policy, n->consult, n->parts);

    if (!flight)
        return do_without(n, ret_verdict, report);
    flight->verdict = ret_verdict;
    flight->report = report;
    flight->done = n->call->done;
    flight->ctx = n->call->ctx;
    flight->started_ns = sl_stopwatch_ns();
    n->call->flight = flight;
    return SL_PENDING;
}

static void begin(struct near *n)
{
    n->fleet = n->call->fleet;
    n->table = n->fleet->limiter->table;
    n->instances = sl_fleet_instances(n->fleet);
    n->n_store = 0;
    for (unsigned i = 0; i < n->consult->n_items; i++)
        begin_part(n, i);
    for (unsigned i = 0; i < n->consult->n_dry; i++)
        begin_part(n, n->consult->n_items + i);
}

/* Rejected whatever the buckets hold: those of the store are not asked about. */
static int reject_blocked(struct near *n, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    look_at_table(n, 0, n->consult->n_items);
    leave_unasked(n, 0, n->consult->n_items);
    consult_dry(n, false);
    return finish(n, false, ret_verdict, report);
}

int sl_near_decide(void *near_call, struct sl_snapshot *snapshot, unsigned slot, const struct sl_consult *consult,
                   uint64_t now_us, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    struct near n;

    n.call = near_call;
    n.snapshot = snapshot;
    n.slot = slot;
    n.consult = consult;
    n.now_us = now_us;
    begin(&n);
    if (consult->denied || consult->blocked)
        return reject_blocked(&n, ret_verdict, report);
    if (!look_at_table(&n, 0, consult->n_items) || !pass_filters(&n) || !consult_limits(&n, 0, consult->n_items) ||
        !charge_table(&n, 0, consult->n_items))
        return reject(&n, ret_verdict, report);
    consult_dry(&n, true);
    if (n.n_store > 0)
        return take_off(&n, ret_verdict, report);
    charge_dry(&n);
    return finish(&n, true, ret_verdict, report);
}
