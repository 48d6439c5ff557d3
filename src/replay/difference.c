#include "replay/difference.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sl_difference_init(struct sl_difference *d, const struct sl_replay_options *options)
{
    *d = (struct sl_difference){.alloc = options->alloc, .policies = {options->policy, options->compare}};
    sl_key_tally_init(&d->keys, &d->alloc, sl_replay_secret(), options->tally_keys);
    for (int i = 0; i < 2; i++) {
        d->rows[i] = sl_calloc(&d->alloc, sl_policy_n_limits(d->policies[i]) + 1, sizeof **d->rows);
        if (!d->rows[i])
            return SL_ENOMEM;
    }
    return 0;
}

void sl_difference_fini(struct sl_difference *d)
{
    sl_free(&d->alloc, d->rows[0]);
    sl_free(&d->alloc, d->rows[1]);
    sl_key_tally_fini(&d->keys);
    d->rows[0] = d->rows[1] = NULL;
}

int sl_difference_event(struct sl_difference *d, const struct sl_side *first, const struct sl_side *second)
{
    unsigned rejecting = second->verdict.allowed ? 0 : 1;
    const struct sl_side *side = rejecting ? second : first;
    size_t n = sl_policy_n_limits(d->policies[rejecting]);

    d->allowed += second->verdict.allowed;
    d->rejected += !second->verdict.allowed;
    if (first->verdict.allowed == second->verdict.allowed)
        return 0;
    d->newly_rejected += rejecting;
    d->newly_allowed += !rejecting;
    d->rows[rejecting][side->by && side->by->index < n ? side->by->index : n]++;
    return sl_key_tally_add(&d->keys, (struct sl_slice){first->request.key, first->request.key_len},
                            (struct sl_slice){first->request.key_type, first->request.key_type_len}, rejecting);
}

/* The row of a limit of that name, made when there is none yet. A name that both policies have is one row. */
static struct sl_replay_diff_limit *diff_row(struct sl_replay_compare *compare, const char *name)
{
    struct sl_replay_diff_limit *row;

    for (size_t i = 0; i < compare->n_limits; i++) {
        if (strcmp(compare->limits[i].name, name) == 0)
            return &compare->limits[i];
    }
    row = &compare->limits[compare->n_limits++];
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static uint64_t differences(const struct sl_replay_diff_limit *row)
{
    return row->newly_rejected + row->newly_allowed;
}

/* Most differences first, equals by name. */
static int by_differences(const void *a, const void *b)
{
    const struct sl_replay_diff_limit *x = a, *y = b;
    uint64_t dx = differences(x), dy = differences(y);

    return dx != dy ? (dx < dy ? 1 : -1) : strcmp(x->name, y->name);
}

static int write_diff_limits(const struct sl_difference *d, const struct sl_alloc *alloc,
                             struct sl_replay_compare *compare)
{
    size_t room = 0;

    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i <= sl_policy_n_limits(d->policies[side]); i++)
            room += d->rows[side][i] > 0;
    }
    compare->limits = sl_calloc(alloc, room + 1, sizeof *compare->limits);
    if (!compare->limits)
        return SL_ENOMEM;
    for (int side = 0; side < 2; side++) {
        size_t n = sl_policy_n_limits(d->policies[side]);

        for (size_t i = 0; i <= n; i++) {
            const char *name = i < n ? sl_policy_limit(d->policies[side], i)->name : "";
            struct sl_replay_diff_limit *row;

            if (d->rows[side][i] == 0)
                continue;
            row = diff_row(compare, name);
            *(side ? &row->newly_rejected : &row->newly_allowed) += d->rows[side][i];
        }
    }
    qsort(compare->limits, compare->n_limits, sizeof *compare->limits, by_differences);
    return 0;
}

static int write_diff_keys(const struct sl_difference *d, unsigned top, const struct sl_alloc *alloc,
                           struct sl_replay_compare *compare)
{
    const struct sl_key_tally_entry **entries;
    size_t n;
    int error = sl_key_tally_top(&d->keys, top, &entries, &n);

    if (error)
        return error;
    compare->keys = sl_calloc(alloc, n + 1, sizeof *compare->keys);
    error = compare->keys ? 0 : SL_ENOMEM;
    for (size_t i = 0; i < n && !error; i++) {
        struct sl_replay_diff_key *out = &compare->keys[compare->n_keys++];

        out->key = sl_key_tally_copy(alloc, entries[i], &out->key_len, out->key_type);
        out->newly_allowed = entries[i]->n[0];
        out->newly_rejected = entries[i]->n[1];
        error = out->key ? 0 : SL_ENOMEM;
    }
    sl_free(&d->alloc, entries);
    return error;
}

int sl_difference_summarise(const struct sl_difference *d, unsigned top, struct sl_replay_compare *compare)
{
    int error = write_diff_limits(d, &d->alloc, compare);

    compare->allowed = d->allowed;
    compare->rejected = d->rejected;
    compare->newly_rejected = d->newly_rejected;
    compare->newly_allowed = d->newly_allowed;
    compare->untallied = d->keys.untallied[0] + d->keys.untallied[1];
    return error ? error : write_diff_keys(d, top, &d->alloc, compare);
}
