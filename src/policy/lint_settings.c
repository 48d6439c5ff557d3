/* Warnings about single settings: what has no effect, what nobody decided, what is probably misspelt. */
#include "policy/compiled.h"

#include <stdio.h>
#include <string.h>

/* ---- what only a shared store can honour ------------------------------------------------------------------------ */

static const enum sl_limit_field store_fields[] = {SL_LF_LEASE, SL_LF_SPLIT, SL_LF_SYNC, SL_LF_LOCAL_FACTOR};

/* `where` is a limit or the defaults; the values are the same, only the path differs. */
static void lint_store_fields(struct sl_load *load, const struct sl_limit_draft *where, const char *path)
{
    const struct sl_node *coordination = where->given.at[SL_LF_COORDINATION];
    char field[SL_PATH_MAX];

    if (load->options->has_store)
        return;
    if (coordination && where->coordination > SL_COORD_LOCAL && sl_given_ok(&where->given, SL_LF_COORDINATION)) {
        snprintf(field, sizeof field, "%s.coordination", path);
        sl_load_warning(load, coordination, field,
                        "`%s` needs a shared store (--store); until there is one, this instance decides alone, exactly",
                        sl_coordination_words[where->coordination]);
    }
    for (size_t i = 0; i < sizeof store_fields / sizeof *store_fields; i++) {
        const struct sl_node *node = where->given.at[store_fields[i]];
        const char *name = sl_limit_fields.list[store_fields[i]].name;

        snprintf(field, sizeof field, "%s.%s", path, name);
        if (node)
            sl_load_warning(load, node, field, "`%s` needs a shared store (--store); it has no effect without one",
                            name);
    }
}

static void lint_store_settings(struct sl_load *load)
{
    const struct sl_draft *draft = &load->draft;

    if (load->options->has_store)
        return;
    if (draft->tiers.keys_store)
        sl_load_warning(
            load, draft->tiers.given.at[SL_TF_KEYS_STORE], "tiers.keys_store",
            "needs a shared store (--store); without one, keys are looked up in `keys` and `keys_file` only");
    if (draft->given.at[SL_PF_DEDICATED])
        sl_load_warning(load, draft->given.at[SL_PF_DEDICATED], "dedicated",
                        "needs a shared store (--store); it has no effect without one");
}

/* ---- fields that another field makes idle ------------------------------------------------------------------------ */

static void lint_idle_fields(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_given *given = &draft->given;
    int c = draft->coordination;

    if (!sl_limit_draft_knows(&load->draft, draft, SL_LF_COORDINATION))
        return;
    if (given->at[SL_LF_LEASE] && c != SL_COORD_LEASED && c != SL_COORD_AUTO)
        sl_limit_warning(load, draft, SL_LF_LEASE, "has no effect: coordination is `%s`, not `leased`",
                         sl_coordination_words[c]);
    if (load->options->has_store && given->at[SL_LF_LEASE] && draft->lease.block && c == SL_COORD_AUTO)
        sl_limit_warning(load, draft, SL_LF_LEASE,
                         "`block` has no effect: coordination `auto` chooses blocks by itself; `leased` takes yours");
    if (given->at[SL_LF_SPLIT] && c != SL_COORD_SPLIT)
        sl_limit_warning(load, draft, SL_LF_SPLIT, "has no effect: coordination is `%s`, not `split`",
                         sl_coordination_words[c]);
    if (given->at[SL_LF_SYNC] && c != SL_COORD_SYNCED)
        sl_limit_warning(load, draft, SL_LF_SYNC, "has no effect: coordination is `%s`, not `synced`",
                         sl_coordination_words[c]);
}

/* Two windows' worth may come around a boundary; a bucket lets less through in so short a time when it holds less than two
 * windows. */
static void lint_filter(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_limit *limit = &load->policy->limits[draft->index];

    if (load->options->has_store && draft->given.at[SL_LF_LOCAL_FACTOR] && limit->local_factor > 0 &&
        limit->local_factor < 2 && limit->algorithm == SL_FIXED_WINDOW && limit->coordination != SL_COORD_LOCAL)
        sl_limit_warning(
            load, draft, SL_LF_LOCAL_FACTOR,
            "a fixed_window may admit two windows' worth around a boundary; below 2 the pre-filter rejects "
            "some of that");
}

/* ---- failure modes ---------------------------------------------------------------------------------------------- */

#define FAILURE_MODE_WARNINGS 10

static bool lacks_failure_mode(const struct sl_limit *limit)
{
    return !limit->on_store_failure_given && limit->kind == SL_RATE_LIMITED && limit->coordination != SL_COORD_LOCAL &&
           limit->mode != SL_MODE_OFF;
}

/* Named one by one while they are few; a large policy without any says it once more for all the others. */
static void lint_failure_modes(struct sl_load *load)
{
    size_t n = 0;

    for (size_t i = 0; i < load->policy->n_limits; i++) {
        if (!load->draft.limits[i].sound || !load->draft.limits[i].name ||
            !sl_limit_draft_knows(&load->draft, &load->draft.limits[i], SL_LF_ON_STORE_FAILURE) ||
            !lacks_failure_mode(&load->policy->limits[i]) || ++n > FAILURE_MODE_WARNINGS)
            continue;
        sl_limit_warning(
            load, &load->draft.limits[i], SL_LF_ON_STORE_FAILURE,
            "limit `%s` does not say who decides when the store is away: `local` (assumed), `open` or `closed`?",
            load->policy->limits[i].name);
    }
    if (n > FAILURE_MODE_WARNINGS)
        sl_load_warning(load, NULL, "limits", "%zu more limits have no on_store_failure; `defaults` can give them one",
                        n - FAILURE_MODE_WARNINGS);
}

/* ---- costs ------------------------------------------------------------------------------------------------------ */

static void lint_cost(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_policy *policy = load->policy;
    const struct sl_limit *limit = &policy->limits[draft->index];
    const struct sl_endpoint *endpoint = &policy->endpoints.list[policy->written[draft->index].endpoint_id];
    int64_t cost = limit->cost >= 0 ? limit->cost : limit->endpoint ? endpoint->cost : -1;

    for (unsigned i = 0; i < limit->n_rates; i++)
        if (cost > (int64_t)limit->shapes[i].limit) {
            sl_limit_warning(
                load, draft, limit->cost >= 0 ? SL_LF_COST : SL_LF_ENDPOINT,
                "a request costs %lld and the limit never holds more than %u: all are rejected that name no "
                "cost of their own",
                (long long)cost, limit->shapes[i].limit);
            return;
        }
}

/* ---- tiers and key types ---------------------------------------------------------------------------------------- */

static const char *tier_name(const void *ctx, size_t i)
{
    return ((const struct sl_name *)ctx)[i].text;
}

/* Tiers that some table or setting gives to keys. */
static bool given_tiers(struct sl_load *load, struct sl_name_set *tiers)
{
    const struct sl_tiers_draft *draft = &load->draft.tiers;

    if (sl_name_set_init(tiers, &load->scratch, draft->n_keys + 2) != 0) {
        load->reader.nomem = true;
        return false;
    }
    if (draft->default_tier)
        sl_name_set_add(tiers, draft->default_tier, strlen(draft->default_tier));
    if (draft->anonymous)
        sl_name_set_add(tiers, draft->anonymous, strlen(draft->anonymous));
    for (size_t i = 0; i < draft->n_keys; i++)
        sl_name_set_add(tiers, draft->keys[i].tier, strlen(draft->keys[i].tier));
    return true;
}

/* A key that a table puts in one tier does not meet a limit for the key in another. */
static bool lint_key_tier(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_policy *policy = load->policy;
    const struct sl_limit_written *written = &policy->written[draft->index];
    uint32_t has = policy->keys.list[written->key_id].tier;
    bool misses = draft->key && draft->tier && has && has != written->tier_id;

    if (misses)
        sl_limit_warning(load, draft, SL_LF_TIER,
                         "the key is in tier `%s`: the limit matches only requests that name tier `%s` themselves",
                         policy->tiers.list[has].text, draft->tier);
    return misses;
}

/* A tier that no key can have by this policy: a request may still name it, and the store may know it. */
static void lint_tiers(struct sl_load *load)
{
    struct sl_name_set given;
    char hint[SL_HINT_MAX];

    if (!given_tiers(load, &given))
        return;
    for (size_t i = 0; i < load->draft.n_limits; i++) {
        const struct sl_limit_draft *limit = &load->draft.limits[i];
        struct sl_names names = {.at = tier_name, .ctx = given.list + 1, .n = given.n};

        if (!limit->tier || limit->mode == SL_MODE_OFF || lint_key_tier(load, limit) || load->draft.tiers.keys_store ||
            sl_name_set_find(&given, limit->tier, strlen(limit->tier)))
            continue;
        if (sl_read_hint(limit->tier, strlen(limit->tier), names, hint)[0])
            load->reader.diags->n_misspelt++;
        sl_limit_warning(load, limit, SL_LF_TIER,
                         "no key has tier `%s` by this policy: only requests that name the tier themselves match%s",
                         limit->tier, hint);
    }
}

static const char *known_type(const void *ctx, size_t i)
{
    static const char *const usual[] = {"api_key", "user", "address"};
    const struct sl_door *door = ctx;

    return i < door->n_order ? door->order[i].key_type : usual[i - door->n_order];
}

/* Requests may come with any key type; only a near miss of a known one is suspicious. */
static void lint_key_type(struct sl_load *load, const struct sl_limit_draft *draft)
{
    const struct sl_door *door = &load->policy->door;
    struct sl_names names = {.at = known_type, .ctx = door, .n = door->n_order + 3};
    char hint[SL_HINT_MAX];

    if (!draft->key_type)
        return;
    for (size_t i = 0; i < names.n; i++)
        if (!strcmp(known_type(door, i), draft->key_type))
            return;
    if (!sl_read_hint(draft->key_type, strlen(draft->key_type), names, hint)[0])
        return;
    load->reader.diags->n_misspelt++;
    sl_limit_warning(load, draft, SL_LF_KEY_TYPE, "no key has type `%s` by identity.order%s", draft->key_type, hint);
}

/* An IPv6 address as a key is looked up with its prefix. */
static void lint_address_spelling(struct sl_load *load, const char *file, unsigned line, unsigned column,
                                  const char *path, const char *key)
{
    char text[SL_ADDRESS_TEXT_MAX];
    size_t len;

    if (!strchr(key, ':') || sl_address_normalise(key, strlen(key), load->policy->door.ipv6_prefix, text, &len) != 0 ||
        !strcmp(text, key))
        return;
    sl_diags_add(load->reader.diags, SL_DIAG_WARNING, file, line, column, path,
                 "keys of type address are looked up as `%s`; written as `%.64s` only another type of key matches",
                 text, key);
}

static void lint_keys(struct sl_load *load)
{
    const struct sl_tiers_draft *tiers = &load->draft.tiers;

    for (size_t i = 0; i < tiers->n_keys; i++)
        lint_address_spelling(load, tiers->keys[i].file, tiers->keys[i].line, tiers->keys[i].column, "tiers.keys",
                              tiers->keys[i].key);
    if (tiers->unknown == SL_UNKNOWN_DENY && !tiers->n_keys && !tiers->keys_store)
        sl_load_warning(load, tiers->given.at[SL_TF_UNKNOWN], "tiers.unknown",
                        "`deny` without any key in `keys` or `keys_file` rejects every request that names no tier%s",
                        tiers->anonymous ? ", but those by address" : "");
    if (tiers->unknown == SL_UNKNOWN_ANONYMOUS && !tiers->anonymous)
        sl_load_warning(load, tiers->given.at[SL_TF_UNKNOWN], "tiers.unknown",
                        "`anonymous` has no effect: tiers.anonymous names no tier");
}

/* ---- identity --------------------------------------------------------------------------------------------------- */

static void lint_identity(struct sl_load *load)
{
    const struct sl_identity_draft *identity = &load->draft.identity;
    const struct sl_door *door = &load->policy->door;
    char path[SL_PATH_MAX];

    if (identity->given.at[SL_IF_TRUSTED_HEADERS] && identity->trusted_headers.n && !door->n_trusted)
        sl_load_warning(load, identity->given.at[SL_IF_TRUSTED_HEADERS], "identity.trusted_headers",
                        "these headers are read from trusted peers only, and identity.trusted_proxies names none");
    for (size_t i = 0; i < identity->n_headers; i++) {
        unsigned k = 0;

        while (k < door->n_order && strcmp(door->order[k].key_type, identity->headers[i].key_type) != 0)
            k++;
        if (k < door->n_order)
            continue;
        snprintf(path, sizeof path, "identity.headers.%s", identity->headers[i].key_type);
        sl_load_warning(load, identity->headers[i].node, path, "is never read: the key type is not in identity.order");
    }
}

void sl_lint_settings(struct sl_load *load)
{
    char path[SL_PATH_MAX];

    lint_store_settings(load);
    lint_store_fields(load, &load->draft.defaults, "defaults");
    lint_identity(load);
    lint_keys(load);
    if (load->draft.n_limits == 0 && sl_given_ok(&load->draft.given, SL_PF_LIMITS))
        sl_load_warning(load, load->draft.given.at[SL_PF_LIMITS], "limits", "the list is empty: nothing is limited");
    for (size_t i = 0; i < load->draft.n_limits; i++) {
        const struct sl_limit_draft *limit = &load->draft.limits[i];

        snprintf(path, sizeof path, "limits[%zu]", i);
        lint_store_fields(load, limit, path);
        lint_idle_fields(load, limit);
        if (limit->sound) {
            lint_cost(load, limit);
            lint_filter(load, limit);
        }
        lint_key_type(load, limit);
        if (limit->key && !limit->key_type) {
            snprintf(path, sizeof path, "limits[%zu].key", i);
            lint_address_spelling(
                load, load->reader.file, limit->given.at[SL_LF_KEY] ? limit->given.at[SL_LF_KEY]->line : 0,
                limit->given.at[SL_LF_KEY] ? limit->given.at[SL_LF_KEY]->column : 0, path, limit->key);
        }
    }
    sl_lint_regions(load);
    lint_failure_modes(load);
    lint_tiers(load);
}
