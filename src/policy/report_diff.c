/* `policy diff`: what changes between two policies, and what happens to the state in their buckets. */
#include "policy/glob.h"
#include "policy/report.h"
#include "policy/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static json_t *add_change(json_t *changes, const char *kind, const char *name)
{
    json_t *change = json_object();

    json_object_set_new(change, "kind", json_string(kind));
    json_object_set_new(change, "name", sl_json_optional(name));
    json_array_append_new(changes, change);
    return change;
}

static json_t *value_or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

static void add_field(json_t *fields, const char *field, json_t *from, json_t *to)
{
    json_t *object = json_object();

    json_object_set_new(object, "field", json_string(field));
    json_object_set_new(object, "from", value_or_null(from));
    json_object_set_new(object, "to", value_or_null(to));
    json_array_append_new(fields, object);
}

static bool same(const json_t *x, const json_t *y)
{
    return (!x && !y) || (x && y && json_equal(x, y));
}

/* Members that differ, except those that say where and not what. */
static json_t *differing_fields(json_t *from, json_t *to)
{
    json_t *fields = json_array(), *value;
    const char *name;

    json_object_foreach(from, name, value)
    {
        if (strcmp(name, "line") != 0 && !same(value, json_object_get(to, name)))
            add_field(fields, name, value, json_object_get(to, name));
    }
    json_object_foreach(to, name, value)
    {
        if (strcmp(name, "line") != 0 && !json_object_get(from, name))
            add_field(fields, name, NULL, value);
    }
    return fields;
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static bool same_buckets(const struct sl_limit *from, const struct sl_limit *to)
{
    if (from->algorithm != to->algorithm || from->per != to->per || from->n_per_labels != to->n_per_labels ||
        !from->region != !to->region || (from->region && strcmp(from->region->name, to->region->name) != 0))
        return false;
    for (unsigned i = 0; i < from->n_per_labels; i++)
        if (strcmp(from->per_labels[i], to->per_labels[i]) != 0)
            return false;
    return true;
}

static bool same_shapes(const struct sl_limit *from, const struct sl_limit *to)
{
    if (from->n_rates != to->n_rates)
        return false;
    for (unsigned i = 0; i < from->n_rates; i++)
        if (!sl_shape_equal(&from->shapes[i], &to->shapes[i]))
            return false;
    return true;
}

static const char *state_line(const struct sl_limit *from, const struct sl_limit *to)
{
    if (!to->n_rates)
        return from->n_rates ? "it keeps no state any more" : "it keeps no state";
    if (!from->n_rates)
        return "buckets begin full";
    if (!same_buckets(from, to))
        return "other buckets from now on (algorithm, per or region differ): they begin full";
    if (!from->n_regions != !to->n_regions && !to->region && !from->region)
        return "buckets keep their state where an instance has no region; in a region they are others, and begin full";
    if (same_shapes(from, to))
        return "buckets keep their state";
    if (from->n_rates != to->n_rates)
        return "buckets of the rates that stay in place keep their state; further rates begin full";
    return sl_algorithm_is_bucket(to->algorithm)
               ? "buckets keep their debt in time, at most the new full debt; none is refilled"
               : "windows keep their count, in the window that contains now";
}

static const struct sl_limit *find_limit(const struct sl_policy *policy, const struct sl_name_set *names,
                                         const char *name)
{
    uint32_t number = sl_name_set_find(names, name, strlen(name));

    return number ? &policy->limits[number - 1] : NULL;
}

static void diff_limit(const struct sl_policy *from, const struct sl_limit *old, const struct sl_policy *to,
                       const struct sl_limit *new, json_t *changes)
{
    json_t *x = sl_limit_json(from, old), *y = sl_limit_json(to, new), *fields = differing_fields(x, y);

    if (json_array_size(fields)) {
        json_t *change = add_change(changes, "limit_changed", new->name);

        json_object_set(change, "fields", fields);
        json_object_set_new(change, "state", json_string(state_line(old, new)));
    }
    json_decref(fields);
    json_decref(x);
    json_decref(y);
}

static void add_whole_limit(const struct sl_policy *policy, const struct sl_limit *limit, const char *kind,
                            const char *state, json_t *changes)
{
    json_t *change = add_change(changes, kind, limit->name);

    json_object_set_new(change, "limit", sl_limit_json(policy, limit));
    json_object_set_new(change, "state", json_string(limit->n_rates ? state : "it keeps no state"));
}

static int index_names(const struct sl_policy *policy, struct sl_arena *arena, struct sl_name_set *names)
{
    if (sl_name_set_init(names, arena, policy->n_limits) != 0)
        return -1;
    for (size_t i = 0; i < policy->n_limits; i++)
        sl_name_set_add(names, policy->limits[i].name, strlen(policy->limits[i].name));
    return 0;
}

/* ---- the order of the file -------------------------------------------------------------------------------------- */

#define PAIRS_MAX 100000 /* looked at where an order has changed; beyond it a swap may go unmentioned */

static bool same_text(const char *x, const char *y)
{
    return x == y || (x && y && !strcmp(x, y));
}

/* Limits that only the order of the file can decide between: as specific, and one request may meet both. */
static bool are_rivals(const struct sl_limit *x, const struct sl_limit *y)
{
    return x->layer_idx == y->layer_idx && sl_limit_rank(x) == sl_limit_rank(y) && x->mode != SL_MODE_OFF &&
           y->mode != SL_MODE_OFF && same_text(x->key, y->key) && same_text(x->endpoint, y->endpoint) &&
           same_text(x->tier, y->tier) && same_text(x->key_type, y->key_type) &&
           sl_limit_relate_labels(x, y) != SL_APART;
}

/* Positions in the old file of what is in the new one too, in the new order: ascending means that nothing was moved. */
static bool is_ascending(const uint32_t *old, size_t n)
{
    uint32_t last = 0;

    for (size_t i = 0; i < n; i++) {
        if (old[i] && old[i] < last)
            return false;
        last = old[i] ? old[i] : last;
    }
    return true;
}

static void diff_order(const struct sl_policy *from, const struct sl_policy *to, const uint32_t *old, json_t *changes)
{
    size_t pairs = 0;
    char name[2 * SLUICE_NAME_MAX + 8];

    for (size_t i = 0; i < to->n_limits && !is_ascending(old, to->n_limits); i++)
        for (size_t k = i + 1; k < to->n_limits && pairs < PAIRS_MAX; k++) {
            if (!old[i] || !old[k] || old[i] < old[k])
                continue;
            pairs++;
            if (!are_rivals(&to->limits[i], &to->limits[k]) ||
                !are_rivals(&from->limits[old[i] - 1], &from->limits[old[k] - 1]))
                continue;
            snprintf(name, sizeof name, "%s, %s", to->limits[i].name, to->limits[k].name);
            json_object_set_new(add_change(changes, "order_changed", name), "state",
                                json_string("where both match, the first of the two wins now"));
        }
}

static bool diff_limits(const struct sl_policy *from, const struct sl_policy *to, struct sl_arena *arena,
                        json_t *changes)
{
    uint32_t *old_numbers = sl_arena_calloc(arena, to->n_limits, sizeof *old_numbers);
    struct sl_name_set old_names, new_names;

    if (!old_numbers || index_names(from, arena, &old_names) != 0 || index_names(to, arena, &new_names) != 0)
        return false;
    for (size_t i = 0; i < from->n_limits; i++)
        if (!find_limit(to, &new_names, from->limits[i].name))
            add_whole_limit(from, &from->limits[i], "limit_removed", "its buckets are no longer read", changes);
    for (size_t i = 0; i < to->n_limits; i++) {
        const struct sl_limit *old = find_limit(from, &old_names, to->limits[i].name);

        old_numbers[i] = old ? old->index + 1 : 0;
        if (old)
            diff_limit(from, old, to, &to->limits[i], changes);
        else
            add_whole_limit(to, &to->limits[i], "limit_added", "its buckets begin full", changes);
    }
    diff_order(from, to, old_numbers, changes);
    return true;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

#define KEYS_SHOWN 100

static uint32_t find_key(const struct sl_policy *policy, const struct sl_key_entry *key)
{
    return sl_keys_find(&policy->keys, sl_hash13(policy->secrets.key, key->key, key->len), key->key, key->len);
}

static const char *tier_of(const struct sl_policy *policy, uint32_t key)
{
    return policy->tiers.list[policy->keys.list[key].tier].text;
}

static void add_key(json_t *changes, const struct sl_key_entry *key, const char *from, const char *to, size_t *n)
{
    json_t *change;

    if ((*n)++ >= KEYS_SHOWN)
        return;
    change = add_change(changes, "key_changed", NULL);
    json_object_set_new(change, "name", sl_json_text(key->key, key->len));
    json_object_set_new(change, "from", sl_json_optional(from[0] ? from : NULL));
    json_object_set_new(change, "to", sl_json_optional(to[0] ? to : NULL));
}

static void diff_keys(const struct sl_policy *from, const struct sl_policy *to, json_t *changes)
{
    size_t n = 0;
    char more[64];

    for (uint32_t i = 1; i <= from->keys.n; i++) {
        const char *old = tier_of(from, i), *new = tier_of(to, find_key(to, &from->keys.list[i]));

        if (strcmp(old, new) != 0)
            add_key(changes, &from->keys.list[i], old, new, &n);
    }
    for (uint32_t i = 1; i <= to->keys.n; i++)
        if (tier_of(to, i)[0] && !find_key(from, &to->keys.list[i]))
            add_key(changes, &to->keys.list[i], "", tier_of(to, i), &n);
    if (n > KEYS_SHOWN) {
        snprintf(more, sizeof more, "%zu more keys change their tier", n - KEYS_SHOWN);
        add_change(changes, "more_keys", more);
    }
}

/* ---- endpoints and settings ------------------------------------------------------------------------------------- */

static json_t *find_named(json_t *list, const json_t *name)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (json_equal(json_object_get(item, "name"), name))
            return item;
    }
    return NULL;
}

static void diff_endpoints(json_t *from, json_t *to, json_t *changes)
{
    json_t *item, *other, *fields;
    size_t i;

    if (json_equal(from, to))
        return;
    json_array_foreach(from, i, item)
    {
        if (!find_named(to, json_object_get(item, "name")))
            json_object_set(add_change(changes, "endpoint_removed", json_string_value(json_object_get(item, "name"))),
                            "endpoint", item);
    }
    json_array_foreach(to, i, item)
    {
        other = find_named(from, json_object_get(item, "name"));
        if (!other) {
            json_object_set(add_change(changes, "endpoint_added", json_string_value(json_object_get(item, "name"))),
                            "endpoint", item);
            continue;
        }
        fields = differing_fields(other, item);
        if (json_array_size(fields))
            json_object_set(add_change(changes, "endpoint_changed", json_string_value(json_object_get(item, "name"))),
                            "fields", fields);
        json_decref(fields);
    }
}

static void list_glob_swaps(const struct sl_endpoints *to, const uint32_t *old, json_t *changes)
{
    size_t pairs = 0;
    char name[2 * SLUICE_NAME_MAX + 8];

    for (uint32_t i = 0; i < to->n_globs; i++)
        for (uint32_t k = i + 1; k < to->n_globs && pairs < PAIRS_MAX; k++) {
            const struct sl_endpoint_glob *x = &to->globs[i], *y = &to->globs[k];
            uint32_t a = old[x->endpoint - 1], b = old[y->endpoint - 1];

            if (!a || !b || a <= b || x->glob.literal_len != y->glob.literal_len)
                continue;
            pairs++;
            if (!sl_glob_overlap(x->glob.text, x->glob.len, y->glob.text, y->glob.len))
                continue;
            snprintf(name, sizeof name, "%s, %s", to->list[x->endpoint].name, to->list[y->endpoint].name);
            json_object_set_new(add_change(changes, "endpoint_order_changed", name), "state",
                                json_string("scopes that both match belong to the first of the two now"));
        }
}

/* Globs with equally much literal text are decided by the order of the file: a swap of endpoints whose globs overlap
 * is a change. */
static bool diff_glob_order(const struct sl_endpoints *from, const struct sl_endpoints *to, struct sl_arena *arena,
                            json_t *changes)
{
    uint32_t *old = sl_arena_calloc(arena, to->n, sizeof *old);
    struct sl_name_set names;

    if (!old || sl_name_set_init(&names, arena, from->n) != 0)
        return false;
    for (uint32_t i = 1; i <= from->n; i++)
        sl_name_set_add(&names, from->list[i].name, from->list[i].name_len);
    for (uint32_t i = 1; i <= to->n; i++)
        old[i - 1] = sl_name_set_find(&names, to->list[i].name, to->list[i].name_len);
    if (!is_ascending(old, to->n))
        list_glob_swaps(to, old, changes);
    return true;
}

/* The names of `list` that `other` has too, in their order. */
static json_t *common_names(json_t *list, json_t *other)
{
    json_t *common = json_array(), *name, *candidate;
    size_t i, k;

    json_array_foreach(list, i, name)
    {
        json_array_foreach(other, k, candidate)
        {
            if (json_equal(name, candidate))
                json_array_append(common, name);
        }
    }
    return common;
}

/* Layers come and go with their limits; only another order of those that stay is a change of its own (it decides
 * which limit a verdict reports at a tie). */
static void diff_layers(json_t *from, json_t *to, json_t *changes)
{
    json_t *x = common_names(from, to), *y = common_names(to, from);

    if (!json_equal(x, y)) {
        json_t *change = add_change(changes, "setting_changed", "layers");

        json_object_set(change, "from", from);
        json_object_set(change, "to", to);
    }
    json_decref(x);
    json_decref(y);
}

static void diff_settings(json_t *from, json_t *to, json_t *changes)
{
    static const char *const names[] = {"identity", "http", "tiers", "ceiling", "unmatched", "dedicated"};

    json_object_del(json_object_get(from, "tiers"), "keys"); /* counted in show, compared key by key here */
    json_object_del(json_object_get(to, "tiers"), "keys");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *x = json_object_get(from, names[i]), *y = json_object_get(to, names[i]), *change;

        if (same(x, y))
            continue;
        change = add_change(changes, "setting_changed", names[i]);
        if (json_is_object(x) && json_is_object(y)) {
            json_object_set_new(change, "fields", differing_fields(x, y));
        } else {
            json_object_set_new(change, "from", value_or_null(x));
            json_object_set_new(change, "to", value_or_null(y));
        }
    }
}

/* A change that the addresses as shown, without users and passwords, do not tell. */
static void diff_logins(const struct sl_policy *from, const struct sl_policy *to, json_t *x, json_t *y, json_t *changes)
{
    bool differ = false;

    if (!same(json_object_get(x, "dedicated"), json_object_get(y, "dedicated")))
        return;
    for (size_t i = 0; i < from->n_dedicated; i++)
        differ |= strcmp(from->dedicated[i].store, to->dedicated[i].store) != 0;
    if (differ)
        add_change(changes, "setting_changed", "the login of a dedicated store");
}

json_t *sl_policy_diff_json(const struct sl_policy *from, const struct sl_policy *to)
{
    json_t *diff = json_object(), *changes = json_array();
    json_t *x = sl_policy_show_json(from), *y = sl_policy_show_json(to);
    struct sl_arena arena;

    sl_arena_init(&arena, from->arena.alloc);
    json_object_set(diff, "changes", changes);
    diff_settings(x, y, changes);
    diff_logins(from, to, x, y, changes);
    diff_layers(json_object_get(x, "layers"), json_object_get(y, "layers"), changes);
    diff_endpoints(json_object_get(x, "endpoints"), json_object_get(y, "endpoints"), changes);
    diff_keys(from, to, changes);
    if (!diff_glob_order(&from->endpoints, &to->endpoints, &arena, changes) ||
        !diff_limits(from, to, &arena, changes)) { /* out of memory: no half an answer */
        json_decref(diff);
        diff = NULL;
    }
    sl_arena_fini(&arena);
    json_decref(changes);
    json_decref(x);
    json_decref(y);
    return diff;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_fields(const json_t *fields, FILE *out)
{
    const json_t *field;
    size_t i;

    json_array_foreach(fields, i, field)
    {
        fprintf(out, "    %s: ", json_string_value(json_object_get(field, "field")));
        sl_print_value(out, json_object_get(field, "from"));
        fputs(" -> ", out);
        sl_print_value(out, json_object_get(field, "to"));
        fputc('\n', out);
    }
}

static void print_change(const json_t *change, FILE *out)
{
    const char *kind = json_string_value(json_object_get(change, "kind"));
    const char *name = json_string_value(json_object_get(change, "name"));
    char sign = strstr(kind, "_added") ? '+' : strstr(kind, "_removed") ? '-' : '~';
    char words[64];

    snprintf(words, sizeof words, "%s", kind);
    for (char *c = words; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    fprintf(out, "%c %s: %s", sign, words, name ? name : "");
    if (json_object_get(change, "from") || json_object_get(change, "to")) {
        fputs(": ", out);
        sl_print_value(out, json_object_get(change, "from"));
        fputs(" -> ", out);
        sl_print_value(out, json_object_get(change, "to"));
    }
    fputc('\n', out);
    print_fields(json_object_get(change, "fields"), out);
    if (json_object_get(change, "state"))
        fprintf(out, "    state: %s\n", json_string_value(json_object_get(change, "state")));
}

void sl_policy_diff_text(const struct sl_policy *from, const struct sl_policy *to, FILE *out)
{
    json_t *diff = sl_policy_diff_json(from, to), *change;
    size_t i;

    if (!diff)
        fputs("out of memory\n", out);
    else if (!json_array_size(json_object_get(diff, "changes")))
        fputs("no change\n", out);
    json_array_foreach(json_object_get(diff, "changes"), i, change)
    {
        print_change(change, out);
    }
    json_decref(diff);
}
