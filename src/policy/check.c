/* What must hold between the limits of a policy: unique names, one limit a matcher in each layer and mode, known
 * references. */
#include "policy/compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- duplicates ------------------------------------------------------------------------------------------------- */

static int compare_optional(const char *x, const char *y)
{
    if (!x || !y)
        return (x != NULL) - (y != NULL);
    return strcmp(x, y);
}

static int compare_labels(const struct sl_limit *x, const struct sl_limit *y)
{
    if (x->n_labels != y->n_labels)
        return x->n_labels < y->n_labels ? -1 : 1;
    for (unsigned i = 0; i < x->n_labels; i++) {
        int order = strcmp(x->labels[i].name, y->labels[i].name);

        if (order == 0)
            order = strcmp(x->labels[i].value, y->labels[i].value);
        if (order)
            return order;
    }
    return 0;
}

static int compare_matchers(const struct sl_limit *x, const struct sl_limit *y)
{
    int order = strcmp(x->layer, y->layer);

    if (order == 0)
        order = (x->mode > y->mode) - (x->mode < y->mode);
    if (order == 0)
        order = compare_optional(x->key, y->key);
    if (order == 0)
        order = compare_optional(x->endpoint, y->endpoint);
    if (order == 0)
        order = compare_optional(x->tier, y->tier);
    if (order == 0)
        order = compare_optional(x->key_type, y->key_type);
    return order ? order : compare_labels(x, y);
}

static int by_index(const struct sl_limit *x, const struct sl_limit *y)
{
    return (x->index > y->index) - (x->index < y->index);
}

static int sort_by_name(const void *x, const void *y)
{
    const struct sl_limit *a = *(struct sl_limit *const *)x, *b = *(struct sl_limit *const *)y;
    int order = strcmp(a->name, b->name);

    return order ? order : by_index(a, b);
}

static int sort_by_matcher(const void *x, const void *y)
{
    const struct sl_limit *a = *(struct sl_limit *const *)x, *b = *(struct sl_limit *const *)y;
    int order = compare_matchers(a, b);

    return order ? order : by_index(a, b);
}

static const struct sl_limit_draft *draft_of(const struct sl_load *load, const struct sl_limit *limit)
{
    return &load->draft.limits[limit->index];
}

static void check_names(struct sl_load *load, struct sl_limit **sorted, size_t n)
{
    const struct sl_limit *first = NULL;

    qsort(sorted, n, sizeof(struct sl_limit *), sort_by_name);
    for (size_t i = 0; i < n; i++) {
        if (!first || strcmp(first->name, sorted[i]->name) != 0)
            first = sorted[i];
        else if (sorted[i]->name[0])
            sl_limit_error(load, draft_of(load, sorted[i]), SL_LF_NAME,
                           "the name `%s` is taken by the limit in line %u; names are unique", first->name,
                           first->line);
    }
}

/* Fields that could not be read make a matcher that was not meant. */
static bool matcher_is_known(const struct sl_load *load, const struct sl_limit *limit)
{
    static const enum sl_limit_field fields[] = {SL_LF_KEY,    SL_LF_ENDPOINT, SL_LF_TIER, SL_LF_KEY_TYPE,
                                                 SL_LF_LABELS, SL_LF_LAYER,    SL_LF_MODE};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!sl_limit_draft_knows(&load->draft, draft_of(load, limit), fields[i]))
            return false;
    return true;
}

static void check_matchers(struct sl_load *load, struct sl_limit **sorted, size_t n)
{
    const struct sl_limit *first = NULL;

    qsort(sorted, n, sizeof(struct sl_limit *), sort_by_matcher);
    for (size_t i = 0; i < n; i++) {
        if (!matcher_is_known(load, sorted[i]))
            continue;
        if (!first || compare_matchers(first, sorted[i]) != 0)
            first = sorted[i];
        else
            sl_load_error(load, draft_of(load, sorted[i])->node, "",
                          "limits[%u] `%s` matches exactly what `%s` (line %u) does, in the same layer and mode; "
                          "give it a layer of its own, or put both rates into one limit's `rates`",
                          sorted[i]->index, sorted[i]->name, first->name, first->line);
    }
}

/* ---- references ------------------------------------------------------------------------------------------------- */

static const char *endpoint_name(const void *ctx, size_t i)
{
    return ((const struct sl_endpoint *)ctx)[i + 1].name;
}

static void check_endpoint(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_endpoints *e = &load->policy->endpoints;
    struct sl_names names = {.at = endpoint_name, .ctx = e->list, .n = e->n};
    char hint[SL_HINT_MAX];

    if (!draft->endpoint || load->policy->written[draft->index].endpoint_id ||
        (load->draft.given.at[SL_PF_ENDPOINTS] && !sl_given_ok(&load->draft.given, SL_PF_ENDPOINTS)))
        return;
    sl_limit_error(load, draft, SL_LF_ENDPOINT, "no endpoint is called `%.64s`%s", draft->endpoint,
                   sl_read_hint(draft->endpoint, strlen(draft->endpoint), names, hint));
}

/* A key of type address is looked up as the doors write it, so it is brought into that form here. */
static void check_address_key(struct sl_load *load, struct sl_limit_draft *draft)
{
    char text[SL_ADDRESS_TEXT_MAX];
    size_t len;

    if (!draft->key || !draft->key_type || strcmp(draft->key_type, "address") != 0)
        return;
    if (sl_address_normalise(draft->key, strlen(draft->key), load->policy->door.ipv6_prefix, text, &len) != 0) {
        sl_limit_error(load, draft, SL_LF_KEY, "not an IP address, but key_type is `address`: it could never match");
        return;
    }
    draft->key = sl_arena_strndup(load->reader.arena, text, len);
    load->reader.nomem |= !draft->key;
}

static void check_store(struct sl_load *load, size_t i)
{
    const struct sl_dedicated_draft *dedicated = &load->draft.dedicated[i];
    char path[SL_PATH_MAX], why[300];

    if (!dedicated->store_node || !load->options->check_store ||
        load->options->check_store(dedicated->store, why, sizeof why) == 0)
        return;
    snprintf(path, sizeof path, "dedicated[%zu].store", i);
    sl_load_error(load, dedicated->store_node, path, "%s", why);
}

/* `first` has a name for each key, and owners[its number] the entry that had it first, from 1. */
static void check_dedicated_keys(struct sl_load *load, size_t i, struct sl_name_set *first, uint32_t *owners)
{
    const struct sl_texts *keys = &load->draft.dedicated[i].keys;
    char path[SL_PATH_MAX];

    for (size_t k = 0; k < keys->n; k++) {
        uint32_t *owner = &owners[sl_name_set_add(first, keys->list[k].text, keys->list[k].len)];

        if (*owner && *owner != i + 1) {
            snprintf(path, sizeof path, "dedicated[%zu].keys[%zu]", i, k);
            sl_load_error(load, keys->list[k].node, path, "the key has a store already, in dedicated[%u]", *owner - 1);
        } else {
            *owner = (uint32_t)i + 1;
        }
    }
}

static void check_dedicated(struct sl_load *load)
{
    const struct sl_draft *draft = &load->draft;
    struct sl_name_set first;
    uint32_t *owners;
    size_t n = 0;

    for (size_t i = 0; i < draft->n_dedicated; i++)
        n += draft->dedicated[i].keys.n;
    owners = sl_arena_calloc(&load->scratch, n + 1, sizeof *owners);
    if (!owners || sl_name_set_init(&first, &load->scratch, n) != 0) {
        load->reader.nomem = true;
        return;
    }
    for (size_t i = 0; i < draft->n_dedicated; i++) {
        check_store(load, i);
        check_dedicated_keys(load, i, &first, owners);
    }
}

void sl_check_keys(struct sl_load *load)
{
    for (size_t i = 0; i < load->draft.n_limits; i++)
        check_address_key(load, &load->draft.limits[i]);
    check_dedicated(load);
}

void sl_check_limits(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    struct sl_limit **sorted = sl_arena_calloc(&load->scratch, policy->n_limits, sizeof(struct sl_limit *));

    if (!sorted) {
        load->reader.nomem = true;
        return;
    }
    for (size_t i = 0; i < policy->n_limits; i++)
        sorted[i] = &policy->limits[i];
    check_names(load, sorted, policy->n_limits);
    check_matchers(load, sorted, policy->n_limits);
    for (size_t i = 0; i < policy->n_limits; i++)
        check_endpoint(load, &load->draft.limits[i]);
}
