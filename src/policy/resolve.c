/* One request against a compiled policy: the hot path. No allocation, no division, no search over limits.
 *
 * The request's key, endpoint, tier and key type become numbers once; each layer's tables are then probed with the
 * numbers their limits name, from the most specific, until an enforcing limit answers. One walk serves the dry run
 * too: the first answer of any mode is what a resolution with the dry-run limits would give. */
#include "policy/resolve.h"

#include "policy/variants.h"

#include <string.h>

/* ---- the request's dimensions ----------------------------------------------------------------------------------- */

static uint32_t key_type_number(const struct sl_policy *policy, const struct sluice_request *request)
{
    if (!request->key_type)
        return policy->type_api_key;
    return sl_name_set_find(&policy->key_types, request->key_type, request->key_type_len);
}

uint32_t sl_resolve_tier(const struct sl_policy *policy, const struct sluice_request *request, uint32_t key_number,
                         uint32_t type_number, enum sl_tier_source *ret_source, bool *ret_denied)
{
    uint32_t tier = policy->keys.list[key_number].tier;

    *ret_denied = false;
    if (request->tier) {
        *ret_source = SL_TIER_REQUEST;
        return sl_name_set_find(&policy->tiers, request->tier, request->tier_len);
    }
    if (tier) {
        *ret_source = SL_TIER_KEYS;
        return tier;
    }
    if (type_number == policy->type_address && policy->tier_anonymous) {
        *ret_source = SL_TIER_ANONYMOUS;
        return policy->tier_anonymous;
    }
    *ret_source = SL_TIER_UNKNOWN;
    *ret_denied = policy->unknown == SL_UNKNOWN_DENY;
    return policy->unknown == SL_UNKNOWN_ANONYMOUS ? policy->tier_anonymous : policy->tier_default;
}

/* Which of the policy's labels the request has. Names are unique: sl_request_check has seen to it. */
static void read_labels(const struct sl_policy *policy, struct sl_subject *s)
{
    for (size_t i = 0; i < s->request->n_labels; i++) {
        const struct sluice_label *label = &s->request->labels[i];
        uint32_t number = sl_name_set_find(&policy->labels, label->name, label->name_len);

        if (number) {
            s->present |= UINT64_C(1) << number;
            s->label_at[number] = (uint8_t)i;
        }
    }
}

void sl_subject_init(struct sl_subject *s, const struct sl_policy *policy, const struct sluice_request *request)
{
    bool denied;

    s->policy = policy;
    s->request = request;
    s->present = s->hashed_labels = 0;
    s->have_scope = s->have_address = false;
    s->address = request->address;
    s->address_len = request->address_len;
    s->key_hash = sl_hash13(policy->secrets.key, request->key, request->key_len);
    s->key = policy->keys.n ? sl_keys_find(&policy->keys, s->key_hash, request->key, request->key_len) : 0;
    s->overridden = sl_variants_key(policy->variants, s->key_hash, request->key, request->key_len);
    s->type = key_type_number(policy, request);
    s->endpoint =
        sl_endpoints_match(&policy->endpoints, request->scope ? request->scope : "", request->scope_len, NULL);
    s->tier = sl_resolve_tier(policy, request, s->key, s->type, &s->tier_source, &denied);
    s->denied = denied;
    if (!s->address && s->type == policy->type_address) {
        s->address = request->key;
        s->address_len = request->key_len;
    }
    if (policy->labels.n && request->n_labels)
        read_labels(policy, s);
}

static const struct sluice_label *label_of(const struct sl_subject *s, uint32_t number)
{
    return &s->request->labels[s->label_at[number]];
}

static struct sl_hash128 label_hash(struct sl_subject *s, uint32_t number)
{
    if (!(s->present >> number & 1))
        return s->policy->label_absent[number];
    if (!(s->hashed_labels >> number & 1)) {
        const struct sluice_label *label = label_of(s, number);

        s->label_hashes[number] = sl_hash13(s->policy->secrets.label[number], label->value, label->value_len);
        s->hashed_labels |= UINT64_C(1) << number;
    }
    return s->label_hashes[number];
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

static bool labels_match(const struct sl_subject *s, const struct sl_limit *limit)
{
    for (unsigned i = 0; i < limit->n_labels; i++) {
        const struct sluice_label *wanted = &limit->labels[i], *label;
        uint32_t number = sl_name_set_find(&s->policy->labels, wanted->name, wanted->name_len);

        if (!(s->present >> number & 1))
            return false;
        label = label_of(s, number);
        if (!sl_glob_match(wanted->value, wanted->value_len, label->value, label->value_len))
            return false;
    }
    return true;
}

static inline bool candidate_matches(const struct sl_subject *s, const struct sl_limit *limit)
{
    return (!(limit->per & SL_PER_ADDRESS) || s->address) && (!limit->n_labels || labels_match(s, limit));
}

static uint64_t exact_labels(struct sl_subject *s, uint64_t bits)
{
    uint64_t sum = 0;

    for (; bits; bits &= bits - 1)
        sum += label_hash(s, (uint32_t)__builtin_ctzll(bits)).a;
    return sum;
}

static const struct sl_index_slot *find_slot(const struct sl_index_group *group, struct sl_ids ids, uint64_t labels)
{
    uint32_t i = sl_index_hash(ids, labels) & group->slot_mask;

    for (;; i = (i + 1) & group->slot_mask) {
        const struct sl_index_slot *slot = &group->slots[i];

        if (!slot->n)
            return NULL;
        if (slot->ids.key_endpoint == ids.key_endpoint && slot->ids.tier_type == ids.tier_type &&
            slot->labels == labels)
            return slot;
    }
}

/* The earliest limits of one rank that match: of any mode, and enforcing. NULL: none. */
struct winners {
    const struct sl_limit *any, *enforcing;
};

static void keep_earlier(const struct sl_limit **best, const struct sl_limit *limit)
{
    if (!*best || limit->index < (*best)->index)
        *best = limit;
}

static void try_group(struct sl_subject *s, const struct sl_layer *layer, const struct sl_index_group *group,
                      struct sl_ids request, struct winners *w)
{
    struct sl_ids ids = {request.key_endpoint & group->mask.key_endpoint, request.tier_type & group->mask.tier_type};
    const struct sl_index_slot *slot;

    slot = find_slot(group, ids, group->exact_bits ? exact_labels(s, group->exact_bits) : 0);
    if (!slot)
        return;
    for (uint32_t i = 0; i < slot->n; i++) {
        const struct sl_limit *limit = &s->policy->limits[layer->candidates[slot->first + i]];

        if (!candidate_matches(s, limit))
            continue;
        keep_earlier(&w->any, limit);
        if (limit->mode == SL_MODE_ENFORCE) {
            keep_earlier(&w->enforcing, limit);
            return;
        }
    }
}

/* Groups of one rank (they differ in label names only) compete by file order; the first rank that answers decides. */
static struct winners resolve_layer(struct sl_subject *s, const struct sl_layer *layer, struct sl_ids ids,
                                    unsigned lack)
{
    const struct sl_index_group *group = layer->groups, *end = group + layer->n_groups;
    struct winners result = {0}, rank = {0};

    for (; group < end; group++) {
        if (!(group->names & lack) && !(group->label_bits & ~s->present))
            try_group(s, layer, group, ids, &rank);
        if (!group->last_of_rank || !rank.any)
            continue;
        if (!result.any)
            result.any = rank.any;
        if (rank.enforcing) {
            result.enforcing = rank.enforcing;
            break;
        }
        rank.any = NULL;
    }
    return result;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static inline struct sl_hash128 key_dimension(const struct sl_subject *s)
{
    if (__builtin_expect(s->type != 0, 1))
        return sl_hash_join(s->key_hash, s->policy->type_hashes[s->type]);
    return sl_hash_join(s->key_hash,
                        sl_hash13(s->policy->secrets.key_type, s->request->key_type, s->request->key_type_len));
}

static struct sl_hash128 address_dimension(struct sl_subject *s)
{
    if (!s->have_address)
        s->address_hash = sl_hash13(s->policy->secrets.address, s->address, s->address_len);
    s->have_address = true;
    return s->address_hash;
}

static struct sl_hash128 scope_dimension(struct sl_subject *s)
{
    if (!s->have_scope)
        s->scope_hash = sl_hash13(s->policy->secrets.scope, s->request->scope, s->request->scope_len);
    s->have_scope = true;
    return s->scope_hash;
}

static struct sl_hash128 tier_dimension(const struct sl_subject *s)
{
    if (!s->tier && s->request->tier) /* a tier that the policy does not name is still one of its own */
        return sl_hash13(s->policy->secrets.tier, s->request->tier, s->request->tier_len);
    return s->policy->tier_hashes[s->tier];
}

struct sl_hash128 sl_subject_bucket(struct sl_subject *s, const struct sl_limit *limit)
{
    unsigned per = limit->per;
    struct sl_hash128 sum = {0, 0};

    if (per & SL_PER_KEY)
        sum = key_dimension(s);
    if (per & SL_PER_ADDRESS)
        sum = sl_hash_join(sum, address_dimension(s));
    if (per & SL_PER_ENDPOINT)
        sum = sl_hash_join(sum, s->policy->endpoint_hashes[s->endpoint]);
    if (per & SL_PER_SCOPE)
        sum = sl_hash_join(sum, scope_dimension(s));
    if (per & SL_PER_TIER)
        sum = sl_hash_join(sum, tier_dimension(s));
    for (unsigned i = 0; i < limit->n_per_labels; i++) {
        const char *name = limit->per_labels[i];

        sum = sl_hash_join(sum, label_hash(s, sl_name_set_find(&s->policy->labels, name, strlen(name))));
    }
    return sum;
}

int64_t sl_subject_cost(const struct sl_subject *s, const struct sl_limit *limit)
{
    int64_t endpoint_cost = s->policy->endpoints.list[s->endpoint].cost;

    if (s->request->cost >= 0)
        return s->request->cost;
    if (limit->cost >= 0)
        return limit->cost;
    return endpoint_cost >= 0 ? endpoint_cost : 1;
}

int64_t sl_policy_cost(const struct sl_policy *policy, const struct sluice_request *request,
                       const struct sl_limit *limit)
{
    struct sl_subject s = {.policy = policy, .request = request};

    s.endpoint = sl_endpoints_match(&policy->endpoints, request->scope ? request->scope : "", request->scope_len, NULL);
    return sl_subject_cost(&s, limit);
}

static inline unsigned add_items(struct sl_subject *s, const struct sl_limit *limit, struct sl_item *items)
{
    /* nearly every limit separates by key alone */
    struct sl_hash128 bucket = limit->per == SL_PER_KEY ? key_dimension(s) : sl_subject_bucket(s, limit);
    uint32_t cost = (uint32_t)sl_subject_cost(s, limit);
    unsigned n = limit->n_rates;

    for (unsigned i = 0; i < n; i++)
        items[i] = (struct sl_item){.limit = limit,
                                    .shape = &limit->shapes[i],
                                    .fp = sl_hash_join(bucket, limit->seeds[i]),
                                    .cost = cost,
                                    .rate_idx = (uint16_t)i};
    return n;
}

static inline void add_winner(struct sl_subject *s, const struct sl_limit *limit, struct sl_resolution *r)
{
    if (__builtin_expect(limit->n_rates != 0, 1))
        r->n_items += add_items(s, limit, &r->items[r->n_items]);
    else if (limit->kind == SL_RATE_BLOCKED)
        r->blocked = r->blocked ? r->blocked : limit;
    else
        r->unlimited = r->unlimited ? r->unlimited : limit;
}

static void add_dry_winner(struct sl_subject *s, const struct sl_limit *limit, struct sl_resolution *r)
{
    if (limit->n_rates)
        r->n_dry += add_items(s, limit, &r->dry[r->n_dry]);
    else if (limit->kind == SL_RATE_BLOCKED && !r->dry_blocked)
        r->dry_blocked = limit;
}

/* What an override of the key puts in their place. */
static struct winners replace(const struct sl_subject *s, struct winners w)
{
    const struct sl_variants *v = s->policy->variants;

    if (w.enforcing)
        w.enforcing = sl_variants_find(v, s->overridden, s->request, w.enforcing, NULL);
    if (w.any)
        w.any = sl_variants_find(v, s->overridden, s->request, w.any, NULL);
    return w;
}

static inline void add_layer(struct sl_subject *s, unsigned layer, struct winners w, struct sl_resolution *r)
{
    if (__builtin_expect(s->overridden != 0, 0))
        w = replace(s, w);
    r->winners[layer] = w.enforcing;
    if (w.enforcing) {
        r->unmatched = false;
        add_winner(s, w.enforcing, r);
    }
    if (w.any && w.any->mode == SL_MODE_DRY_RUN)
        add_dry_winner(s, w.any, r);
}

/* The fields in which a request has nothing that a limit could name. */
static inline unsigned fields_lacking(const struct sl_subject *s, uint32_t endpoint)
{
    return (s->key ? 0 : SL_NAMES_KEY) | (endpoint ? 0 : SL_NAMES_ENDPOINT) | (s->tier ? 0 : SL_NAMES_TIER) |
           (s->type ? 0 : SL_NAMES_KEY_TYPE);
}

static void resolve_layers(struct sl_subject *s, struct sl_resolution *r)
{
    const struct sl_policy *policy = s->policy;
    struct sl_ids ids = sl_ids_pack(s->key, s->endpoint, s->tier, s->type);
    unsigned lack = fields_lacking(s, s->endpoint);

    for (unsigned i = 0; i < policy->n_layers; i++)
        add_layer(s, i, resolve_layer(s, &policy->layers[i], ids, lack), r);
}

static struct winners resolve_as(struct sl_subject *s, const struct sl_layer *layer, uint32_t endpoint)
{
    return resolve_layer(s, layer, sl_ids_pack(s->key, endpoint, s->tier, s->type), fields_lacking(s, endpoint));
}

/* Where endpoints overlap, those that a layer names compete for the scope there; its dry-run limits may bring in
 * others, which the verdict must not see. */
static void resolve_layers_apart(struct sl_subject *s, struct sl_resolution *r)
{
    const struct sl_policy *policy = s->policy;
    struct sl_layer_endpoints endpoints;

    sl_endpoints_match_layers(&policy->endpoints, s->request->scope ? s->request->scope : "", s->request->scope_len,
                              &endpoints);
    for (unsigned i = 0; i < policy->n_layers; i++) {
        struct winners w = resolve_as(s, &policy->layers[i], endpoints.enforced[i]);

        if (endpoints.named[i] != endpoints.enforced[i])
            w.any = resolve_as(s, &policy->layers[i], endpoints.named[i]).any;
        add_layer(s, i, w, r);
    }
}

/* Whom the buckets belong to, and where the store keeps them. */
static void add_owner(struct sl_subject *s, struct sl_resolution *r)
{
    r->key_hash = key_dimension(s);
    r->address_hash = s->have_address ? s->address_hash : (struct sl_hash128){0, 0};
    r->store = s->policy->keys.list[s->key].store;
}

void sl_policy_resolve(const struct sl_policy *policy, const struct sluice_request *request, struct sl_resolution *r)
{
    struct sl_subject s;

    sl_subject_init(&s, policy, request);
    r->n_items = r->n_dry = 0;
    r->blocked = r->unlimited = r->dry_blocked = NULL;
    r->unmatched = true;
    r->denied = s.denied;
    r->tier = policy->tiers.list[s.tier].text;
    r->endpoint = policy->endpoints.list[s.endpoint].name;
    memset(r->winners, 0, sizeof r->winners);
    if (s.denied)
        return;
    if (policy->endpoints.layered)
        resolve_layers_apart(&s, r);
    else
        resolve_layers(&s, r);
    if (r->unmatched && policy->unmatched_deny)
        r->denied = true;
    else if (r->unmatched && policy->has_ceiling)
        r->n_items = add_items(&s, &policy->ceiling, r->items);
    if (policy->has_store)
        add_owner(&s, r);
}

bool sl_policy_bucket(const struct sl_policy *policy, const struct sl_limit *limit, unsigned rate_idx,
                      const struct sluice_request *request, const char *endpoint, const char *tier,
                      struct sl_hash128 *ret_fp)
{
    struct sluice_request subject = *request;
    struct sl_subject s;

    if (tier[0]) {
        subject.tier = tier;
        subject.tier_len = strlen(tier);
    }
    sl_subject_init(&s, policy, &subject);
    s.endpoint = 0;
    for (uint32_t i = 1; endpoint[0] && i <= policy->endpoints.n; i++)
        if (!strcmp(policy->endpoints.list[i].name, endpoint))
            s.endpoint = i;
    if ((limit->per & SL_PER_ADDRESS) && !s.address)
        return false;
    *ret_fp = sl_hash_join(sl_subject_bucket(&s, limit), limit->seeds[rate_idx]);
    return true;
}

bool sl_policy_bucket_owner(const struct sl_policy *policy, const struct sl_limit *limit,
                            const struct sluice_request *request, const struct sl_hash128 *fp,
                            struct sl_hash128 *ret_owner, unsigned *ret_store)
{
    struct sl_item item = {.limit = limit, .fp = *fp};
    struct sl_hash128 address = {0, 0};
    struct sl_subject s;

    sl_subject_init(&s, policy, request);
    if ((limit->per & SL_PER_ADDRESS) && !s.address)
        return false;
    if (limit->per & SL_PER_ADDRESS)
        address = address_dimension(&s);
    *ret_owner = sl_item_owner(&item, key_dimension(&s), address);
    *ret_store = policy->keys.list[s.key].store;
    return true;
}
