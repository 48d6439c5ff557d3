#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"k1", "k2", "k3", "192.0.2.1"};
static const char *const tiers[] = {"free", "pro", "anon", "gold"};
static const char *const types[] = {"api_key", "user", "address", "device"};
static const char *const layers[] = {"default", "edge", "backend"};
static const char *const names[] = {"x", "y", "z"};
static const char *const values[] = {"a", "ab", "b", "a*", "*", "?", "*b", "a?"};
static const char *const globs[] = {"a",      "ab",  "abc",    "a*",     "ab*", "*",     "*c",   "a*c",
                                    "?b*",    "ab?", "GET /a", "GET /*", "b",   "b*a",   "ba*",  "GET /a*",
                                    "GET /?", "*/a", "aa*",    "aab*",   "ac*", "abcd*", "ab*d", "abd"};

#define PICK(list) (list)[(size_t)rand() % (sizeof(list) / sizeof *(list))]

static bool chance(int percent)
{
    return rand() % 100 < percent;
}

/* ---- random policies -------------------------------------------------------------------------------------------- */

static bool same(const char *x, const char *y)
{
    return x == y || (x && y && !strcmp(x, y));
}

static bool same_matcher(const struct model_limit *x, const struct model_limit *y)
{
    if (!same(x->layer, y->layer) || x->mode != y->mode || !same(x->key, y->key) || !same(x->endpoint, y->endpoint) ||
        !same(x->tier, y->tier) || !same(x->key_type, y->key_type) || x->n_labels != y->n_labels)
        return false;
    for (unsigned i = 0; i < x->n_labels; i++)
        if (!same(x->label_names[i], y->label_names[i]) || !same(x->label_globs[i], y->label_globs[i]))
            return false;
    return true;
}

static void random_labels(struct model_limit *limit)
{
    for (unsigned i = 0; i < 3; i++)
        if (chance(20)) {
            limit->label_names[limit->n_labels] = names[i];
            limit->label_globs[limit->n_labels++] = PICK(values);
        }
}

static struct model_limit random_limit(const struct model_policy *model, unsigned index)
{
    struct model_limit limit = {.layer = PICK(layers), .cost = chance(20) ? rand() % 5 : -1, .per = SL_PER_KEY};

    snprintf(limit.name, sizeof limit.name, "l%u", index);
    if (chance(20))
        limit.key = keys[rand() % 3];
    if (model->n_endpoints && chance(35))
        limit.endpoint = model->endpoints[(unsigned)rand() % model->n_endpoints].name;
    if (chance(35))
        limit.tier = PICK(tiers);
    if (chance(25) && !limit.key)
        limit.key_type = PICK(types);
    random_labels(&limit);
    if (chance(50))
        limit.per = (unsigned)rand() % 64;
    limit.per_label = limit.per & SL_PER_LABEL ? PICK(names) : NULL;
    limit.mode = chance(60) ? SL_MODE_ENFORCE : chance(70) ? SL_MODE_DRY_RUN : SL_MODE_OFF;
    limit.kind = chance(80) ? SL_RATE_LIMITED : chance(50) ? SL_RATE_UNLIMITED : SL_RATE_BLOCKED;
    limit.n_rates = limit.kind == SL_RATE_LIMITED ? 1 + (unsigned)rand() % 3 : 0;
    return limit;
}

static void random_endpoints(struct model_policy *model)
{
    model->n_endpoints = (unsigned)rand() % (MODEL_ENDPOINTS + 1);
    for (unsigned i = 0; i < model->n_endpoints; i++) {
        snprintf(model->endpoints[i].name, sizeof model->endpoints[i].name, "e%u", i);
        model->endpoints[i].cost = chance(50) ? rand() % 9 : -1;
        model->endpoints[i].n_globs = 1 + (unsigned)rand() % MODEL_GLOBS;
        for (unsigned k = 0; k < model->endpoints[i].n_globs; k++) {
            const char *glob;
            bool again;

            do {
                glob = PICK(globs);
                again = false;
                for (unsigned j = 0; j < k; j++)
                    again |= same(model->endpoints[i].globs[j], glob);
            } while (again);
            model->endpoints[i].globs[k] = glob;
        }
    }
}

void model_random(struct model_policy *model)
{
    unsigned want = (unsigned)rand() % (MODEL_LIMITS + 1);

    *model = (struct model_policy){.unknown = rand() % 3, .ceiling = chance(30), .unmatched_deny = chance(30)};
    random_endpoints(model);
    model->default_tier = chance(60) ? "free" : NULL;
    model->anonymous = chance(60) ? "anon" : NULL;
    model->n_keys = chance(70) ? 1 + (unsigned)rand() % 3 : 0;
    for (unsigned i = 0; i < model->n_keys; i++) {
        model->keys[i].key = i == 2 ? "192.0.2.1" : keys[i];
        model->keys[i].tier = PICK(tiers);
    }
    for (unsigned i = 0; i < want; i++) {
        struct model_limit limit = random_limit(model, i);
        bool repeated = false;

        for (unsigned k = 0; k < model->n_limits; k++)
            repeated |= same_matcher(&limit, &model->limits[k]);
        if (!repeated)
            model->limits[model->n_limits++] = limit;
    }
}

/* ---- YAML ------------------------------------------------------------------------------------------------------- */

struct out {
    char *buf;
    size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    out->len += (size_t)vsnprintf(out->buf + out->len, out->size - out->len, format, args);
    va_end(args);
    if (out->len >= out->size)
        abort();
}

static void write_per(struct out *out, const struct model_limit *limit)
{
    static const char *const words[] = {"key", "address", "endpoint", "scope", "tier"};
    const char *gap = "";

    put(out, ", per: [");
    for (unsigned i = 0; i < 5; i++)
        if (limit->per >> i & 1) {
            put(out, "%s%s", gap, words[i]);
            gap = ", ";
        }
    if (limit->per_label)
        put(out, "%slabel.%s", gap, limit->per_label);
    put(out, "]");
}

static void write_limit(struct out *out, const struct model_limit *limit)
{
    static const char *const modes[] = {"enforce", "dry_run", "off"};

    put(out, "  - {name: %s, layer: %s, mode: %s", limit->name, limit->layer, modes[limit->mode]);
    if (limit->key)
        put(out, ", key: %s", limit->key);
    if (limit->endpoint)
        put(out, ", endpoint: %s", limit->endpoint);
    if (limit->tier)
        put(out, ", tier: %s", limit->tier);
    if (limit->key_type)
        put(out, ", key_type: %s", limit->key_type);
    for (unsigned i = 0; i < limit->n_labels; i++)
        put(out, "%s%s: \"%s\"%s", i ? ", " : ", labels: {", limit->label_names[i], limit->label_globs[i],
            i + 1 == limit->n_labels ? "}" : "");
    write_per(out, limit);
    if (limit->cost >= 0)
        put(out, ", cost: %d", limit->cost);
    if (limit->kind != SL_RATE_LIMITED)
        put(out, ", rate: %s", limit->kind == SL_RATE_UNLIMITED ? "unlimited" : "blocked");
    for (unsigned i = 0; i < limit->n_rates; i++)
        put(out, "%s%u/m%s", i ? ", " : ", rates: [", 10 + i, i + 1 == limit->n_rates ? "]" : "");
    put(out, "}\n");
}

void model_write(const struct model_policy *model, char *buf, size_t size)
{
    static const char *const unknown[] = {"default", "anonymous", "deny"};
    struct out out = {.buf = buf, .size = size};

    put(&out, "version: 1\ntiers:\n  unknown: %s\n", unknown[model->unknown]);
    if (model->default_tier)
        put(&out, "  default: %s\n", model->default_tier);
    if (model->anonymous)
        put(&out, "  anonymous: %s\n", model->anonymous);
    for (unsigned i = 0; i < model->n_keys; i++)
        put(&out, "%s    %s: %s\n", i ? "" : "  keys:\n", model->keys[i].key, model->keys[i].tier);
    for (unsigned i = 0; i < model->n_endpoints; i++) {
        put(&out, "%s  %s: {match: [", i ? "" : "endpoints:\n", model->endpoints[i].name);
        for (unsigned k = 0; k < model->endpoints[i].n_globs; k++)
            put(&out, "%s\"%s\"", k ? ", " : "", model->endpoints[i].globs[k]);
        put(&out, "]");
        if (model->endpoints[i].cost >= 0)
            put(&out, ", cost: %d", model->endpoints[i].cost);
        put(&out, "}\n");
    }
    if (model->ceiling)
        put(&out, "ceiling: {rate: 1000/s}\n");
    put(&out, "unmatched: %s\nlimits:%s\n", model->unmatched_deny ? "deny" : "allow", model->n_limits ? "" : " []");
    for (unsigned i = 0; i < model->n_limits; i++)
        write_limit(&out, &model->limits[i]);
}

/* ---- resolution ------------------------------------------------------------------------------------------------- */

static bool glob_matches(const char *glob, const char *text, size_t len)
{
    if (*glob == '*')
        return glob_matches(glob + 1, text, len) || (len && glob_matches(glob, text + 1, len - 1));
    if (!*glob || !len)
        return !*glob && !len;
    return (*glob == '?' || *glob == *text) && glob_matches(glob + 1, text + 1, len - 1);
}

static size_t literal_text(const char *glob)
{
    size_t n = 0;

    for (; *glob; glob++)
        n += *glob != '*' && *glob != '?';
    return n;
}

/* Whether a limit of the layer names the endpoint; NULL layer: yes. */
static bool is_named(const struct model_policy *model, const char *endpoint, const char *layer, bool dry_too)
{
    if (!layer)
        return true;
    for (unsigned i = 0; i < model->n_limits; i++) {
        const struct model_limit *limit = &model->limits[i];

        if (same(limit->layer, layer) && same(limit->endpoint, endpoint) &&
            (limit->mode == SL_MODE_ENFORCE || (dry_too && limit->mode == SL_MODE_DRY_RUN)))
            return true;
    }
    return false;
}

/* The endpoint with the longest literal text, among all or among those that limits of the layer name. */
static const char *find_endpoint(const struct model_policy *model, const struct sluice_request *request,
                                 const char *layer, bool dry_too)
{
    const char *best = "";
    size_t best_literal = 0;

    for (unsigned i = 0; i < model->n_endpoints; i++) {
        if (!is_named(model, model->endpoints[i].name, layer, dry_too))
            continue;
        for (unsigned k = 0; k < model->endpoints[i].n_globs; k++) {
            const char *glob = model->endpoints[i].globs[k];

            if (glob_matches(glob, request->scope, request->scope_len) &&
                (!best[0] || literal_text(glob) > best_literal)) {
                best = model->endpoints[i].name;
                best_literal = literal_text(glob);
            }
        }
    }
    return best;
}

static bool is_text(const char *text, const char *bytes, size_t len)
{
    return strlen(text) == len && !memcmp(text, bytes, len);
}

static bool is_address(const struct sluice_request *request)
{
    return request->key_type && is_text("address", request->key_type, request->key_type_len);
}

static const char *find_tier(const struct model_policy *model, const struct sluice_request *request, bool *ret_denied)
{
    *ret_denied = false;
    if (request->tier)
        return request->tier; /* the tests' tiers end with a NUL */
    for (unsigned i = 0; i < model->n_keys; i++)
        if (is_text(model->keys[i].key, request->key, request->key_len))
            return model->keys[i].tier;
    if (is_address(request) && model->anonymous)
        return model->anonymous;
    *ret_denied = model->unknown == 2;
    if (model->unknown == 1)
        return model->anonymous ? model->anonymous : "";
    return model->default_tier ? model->default_tier : "";
}

static bool matches(const struct model_limit *limit, const char *endpoint, const struct model_answer *a,
                    const struct sluice_request *request)
{
    const char *type = request->key_type ? request->key_type : "api_key";
    size_t type_len = request->key_type ? request->key_type_len : 7;

    if ((limit->key && !is_text(limit->key, request->key, request->key_len)) ||
        (limit->endpoint && strcmp(limit->endpoint, endpoint) != 0) ||
        (limit->tier && strcmp(limit->tier, a->tier) != 0) ||
        (limit->key_type && !is_text(limit->key_type, type, type_len)))
        return false;
    if ((limit->per & SL_PER_ADDRESS) && !request->address && !is_address(request))
        return false;
    for (unsigned i = 0; i < limit->n_labels; i++) {
        bool found = false;

        for (size_t k = 0; k < request->n_labels; k++)
            found |= is_text(limit->label_names[i], request->labels[k].name, request->labels[k].name_len) &&
                     glob_matches(limit->label_globs[i], request->labels[k].value, request->labels[k].value_len);
        if (!found)
            return false;
    }
    return true;
}

/* True when x goes before y: more fields; then the first of key, endpoint, tier, key_type that only one names. */
static bool goes_before(const struct model_limit *x, const struct model_limit *y)
{
    const char *const p[] = {x->key, x->endpoint, x->tier, x->key_type}, *const q[] = {y->key, y->endpoint, y->tier,
                                                                                       y->key_type};
    unsigned n = x->n_labels, m = y->n_labels;

    for (int i = 0; i < 4; i++) {
        n += p[i] != NULL;
        m += q[i] != NULL;
    }
    if (n != m)
        return n > m;
    for (int i = 0; i < 4; i++)
        if (!p[i] != !q[i])
            return p[i] != NULL;
    return false; /* the earlier in the file stays */
}

static const struct model_limit *best_in(const struct model_policy *model, const char *layer, bool dry_too,
                                         const struct model_answer *a, const struct sluice_request *request)
{
    const char *endpoint = find_endpoint(model, request, layer, dry_too);
    const struct model_limit *best = NULL;

    for (unsigned i = 0; i < model->n_limits; i++) {
        const struct model_limit *limit = &model->limits[i];

        if (strcmp(limit->layer, layer) != 0 || limit->mode == SL_MODE_OFF ||
            (limit->mode == SL_MODE_DRY_RUN && !dry_too) || !matches(limit, endpoint, a, request))
            continue;
        if (!best || goes_before(limit, best))
            best = limit;
    }
    return best;
}

static void list_layers(const struct model_policy *model, struct model_answer *a)
{
    for (unsigned i = 0; i < model->n_limits; i++) {
        int k = 0;

        while (k < a->n_layers && strcmp(a->layers[k], model->limits[i].layer) != 0)
            k++;
        if (k == a->n_layers)
            a->layers[a->n_layers++] = model->limits[i].layer;
    }
}

void model_resolve(const struct model_policy *model, const struct sluice_request *request, struct model_answer *a)
{
    *a = (struct model_answer){.unmatched = true};
    list_layers(model, a);
    a->endpoint = find_endpoint(model, request, NULL, true);
    a->tier = find_tier(model, request, &a->denied);
    if (a->denied)
        return;
    for (int i = 0; i < a->n_layers; i++) {
        const struct model_limit *any = best_in(model, a->layers[i], true, a, request);

        a->winners[i] = best_in(model, a->layers[i], false, a, request);
        a->unmatched &= !a->winners[i];
        if (any && any->mode == SL_MODE_DRY_RUN)
            a->dry[i] = any;
    }
    if (a->unmatched && model->unmatched_deny)
        a->denied = true;
}

int model_cost(const struct model_policy *model, const struct model_limit *limit, const char *endpoint,
               const struct sluice_request *request)
{
    if (request->cost >= 0)
        return (int)request->cost;
    if (limit && limit->cost >= 0)
        return limit->cost;
    for (unsigned i = 0; i < model->n_endpoints; i++)
        if (!strcmp(model->endpoints[i].name, endpoint) && model->endpoints[i].cost >= 0)
            return model->endpoints[i].cost;
    return 1;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static void put_part(struct out *out, const char *text, size_t len)
{
    put(out, "%zu:%.*s;", len, (int)len, text);
}

static void put_label(struct out *out, const char *name, const struct sluice_request *request)
{
    for (size_t i = 0; i < request->n_labels; i++)
        if (is_text(name, request->labels[i].name, request->labels[i].name_len)) {
            put_part(out, request->labels[i].value, request->labels[i].value_len);
            return;
        }
    put(out, "absent;");
}

void model_bucket(const struct model_limit *limit, unsigned rate_idx, const struct model_answer *a,
                  const struct sluice_request *request, char *buf, size_t size)
{
    struct out out = {.buf = buf, .size = size};

    put(&out, "%s#%u;", limit ? limit->name : "", rate_idx);
    if (!limit || (limit->per & SL_PER_KEY)) {
        put_part(&out, request->key_type ? request->key_type : "api_key",
                 request->key_type ? request->key_type_len : 7);
        put_part(&out, request->key, request->key_len);
    }
    if (!limit)
        return;
    if (limit->per & SL_PER_ADDRESS)
        put_part(&out, request->address ? request->address : request->key,
                 request->address ? request->address_len : request->key_len);
    if (limit->per & SL_PER_ENDPOINT)
        put_part(&out, a->endpoint, strlen(a->endpoint));
    if (limit->per & SL_PER_SCOPE)
        put_part(&out, request->scope, request->scope_len);
    if (limit->per & SL_PER_TIER)
        put_part(&out, a->tier, strlen(a->tier));
    if (limit->per_label)
        put_label(&out, limit->per_label, request);
}
