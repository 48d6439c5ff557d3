/* A decision on its way to the store and back. */
#include "fleet/internal.h"

#include <string.h>

/* ---- life */

struct sl_flight *sl_flight_new(struct sl_fleet *fleet, struct sl_policy *policy, const struct sl_consult *consult,
                                const struct sl_part *parts)
{
    unsigned n = consult->n_items + consult->n_dry;
    size_t legs_at = sizeof(struct sl_flight), parts_at = legs_at + n * sizeof(struct sl_leg);
    size_t items_at = parts_at + n * sizeof(struct sl_part);
    char *memory = sl_reallocarray(&fleet->alloc, NULL, 1, items_at + n * sizeof(struct sl_item));
    struct sl_flight *flight = (struct sl_flight *)memory;

    if (!flight)
        return NULL;
    memset(flight, 0, sizeof *flight);
    flight->legs = (struct sl_leg *)(memory + legs_at);
    flight->parts = (struct sl_part *)(memory + parts_at);
    flight->items = (struct sl_item *)(memory + items_at);
    memcpy(flight->parts, parts, n * sizeof *parts);
    flight->fleet = fleet;
    flight->policy = sl_policy_ref(policy);
    flight->consult = *consult;
    sl_consult_move(&flight->consult, flight->items);
    return flight;
}

void sl_flight_free(struct sl_flight *flight)
{
    struct sl_alloc alloc = flight->fleet->alloc;

    sl_policy_unref(flight->policy);
    sl_free(&alloc, flight);
}

void sl_flight_set_done(struct sl_flight *flight, sl_lane_done *done, void *ctx)
{
    flight->done = done;
    flight->ctx = ctx;
}

struct sl_flight **sl_flight_next(struct sl_flight *flight)
{
    return &flight->next;
}

/* ---- legs */

static void leg_ended(struct sl_leg *leg)
{
    struct sl_flight *flight = leg->flight;
    sl_lane_done *done = flight->done;
    void *ctx = flight->ctx;

    if (--flight->n_open > 0 || flight->boarding)
        return;
    flight->lane->n_flights--;
    sl_flight_settle(flight);
    sl_flight_free(flight);
    done(ctx);
}

/* Learns of every bucket what the store said of it. */
static void learn(const struct sl_leg *leg, bool allowed)
{
    struct sl_flight *flight = leg->flight;
    struct sl_fleet *fleet = flight->fleet;

    for (unsigned i = 0; i < leg->n; i++) {
        struct sl_part *part = &flight->parts[leg->parts[i]];
        const struct sl_item *item = &part->item;
        uint32_t unspent;

        if (!part->decision.allowed || (allowed && item->cost > 0))
            sl_deny_learn(fleet->deny, item->fp, item->shape, &part->decision, leg->asked_us);
        unspent = sl_lease_heard(fleet->leases, item->fp, item->shape, &part->decision, leg->asked_us);
        sl_part_tell(part, sl_flight_whole(flight, leg->parts[i]), SLUICE_SHARED);
        if (allowed && unspent > 0)
            sl_part_add_leased(part, unspent);
    }
}

/* A split bucket's second try, at the next part; true when it was asked. */
static bool try_again(struct sl_leg *leg)
{
    struct sl_flight *flight = leg->flight;
    unsigned n_parts = sl_flight_whole(flight, leg->parts[0])->limit->shared->n_parts;

    if (!n_parts || leg->second || flight->parts[leg->parts[0]].decision.never)
        return false;
    leg->second = true;
    for (unsigned i = 0; i < leg->n; i++) {
        struct sl_part *part = &flight->parts[leg->parts[i]];
        const struct sl_item *item = sl_flight_whole(flight, leg->parts[i]);

        sl_part_split(part, item, sl_item_owner(item, flight->consult.key_hash, flight->consult.address_hash),
                      (part->split_at + 1u) % n_parts);
    }
    sl_lane_ask(flight->lane, leg);
    return true;
}

void sl_leg_answered(struct sl_leg *leg, bool allowed)
{
    sl_fleet_add(leg->flight->fleet, SL_FC_ASKED, leg->n);
    learn(leg, allowed);
    if (!allowed && try_again(leg))
        return;
    leg->state = allowed ? SL_LEG_ALLOWED : SL_LEG_REJECTED;
    leg_ended(leg);
}

void sl_leg_failed(struct sl_leg *leg, uint64_t wait_us)
{
    leg->state = SL_LEG_FAILED;
    leg->wait_us = wait_us;
    leg_ended(leg);
}

/* ---- taking off */

/* The group in which the store can charge a part together with others: 0 when its client is not there yet. */
static unsigned slot_of(struct sl_lane *lane, const struct sl_part *part)
{
    struct sl_client *client = sl_lane_client(lane, part->store);
    char key[SL_STORE_KEY_MAX];
    size_t len;

    if (!client)
        return 0;
    len = sl_lane_key(lane, part->item.fp, part->owner, key);
    return sl_client_group(client, key, len);
}

static struct sl_leg *new_leg(struct sl_flight *flight, unsigned part, bool dry)
{
    struct sl_leg *leg = &flight->legs[flight->n_legs++];

    leg->next = NULL;
    leg->flight = flight;
    leg->state = SL_LEG_OPEN;
    leg->dry = dry;
    leg->second = false;
    leg->wait_us = 0;
    leg->n = 1;
    leg->parts[0] = (uint8_t)part;
    return leg;
}

/* Enforcing parts of one slot share a leg; so do the rates of one dry-run limit. Rates of a split limit have a leg of their
 * own, which can be tried again. */
static bool may_share(const struct sl_flight *flight, const struct sl_leg *leg, unsigned i, bool dry)
{
    const struct sl_part *mine = &flight->parts[i], *first = &flight->parts[leg->parts[0]];
    const struct sl_limit *limit = mine->item.limit;

    if (leg->dry != dry || leg->n == SL_ITEMS_MAX || mine->store != first->store)
        return false;
    if (dry || limit->shared->n_parts || first->item.limit->shared->n_parts)
        return limit == first->item.limit;
    return true;
}

static void board(struct sl_lane *lane, struct sl_flight *flight)
{
    unsigned n = flight->consult.n_items + flight->consult.n_dry;

    for (unsigned i = 0; i < n; i++) {
        bool dry = i >= flight->consult.n_items, found = false;
        struct sl_part *part = &flight->parts[i];

        if (part->state != SL_PART_STORE)
            continue;
        for (unsigned l = 0; l < flight->n_legs && !found; l++) {
            struct sl_leg *leg = &flight->legs[l];

            if (may_share(flight, leg, i, dry) && slot_of(lane, part) == slot_of(lane, &flight->parts[leg->parts[0]])) {
                leg->parts[leg->n++] = (uint8_t)i;
                found = true;
            }
        }
        if (!found)
            new_leg(flight, i, dry);
    }
    flight->n_open = flight->n_legs;
}

/* Returns true when the flight is over already: the verdict is filled, and done was not called. */
static bool take_off(struct sl_lane *lane, struct sl_flight *flight)
{
    flight->lane = lane;
    flight->begun_us = sl_lane_now(lane);
    board(lane, flight);
    flight->boarding = true;
    for (unsigned i = 0; i < flight->n_legs; i++) {
        if (lane->n_flights >= SL_FLEET_FLIGHTS_MAX || lane->stopping || !atomic_load(&lane->fleet->ready))
            sl_leg_failed(&flight->legs[i], 0);
        else
            sl_lane_ask(lane, &flight->legs[i]);
    }
    flight->boarding = false;
    if (flight->n_open > 0) {
        lane->n_flights++;
        return false;
    }
    sl_flight_settle(flight);
    sl_flight_free(flight);
    return true;
}

int sl_lane_check(struct sl_lane *lane, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                  struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done, void *ctx)
{
    struct sl_near_call call = {.fleet = lane->fleet, .lane = lane, .done = done, .ctx = ctx};
    int result = sl_limiter_check_beyond(lane->fleet->limiter, request, ret_verdict, report, ret_field, ret_why,
                                         sl_near_decide, &call);

    if (__builtin_expect(sl_tiers_waiting(lane->fleet->tiers), 0))
        sl_lane_look_up(lane);
    if (result != SL_PENDING)
        return result;
    return take_off(lane, call.flight) ? SL_DECIDED : SL_PENDING;
}

int sl_fleet_begin(struct sl_fleet *fleet, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                   struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done,
                   void *ctx, struct sl_flight **ret_flight)
{
    struct sl_near_call call = {.fleet = fleet, .done = done, .ctx = ctx};
    int result = sl_limiter_check_beyond(fleet->limiter, request, ret_verdict, report, ret_field, ret_why,
                                         sl_near_decide, &call);

    *ret_flight = result == SL_PENDING ? call.flight : NULL;
    return result;
}

void sl_lane_fly(struct sl_lane *lane, struct sl_flight *flight)
{
    sl_lane_done *done = flight->done;
    void *ctx = flight->ctx;

    if (take_off(lane, flight))
        done(ctx);
}

void sl_flight_give_up(struct sl_flight *flight)
{
    sl_lane_done *done = flight->done;
    void *ctx = flight->ctx;

    for (unsigned i = 0; i < flight->consult.n_items + flight->consult.n_dry; i++)
        if (flight->parts[i].state == SL_PART_STORE)
            new_leg(flight, i, i >= flight->consult.n_items)->state = SL_LEG_FAILED;
    sl_flight_settle(flight);
    sl_flight_free(flight);
    done(ctx);
}
