/* `policy explain` for people: what report_explain.c found, as lines. */
#include "policy/report.h"
#include "policy/report_buckets.h"
#include "policy/report_parts.h"

#include <stdio.h>

static void print_layer(const json_t *layer, FILE *out)
{
    const json_t *candidates = json_object_get(layer, "candidates"), *candidate;
    size_t i;

    fprintf(out, "layer %s: %s", sl_json_string_of(layer, "layer"),
            json_is_string(json_object_get(layer, "winner")) ? sl_json_string_of(layer, "winner") : "no limit applies");
    if (json_object_get(layer, "endpoint"))
        fprintf(out, " (as endpoint %s, which this layer names)", sl_json_string_of(layer, "endpoint"));
    fputc('\n', out);
    json_array_foreach(candidates, i, candidate)
    {
        fprintf(out, "  %-7s %-20s %s", sl_json_string_of(candidate, "result"), sl_json_string_of(candidate, "limit"),
                sl_json_string_of(candidate, "does"));
        if (json_object_get(candidate, "why"))
            fprintf(out, "\n          %s", sl_json_string_of(candidate, "why"));
        fputc('\n', out);
    }
}

static void print_override(const json_t *item, FILE *out)
{
    fprintf(out, "override  %s: %s, in place of %s\n          by %s, %s%s", sl_json_string_of(item, "limit"),
            sl_json_string_of(item, "does"), sl_json_string_of(item, "instead"), sl_json_string_of(item, "author"),
            json_is_string(json_object_get(item, "until")) ? "until " : "until it is removed",
            json_is_string(json_object_get(item, "until")) ? sl_json_string_of(item, "until") : "");
    if (sl_json_string_of(item, "comment")[0])
        fprintf(out, ": %s", sl_json_string_of(item, "comment"));
    fputc('\n', out);
}

void sl_policy_print_explained(const json_t *e, FILE *out)
{
    const json_t *item;
    const json_t *endpoint = json_object_get(e, "endpoint"), *tier = json_object_get(e, "tier");
    size_t i;

    fputs("request   ", out);
    sl_print_value(out, json_object_get(e, "request"));
    fprintf(out, "\nendpoint  %s", sl_json_string_of(endpoint, "name"));
    if (json_object_get(endpoint, "glob"))
        fprintf(out, " (by `%s`)", sl_json_string_of(endpoint, "glob"));
    json_array_foreach(json_object_get(endpoint, "also"), i, item)
    {
        fprintf(out, "\n          not %s (`%s`): %s", sl_json_string_of(item, "endpoint"),
                sl_json_string_of(item, "glob"), sl_json_string_of(item, "why"));
    }
    fprintf(out, "\ntier      %s (%s)\n", sl_json_string_of(tier, "name"), sl_json_string_of(tier, "from"));
    json_array_foreach(json_object_get(e, "layers"), i, item)
    {
        print_layer(item, out);
    }
    json_array_foreach(json_object_get(e, "overrides"), i, item)
    {
        print_override(item, out);
    }
    if (json_object_get(e, "region"))
        fprintf(out, "region    %s\n", sl_json_string_of(e, "region"));
    if (json_object_get(e, "instances"))
        fprintf(out, "instances %lld\n", (long long)json_integer_value(json_object_get(e, "instances")));
    fprintf(out, "outcome   %s\n", sl_json_string_of(e, "outcome"));
    json_array_foreach(json_object_get(e, "buckets"), i, item)
    {
        sl_print_bucket(item, "bucket", out);
    }
    json_array_foreach(json_object_get(e, "dry_run"), i, item)
    {
        sl_print_bucket(item, "dry run", out);
    }
}

void sl_policy_explain_text(const struct sl_policy *policy, const struct sluice_request *request, unsigned instances,
                            FILE *out)
{
    json_t *e = sl_policy_explain_json(policy, request, instances);

    sl_policy_print_explained(e, out);
    json_decref(e);
}
