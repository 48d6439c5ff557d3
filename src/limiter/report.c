#include "limiter/consult.h"

#include <stdio.h>

static void add_item(struct sl_report *report, const struct sl_item *item, const struct sl_decision *d,
                     const struct sl_telling *telling, bool dry_run)
{
    struct sl_report_item *out = &report->items[report->n++];
    struct sl_numbers numbers;

    sl_told_numbers(item, d, telling, true, &numbers);
    snprintf(out->name, sizeof out->name, "%s", item->limit->name);
    out->quota = numbers.limit;
    out->cost = item->cost;
    out->remaining = numbers.remaining;
    out->period_us = item->shape->period_us;
    out->next_ms = numbers.next_token_ms;
    out->allowed = d->allowed;
    out->dry_run = dry_run;
    out->source = telling ? telling->source : SLUICE_LOCAL;
}

/* Decisions of the table that had room but were not charged tell of a spending that did not happen: such buckets are
 * shown by a peek. What other tiers tell of a rejected request is without that spending already. */
static void add_items(struct sl_table *table, const struct sl_item *items, const struct sl_decision *decisions,
                      const struct sl_telling *telling, unsigned n, bool charged, uint64_t now_us, bool dry_run,
                      struct sl_report *report)
{
    for (unsigned i = 0; i < n; i++) {
        const struct sl_telling *told = telling ? &telling[i] : NULL;
        struct sl_decision peek;

        if (charged || !decisions[i].allowed || (told && told->how != SL_TOLD_TABLE)) {
            add_item(report, &items[i], &decisions[i], told, dry_run);
        } else {
            sl_table_look(table, items[i].fp, items[i].shape, now_us, 0, &peek);
            add_item(report, &items[i], &peek, NULL, dry_run);
        }
    }
}

static bool all_allowed(const struct sl_decision *decisions, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!decisions[i].allowed)
            return false;
    return true;
}

static void add_blocked(struct sl_report *report, const struct sl_limit *limit, bool dry_run)
{
    struct sl_report_item *out = &report->items[report->n++];

    *out = (struct sl_report_item){.dry_run = dry_run};
    snprintf(out->name, sizeof out->name, "%s", limit->name);
}

void sl_consult_report(struct sl_table *table, const struct sl_consult *consult, const struct sl_outcome *outcome,
                       uint64_t now_us, struct sl_report *ret_report)
{
    ret_report->n = 0;
    add_items(table, consult->items, outcome->items, outcome->telling, consult->n_items, outcome->allowed, now_us,
              false, ret_report);
    if (consult->blocked)
        add_blocked(ret_report, consult->blocked, false);
    for (unsigned first = 0, end; first < consult->n_dry; first = end) {
        end = sl_items_group_end(consult->dry, consult->n_dry, first);
        bool charged = outcome->allowed && all_allowed(outcome->dry + first, end - first);

        add_items(table, consult->dry + first, outcome->dry + first,
                  outcome->dry_telling ? outcome->dry_telling + first : NULL, end - first, charged, now_us, true,
                  ret_report);
    }
    if (consult->dry_blocked)
        add_blocked(ret_report, consult->dry_blocked, true);
}
