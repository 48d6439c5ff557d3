#include "shadow/compare.h"

#include "base/err.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 64u

/* ---- limits by name */

static void limits_fini(struct sl_compared_limits *limits, const struct sl_alloc *alloc)
{
    sl_free(alloc, limits->rows);
    *limits = (struct sl_compared_limits){.rows = NULL};
}

/* The row of that name, or the free one where it belongs. There always is a free one. */
static struct sl_compared_limit *find(const struct sl_compared_limits *limits, const char *name)
{
    size_t mask = limits->room - 1, at = 5381;

    for (const char *c = name; *c; c++) /* names are the operator's own: no secret is needed */
        at = at * 33 + (unsigned char)*c;
    for (at ^= at >> 17;; at++) {
        struct sl_compared_limit *row = &limits->rows[at & mask];

        if (!row->used || strcmp(row->name, name) == 0)
            return row;
    }
}

static bool grow(struct sl_compared_limits *limits, const struct sl_alloc *alloc)
{
    struct sl_compared_limits bigger = *limits;

    if (2 * (limits->n + 1) <= limits->room)
        return true;
    bigger.room = limits->room ? 2 * limits->room : ROOM_MIN;
    bigger.rows = sl_calloc(alloc, bigger.room, sizeof *bigger.rows);
    if (!bigger.rows)
        return false;
    for (size_t i = 0; i < limits->room; i++)
        if (limits->rows[i].used)
            *find(&bigger, limits->rows[i].name) = limits->rows[i];
    sl_free(alloc, limits->rows);
    *limits = bigger;
    return true;
}

/* Whatever finds no room, in the bound or in memory, is in the row `other`. */
static struct sl_compared_limit *row_of(struct sl_compared_limits *limits, const struct sl_alloc *alloc,
                                        const char *name)
{
    struct sl_compared_limit *row = limits->room ? find(limits, name) : NULL;

    if (row && row->used)
        return row;
    if (limits->n == SL_COMPARED_LIMITS_MAX || !grow(limits, alloc))
        return &limits->other;
    row = find(limits, name);
    snprintf(row->name, sizeof row->name, "%s", name);
    row->used = true;
    limits->n++;
    return row;
}

/* ---- life */

int sl_comparison_init(struct sl_comparison *comparison, const struct sl_alloc *alloc)
{
    int err;

    *comparison = (struct sl_comparison){.alloc = *alloc};
    err = sl_pairs_new(alloc, &comparison->newly_rejected);
    if (!err)
        err = sl_pairs_new(alloc, &comparison->newly_allowed);
    if (err) {
        sl_free(alloc, comparison->newly_rejected);
        return err;
    }
    pthread_mutex_init(&comparison->lock, NULL);
    return 0;
}

void sl_comparison_fini(struct sl_comparison *comparison)
{
    limits_fini(&comparison->candidate, &comparison->alloc);
    limits_fini(&comparison->live, &comparison->alloc);
    sl_free(&comparison->alloc, comparison->newly_rejected);
    sl_free(&comparison->alloc, comparison->newly_allowed);
    pthread_mutex_destroy(&comparison->lock);
}

void sl_comparison_clear(struct sl_comparison *comparison)
{
    pthread_mutex_lock(&comparison->lock);
    comparison->generation++;
    memset(comparison->n, 0, sizeof comparison->n);
    comparison->undecided = 0;
    limits_fini(&comparison->candidate, &comparison->alloc);
    limits_fini(&comparison->live, &comparison->alloc);
    sl_pairs_clear(comparison->newly_rejected);
    sl_pairs_clear(comparison->newly_allowed);
    pthread_mutex_unlock(&comparison->lock);
}

unsigned sl_comparison_generation(struct sl_comparison *comparison)
{
    unsigned generation;

    pthread_mutex_lock(&comparison->lock);
    generation = comparison->generation;
    pthread_mutex_unlock(&comparison->lock);
    return generation;
}

/* ---- counting */

/* Of a difference the one that rejects is to blame. */
static void count(struct sl_comparison *comparison, enum sl_outcome outcome, const struct sluice_request *request,
                  const struct sl_decided *live, const struct sl_decided *candidate)
{
    comparison->n[outcome]++;
    row_of(&comparison->candidate, &comparison->alloc, candidate->policy)->n[outcome]++;
    row_of(&comparison->live, &comparison->alloc, live->policy)->n[outcome]++;
    if (outcome == SL_NEWLY_REJECTED)
        sl_pairs_add(comparison->newly_rejected, candidate->policy, request);
    else if (outcome == SL_NEWLY_ALLOWED)
        sl_pairs_add(comparison->newly_allowed, live->policy, request);
}

void sl_comparison_add(struct sl_comparison *comparison, unsigned generation, const struct sluice_request *request,
                       const struct sl_decided *live, const struct sl_decided *candidate, enum sl_outcome *ret_outcome)
{
    if (live->allowed == candidate->allowed)
        *ret_outcome = live->allowed ? SL_BOTH_ALLOWED : SL_BOTH_REJECTED;
    else
        *ret_outcome = live->allowed ? SL_NEWLY_REJECTED : SL_NEWLY_ALLOWED;
    pthread_mutex_lock(&comparison->lock);
    if (generation == comparison->generation)
        count(comparison, *ret_outcome, request, live, candidate);
    pthread_mutex_unlock(&comparison->lock);
}

void sl_comparison_undecided(struct sl_comparison *comparison, unsigned generation)
{
    pthread_mutex_lock(&comparison->lock);
    comparison->undecided += generation == comparison->generation;
    pthread_mutex_unlock(&comparison->lock);
}

void sl_comparison_read(struct sl_comparison *comparison, struct sl_compared *ret_compared)
{
    pthread_mutex_lock(&comparison->lock);
    memcpy(ret_compared->n, comparison->n, sizeof comparison->n);
    ret_compared->undecided = comparison->undecided;
    pthread_mutex_unlock(&comparison->lock);
}

/* ---- reports */

static uint64_t differences(const struct sl_compared_limit *row)
{
    return row->n[SL_NEWLY_REJECTED] + row->n[SL_NEWLY_ALLOWED];
}

static uint64_t all_of(const struct sl_compared_limit *row)
{
    return differences(row) + row->n[SL_BOTH_ALLOWED] + row->n[SL_BOTH_REJECTED];
}

/* Most differences first, then most decisions, then by name. */
static bool is_before(const struct sl_compared_limit *x, const struct sl_compared_limit *y)
{
    uint64_t dx = differences(x), dy = differences(y), ax = all_of(x), ay = all_of(y);

    if (dx != dy)
        return dx > dy;
    if (ax != ay)
        return ax > ay;
    return strcmp(x->name, y->name) < 0;
}

/* Puts the row among the best so far, if it belongs there; returns how many there are. */
static unsigned rank(const struct sl_compared_limit **best, unsigned n, const struct sl_compared_limit *row)
{
    unsigned at = n;

    while (at > 0 && is_before(row, best[at - 1]))
        at--;
    if (at == SL_COMPARED_SHOWN)
        return n;
    n += n < SL_COMPARED_SHOWN;
    for (unsigned i = n - 1; i > at; i--)
        best[i] = best[i - 1];
    best[at] = row;
    return n;
}

static json_t *limit_json(const struct sl_compared_limit *row, const char *name)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", name, "allowed", (json_int_t)row->n[SL_BOTH_ALLOWED],
                     "rejected", (json_int_t)row->n[SL_BOTH_REJECTED], "newlyRejected",
                     (json_int_t)row->n[SL_NEWLY_REJECTED], "newlyAllowed", (json_int_t)row->n[SL_NEWLY_ALLOWED]);
}

static json_t *limits_json(const struct sl_compared_limits *limits)
{
    const struct sl_compared_limit *best[SL_COMPARED_SHOWN];
    unsigned n = 0;
    json_t *array = json_array();
    int failed = !array;

    for (size_t i = 0; i < limits->room; i++)
        if (limits->rows[i].used)
            n = rank(best, n, &limits->rows[i]);
    for (unsigned i = 0; i < n && !failed; i++)
        failed = json_array_append_new(array, limit_json(best[i], best[i]->name));
    if (!failed && all_of(&limits->other))
        failed = json_array_append_new(array, limit_json(&limits->other, "other"));
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

json_t *sl_comparison_json(struct sl_comparison *comparison)
{
    json_t *candidate, *live, *rejected, *allowed;

    pthread_mutex_lock(&comparison->lock);
    candidate = limits_json(&comparison->candidate);
    live = limits_json(&comparison->live);
    rejected = sl_pairs_json(comparison->newly_rejected, SL_COMPARED_KEYS_SHOWN);
    allowed = sl_pairs_json(comparison->newly_allowed, SL_COMPARED_KEYS_SHOWN);
    pthread_mutex_unlock(&comparison->lock);
    return json_pack("{s:o, s:o, s:{s:o, s:o}}", "limits", candidate, "liveLimits", live, "keys", "newlyRejected",
                     rejected, "newlyAllowed", allowed);
}
