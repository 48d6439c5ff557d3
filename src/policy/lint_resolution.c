/* Warnings about limits and endpoints that compete: who wins only by the order of the file, and who never wins. */
#include "policy/compiled.h"

#include <stdlib.h>
#include <string.h>

/* Pairs of limits looked at in one load. Only limits whose keys, endpoints, tiers and key types are equal are
 * compared, so that even large policies stay far below; beyond it warnings are missed, nothing else. */
#define PAIRS_MAX 100000

static const struct sluice_label *find_label(const struct sl_limit *limit, const char *name)
{
    for (unsigned i = 0; i < limit->n_labels; i++)
        if (!strcmp(limit->labels[i].name, name))
            return &limit->labels[i];
    return NULL;
}

enum sl_relation sl_limit_relate_labels(const struct sl_limit *winner, const struct sl_limit *loser)
{
    enum sl_relation result = SL_COVERS;

    for (unsigned i = 0; i < winner->n_labels; i++) {
        const struct sluice_label *x = &winner->labels[i], *y = find_label(loser, x->name);

        if (!y)
            result = SL_OVERLAPS;
        else if (!sl_glob_overlap(x->value, x->value_len, y->value, y->value_len))
            return SL_APART;
        else if (!sl_glob_covers(x->value, x->value_len, y->value, y->value_len))
            result = SL_OVERLAPS;
    }
    return result;
}

/* A limit that needs an address leaves requests without one to the next. */
static bool needs_more(const struct sl_limit *winner, const struct sl_limit *loser)
{
    return (winner->per & SL_PER_ADDRESS) && !(loser->per & SL_PER_ADDRESS);
}

/* In which resolution `loser` would have had to win: an enforcing limit is overtaken by enforcing ones only, a dry-run
 * limit by both. */
static bool competes(const struct sl_limit *winner, const struct sl_limit *loser)
{
    return winner->mode == SL_MODE_ENFORCE || loser->mode == SL_MODE_DRY_RUN;
}

static void warn_pair(struct sl_load *load, const struct sl_limit *winner, const struct sl_limit *loser)
{
    const struct sl_limit_draft *draft = &load->draft.limits[loser->index];
    enum sl_relation relation = competes(winner, loser) ? sl_limit_relate_labels(winner, loser) : SL_APART;
    const char *dry = loser->mode == SL_MODE_DRY_RUN ? "dry-run " : "";

    if (relation == SL_COVERS && needs_more(winner, loser))
        relation = SL_OVERLAPS;
    if (relation == SL_COVERS)
        sl_load_warning(
            load, draft->node, "",
            "limits[%u]: %slimit `%s` never wins: `%s` (line %u) is as specific, matches whatever it matches, "
            "and stands earlier in the file",
            loser->index, dry, loser->name, winner->name, winner->line);
    else if (relation == SL_OVERLAPS)
        sl_load_warning(
            load, draft->node, "",
            "limits[%u]: %slimit `%s` is as specific as `%s` (line %u); where both match, the earlier in the "
            "file wins",
            loser->index, dry, loser->name, winner->name, winner->line);
}

/* Limits that name the same values apart from labels, and as many labels: rivals. */
static int compare_bases(const struct sl_load *load, const struct sl_limit *x, const struct sl_limit *y)
{
    const struct sl_limit_written *a = &load->policy->written[x->index], *b = &load->policy->written[y->index];
    const uint32_t p[] = {x->layer_idx, sl_limit_rank(x), a->key_id, a->endpoint_id, a->tier_id, a->type_id};
    const uint32_t q[] = {y->layer_idx, sl_limit_rank(y), b->key_id, b->endpoint_id, b->tier_id, b->type_id};

    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

static int sort_limits(const void *x, const void *y, void *ctx)
{
    const struct sl_limit *a = *(const struct sl_limit *const *)x, *b = *(const struct sl_limit *const *)y;
    int order = compare_bases(ctx, a, b);

    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static void lint_limits(struct sl_load *load)
{
    const struct sl_policy *policy = load->policy;
    const struct sl_limit **sorted = sl_arena_calloc(&load->scratch, policy->n_limits, sizeof(struct sl_limit *));
    size_t n = 0, pairs = 0;

    if (!sorted) {
        load->reader.nomem = true;
        return;
    }
    for (size_t i = 0; i < policy->n_limits; i++)
        if (policy->limits[i].mode != SL_MODE_OFF)
            sorted[n++] = &policy->limits[i];
    if (n)
        qsort_r(sorted, n, sizeof(struct sl_limit *), sort_limits, load);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && compare_bases(load, sorted[i], sorted[k]) == 0 && pairs < PAIRS_MAX;
             k++, pairs++)
            warn_pair(load, sorted[i], sorted[k]);
}

/* ---- endpoints -------------------------------------------------------------------------------------------------- */

static int sort_globs(const void *x, const void *y)
{
    const struct sl_endpoint_glob *a = *(const struct sl_endpoint_glob *const *)x,
                                  *b = *(const struct sl_endpoint_glob *const *)y;
    int order = strcmp(a->glob.text, b->glob.text);

    return order ? order : (a > b) - (a < b); /* both are in the array of the file's order */
}

/* The same glob in two endpoints: the second never gets it. */
static void lint_endpoints(struct sl_load *load)
{
    const struct sl_endpoints *e = &load->policy->endpoints;
    const struct sl_endpoint_glob **sorted =
        sl_arena_calloc(&load->scratch, e->n_globs, sizeof(struct sl_endpoint_glob *));

    if (!sorted) {
        load->reader.nomem = true;
        return;
    }
    for (uint32_t i = 0; i < e->n_globs; i++)
        sorted[i] = &e->globs[i];
    if (e->n_globs)
        qsort(sorted, e->n_globs, sizeof(struct sl_endpoint_glob *), sort_globs);
    for (uint32_t i = 1; i < e->n_globs; i++) {
        const struct sl_endpoint_glob *first = sorted[i - 1], *again = sorted[i];
        const struct sl_endpoint_draft *draft = &load->draft.endpoints[again->endpoint - 1];

        if (strcmp(first->glob.text, again->glob.text) != 0 ||
            (e->list[again->endpoint].named_in & ~e->list[first->endpoint].named_in))
            continue; /* a layer that names the second alone gives it the scope */
        sl_load_warning(load, draft->node, "",
                        "endpoint `%s` never gets `%.64s`: endpoint `%s` has the same glob earlier", draft->name,
                        again->glob.text, e->list[first->endpoint].name);
    }
}

void sl_lint_resolution(struct sl_load *load)
{
    lint_limits(load);
    if (!load->reader.nomem)
        lint_endpoints(load);
}
