/* No answer: the limit's own failure mode decides, never an accident. */
#include "fleet/internal.h"

#define CLOSED_RETRY_MIN_MS 1000

static void tell(struct sl_part *part, bool allowed, uint64_t now_us)
{
    part->decision = (struct sl_decision){.allowed = allowed, .now_us = now_us};
    part->telling.source = SLUICE_DEGRADED;
}

/* Allowed, and nobody knows what remains. */
static void open(struct sl_part *part, const struct sl_item *whole, uint64_t now_us)
{
    tell(part, true, now_us);
    part->telling.how = SL_TOLD_UNKNOWN;
    part->telling.numbers = (struct sl_numbers){.limit = whole->shape->limit, .remaining = -1};
    part->state = SL_PART_KNOWN;
}

static void close(struct sl_part *part, const struct sl_item *whole, uint64_t now_us, uint64_t wait_us)
{
    int64_t wait_ms = (int64_t)((wait_us + 999) / 1000);

    tell(part, false, now_us);
    part->telling.how = SL_TOLD_UNAVAILABLE;
    part->telling.numbers = (struct sl_numbers){
        .limit = whole->shape->limit, .retry_after_ms = wait_ms > CLOSED_RETRY_MIN_MS ? wait_ms : CLOSED_RETRY_MIN_MS};
    part->state = SL_PART_KNOWN;
}

/* The share's figures, of the whole limit. */
static void tell_share(struct sl_part *part)
{
    sl_decision_numbers(&part->degraded, &part->decision, &part->telling.numbers);
    part->telling.numbers.limit = part->item.shape->limit;
    part->telling.share = part->degraded.limit;
    part->telling.how = SL_TOLD_NUMBERS;
    part->telling.source = SLUICE_DEGRADED;
}

/* What this instance has leased is its own to spend; then its share of the limit, in the table, under a name that
 * outlives the outage: the next one does not begin with a full burst again. */
static void decide_here(struct sl_fleet *fleet, struct sl_part *part, const struct sl_item *whole, uint64_t now_us)
{
    unsigned n = sl_fleet_instances(fleet);

    part->item = *whole; /* and not the part of a split bucket that the store was asked for */
    if (whole->cost > 0 &&
        sl_lease_take_last(fleet->leases, whole->fp, whole->shape, now_us, whole->cost, &part->telling.numbers)) {
        tell(part, true, now_us);
        part->telling.how = SL_TOLD_NUMBERS;
        part->state = SL_PART_LEASED;
        return;
    }
    sl_degraded_shape(whole->shape, n, &part->degraded);
    sl_table_charge(fleet->limiter->table, sl_degraded_name(whole->fp), &part->degraded, now_us, whole->cost,
                    &part->decision);
    tell_share(part);
    /* More than a share holds, but not more than the limit: when the store is back it may be had. */
    if (part->decision.never && whole->cost <= whole->shape->limit) {
        part->decision.never = false;
        part->telling.numbers.retry_after_ms = CLOSED_RETRY_MIN_MS;
    }
    part->state = SL_PART_DEGRADED;
}

void sl_part_degrade(struct sl_fleet *fleet, struct sl_part *part, const struct sl_item *whole, uint64_t now_us,
                     uint64_t wait_us)
{
    sl_fleet_add(fleet, SL_FC_DEGRADED, 1);
    switch (whole->limit->on_store_failure) {
    case SL_FAIL_OPEN:
        open(part, whole, now_us);
        break;
    case SL_FAIL_CLOSED:
        close(part, whole, now_us, wait_us);
        break;
    case SL_FAIL_LOCAL:
        decide_here(fleet, part, whole, now_us);
        break;
    }
}

void sl_part_undo(struct sl_fleet *fleet, struct sl_part *part)
{
    struct sl_table *table = fleet->limiter->table;

    if (!part->decision.allowed || part->item.cost == 0)
        return;
    if (part->state == SL_PART_LEASED) {
        sl_lease_put_back(fleet->leases, part->item.fp, part->item.cost, part->decision.now_us);
        part->telling.numbers.remaining += part->item.cost;
        if (part->telling.numbers.remaining > part->telling.numbers.limit)
            part->telling.numbers.remaining = part->telling.numbers.limit;
        part->state = SL_PART_KNOWN;
    } else if (part->state == SL_PART_DEGRADED) {
        sl_table_refund(table, sl_degraded_name(part->item.fp), &part->degraded, &part->decision);
        sl_decision_unspend(&part->decision);
        tell_share(part);
        part->state = SL_PART_KNOWN;
    } else if (part->state == SL_PART_TABLE) {
        sl_table_refund(table, part->item.fp, part->item.shape, &part->decision);
    }
}
