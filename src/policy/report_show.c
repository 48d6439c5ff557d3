/* `policy show`: the whole policy as compiled. */
#include "policy/override.h"
#include "policy/report.h"
#include "policy/report_parts.h"
#include "policy/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static json_t *trusted_json(const struct sl_door *door)
{
    json_t *list = json_array();
    char address[SL_ADDRESS_TEXT_MAX], text[SL_ADDRESS_TEXT_MAX + 8];

    for (size_t i = 0; i < door->n_trusted; i++) {
        sl_address_key(&door->trusted[i].address, 128, address);
        snprintf(text, sizeof text, "%s/%u", address, door->trusted[i].prefix_len);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static json_t *identity_json(const struct sl_door *door)
{
    json_t *identity = json_object(), *order = json_array();

    for (unsigned i = 0; i < door->n_order; i++) {
        json_t *rule = json_object();

        json_object_set_new(rule, "key_type", sl_json_optional(door->order[i].key_type));
        if (door->order[i].header)
            json_object_set_new(rule, "header", json_string(door->order[i].header));
        if (door->order[i].header)
            json_object_set_new(rule, "trusted_only", json_boolean(door->order[i].trusted_only));
        json_array_append_new(order, rule);
    }
    json_object_set_new(identity, "order", order);
    json_object_set_new(identity, "trusted_proxies", trusted_json(door));
    json_object_set_new(identity, "forwarded", json_string(door->forwarded_header));
    json_object_set_new(identity, "ipv6_prefix", json_integer(door->ipv6_prefix));
    return identity;
}

static json_t *http_json(const struct sl_door *door)
{
    json_t *http = json_object();

    json_object_set_new(http, "headers", json_string(sl_header_style_words[door->headers]));
    json_object_set_new(http, "errors", json_string(door->problem_errors ? "problem" : "default"));
    json_object_set_new(http, "closed_status", json_integer(door->closed_status));
    return http;
}

static json_t *tiers_json(const struct sl_policy *policy)
{
    json_t *tiers = json_object();

    if (policy->tier_default)
        json_object_set_new(tiers, "default", sl_json_optional(policy->tiers.list[policy->tier_default].text));
    if (policy->tier_anonymous)
        json_object_set_new(tiers, "anonymous", sl_json_optional(policy->tiers.list[policy->tier_anonymous].text));
    json_object_set_new(tiers, "unknown", json_string(sl_unknown_words[policy->unknown]));
    json_object_set_new(tiers, "keys", json_integer(policy->keys.n_tiered));
    if (policy->keys_file)
        json_object_set_new(tiers, "keys_file", sl_json_optional(policy->keys_file));
    json_object_set_new(tiers, "keys_store", json_boolean(policy->keys_store));
    return tiers;
}

static json_t *endpoints_json(const struct sl_endpoints *e)
{
    json_t *list = json_array();

    for (uint32_t i = 1; i <= e->n; i++) {
        const struct sl_endpoint *endpoint = &e->list[i];
        json_t *object = json_object(), *match = json_array();

        for (unsigned k = 0; k < endpoint->n_globs; k++) {
            const struct sl_glob *glob = &e->globs[endpoint->first_glob + k].glob;

            json_array_append_new(match, sl_json_text(glob->text, glob->len));
        }
        json_object_set_new(object, "name", sl_json_text(endpoint->name, endpoint->name_len));
        json_object_set_new(object, "match", match);
        json_object_set_new(object, "cost", json_integer(endpoint->cost < 0 ? 1 : endpoint->cost));
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *ceiling_json(const struct sl_policy *policy)
{
    char line[SL_RATE_LINE_MAX];

    if (!policy->has_ceiling)
        return json_null();
    sl_rate_line(&policy->ceiling_rate, policy->ceiling_burst, line);
    return json_string(line);
}

/* The address without what stands before an @: user and password. */
static json_t *store_json(const char *store)
{
    const char *hosts = strstr(store, "://"), *at = hosts ? strrchr(hosts, '@') : NULL;
    char text[1024];

    if (!at)
        return sl_json_text(store, strlen(store));
    snprintf(text, sizeof text, "%.*s***%s", (int)(hosts + 3 - store), store, at);
    return sl_json_text(text, strlen(text));
}

static json_t *dedicated_json(const struct sl_policy *policy)
{
    json_t *list = json_array();

    for (size_t i = 0; i < policy->n_dedicated; i++) {
        json_t *object = json_object(), *keys = json_array();

        for (size_t k = 0; k < policy->dedicated[i].keys.n; k++)
            json_array_append_new(
                keys, sl_json_text(policy->dedicated[i].keys.list[k].text, policy->dedicated[i].keys.list[k].len));
        json_object_set_new(object, "keys", keys);
        json_object_set_new(object, "store", store_json(policy->dedicated[i].store));
        json_array_append_new(list, object);
    }
    return list;
}

json_t *sl_policy_show_json(const struct sl_policy *policy)
{
    json_t *show = json_object(), *layers = json_array(), *limits = json_array();

    for (unsigned i = 0; i < policy->n_layers; i++)
        json_array_append_new(layers, json_string(policy->layers[i].name));
    for (size_t i = 0; i < policy->n_limits; i++)
        json_array_append_new(limits, sl_limit_json(policy, &policy->limits[i]));
    json_object_set_new(show, "file", sl_json_optional(policy->file));
    json_object_set_new(show, "hash", json_string(policy->hash));
    if (policy->region)
        json_object_set_new(show, "region", json_string(policy->region));
    json_object_set_new(show, "identity", identity_json(&policy->door));
    json_object_set_new(show, "http", http_json(&policy->door));
    json_object_set_new(show, "tiers", tiers_json(policy));
    json_object_set_new(show, "endpoints", endpoints_json(&policy->endpoints));
    json_object_set_new(show, "layers", layers);
    json_object_set_new(show, "limits", limits);
    json_object_set_new(show, "ceiling", ceiling_json(policy));
    json_object_set_new(show, "unmatched", json_string(policy->unmatched_deny ? "deny" : "allow"));
    json_object_set_new(show, "dedicated", dedicated_json(policy));
    if (policy->overrides)
        json_object_set_new(show, "overrides", json_integer((json_int_t)sl_policy_n_active_overrides(policy)));
    return show;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_limit(const struct sl_policy *policy, const struct sl_limit *limit, FILE *out)
{
    json_t *match = sl_limit_match_json(limit);
    char line[400], share[SL_SHARE_LINE_MAX];

    sl_limit_line(limit, line, sizeof line);
    fprintf(out, "  %-20s %s", limit->name, line);
    if (limit->capped)
        fputs(" (under the ceiling)", out);
    if (limit->region) {
        sl_share_line(limit->region->share_ppm, share);
        fprintf(out, " (%s of it in region %s)", share, limit->region->name);
    }
    if (limit->mode != SL_MODE_ENFORCE)
        fprintf(out, " [%s]", sl_mode_words[limit->mode]);
    fputs("\n    matches ", out);
    if (json_object_size(match))
        sl_print_value(out, match);
    else
        fputs("everything", out);
    if (limit->cost >= 0)
        fprintf(out, "; cost %lld", (long long)limit->cost);
    if (limit->warn_at_percent)
        fprintf(out, "; warns at %u %%", limit->warn_at_percent);
    sl_coordination_line(policy, limit, line, sizeof line);
    fprintf(out, "\n    coordination %s\n    on store failure %s\n", line, sl_failure_line(policy, limit));
    json_decref(match);
}

static void print_member(FILE *out, const json_t *show, const char *name)
{
    fprintf(out, "%-10s ", name);
    sl_print_value(out, json_object_get(show, name));
    fputc('\n', out);
}

void sl_policy_show_text(const struct sl_policy *policy, FILE *out)
{
    static const char *const members[] = {"file",  "hash",    "identity",  "http",
                                          "tiers", "ceiling", "unmatched", "dedicated"};
    json_t *show = sl_policy_show_json(policy), *endpoint;
    size_t i;

    for (i = 0; i < sizeof members / sizeof *members; i++)
        print_member(out, show, members[i]);
    if (policy->region)
        print_member(out, show, "region");
    if (policy->overrides)
        print_member(out, show, "overrides");
    json_array_foreach(json_object_get(show, "endpoints"), i, endpoint)
    {
        fprintf(out, "%s  %-20s ", i ? "" : "endpoints\n", json_string_value(json_object_get(endpoint, "name")));
        sl_print_value(out, json_object_get(endpoint, "match"));
        fputs("; cost ", out);
        sl_print_value(out, json_object_get(endpoint, "cost"));
        fputc('\n', out);
    }
    for (unsigned layer = 0; layer < policy->n_layers; layer++) {
        fprintf(out, "layer %s\n", policy->layers[layer].name);
        for (i = 0; i < policy->n_limits; i++)
            if (policy->limits[i].layer_idx == layer)
                print_limit(policy, &policy->limits[i], out);
    }
    json_decref(show);
}
