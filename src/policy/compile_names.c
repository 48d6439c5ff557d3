/* Layers, tiers, key types, labels, endpoints and keys of a policy become numbers, and the names' hashes are made. */
#include "policy/compiled.h"

#include "base/err.h"
#include "policy/text.h"

#include <string.h>

/* ---- layers ----------------------------------------------------------------------------------------------------- */

static unsigned add_layer(struct sl_load *load, const struct sl_limit_draft *limit)
{
    struct sl_policy *policy = load->policy;
    unsigned i = 0;

    while (i < policy->n_layers && strcmp(policy->layers[i].name, limit->layer) != 0)
        i++;
    if (i < policy->n_layers)
        return i;
    if (i == SL_LAYERS_MAX) {
        sl_limit_error(load, limit, SL_LF_LAYER, "opens layer `%s`: a policy has at most %d", limit->layer,
                       SL_LAYERS_MAX);
        return 0;
    }
    policy->layers[policy->n_layers++].name = limit->layer;
    return i;
}

/* ---- names of limits -------------------------------------------------------------------------------------------- */

static uint32_t add_name(struct sl_name_set *set, const char *name)
{
    return name ? sl_name_set_add(set, name, strlen(name)) : 0;
}

static uint64_t add_label(struct sl_load *load, const struct sl_limit_draft *limit, const char *name)
{
    struct sl_name_set *labels = &load->policy->labels;
    uint32_t number = sl_name_set_find(labels, name, strlen(name));

    if (!number && labels->n == SL_LABEL_NAMES_MAX) {
        sl_limit_error(load, limit, SL_LF_LABELS, "label `%s`: a policy names at most %d different labels", name,
                       SL_LABEL_NAMES_MAX);
        return 0;
    }
    return UINT64_C(1) << sl_name_set_add(labels, name, strlen(name));
}

static void add_labels(struct sl_load *load, const struct sl_limit_draft *draft, struct sl_limit_written *written)
{
    for (unsigned i = 0; i < draft->labels.n; i++) {
        const struct sluice_label *label = &draft->labels.list[i];
        struct sl_glob glob = sl_glob_init(label->value, label->value_len);
        uint64_t bit = add_label(load, draft, label->name);

        written->label_bits |= bit;
        if (sl_glob_is_literal(&glob))
            written->exact_label_bits |= bit;
    }
    for (unsigned i = 0; i < draft->per.n_labels; i++)
        add_label(load, draft, draft->per.labels[i]);
}

static uint32_t find_endpoint(const struct sl_name_set *names, const char *name)
{
    return name ? sl_name_set_find(names, name, strlen(name)) : 0;
}

/* ---- endpoints -------------------------------------------------------------------------------------------------- */

static bool compile_endpoints(struct sl_load *load)
{
    const struct sl_draft *draft = &load->draft;
    struct sl_endpoints *e = &load->policy->endpoints;
    size_t n_globs = 0;

    for (size_t i = 0; i < draft->n_endpoints; i++)
        n_globs += draft->endpoints[i].match.n;
    e->list = sl_read_alloc(&load->reader, draft->n_endpoints + 1, sizeof *e->list);
    e->globs = sl_read_alloc(&load->reader, n_globs, sizeof *e->globs);
    if (!e->list || !e->globs)
        return false;
    e->list[0] = (struct sl_endpoint){.name = "", .cost = -1};
    for (size_t i = 0; i < draft->n_endpoints; i++) {
        const struct sl_endpoint_draft *from = &draft->endpoints[i];

        e->list[++e->n] = (struct sl_endpoint){.name = from->name,
                                               .name_len = strlen(from->name),
                                               .cost = from->cost,
                                               .first_glob = e->n_globs,
                                               .n_globs = (unsigned)from->match.n};
        for (size_t k = 0; k < from->match.n; k++)
            e->globs[e->n_globs++] = (struct sl_endpoint_glob){
                .glob = sl_glob_init(from->match.list[k].text, from->match.list[k].len), .endpoint = e->n};
    }
    return sl_endpoints_build(e, load->reader.arena, &load->scratch) == 0;
}

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

static struct sl_secret derive(const struct sl_load *load, const char *name)
{
    return sl_secret_derive(load->options->secret, "dimension", name, strlen(name));
}

static void derive_secrets(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    struct sl_dimension_secrets *s = &policy->secrets;

    s->key = derive(load, "key");
    s->key_type = derive(load, "key type");
    s->address = derive(load, "address");
    s->scope = derive(load, "scope");
    s->endpoint = derive(load, "endpoint");
    s->tier = derive(load, "tier");
    for (uint32_t i = 1; i <= policy->labels.n; i++) {
        const struct sl_name *name = &policy->labels.list[i];

        s->label[i] = sl_secret_derive(load->options->secret, "label", name->text, name->len);
        /* An absent label is a value of its own: no value hashes to this, because no value is hashed under this
         * secret. */
        struct sl_secret absent = sl_secret_derive(load->options->secret, "absent label", name->text, name->len);
        policy->label_absent[i] = (struct sl_hash128){absent.k0, absent.k1};
    }
}

static struct sl_hash128 *hash_names(struct sl_load *load, struct sl_secret secret, const struct sl_name_set *set)
{
    struct sl_hash128 *hashes = sl_read_alloc(&load->reader, (size_t)set->n + 1, sizeof *hashes);

    for (uint32_t i = 0; hashes && i <= set->n; i++)
        hashes[i] = sl_hash13(secret, set->list[i].text, set->list[i].len);
    return hashes;
}

static void hash_all(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_endpoints *e = &policy->endpoints;

    policy->tier_hashes = hash_names(load, policy->secrets.tier, &policy->tiers);
    policy->type_hashes = hash_names(load, policy->secrets.key_type, &policy->key_types);
    policy->endpoint_hashes = sl_read_alloc(&load->reader, (size_t)e->n + 1, sizeof *policy->endpoint_hashes);
    for (uint32_t i = 0; policy->endpoint_hashes && i <= e->n; i++)
        policy->endpoint_hashes[i] = sl_hash13(policy->secrets.endpoint, e->list[i].name, e->list[i].name_len);
}

/* ---- keys and tiers --------------------------------------------------------------------------------------------- */

static uint32_t add_key(struct sl_policy *policy, const char *key, size_t len)
{
    return sl_keys_add(&policy->keys, sl_hash13(policy->secrets.key, key, len), key, len);
}

/* A key that stands twice in the keys_file with different tiers: which one holds is not to be guessed. */
static void check_again(struct sl_load *load, const struct sl_key_draft *first, const struct sl_key_draft *again)
{
    char quoted[SL_QUOTE_MAX];

    if (again->file != load->reader.file && first->file == again->file && strcmp(first->tier, again->tier) != 0)
        sl_diags_add(load->reader.diags, SL_DIAG_ERROR, again->file, again->line, again->column, "",
                     "the key `%s` has another tier in line %u", sl_text_quote(again->key, again->key_len, quoted),
                     first->line);
}

/* `keys` before `keys_file`: the first table that has the key decides. */
static void compile_keys(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_tiers_draft *tiers = &load->draft.tiers;
    uint32_t *firsts = sl_arena_calloc(&load->scratch, tiers->n_keys + 1, sizeof *firsts); /* by number of the key */

    load->reader.nomem |= !firsts;
    for (size_t i = 0; firsts && i < tiers->n_keys; i++) {
        const struct sl_key_draft *key = &tiers->keys[i];
        uint32_t number = add_key(policy, key->key, key->key_len);
        struct sl_key_entry *entry = &policy->keys.list[number];

        if (entry->tier) {
            check_again(load, &tiers->keys[firsts[number]], key);
            continue;
        }
        entry->tier = sl_name_set_add(&policy->tiers, key->tier, strlen(key->tier));
        policy->keys.n_tiered++;
        firsts[number] = (uint32_t)i;
    }
}

/* Keys with a store of their own: of no interest where there is no store. */
static void compile_dedicated(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_draft *draft = &load->draft;

    for (size_t i = 0; policy->has_store && i < draft->n_dedicated; i++)
        for (size_t k = 0; k < draft->dedicated[i].keys.n; k++) {
            const struct sl_placed_text *key = &draft->dedicated[i].keys.list[k];

            policy->keys.list[add_key(policy, key->text, key->len)].store = (uint16_t)(i + 1);
        }
}

static size_t count_dedicated(const struct sl_draft *draft)
{
    size_t n = 0;

    for (size_t i = 0; i < draft->n_dedicated; i++)
        n += draft->dedicated[i].keys.n;
    return n;
}

static bool init_sets(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_draft *draft = &load->draft;
    struct sl_arena *arena = load->reader.arena;
    size_t n = draft->n_limits;

    load->reader.nomem |= sl_name_set_init(&policy->tiers, arena, n + draft->tiers.n_keys + 2) != 0 ||
                          sl_name_set_init(&policy->key_types, arena, n + SL_KEY_TYPES_MAX + 3) != 0 ||
                          sl_name_set_init(&policy->labels, arena, SL_LABEL_NAMES_MAX) != 0 ||
                          sl_keys_init(&policy->keys, arena, n + draft->tiers.n_keys + count_dedicated(draft)) != 0;
    return !load->reader.nomem;
}

static bool name_endpoints(struct sl_load *load, struct sl_name_set *names)
{
    const struct sl_endpoints *e = &load->policy->endpoints;

    if (sl_name_set_init(names, &load->scratch, e->n) != 0)
        return false;
    for (uint32_t i = 1; i <= e->n; i++)
        sl_name_set_add(names, e->list[i].name, e->list[i].name_len);
    return true;
}

static void compile_settings(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_draft *draft = &load->draft;

    policy->type_api_key = add_name(&policy->key_types, "api_key");
    policy->type_address = add_name(&policy->key_types, "address");
    for (unsigned i = 0; i < policy->door.n_order; i++)
        add_name(&policy->key_types, policy->door.order[i].key_type);
    policy->tier_default = add_name(&policy->tiers, draft->tiers.default_tier);
    policy->tier_anonymous = add_name(&policy->tiers, draft->tiers.anonymous);
    policy->unknown = (enum sl_unknown)draft->tiers.unknown;
    policy->keys_store = draft->tiers.keys_store;
    policy->keys_file = draft->tiers.keys_file;
    policy->unmatched_deny = draft->unmatched == 1;
    policy->dedicated = draft->dedicated;
    policy->n_dedicated = draft->n_dedicated;
}

void sl_compile_names(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_draft *draft = &load->draft;
    struct sl_name_set endpoints;

    policy->n_limits = draft->n_limits;
    policy->limits = sl_read_alloc(&load->reader, draft->n_limits, sizeof *policy->limits);
    policy->written = sl_read_alloc(&load->reader, draft->n_limits, sizeof *policy->written);
    if (load->reader.nomem || !init_sets(load) || !compile_endpoints(load) || !name_endpoints(load, &endpoints)) {
        load->reader.nomem = true;
        return;
    }
    compile_settings(load);
    for (size_t i = 0; i < draft->n_limits; i++) {
        const struct sl_limit_draft *from = &draft->limits[i];
        struct sl_limit_written *written = &policy->written[i];

        policy->limits[i].layer_idx = add_layer(load, from);
        written->tier_id = add_name(&policy->tiers, from->tier);
        written->type_id = add_name(&policy->key_types, from->key_type);
        written->endpoint_id = find_endpoint(&endpoints, from->endpoint);
        add_labels(load, from, written);
    }
    derive_secrets(load);
    compile_keys(load);
    for (size_t i = 0; i < draft->n_limits; i++)
        if (draft->limits[i].key)
            policy->written[i].key_id = add_key(policy, draft->limits[i].key, strlen(draft->limits[i].key));
    compile_dedicated(load);
    hash_all(load);
}
