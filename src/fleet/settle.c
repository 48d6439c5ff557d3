/* What comes of a flight: every part has its answer or its failure; all of them are charged, or none. */
#include "fleet/internal.h"

#include <limits.h>
#include <string.h>

/* Nobody knows whether it would have had room: a dry-run limit, or one that does not matter any more. */
static void leave_open(struct sl_flight *flight, const struct sl_leg *leg, uint64_t now_us)
{
    for (unsigned i = 0; i < leg->n; i++) {
        struct sl_part *part = &flight->parts[leg->parts[i]];

        part->state = SL_PART_KNOWN;
        part->decision = (struct sl_decision){.allowed = true, .now_us = now_us};
        part->telling.how = SL_TOLD_UNKNOWN;
        part->telling.source = SLUICE_DEGRADED;
        part->telling.numbers =
            (struct sl_numbers){.limit = sl_flight_whole(flight, leg->parts[i])->shape->limit, .remaining = -1};
    }
}

/* A store's failure is decided only where the answers of the others leave it open: else nothing is charged for it. */
static bool degrade(struct sl_flight *flight, const struct sl_leg *leg, uint64_t now_us)
{
    bool allowed = true;

    for (unsigned i = 0; i < leg->n; i++) {
        struct sl_part *part = &flight->parts[leg->parts[i]];

        sl_part_degrade(flight->fleet, part, sl_flight_whole(flight, leg->parts[i]), now_us, leg->wait_us);
        allowed = allowed && part->decision.allowed;
    }
    return allowed;
}

static bool decide(struct sl_flight *flight, uint64_t now_us)
{
    bool allowed = true;

    for (unsigned i = 0; i < flight->n_legs; i++)
        if (!flight->legs[i].dry && flight->legs[i].state == SL_LEG_REJECTED)
            allowed = false;
    for (unsigned i = 0; i < flight->n_legs; i++) {
        const struct sl_leg *leg = &flight->legs[i];

        if (leg->state != SL_LEG_FAILED)
            continue;
        if (leg->dry || !allowed)
            leave_open(flight, leg, now_us);
        else
            allowed = degrade(flight, leg, now_us);
    }
    return allowed;
}

static void unspend(struct sl_flight *flight, const struct sl_leg *leg)
{
    for (unsigned i = 0; i < leg->n; i++) {
        struct sl_part *part = &flight->parts[leg->parts[i]];

        sl_decision_unspend(&part->decision);
        sl_part_tell(part, sl_flight_whole(flight, leg->parts[i]), SLUICE_SHARED);
    }
}

/* Gives back what was charged in [from, to) here and in the store. */
static void roll_back(struct sl_flight *flight, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < flight->n_legs; i++) {
        const struct sl_leg *leg = &flight->legs[i];

        if (leg->state != SL_LEG_ALLOWED || leg->parts[0] < from || leg->parts[0] >= to)
            continue;
        if (flight->lane)
            sl_lane_refund(flight->lane, leg);
        unspend(flight, leg);
    }
    for (unsigned i = from; i < to; i++)
        sl_part_undo(flight->fleet, &flight->parts[i]);
}

/* Dry-run limits are charged when the request is allowed and all their rates had room. Those of the store have been asked
 * together with it, so theirs may have to be given back. */
static void settle_dry(struct sl_flight *flight, bool allowed, uint64_t now_us)
{
    unsigned to = flight->consult.n_items + flight->consult.n_dry;

    for (unsigned from = flight->consult.n_items, end; from < to; from = end) {
        struct sl_part *first = &flight->parts[from];
        struct sl_item items[SL_RATES_MAX];
        struct sl_decision decisions[SL_RATES_MAX];
        bool room = true;

        for (end = from; end < to && flight->parts[end].item.limit == first->item.limit; end++) {
            room = room && flight->parts[end].decision.allowed;
            items[end - from] = flight->parts[end].item;
            decisions[end - from] = flight->parts[end].decision;
        }
        if (first->item.limit->shared) {
            if (!allowed || !room)
                roll_back(flight, from, end);
        } else if (allowed && room) {
            sl_items_charge(flight->fleet->limiter->table, items, end - from, now_us, decisions);
            for (unsigned i = from; i < end; i++)
                flight->parts[i].decision = decisions[i - from];
        }
    }
}

/* The limit of that name in the policy in force; NULL when it is gone. Only for flights that a reload overtook. */
static const struct sl_limit *same_limit(const struct sl_policy *policy, const struct sl_limit *limit)
{
    for (size_t i = 0; limit && limit->index != UINT_MAX && i < sl_policy_n_limits(policy); i++)
        if (strcmp(sl_policy_limit(policy, i)->name, limit->name) == 0)
            return sl_policy_limit(policy, i);
    return NULL;
}

/* Counts a decision made under a policy that is not in force any more: by the names of its limits. */
static void count_late(struct sl_fleet *fleet, struct sl_snapshot *snapshot, unsigned slot,
                       const struct sl_consult *consult, struct sl_outcome *outcome, const struct sl_limit *by,
                       enum sluice_source source)
{
    struct sl_item items[SL_PARTS_MAX];
    struct sl_consult late = *consult;
    unsigned n = 0;

    sl_consult_move(&late, items);
    for (unsigned i = 0; i < late.n_items; i++) {
        items[n] = items[i];
        items[n].limit = same_limit(snapshot->policy, items[i].limit);
        outcome->items[n] = outcome->items[i];
        n += items[n].limit != NULL;
    }
    late.n_items = n;
    late.n_dry = late.n_bare = 0;
    late.dry_blocked = NULL;
    sl_consult_count(fleet->limiter, snapshot, slot, &late, outcome, same_limit(snapshot->policy, by), source);
}

void sl_parts_verdict(struct sl_fleet *fleet, struct sl_snapshot *snapshot, unsigned slot,
                      const struct sl_policy *policy, const struct sl_consult *consult, struct sl_part *parts,
                      bool allowed, uint64_t now_us, struct sluice_verdict *ret_verdict, struct sl_report *report)
{
    struct sl_telling telling[SL_PARTS_MAX];
    struct sl_outcome outcome;
    const struct sl_limit *by;
    bool current = snapshot->policy == policy;

    outcome.allowed = allowed;
    outcome.telling = telling;
    outcome.dry_telling = telling + consult->n_items;
    for (unsigned i = 0; i < consult->n_items + consult->n_dry; i++) {
        telling[i] = parts[i].telling;
        if (i < consult->n_items)
            outcome.items[i] = parts[i].decision;
        else
            outcome.dry[i - consult->n_items] = parts[i].decision;
        if (parts[i].state == SL_PART_LEASED)
            sl_fleet_add(fleet, SL_FC_LEASED, 1);
    }
    by = sl_consult_verdict(consult, &outcome, current ? snapshot->names : NULL, ret_verdict);
    if (report)
        sl_consult_report(fleet->limiter->table, consult, &outcome, now_us, report);
    if (current)
        sl_consult_count(fleet->limiter, snapshot, slot, consult, &outcome, by,
                         (enum sluice_source)ret_verdict->source);
    else
        count_late(fleet, snapshot, slot, consult, &outcome, by, (enum sluice_source)ret_verdict->source);
}

void sl_flight_settle(struct sl_flight *flight)
{
    struct sl_limiter *limiter = flight->fleet->limiter;
    uint64_t now_us = sl_table_now(limiter->table);
    bool allowed = decide(flight, now_us);
    struct sl_pulse *pulse;
    void *snapshot;
    unsigned slot;
    bool sampled;

    if (!allowed)
        roll_back(flight, 0, flight->consult.n_items);
    settle_dry(flight, allowed, now_us);
    slot = sl_rcu_enter(&limiter->rcu, &snapshot);
    pulse = &limiter->pulses[slot];
    sampled = sl_pulse_ticks(pulse) % SL_SAMPLE == 0;
    sl_parts_verdict(flight->fleet, snapshot, slot, flight->policy, &flight->consult, flight->parts, allowed, now_us,
                     flight->verdict, flight->report);
    if (sampled)
        sl_pulse_record(pulse, sl_stopwatch_ns() - flight->started_ns);
    sl_rcu_leave(&limiter->rcu, slot);
}
