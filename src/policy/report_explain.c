/* `policy explain`: every step of one request's resolution.
 *
 * The steps are found by looking at all limits one by one, straight from the rules; tests hold the answer against the
 * tables that decide. */
#include "policy/glob.h"
#include "policy/override_json.h"
#include "policy/report.h"
#include "policy/report_buckets.h"
#include "policy/report_parts.h"
#include "policy/resolve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the request ------------------------------------------------------------------------------------------------ */

static void set_text(json_t *object, const char *name, const char *text, size_t len)
{
    if (text)
        json_object_set_new(object, name, sl_json_text(text, len));
}

static json_t *request_json(const struct sluice_request *r)
{
    json_t *object = json_object(), *labels = json_object();

    set_text(object, "key", r->key, r->key_len);
    set_text(object, "keyType", r->key_type ? r->key_type : "api_key", r->key_type ? r->key_type_len : 7);
    set_text(object, "scope", r->scope, r->scope_len);
    set_text(object, "tier", r->tier, r->tier_len);
    set_text(object, "address", r->address, r->address_len);
    for (size_t i = 0; i < r->n_labels; i++)
        json_object_setn_new(labels, r->labels[i].name, r->labels[i].name_len,
                             sl_json_text(r->labels[i].value, r->labels[i].value_len));
    if (r->n_labels)
        json_object_set(object, "labels", labels);
    if (r->cost >= 0)
        json_object_set_new(object, "cost", json_integer(r->cost));
    json_decref(labels);
    return object;
}

/* ---- endpoint and tier ------------------------------------------------------------------------------------------ */

static json_t *endpoint_json(const struct sl_subject *s)
{
    const struct sl_endpoints *e = &s->policy->endpoints;
    const char *scope = s->request->scope ? s->request->scope : "";
    json_t *object = json_object(), *others = json_array();
    uint32_t won = UINT32_MAX;

    sl_endpoints_match(e, scope, s->request->scope_len, &won);
    json_object_set_new(object, "name", sl_json_optional(s->endpoint ? e->list[s->endpoint].name : NULL));
    if (s->endpoint)
        json_object_set_new(object, "glob", sl_json_text(e->globs[won].glob.text, e->globs[won].glob.len));
    for (uint32_t i = 0; s->endpoint && i < e->n_globs; i++) {
        const struct sl_glob *glob = &e->globs[i].glob;
        json_t *other;

        if (i == won || !sl_glob_match(glob->text, glob->len, scope, s->request->scope_len))
            continue;
        other = json_object();
        json_object_set_new(other, "endpoint", sl_json_optional(e->list[e->globs[i].endpoint].name));
        json_object_set_new(other, "glob", sl_json_text(glob->text, glob->len));
        json_object_set_new(other, "why",
                            json_string(glob->literal_len < e->globs[won].glob.literal_len
                                            ? "less literal text"
                                            : "as much literal text, later in the file"));
        json_array_append_new(others, other);
    }
    json_object_set_new(object, "also", others);
    return object;
}

static const char *tier_from(const struct sl_subject *s)
{
    switch (s->tier_source) {
    case SL_TIER_REQUEST:
        return "the request names it";
    case SL_TIER_KEYS:
        return "tiers.keys or tiers.keys_file";
    case SL_TIER_ANONYMOUS:
        return "tiers.anonymous: the key's type is address";
    default:
        break;
    }
    if (s->policy->unknown == SL_UNKNOWN_DENY)
        return "tiers.unknown is deny and the key is in no table";
    if (s->policy->unknown == SL_UNKNOWN_ANONYMOUS)
        return "tiers.unknown is anonymous and the key is in no table";
    return s->policy->tier_default ? "tiers.default: the key is in no table" : "the policy gives the key no tier";
}

/* What the store has for the key, when it was asked. */
struct asked {
    const char *tier; /* NULL: nothing */
    size_t len;
    bool named; /* the policy names that tier: the request is resolved with it */
};

static json_t *tier_from_json(const struct sl_subject *s, const struct asked *asked)
{
    json_t *text;

    if (asked && asked->named)
        return json_string("tiers.keys_store: the store has it for the key");
    if (asked && asked->tier) {
        text = json_sprintf("%s, and the store has `%.*s` for it, which the policy does not name", tier_from(s),
                            (int)asked->len, asked->tier);
        return text ? text : json_string("the store has something for the key that is no name of a tier");
    }
    if (asked)
        return json_sprintf("%s, nor in the store", tier_from(s));
    if (!sl_policy_asks_store(s->policy, s->request))
        return json_string(tier_from(s));
    return json_sprintf("%s; %s", tier_from(s),
                        s->policy->has_store
                            ? "if the store has one for it (tiers.keys_store), that counts once it is known"
                            : "without a store, tiers.keys_store asks nobody");
}

static json_t *tier_json(const struct sl_subject *s, const struct asked *asked)
{
    json_t *object = json_object();
    const char *name = s->tier ? s->policy->tiers.list[s->tier].text : NULL;

    if (!s->tier && s->request->tier)
        json_object_set_new(object, "name", sl_json_text(s->request->tier, s->request->tier_len));
    else
        json_object_set_new(object, "name", sl_json_optional(name));
    json_object_set_new(object, "from", tier_from_json(s, asked));
    json_object_set_new(object, "denied", json_boolean(s->denied));
    return object;
}

/* ---- candidates ------------------------------------------------------------------------------------------------- */

static bool text_is(const char *wanted, const char *text, size_t len)
{
    return !wanted || (text && strlen(wanted) == len && !memcmp(wanted, text, len));
}

static bool label_is(const struct sluice_request *r, const struct sluice_label *wanted)
{
    for (size_t i = 0; i < r->n_labels; i++)
        if (r->labels[i].name_len == wanted->name_len && !memcmp(r->labels[i].name, wanted->name, wanted->name_len))
            return sl_glob_match(wanted->value, wanted->value_len, r->labels[i].value, r->labels[i].value_len);
    return false;
}

/* The endpoints the scope belongs to in one layer: for its enforcing limits, and with its dry-run limits. 0: none. */
struct layer_view {
    unsigned layer;
    uint32_t enforced, named;
};

static struct layer_view view_layer(const struct sl_subject *s, unsigned layer)
{
    const struct sl_endpoints *e = &s->policy->endpoints;
    struct sl_layer_endpoints endpoints;

    if (!e->layered)
        return (struct layer_view){layer, s->endpoint, s->endpoint};
    sl_endpoints_match_layers(e, s->request->scope ? s->request->scope : "", s->request->scope_len, &endpoints);
    return (struct layer_view){layer, endpoints.enforced[layer], endpoints.named[layer]};
}

/* Whether the limit names nothing that the request is not; its mode and its need of an address are looked at later. */
static bool names_request(const struct sl_subject *s, const struct sl_limit *limit, uint32_t endpoint_number)
{
    const struct sluice_request *r = s->request;
    const char *tier = s->tier ? s->policy->tiers.list[s->tier].text : NULL;
    const char *endpoint = endpoint_number ? s->policy->endpoints.list[endpoint_number].name : NULL;

    if (!text_is(limit->key, r->key, r->key_len) || !text_is(limit->tier, tier, tier ? strlen(tier) : 0) ||
        !text_is(limit->endpoint, endpoint, endpoint ? strlen(endpoint) : 0) ||
        !text_is(limit->key_type, r->key_type ? r->key_type : "api_key", r->key_type ? r->key_type_len : 7))
        return false;
    for (unsigned i = 0; i < limit->n_labels; i++)
        if (!label_is(r, &limit->labels[i]))
            return false;
    return true;
}

static int by_precedence(const void *x, const void *y)
{
    const struct sl_limit *a = *(const struct sl_limit *const *)x, *b = *(const struct sl_limit *const *)y;
    unsigned p = sl_limit_rank(a), q = sl_limit_rank(b);

    if (p != q)
        return p > q ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static unsigned count_fields(const struct sl_limit *limit)
{
    return (unsigned)__builtin_popcount(sl_limit_names(limit)) + limit->n_labels;
}

/* The highest-ranked field that one of the two names and the other does not. */
static const char *deciding_field(const struct sl_limit *x, const struct sl_limit *y)
{
    unsigned differ = sl_limit_names(x) ^ sl_limit_names(y);

    return differ & SL_NAMES_KEY        ? "key"
           : differ & SL_NAMES_ENDPOINT ? "endpoint"
           : differ & SL_NAMES_TIER     ? "tier"
           : differ & SL_NAMES_KEY_TYPE ? "key_type"
                                        : "labels";
}

static void why_lost(const struct sl_limit *loser, const struct sl_limit *winner, char *buf, size_t size)
{
    if (count_fields(loser) < count_fields(winner))
        snprintf(buf, size, "names %u field%s where `%s` names %u", count_fields(loser),
                 count_fields(loser) == 1 ? "" : "s", winner->name, count_fields(winner));
    else if (sl_limit_rank(loser) < sl_limit_rank(winner))
        snprintf(buf, size, "as many fields as `%s`, but that one names `%s`", winner->name,
                 deciding_field(winner, loser));
    else
        snprintf(buf, size, "as specific as `%s`, which stands earlier in the file", winner->name);
}

struct layer_winners {
    struct layer_view view;
    const struct sl_limit *enforcing, *any;
};

static const char *outcome(const struct sl_subject *s, const struct sl_limit *limit, struct layer_winners w, char *buf,
                           size_t size)
{
    buf[0] = '\0';
    if (limit->mode == SL_MODE_OFF) {
        snprintf(buf, size, "its mode is off");
        return "ignored";
    }
    if ((limit->per & SL_PER_ADDRESS) && !s->address) {
        snprintf(buf, size, "it separates by address and the request has none");
        return "ignored";
    }
    if (limit->mode == SL_MODE_DRY_RUN && !names_request(s, limit, w.view.named)) {
        snprintf(buf, size, "with the dry-run limits, the scope belongs to endpoint `%s` here",
                 s->policy->endpoints.list[w.view.named].name);
        return "ignored";
    }
    if (limit == w.enforcing)
        return "wins";
    if (limit->mode == SL_MODE_DRY_RUN && limit == w.any) {
        snprintf(buf, size, "it would win if it were enforced; decided beside the verdict");
        return "dry_run";
    }
    if (limit->mode == SL_MODE_DRY_RUN)
        why_lost(limit, w.any, buf, size);
    else
        why_lost(limit, w.enforcing, buf, size);
    return "loses";
}

static json_t *candidate_json(const struct sl_subject *s, const struct sl_limit *limit, struct layer_winners w)
{
    json_t *object = json_object();
    char why[300], line[400];

    sl_limit_line(limit, line, sizeof line);
    json_object_set_new(object, "limit", json_string(limit->name));
    json_object_set_new(object, "line", json_integer(limit->line));
    json_object_set_new(object, "match", sl_limit_match_json(limit));
    json_object_set_new(object, "does", sl_json_optional(line));
    json_object_set_new(object, "result", json_string(outcome(s, limit, w, why, sizeof why)));
    if (why[0])
        json_object_set_new(object, "why", json_string(why));
    return object;
}

static struct layer_winners find_winners(const struct sl_subject *s, struct layer_view view,
                                         const struct sl_limit **sorted, size_t n)
{
    struct layer_winners w = {.view = view};

    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->mode == SL_MODE_OFF || ((sorted[i]->per & SL_PER_ADDRESS) && !s->address))
            continue;
        if (!w.any && names_request(s, sorted[i], view.named))
            w.any = sorted[i];
        if (!w.enforcing && sorted[i]->mode == SL_MODE_ENFORCE && names_request(s, sorted[i], view.enforced))
            w.enforcing = sorted[i];
    }
    return w;
}

/* Fills `sorted` with what could match in the layer, the most specific first. ret_n may be NULL. */
static struct layer_winners layer_winners(const struct sl_subject *s, struct layer_view view,
                                          const struct sl_limit **sorted, size_t *ret_n)
{
    const struct sl_policy *policy = s->policy;
    size_t n = 0;

    for (size_t i = 0; i < policy->n_limits; i++)
        if (policy->limits[i].layer_idx == view.layer &&
            (names_request(s, &policy->limits[i], view.enforced) || names_request(s, &policy->limits[i], view.named)))
            sorted[n++] = &policy->limits[i];
    if (n)
        qsort(sorted, n, sizeof(struct sl_limit *), by_precedence);
    if (ret_n)
        *ret_n = n;
    return find_winners(s, view, sorted, n);
}

static json_t *layer_json(const struct sl_subject *s, struct layer_view view, const struct sl_limit **sorted)
{
    const struct sl_policy *policy = s->policy;
    json_t *object = json_object(), *candidates = json_array();
    size_t n;
    struct layer_winners w = layer_winners(s, view, sorted, &n);

    for (size_t i = 0; i < n; i++)
        json_array_append_new(candidates, candidate_json(s, sorted[i], w));
    json_object_set_new(object, "layer", json_string(policy->layers[view.layer].name));
    if (view.enforced != s->endpoint && view.enforced)
        json_object_set_new(object, "endpoint", sl_json_optional(policy->endpoints.list[view.enforced].name));
    json_object_set_new(object, "winner", sl_json_optional(w.enforcing ? w.enforcing->name : NULL));
    json_object_set_new(object, "dry_run",
                        sl_json_optional(w.any && w.any->mode == SL_MODE_DRY_RUN ? w.any->name : NULL));
    json_object_set_new(object, "candidates", candidates);
    return object;
}

/* ---- overrides -------------------------------------------------------------------------------------------------- */

/* What an override puts in the place of a winner: the override, and that limit's name. */
static void add_override(const struct sl_subject *s, const struct sl_limit *limit, json_t *list)
{
    const struct sl_override *o = limit ? sl_policy_override_for(s->policy, s->request, limit) : NULL;
    json_t *object = o ? sl_override_json(o, SL_OVERRIDE_SHOWN) : NULL;
    char line[400];

    if (!object)
        return;
    sl_limit_line(&s->policy->limits[limit->index], line, sizeof line);
    json_object_set_new(object, "limit", json_string(limit->name));
    json_object_set_new(object, "instead", json_string(line));
    sl_limit_line(sl_policy_limit_for(s->policy, s->request, limit), line, sizeof line);
    json_object_set_new(object, "does", json_string(line));
    json_array_append_new(list, object);
}

static json_t *overrides_json(const struct sl_subject *s, const struct sl_limit **sorted)
{
    json_t *list = json_array();

    for (unsigned i = 0; s->overridden && i < s->policy->n_layers; i++) {
        struct layer_winners w = layer_winners(s, view_layer(s, i), sorted, NULL);

        add_override(s, w.enforcing, list);
        if (w.any != w.enforcing)
            add_override(s, w.any && w.any->mode == SL_MODE_DRY_RUN ? w.any : NULL, list);
    }
    return list;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static const char *outcome_line(const struct sl_policy *policy, const struct sl_resolution *r)
{
    if (r->denied)
        return r->unmatched && policy->unmatched_deny && policy->unknown != SL_UNKNOWN_DENY
                   ? "rejected: no limit matches, and unmatched is deny"
                   : "rejected: the key or request is unknown to the policy, which denies that";
    if (r->blocked)
        return "rejected: a limit that is blocked applies";
    if (r->unmatched)
        return policy->has_ceiling ? "no limit matches: counted against the ceiling" : "allowed: no limit matches";
    return r->n_items ? "decided by the buckets below: all must have room" : "allowed: unlimited";
}

static json_t *explain(const struct sl_policy *policy, const struct sluice_request *request, unsigned instances,
                       const struct asked *asked)
{
    const struct sl_limit **sorted = calloc(policy->n_limits + 1, sizeof(struct sl_limit *));
    struct sl_resolution *r = malloc(sizeof *r);
    json_t *object = json_object(), *layers = json_array();
    struct sl_subject s;

    if (sorted && r) {
        sl_subject_init(&s, policy, request);
        sl_policy_resolve(policy, request, r);
        for (unsigned i = 0; i < policy->n_layers; i++)
            json_array_append_new(layers, layer_json(&s, view_layer(&s, i), sorted));
        json_object_set_new(object, "request", request_json(request));
        json_object_set_new(object, "endpoint", endpoint_json(&s));
        json_object_set_new(object, "tier", tier_json(&s, asked));
        json_object_set(object, "layers", layers);
        json_object_set_new(object, "overrides", overrides_json(&s, sorted));
        if (policy->region)
            json_object_set_new(object, "region", json_string(policy->region));
        if (policy->has_store)
            json_object_set_new(object, "instances", json_integer(instances));
        json_object_set_new(object, "outcome", json_string(outcome_line(policy, r)));
        json_object_set_new(object, "buckets", sl_items_json(&s, r->items, r->n_items, instances));
        json_object_set_new(object, "dry_run", sl_items_json(&s, r->dry, r->n_dry, instances));
    }
    json_decref(layers);
    free(sorted);
    free(r);
    return object;
}

json_t *sl_policy_explain_json(const struct sl_policy *policy, const struct sluice_request *request, unsigned instances)
{
    return explain(policy, request, instances, NULL);
}

json_t *sl_policy_explain_asked_json(const struct sl_policy *policy, const struct sluice_request *request,
                                     unsigned instances, const char *tier, size_t tier_len)
{
    struct asked asked = {.tier = tier, .len = tier_len};
    struct sluice_request told = *request;
    json_t *object;

    asked.named = tier && sl_policy_names_tier(policy, tier, tier_len);
    if (asked.named) {
        told.tier = tier;
        told.tier_len = tier_len;
    }
    object = explain(policy, &told, instances, &asked);
    if (asked.named)
        json_object_del(json_object_get(object, "request"), "tier");
    return object;
}
