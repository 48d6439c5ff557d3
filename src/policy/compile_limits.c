/* Limits: effective rates, what coordination demands, seeds of their buckets. */
#include "policy/compiled.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define RATE_STEP \
    UINT64_C(0x9e3779b97f4a7c15)   /* odd: rate indexes stay apart in the tag, and share the groups chosen by b */
#define SPLIT_PARTS_MAX (1u << 20) /* of all limits of a policy and their rates: 64 MiB */

/* ---- rates ------------------------------------------------------------------------------------------------------ */

static void compile_ceiling(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;
    const struct sl_given *given = &load->draft.ceiling.given;
    struct sl_limit *limit = &policy->ceiling;
    const char *why;

    if (!sl_given_ok(given, SL_CF_RATE) || (given->at[SL_CF_BURST] && !sl_given_ok(given, SL_CF_BURST)))
        return;
    policy->ceiling_rate = load->draft.ceiling.rate.rate;
    policy->ceiling_burst = load->draft.ceiling.burst ? load->draft.ceiling.burst : policy->ceiling_rate.count;
    *limit = (struct sl_limit){.name = "",
                               .index = UINT32_MAX,
                               .layer = "default",
                               .per = SL_PER_KEY,
                               .kind = SL_RATE_UNLIMITED,
                               .capped = true,
                               .cost = -1,
                               .on_store_failure = (enum sl_on_failure)load->draft.defaults.on_store_failure};
    if (sl_shape_init(&limit->shapes[0], SL_TOKEN_BUCKET, &policy->ceiling_rate, policy->ceiling_burst, &why) != 0) {
        sl_load_error(load, given->at[SL_CF_BURST] ? given->at[SL_CF_BURST] : given->at[SL_CF_RATE],
                      given->at[SL_CF_BURST] ? "ceiling.burst" : "ceiling.rate", "%s", why);
        return;
    }
    limit->n_rates = 1;
    policy->has_ceiling = true;
}

/* What stands in the file: `rates`, or `rate` with `burst`. A limit's own field replaces both of the defaults. */
static bool gather_rates(struct sl_load *load, const struct sl_limit_draft *draft, struct sl_limit_written *written)
{
    const struct sl_given *own = &draft->given, *defaults = &load->draft.defaults.given;
    bool own_rate = own->at[SL_LF_RATE] != NULL, own_rates = own->at[SL_LF_RATES] != NULL;
    bool rates = own_rates || (!own_rate && defaults->at[SL_LF_RATES]);
    bool window = !sl_algorithm_is_bucket((enum sl_algorithm)draft->algorithm);

    if (own_rate && own_rates) {
        sl_limit_error(load, draft, SL_LF_RATES, "`rate` and `rates` exclude each other");
        return false;
    }
    if (rates && own->at[SL_LF_BURST]) {
        sl_limit_error(
            load, draft, SL_LF_BURST,
            "a `burst` beside `rates` would not say which it belongs to: write {rate: ..., burst: ...} in the list");
        return false;
    }
    if (!sl_limit_draft_knows(&load->draft, draft, rates ? SL_LF_RATES : SL_LF_RATE))
        return false; /* reported where it was read */
    if (!rates && !draft->rate.node) {
        /* no limit at all, or a misspelt field: that has been said */
        if (draft->node->kind == SL_NODE_MAP && sl_limit_draft_knows(&load->draft, draft, SL_LF_RATES))
            sl_limit_error(load, draft, SL_LF_RATE, "missing: a limit needs `rate` or `rates`");
        return false;
    }
    if (!sl_limit_draft_knows(&load->draft, draft, SL_LF_BURST) ||
        !sl_limit_draft_knows(&load->draft, draft, SL_LF_ALGORITHM))
        return false;
    if (rates) {
        memcpy(written->rates, draft->rates.list, sizeof written->rates);
        written->n_rates = draft->rates.n;
        return true;
    }
    written->n_rates = 1;
    written->rates[0] = draft->rate;
    written->rates[0].burst = draft->burst;
    if (draft->rate.rate.kind != SL_RATE_LIMITED || (window && !own->at[SL_LF_BURST]))
        written->rates[0].burst = 0; /* a defaulted burst is for buckets only */
    return true;
}

static bool check_burst(struct sl_load *load, const struct sl_limit_draft *draft,
                        const struct sl_limit_written *written)
{
    if (draft->given.at[SL_LF_BURST] && draft->rate.rate.kind != SL_RATE_LIMITED) {
        sl_limit_error(load, draft, SL_LF_BURST, "a limit that is %s has no burst",
                       draft->rate.rate.kind == SL_RATE_BLOCKED ? "blocked" : "unlimited");
        return false;
    }
    for (unsigned i = 0; i < written->n_rates; i++)
        if (written->rates[i].burst && !sl_algorithm_is_bucket((enum sl_algorithm)draft->algorithm)) {
            sl_limit_error(load, draft, draft->given.at[SL_LF_BURST] ? SL_LF_BURST : SL_LF_RATES,
                           "a %s counts in windows and has no burst", sl_algorithm_words[draft->algorithm]);
            return false;
        }
    return true;
}

static bool store_log_too_long(const struct sl_load *load, const struct sl_limit *limit, const struct sl_rate *rate)
{
    return load->options->has_store && limit->algorithm == SL_SLIDING_WINDOW_LOG &&
           limit->coordination != SL_COORD_LOCAL && rate->count > SL_LOG_COUNT_MAX_STORE;
}

/* A share of a shape is always one. */
static void share_shape(uint32_t share_ppm, struct sl_shape *shape)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);
    struct sl_rate_draft rate = {
        .rate = {.kind = SL_RATE_LIMITED, .count = shape->count, .period_us = shape->period_us},
        .burst = bucket ? shape->limit : 0};
    const char *why;

    sl_rate_share(share_ppm, bucket, &rate);
    (void)sl_shape_init(shape, (enum sl_algorithm)shape->algorithm, &rate.rate, rate.burst, &why);
}

/* A rate as written must be right by itself, whatever ceiling and region make of it. */
static bool compile_rate(struct sl_load *load, const struct sl_limit_draft *draft, struct sl_limit *limit,
                         const struct sl_rate_draft *written)
{
    struct sl_rate_draft rate = *written;
    enum sl_limit_field field = draft->rate.node == written->node ? SL_LF_RATE : SL_LF_RATES;
    struct sl_shape *shape = &limit->shapes[limit->n_rates];
    const char *why;

    if (field == SL_LF_RATE && rate.burst)
        field = SL_LF_BURST;
    if (sl_shape_init(shape, limit->algorithm, &rate.rate, rate.burst, &why) != 0) {
        sl_limit_error(load, draft, field, "%s", why);
        return false;
    }
    if (store_log_too_long(load, limit, &rate.rate)) {
        sl_limit_error(
            load, draft, field,
            "a sliding_window_log in the store keeps at most %u entries: lower COUNT, or use coordination: local",
            SL_LOG_COUNT_MAX_STORE);
        return false;
    }
    if (sl_rate_cap(load->policy, limit, &rate)) {
        limit->capped = true;
        if (sl_shape_init(shape, limit->algorithm, &rate.rate, rate.burst, &why) != 0) {
            sl_limit_error(load, draft, field, "under the ceiling: %s", why);
            return false;
        }
    }
    if (limit->region)
        share_shape(limit->region->share_ppm, shape);
    limit->n_rates++;
    return true;
}

static bool compile_rates(struct sl_load *load, struct sl_limit_draft *draft, struct sl_limit *limit,
                          struct sl_limit_written *written)
{
    const struct sl_policy *policy = load->policy;
    bool ok = true;

    if (!gather_rates(load, draft, written) || !check_burst(load, draft, written))
        return false;
    limit->kind = written->rates[0].rate.kind;
    if (limit->kind == SL_RATE_UNLIMITED && policy->has_ceiling && (limit->per & SL_PER_KEY)) {
        limit->capped = true;
        limit->algorithm = SL_TOKEN_BUCKET;
        limit->shapes[0] = policy->ceiling.shapes[0];
        if (limit->region)
            share_shape(limit->region->share_ppm, &limit->shapes[0]);
        limit->n_rates = 1;
    }
    if (limit->kind != SL_RATE_LIMITED)
        return true;
    for (unsigned i = 0; i < written->n_rates; i++)
        ok &= compile_rate(load, draft, limit, &written->rates[i]);
    return ok;
}

/* ---- coordination ----------------------------------------------------------------------------------------------- */

static uint32_t largest_cost(const struct sl_policy *policy, const struct sl_limit *limit, uint32_t endpoint_id)
{
    const struct sl_endpoints *e = &policy->endpoints;
    int64_t most = 1;

    if (limit->cost >= 0)
        return (uint32_t)limit->cost;
    if (limit->endpoint)
        return e->list[endpoint_id].cost >= 0 ? (uint32_t)e->list[endpoint_id].cost : 1;
    for (uint32_t i = 1; i <= e->n; i++)
        if (e->list[i].cost > most)
            most = e->list[i].cost;
    return (uint32_t)most;
}

/* The n shares of x sum to x. */
static uint32_t share(uint32_t x, unsigned n, unsigned at)
{
    return x / n + (at < x % n);
}

int sl_shape_split(const struct sl_shape *shape, unsigned n, unsigned at, struct sl_shape *ret_part,
                   const char **ret_why)
{
    bool bucket = sl_algorithm_is_bucket((enum sl_algorithm)shape->algorithm);
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = share(shape->count, n, at), .period_us = shape->period_us};

    return sl_shape_init(ret_part, (enum sl_algorithm)shape->algorithm, &rate, bucket ? share(shape->limit, n, at) : 0,
                         ret_why);
}

/* Parts differ where COUNT's remainder ends, and the limit's. */
static bool parts_are_legal(const struct sl_shape *shape, unsigned n, const char **ret_why)
{
    unsigned at[] = {0, shape->count % n, shape->limit % n, n - 1};
    struct sl_shape part;

    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if (sl_shape_split(shape, n, at[i], &part, ret_why) != 0)
            return false;
    return true;
}

/* Can `shape` be split? `where` is what an error begins with. */
static bool check_split(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit,
                        const struct sl_shape *shape, const char *where)
{
    uint32_t cost = largest_cost(load->policy, limit, load->policy->written[draft->index].endpoint_id);
    enum sl_limit_field field = draft->given.at[SL_LF_SPLIT] ? SL_LF_SPLIT : SL_LF_COORDINATION;
    unsigned n = sl_limit_n_parts(limit);
    const char *why;

    if (shape->limit < UINT64_C(10) * cost * n) {
        sl_limit_error(load, draft, field,
                       "%s%u split in %u leaves less than 10 times the largest cost, %u: it would reject early; "
                       "use a larger burst, at most %u parts, or another coordination",
                       where, shape->limit, n, cost, shape->limit / (10 * (cost ? cost : 1)));
        return false;
    }
    if (shape->count < n || shape->limit < n) {
        sl_limit_error(load, draft, field, "%sa %s of %u cannot be split in %u: every part needs at least 1", where,
                       shape->count < n ? "COUNT" : "burst", shape->count < n ? shape->count : shape->limit, n);
        return false;
    }
    if (!parts_are_legal(shape, n, &why)) {
        sl_limit_error(load, draft, field, "%ssplit in %u: %s", where, n, why);
        return false;
    }
    return true;
}

static bool check_block(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit,
                        const struct sl_shape *shape, const char *where)
{
    if (limit->lease_block <= shape->limit)
        return true;
    sl_limit_error(load, draft, SL_LF_LEASE, "%sa block of %llu is more than the limit ever holds, %u", where,
                   (unsigned long long)limit->lease_block, shape->limit);
    return false;
}

static bool check_shape(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit,
                        const struct sl_shape *shape, const char *where)
{
    bool split = limit->coordination == SL_COORD_SPLIT && sl_limit_draft_knows(&load->draft, draft, SL_LF_SPLIT);

    return (!split || check_split(load, draft, limit, shape, where)) && check_block(load, draft, limit, shape, where);
}

/* In every region, wherever this is: a policy is good for all of them, or for none. */
static void check_shapes(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit)
{
    bool regions = limit->n_regions && sl_limit_draft_knows(&load->draft, draft, SL_LF_REGIONS);
    char where[SLUICE_NAME_MAX + 16];

    for (unsigned i = 0; i < limit->n_rates; i++) {
        struct sl_rate_draft rate = sl_limit_whole(load->policy, limit, i);
        struct sl_shape whole, shape;
        const char *why;

        (void)sl_shape_init(&whole, limit->algorithm, &rate.rate, rate.burst, &why);
        if (!check_shape(load, draft, limit, &whole, ""))
            return;
        for (unsigned k = 0; regions && k < limit->n_regions; k++) {
            shape = whole;
            share_shape(limit->regions[k].share_ppm, &shape);
            snprintf(where, sizeof where, "in region `%s`, ", limit->regions[k].name);
            if (!check_shape(load, draft, limit, &shape, where))
                return;
        }
    }
}

static void check_coordination(struct sl_load *load, const struct sl_limit_draft *draft, struct sl_limit *limit)
{
    bool leasable = limit->algorithm == SL_TOKEN_BUCKET || limit->algorithm == SL_FIXED_WINDOW;
    enum sl_limit_field field = draft->given.at[SL_LF_SPLIT] ? SL_LF_SPLIT : SL_LF_COORDINATION;

    if (!sl_limit_draft_knows(&load->draft, draft, SL_LF_COORDINATION) || limit->n_rates == 0)
        return;
    if ((limit->coordination == SL_COORD_LEASED || limit->coordination == SL_COORD_SYNCED) && !leasable)
        sl_limit_error(load, draft, SL_LF_COORDINATION,
                       "`%s` works with token_bucket and fixed_window only, and limit `%s` is a %s",
                       sl_coordination_words[limit->coordination], draft->name ? draft->name : "",
                       sl_algorithm_name(limit->algorithm));
    check_shapes(load, draft, limit);
    if (limit->coordination == SL_COORD_SPLIT && load->n_parts <= SPLIT_PARTS_MAX &&
        (load->n_parts += (size_t)sl_limit_n_parts(limit) * limit->n_rates) > SPLIT_PARTS_MAX)
        sl_limit_error(load, draft, field, "the limits of a policy are split in at most %u parts altogether",
                       SPLIT_PARTS_MAX);
}

/* ---- seeds ------------------------------------------------------------------------------------------------------ */

static void append(char *buf, size_t size, size_t *len, const char *text)
{
    size_t n = strlen(text) + 1; /* with the NUL, which keeps the parts apart */

    assert(*len + n <= size);
    memcpy(buf + *len, text, n);
    *len += n;
}

/* Buckets are those of a name, an algorithm, a way of separating and a region: what stays over a reload while these do. */
static void make_seeds(const struct sl_load *load, struct sl_limit *limit)
{
    char text[3 * SLUICE_NAME_MAX + SLUICE_LABELS_MAX * (SLUICE_LABEL_NAME_MAX + 1) + 8], per[2] = "";
    struct sl_secret seed;
    size_t len = 0;

    append(text, sizeof text, &len, limit->name);
    append(text, sizeof text, &len, sl_algorithm_name(limit->algorithm));
    per[0] = (char)('@' + limit->per);
    append(text, sizeof text, &len, per);
    for (unsigned i = 0; i < limit->n_per_labels; i++)
        append(text, sizeof text, &len, limit->per_labels[i]);
    if (limit->region)
        append(text, sizeof text, &len, limit->region->name);
    seed = sl_secret_derive(load->options->secret, limit->region ? "limit in a region" : "limit", text, len);
    for (unsigned i = 0; i < SL_RATES_MAX; i++)
        limit->seeds[i] = (struct sl_hash128){seed.k0 + i * RATE_STEP, seed.k1};
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static void copy_fields(const struct sl_load *load, const struct sl_limit_draft *from, struct sl_limit *limit)
{
    limit->name = from->name ? from->name : "";
    limit->index = from->index;
    limit->line = from->node->line;
    limit->column = from->node->column;
    limit->layer = from->layer;
    limit->key = from->key;
    limit->endpoint = from->endpoint;
    limit->tier = from->tier;
    limit->key_type = from->key_type;
    limit->labels = from->labels.list;
    limit->n_labels = from->labels.n;
    limit->per = from->per.bits;
    limit->per_labels = from->per.labels;
    limit->n_per_labels = from->per.n_labels;
    limit->algorithm = (enum sl_algorithm)from->algorithm;
    limit->cost = from->cost;
    limit->mode = (enum sl_mode)from->mode;
    limit->coordination = (enum sl_coordination)from->coordination;
    limit->on_store_failure = (enum sl_on_failure)from->on_store_failure;
    limit->on_store_failure_given =
        from->given.at[SL_LF_ON_STORE_FAILURE] || load->draft.defaults.given.at[SL_LF_ON_STORE_FAILURE];
    limit->warn_at_percent = from->warn_at_percent;
    limit->lease_block = from->lease.block;
    limit->lease_ttl_us = from->lease.ttl_us;
    limit->split = from->split;
    limit->sync_interval_us = from->sync.interval_us;
    limit->local_factor = from->local_factor;
    limit->regions = from->regions.list;
    limit->n_regions = from->regions.n;
    limit->note = from->note;
}

void sl_compile_limits(struct sl_load *load)
{
    struct sl_policy *policy = load->policy;

    compile_ceiling(load);
    for (size_t i = 0; i < policy->n_limits; i++) {
        struct sl_limit_draft *draft = &load->draft.limits[i];
        struct sl_limit *limit = &policy->limits[i];

        copy_fields(load, draft, limit);
        if (!sl_choose_region(load, limit))
            return;
        policy->written[i].coordination_given = draft->given.at[SL_LF_COORDINATION] != NULL;
        draft->sound = compile_rates(load, draft, limit, &policy->written[i]);
        if (draft->sound)
            check_coordination(load, draft, limit);
        make_seeds(load, limit);
        for (unsigned k = 0; k < policy->written[i].n_rates; k++)
            policy->written[i].rates[k].node = NULL; /* the tree goes before the policy does */
    }
    if (policy->has_ceiling)
        make_seeds(load, &policy->ceiling);
}
