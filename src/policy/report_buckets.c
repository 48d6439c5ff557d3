/* The buckets of an explained request: rates, cost, and how exact they are. */
#include "policy/report_buckets.h"

#include "policy/report_accuracy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static const char *cost_from(const struct sl_subject *s, const struct sl_limit *limit)
{
    if (s->request->cost >= 0)
        return "the request";
    if (limit->cost >= 0)
        return "the limit";
    return s->policy->endpoints.list[s->endpoint].cost >= 0 ? "the endpoint" : "default";
}

/* The rate as the file has it; kind unlimited where that, or no limit, stands there. */
static struct sl_rate_draft written_rate(const struct sl_policy *policy, const struct sl_item *item)
{
    const struct sl_limit *limit = item->limit;

    if (limit->index == UINT32_MAX || limit->kind != SL_RATE_LIMITED)
        return (struct sl_rate_draft){.rate = {.kind = SL_RATE_UNLIMITED}};
    return limit->replaced ? *limit->replaced : policy->written[limit->index].rates[item->rate_idx];
}

static uint32_t burst_of(const struct sl_rate_draft *rate)
{
    return rate->burst ? rate->burst : rate->rate.count;
}

/* What the ceiling made smaller: "rate", "burst", "COUNT". */
static json_t *cut_json(bool bucket, const struct sl_rate_draft *written, const struct sl_rate_draft *whole)
{
    json_t *cut = json_array();

    if (written->rate.kind != SL_RATE_LIMITED || whole->rate.count != written->rate.count ||
        whole->rate.period_us != written->rate.period_us)
        json_array_append_new(cut, json_string(bucket ? "rate" : "COUNT"));
    if (bucket && written->rate.kind == SL_RATE_LIMITED && burst_of(whole) < burst_of(written))
        json_array_append_new(cut, json_string("burst"));
    return cut;
}

static bool is_named(const struct sl_limit *limit)
{
    return limit->region >= limit->regions && limit->region < limit->regions + limit->n_regions;
}

/* {"name","share","named","whole","bound","also"}: the share that counts here, of what, and what all regions have. */
static json_t *region_json(const struct sl_item *item, const struct sl_rate_draft *whole)
{
    const struct sl_limit *limit = item->limit;
    char share[SL_SHARE_LINE_MAX], text[SL_RATE_LINE_MAX], bound[SL_SENTENCE_MAX];
    struct sl_region_sum sum;
    json_t *object = json_object();

    sl_share_line(limit->region->share_ppm, share);
    sl_rate_line(&whole->rate, whole->burst, text);
    sl_sum_regions(limit, whole, &sum);
    snprintf(bound, sizeof bound,
             "the shares of %u regions sum to %" PRIu64 " at once and %" PRIu64 " a PERIOD, of %" PRIu32 " and %" PRIu32
             "%s",
             limit->n_regions, sum.limit, sum.count, burst_of(whole), whole->rate.count,
             is_named(limit) ? "" : "; this one comes on top");
    json_object_set_new(object, "name", sl_json_optional(limit->region->name));
    json_object_set_new(object, "share", json_string(share));
    json_object_set_new(object, "named", json_boolean(is_named(limit)));
    json_object_set_new(object, "whole", json_string(text));
    json_object_set_new(object, "bound", json_string(bound));
    json_object_set_new(
        object, "also",
        json_string("each region counts in buckets of its own, as exactly as below; one that is cut off "
                    "keeps its share, and what one does not use no other gets"));
    return object;
}

static void set_rates(const struct sl_policy *policy, const struct sl_item *item, json_t *object)
{
    struct sl_rate_draft written = written_rate(policy, item);
    struct sl_rate_draft whole = sl_limit_whole(policy, item->limit, item->rate_idx);
    json_t *cut = cut_json(sl_algorithm_is_bucket((enum sl_algorithm)item->shape->algorithm), &written, &whole);
    char text[SL_RATE_LINE_MAX];

    sl_rate_line(&written.rate, written.burst, text);
    json_object_set_new(object, "written", json_string(text));
    sl_shape_line(item->shape, text);
    json_object_set_new(object, "effective", json_string(text));
    json_object_set_new(object, "capped", json_boolean(json_array_size(cut) > 0));
    json_object_set_new(object, "cut", cut);
    if (item->limit->region)
        json_object_set_new(object, "region", region_json(item, &whole));
}

static void set_coordination(const struct sl_policy *policy, const struct sl_item *item, unsigned instances,
                             json_t *object)
{
    struct sl_accuracy accuracy;
    char text[SL_SENTENCE_MAX];

    sl_coordination_line(policy, item->limit, text, sizeof text);
    json_object_set_new(object, "coordination", json_string(text));
    sl_accuracy_of(policy, item, instances, &accuracy);
    json_object_set_new(object, "accuracy", sl_accuracy_json(&accuracy));
    if (sl_pre_filter_line(item, instances, text))
        json_object_set_new(object, "pre_filter", json_string(text));
    sl_outage_line(policy, item, instances, text);
    json_object_set_new(object, "on_store_failure", json_string(text));
}

static json_t *bucket_json(const struct sl_subject *s, const struct sl_item *item, unsigned instances)
{
    const struct sl_limit *limit = item->limit;
    json_t *object = json_object();

    json_object_set_new(object, "limit", json_string(limit->name));
    json_object_set_new(object, "rate_index", json_integer(item->rate_idx));
    json_object_set_new(object, "algorithm", json_string(sl_algorithm_name(limit->algorithm)));
    set_rates(s->policy, item, object);
    json_object_set_new(object, "per", sl_limit_per_json(limit));
    json_object_set_new(object, "cost", json_integer(item->cost));
    json_object_set_new(object, "cost_from", json_string(cost_from(s, limit)));
    set_coordination(s->policy, item, instances, object);
    return object;
}

json_t *sl_items_json(const struct sl_subject *s, const struct sl_item *items, unsigned n, unsigned instances)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, bucket_json(s, &items[i], instances));
    return list;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void print_ceiling(const json_t *bucket, FILE *out)
{
    const json_t *cut = json_object_get(bucket, "cut"), *what;
    size_t i;

    if (!json_array_size(cut))
        return;
    fputs(" (the ceiling's ", out);
    json_array_foreach(cut, i, what)
    {
        fprintf(out, "%s%s", i ? " and " : "", json_string_value(what));
    }
    fprintf(out, "; written %s)", sl_json_string_of(bucket, "written"));
}

/* "exact", "over by at most FORMULA = NUMBERS = TOKENS", "early by at most ...". */
static void print_accuracy(const json_t *accuracy, FILE *out)
{
    const char *kind = sl_json_string_of(accuracy, "kind");

    fprintf(out, "\n  accuracy %s", kind);
    if (strcmp(kind, "exact") != 0)
        fprintf(out, " by at most %s%s%s: %lld token%s", sl_json_string_of(accuracy, "formula"),
                json_object_get(accuracy, "numbers") ? " = " : "",
                json_object_get(accuracy, "numbers") ? sl_json_string_of(accuracy, "numbers") : "",
                (long long)json_integer_value(json_object_get(accuracy, "tokens")),
                json_integer_value(json_object_get(accuracy, "tokens")) == 1 ? "" : "s");
    if (json_object_get(accuracy, "also"))
        fprintf(out, "\n           %s", sl_json_string_of(accuracy, "also"));
}

static void print_region(const json_t *region, FILE *out)
{
    if (!region)
        return;
    fprintf(out, "\n  region %s: %s of %s%s\n         %s\n         %s", sl_json_string_of(region, "name"),
            sl_json_string_of(region, "share"), sl_json_string_of(region, "whole"),
            json_is_true(json_object_get(region, "named")) ? "" : " (not named: the smallest share)",
            sl_json_string_of(region, "bound"), sl_json_string_of(region, "also"));
}

void sl_print_bucket(const json_t *bucket, const char *kind, FILE *out)
{
    const char *name = sl_json_string_of(bucket, "limit");

    fprintf(out, "%s %s: %s %s", kind, name[0] ? name : "of the ceiling", sl_json_string_of(bucket, "algorithm"),
            sl_json_string_of(bucket, "effective"));
    print_ceiling(bucket, out);
    fputs(", per ", out);
    sl_print_value(out, json_object_get(bucket, "per"));
    print_region(json_object_get(bucket, "region"), out);
    fprintf(out, "\n  cost %lld (from %s)\n  coordination %s",
            (long long)json_integer_value(json_object_get(bucket, "cost")), sl_json_string_of(bucket, "cost_from"),
            sl_json_string_of(bucket, "coordination"));
    print_accuracy(json_object_get(bucket, "accuracy"), out);
    if (json_object_get(bucket, "pre_filter"))
        fprintf(out, "\n  before the store %s", sl_json_string_of(bucket, "pre_filter"));
    fprintf(out, "\n  on store failure %s\n", sl_json_string_of(bucket, "on_store_failure"));
}
