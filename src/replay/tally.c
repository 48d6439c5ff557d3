#include "replay/tally.h"

#include "base/err.h"

#include <stdio.h>

#define MINUTE_US UINT64_C(60000000)

int sl_tally_init(struct sl_tally *tally, const struct sl_replay_options *options)
{
    *tally = (struct sl_tally){
        .alloc = options->alloc, .policy = options->policy, .n_limits = sl_policy_n_limits(options->policy)};
    sl_key_tally_init(&tally->keys, &tally->alloc, sl_replay_secret(), options->tally_keys);
    tally->limits = sl_calloc(&tally->alloc, tally->n_limits + 1, sizeof *tally->limits);
    return tally->limits ? 0 : SL_ENOMEM;
}

void sl_tally_fini(struct sl_tally *tally)
{
    sl_free(&tally->alloc, tally->limits);
    sl_key_tally_fini(&tally->keys);
    tally->limits = NULL;
}

static struct sl_replay_peak highest(const struct sl_minutes *m)
{
    if (m->n > m->peak.n)
        return (struct sl_replay_peak){m->minute, m->n};
    return m->peak;
}

static void add_minute(struct sl_minutes *m, uint64_t minute)
{
    if (m->minute != minute) {
        m->peak = highest(m);
        m->minute = minute;
        m->n = 0;
    }
    m->n++;
}

static struct sl_tally_limit *row_of(struct sl_tally *tally, const struct sl_limit *limit)
{
    return &tally->limits[limit->index < tally->n_limits ? limit->index : tally->n_limits];
}

static void add_check(struct sl_tally *tally, const struct sl_limit *limit, bool room, uint64_t minute)
{
    struct sl_tally_limit *row = row_of(tally, limit);

    add_minute(&row->checked, minute);
    if (room) {
        row->count.allowed++;
    } else {
        row->count.rejected++;
        add_minute(&row->rejected, minute);
    }
}

/* A limit of several rates had room when all of them had. */
static void add_groups(struct sl_tally *tally, const struct sl_item *items, const struct sl_decision *decisions,
                       unsigned n, uint64_t minute)
{
    for (unsigned first = 0, end; first < n; first = end) {
        bool room = true;

        end = sl_items_group_end(items, n, first);
        for (unsigned i = first; i < end; i++)
            room = room && decisions[i].allowed;
        add_check(tally, items[first].limit, room, minute);
    }
}

static int add_rejection(struct sl_tally *tally, const struct sl_side *side, uint64_t minute)
{
    const struct sluice_request *r = &side->request;

    tally->rejected++;
    add_minute(&tally->rejected_by_minute, minute);
    if (side->by)
        row_of(tally, side->by)->decided++;
    return sl_key_tally_add(&tally->keys, (struct sl_slice){r->key, r->key_len},
                            (struct sl_slice){r->key_type, r->key_type_len}, 0);
}

int sl_tally_event(struct sl_tally *tally, const struct sl_side *side, uint64_t t_us)
{
    const struct sl_consult *consult = &side->consult;
    uint64_t minute = t_us / MINUTE_US;

    if (tally->events++ == 0)
        tally->first_us = t_us;
    tally->last_us = t_us;
    add_minute(&tally->events_by_minute, minute);
    add_groups(tally, consult->items, side->outcome.items, consult->n_items, minute);
    for (unsigned i = 0; i < consult->n_bare; i++)
        add_check(tally, consult->bare[i], consult->bare[i]->kind == SL_RATE_UNLIMITED, minute);
    add_groups(tally, consult->dry, side->outcome.dry, consult->n_dry, minute);
    if (consult->dry_blocked)
        add_check(tally, consult->dry_blocked, false, minute);
    tally->unmatched += consult->unmatched || consult->denied;
    if (!side->verdict.allowed)
        return add_rejection(tally, side, minute);
    tally->allowed++;
    tally->dry_run += side->verdict.dry_run;
    return 0;
}

static void write_limit(const struct sl_tally_limit *row, const struct sl_limit *limit, struct sl_replay_limit *out)
{
    snprintf(out->name, sizeof out->name, "%s", limit->name);
    out->dry_run = limit->mode == SL_MODE_DRY_RUN;
    out->count = row->count;
    out->decided = row->decided;
    out->checked = highest(&row->checked);
    out->rejected = highest(&row->rejected);
}

/* All limits that can say anything, and the ceiling's own bucket when there is one. */
static int write_limits(const struct sl_tally *tally, struct sl_replay_summary *summary)
{
    const struct sl_limit *ceiling = sl_policy_ceiling(tally->policy);

    summary->limits = sl_calloc(&summary->alloc, tally->n_limits + 1, sizeof *summary->limits);
    if (!summary->limits)
        return SL_ENOMEM;
    for (size_t i = 0; i < tally->n_limits; i++) {
        const struct sl_limit *limit = sl_policy_limit(tally->policy, i);

        if (limit->mode != SL_MODE_OFF)
            write_limit(&tally->limits[limit->index], limit, &summary->limits[summary->n_limits++]);
    }
    if (ceiling)
        write_limit(&tally->limits[tally->n_limits], ceiling, &summary->limits[summary->n_limits++]);
    return 0;
}

static int write_top(const struct sl_tally *tally, unsigned top, struct sl_replay_summary *summary)
{
    const struct sl_key_tally_entry **entries;
    size_t n;
    int error = sl_key_tally_top(&tally->keys, top, &entries, &n);

    if (error)
        return error;
    summary->top_rejected = sl_calloc(&summary->alloc, n + 1, sizeof *summary->top_rejected);
    error = summary->top_rejected ? 0 : SL_ENOMEM;
    for (size_t i = 0; i < n && !error; i++) {
        struct sl_replay_key *out = &summary->top_rejected[summary->n_top_rejected++];

        out->key = sl_key_tally_copy(&summary->alloc, entries[i], &out->key_len, out->key_type);
        out->rejected = entries[i]->n[0];
        error = out->key ? 0 : SL_ENOMEM;
    }
    sl_free(&tally->alloc, entries);
    return error;
}

int sl_tally_summarise(const struct sl_tally *tally, unsigned top, struct sl_replay_summary *summary)
{
    int error;

    summary->events = tally->events;
    summary->allowed = tally->allowed;
    summary->rejected = tally->rejected;
    summary->unmatched = tally->unmatched;
    summary->dry_run = tally->dry_run;
    summary->first_us = tally->first_us;
    summary->last_us = tally->last_us;
    summary->rejected_keys = tally->keys.n;
    summary->untallied = tally->keys.untallied[0];
    summary->events_peak = highest(&tally->events_by_minute);
    summary->rejected_peak = highest(&tally->rejected_by_minute);
    error = write_limits(tally, summary);
    return error ? error : write_top(tally, top, summary);
}
