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

static bool compile_rate(struct sl_load *load, const struct sl_limit_draft *draft, struct sl_limit *limit,
                         const struct sl_rate_draft *written)
{
    struct sl_fault fault;

    if (sl_limit_add_rate(load->policy, limit, written, &fault))
        return true;
    if (draft->rate.node != written->node)
        fault.field = SL_LF_RATES;
    sl_limit_error(load, draft, fault.field, "%s", fault.text);
    return false;
}

static bool compile_rates(struct sl_load *load, struct sl_limit_draft *draft, struct sl_limit *limit,
                          struct sl_limit_written *written)
{
    bool ok = true;

    if (!gather_rates(load, draft, written) || !check_burst(load, draft, written))
        return false;
    limit->kind = written->rates[0].rate.kind;
    if (limit->kind == SL_RATE_UNLIMITED)
        sl_limit_take_ceiling(load->policy, limit);
    if (limit->kind != SL_RATE_LIMITED)
        return true;
    for (unsigned i = 0; i < written->n_rates; i++)
        ok &= compile_rate(load, draft, limit, &written->rates[i]);
    return ok;
}

/* ---- coordination ----------------------------------------------------------------------------------------------- */

static void check_shapes(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit)
{
    bool split = sl_limit_draft_knows(&load->draft, draft, SL_LF_SPLIT);
    bool regions = sl_limit_draft_knows(&load->draft, draft, SL_LF_REGIONS);
    struct sl_fault fault;

    if (sl_limit_fits(load->policy, limit, split, regions, &fault))
        return;
    if (fault.field == SL_LF_SPLIT && !draft->given.at[SL_LF_SPLIT])
        fault.field = SL_LF_COORDINATION;
    sl_limit_error(load, draft, fault.field, "%s", fault.text);
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

void sl_limit_seed(struct sl_secret secret, struct sl_limit *limit)
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
    seed = sl_secret_derive(secret, limit->region ? "limit in a region" : "limit", text, len);
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
        sl_limit_seed(policy->secret, limit);
        for (unsigned k = 0; k < policy->written[i].n_rates; k++)
            policy->written[i].rates[k].node = NULL; /* the tree goes before the policy does */
    }
    if (policy->has_ceiling)
        sl_limit_seed(policy->secret, &policy->ceiling);
}
