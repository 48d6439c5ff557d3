#include "policy/report_parts.h"

#include "policy/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *sl_json_text(const char *text, size_t len)
{
    char *escaped;
    size_t n = 0;
    json_t *json;

    if (sl_text_utf8_prefix(text, len) == len)
        return json_stringn(text, len);
    escaped = malloc(4 * len + 1);
    if (!escaped)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= 0x20 && text[i] < 0x7f)
            escaped[n++] = text[i];
        else
            n += (size_t)sprintf(escaped + n, "\\x%02x", (unsigned char)text[i]);
    }
    json = json_stringn(escaped, n);
    free(escaped);
    return json;
}

json_t *sl_json_optional(const char *text)
{
    return text ? sl_json_text(text, strlen(text)) : json_null();
}

/* ---- rates ------------------------------------------------------------------------------------------------------ */

const char *sl_json_string_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "-";
}

void sl_rate_line(const struct sl_rate *rate, uint32_t burst, char buf[SL_RATE_LINE_MAX])
{
    char text[SL_RATE_TEXT_MAX];

    sl_rate_format(rate, text);
    if (rate->kind == SL_RATE_LIMITED && burst && burst != rate->count)
        snprintf(buf, SL_RATE_LINE_MAX, "%s burst %" PRIu32, text, burst);
    else
        snprintf(buf, SL_RATE_LINE_MAX, "%s", text);
}

void sl_shape_line(const struct sl_shape *shape, char buf[SL_RATE_LINE_MAX])
{
    struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = shape->count, .period_us = shape->period_us};

    sl_rate_line(&rate, shape->limit, buf);
}

static json_t *written_json(const struct sl_limit_written *written)
{
    json_t *list = json_array();
    char line[SL_RATE_LINE_MAX];

    for (unsigned i = 0; i < written->n_rates; i++) {
        sl_rate_line(&written->rates[i].rate, written->rates[i].burst, line);
        json_array_append_new(list, json_string(line));
    }
    return list;
}

static json_t *effective_json(const struct sl_limit *limit)
{
    json_t *list = json_array();
    char line[SL_RATE_LINE_MAX];

    if (!limit->n_rates)
        json_array_append_new(list, json_string(limit->kind == SL_RATE_BLOCKED ? "blocked" : "unlimited"));
    for (unsigned i = 0; i < limit->n_rates; i++) {
        sl_shape_line(&limit->shapes[i], line);
        json_array_append_new(list, json_string(line));
    }
    return list;
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

static void set_optional(json_t *object, const char *name, const char *text)
{
    if (text)
        json_object_set_new(object, name, sl_json_optional(text));
}

json_t *sl_limit_match_json(const struct sl_limit *limit)
{
    json_t *match = json_object();

    set_optional(match, "key", limit->key);
    set_optional(match, "endpoint", limit->endpoint);
    set_optional(match, "tier", limit->tier);
    set_optional(match, "key_type", limit->key_type);
    if (limit->n_labels) {
        json_t *labels = json_object();

        for (unsigned i = 0; i < limit->n_labels; i++)
            json_object_set_new(labels, limit->labels[i].name,
                                sl_json_text(limit->labels[i].value, limit->labels[i].value_len));
        json_object_set_new(match, "labels", labels);
    }
    return match;
}

json_t *sl_limit_per_json(const struct sl_limit *limit)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {{SL_PER_KEY, "key"},
                 {SL_PER_ADDRESS, "address"},
                 {SL_PER_ENDPOINT, "endpoint"},
                 {SL_PER_SCOPE, "scope"},
                 {SL_PER_TIER, "tier"}};
    json_t *per = json_array();
    char label[SLUICE_LABEL_NAME_MAX + 8];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (limit->per & words[i].bit)
            json_array_append_new(per, json_string(words[i].word));
    for (unsigned i = 0; i < limit->n_per_labels; i++) {
        snprintf(label, sizeof label, "label.%s", limit->per_labels[i]);
        json_array_append_new(per, sl_json_optional(label));
    }
    return per;
}

static json_t *regions_json(const struct sl_limit *limit)
{
    json_t *regions = json_object();
    char share[SL_SHARE_LINE_MAX];

    for (unsigned i = 0; i < limit->n_regions; i++) {
        sl_share_line(limit->regions[i].share_ppm, share);
        json_object_set_new(regions, limit->regions[i].name, json_string(share));
    }
    return regions;
}

/* Fields of coordination that were given. */
static void set_coordination(json_t *object, const struct sl_limit *limit)
{
    char text[32];

    json_object_set_new(object, "coordination", json_string(sl_coordination_words[limit->coordination]));
    if (limit->lease_block)
        json_object_set_new(object, "lease_block", json_integer((json_int_t)limit->lease_block));
    if (limit->lease_ttl_us)
        json_object_set_new(object, "lease_ttl_ms", json_integer((json_int_t)(limit->lease_ttl_us / SL_MS_US)));
    if (limit->split)
        json_object_set_new(object, "split", json_integer(limit->split));
    if (limit->sync_interval_us)
        json_object_set_new(object, "sync_interval_ms", json_integer((json_int_t)(limit->sync_interval_us / SL_MS_US)));
    if (limit->local_factor < 0) {
        json_object_set_new(object, "local_factor", json_string("per_instance"));
    } else if (limit->local_factor > 0) {
        snprintf(text, sizeof text, "%g", limit->local_factor);
        json_object_set_new(object, "local_factor", json_string(text));
    }
    if (limit->n_regions)
        json_object_set_new(object, "regions", regions_json(limit));
}

json_t *sl_limit_json(const struct sl_policy *policy, const struct sl_limit *limit)
{
    json_t *object = json_object();
    char percent[16], share[SL_SHARE_LINE_MAX];

    json_object_set_new(object, "name", json_string(limit->name));
    json_object_set_new(object, "line", json_integer(limit->line));
    json_object_set_new(object, "layer", json_string(limit->layer));
    json_object_set_new(object, "match", sl_limit_match_json(limit));
    json_object_set_new(object, "per", sl_limit_per_json(limit));
    json_object_set_new(object, "algorithm", json_string(sl_algorithm_name(limit->algorithm)));
    if (limit->index != UINT32_MAX)
        json_object_set_new(object, "rates", written_json(&policy->written[limit->index]));
    json_object_set_new(object, "effective", effective_json(limit));
    json_object_set_new(object, "capped", json_boolean(limit->capped));
    if (limit->region) {
        sl_share_line(limit->region->share_ppm, share);
        json_object_set_new(object, "share", json_string(share));
    }
    if (limit->cost >= 0)
        json_object_set_new(object, "cost", json_integer(limit->cost));
    json_object_set_new(object, "mode", json_string(sl_mode_words[limit->mode]));
    set_coordination(object, limit);
    json_object_set_new(object, "on_store_failure", json_string(sl_on_failure_words[limit->on_store_failure]));
    if (limit->warn_at_percent) {
        snprintf(percent, sizeof percent, "%u%%", limit->warn_at_percent);
        json_object_set_new(object, "warn_at", json_string(percent));
    }
    set_optional(object, "note", limit->note);
    return object;
}

/* Appends what fits. */
static void append(char *buf, size_t size, const char *text)
{
    size_t len = strlen(buf);

    snprintf(buf + len, size - len, "%s", text);
}

void sl_limit_line(const struct sl_limit *limit, char *buf, size_t size)
{
    json_t *per = sl_limit_per_json(limit), *rates = effective_json(limit), *item;
    size_t i;

    buf[0] = '\0';
    if (limit->n_rates)
        append(buf, size, sl_algorithm_name(limit->algorithm));
    json_array_foreach(rates, i, item)
    {
        append(buf, size, i ? " and " : limit->n_rates ? " " : "");
        append(buf, size, json_string_value(item));
    }
    if (limit->n_rates) {
        append(buf, size, json_array_size(per) ? " per " : ", one bucket for all");
        json_array_foreach(per, i, item)
        {
            append(buf, size, i ? ", " : "");
            append(buf, size, json_string_value(item));
        }
    }
    json_decref(per);
    json_decref(rates);
}

/* ---- what settings mean ----------------------------------------------------------------------------------------- */

static const char *store_coordination(const struct sl_limit *limit)
{
    static const char *const lines[] = {
        [SL_COORD_AUTO] = "auto: asked of the store; while a bucket is hot here, leased",
        [SL_COORD_LOCAL] = "local: in this instance's table alone",
        [SL_COORD_SHARED] = "shared: one atomic operation in the store",
        [SL_COORD_LEASED] = "leased: blocks are taken from the store and spent here",
        [SL_COORD_SPLIT] = "split: parts in the store take turns, with one second try after a rejection",
        [SL_COORD_SYNCED] = "synced: decided here against a share that follows demand",
    };

    return lines[limit->coordination];
}

void sl_coordination_line(const struct sl_policy *policy, const struct sl_limit *limit, char *buf, size_t size)
{
    if (!limit->n_rates)
        snprintf(buf, size, "none: keeps no state");
    else if (!policy->has_store)
        snprintf(buf, size, "%s: on the memory store local and exact", sl_coordination_words[limit->coordination]);
    else
        snprintf(buf, size, "%s", store_coordination(limit));
}

const char *sl_failure_line(const struct sl_policy *policy, const struct sl_limit *limit)
{
    static const char *const lines[] = {
        [SL_FAIL_LOCAL] = "local: without the store each instance decides with its share of the limit",
        [SL_FAIL_OPEN] = "open: without the store requests are allowed",
        [SL_FAIL_CLOSED] = "closed: without the store requests are rejected",
    };
    static const char *const idle_lines[] = {
        [SL_FAIL_LOCAL] = "local: no effect, the store is never asked",
        [SL_FAIL_OPEN] = "open: no effect, the store is never asked",
        [SL_FAIL_CLOSED] = "closed: no effect, the store is never asked",
    };
    static const char *const memory_lines[] = {
        [SL_FAIL_LOCAL] = "local: no effect on the memory store, which does not fail",
        [SL_FAIL_OPEN] = "open: no effect on the memory store, which does not fail",
        [SL_FAIL_CLOSED] = "closed: no effect on the memory store, which does not fail",
    };

    return (!policy->has_store ? memory_lines : limit->shared ? lines : idle_lines)[limit->on_store_failure];
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

void sl_print_value(FILE *out, const json_t *value)
{
    const char *key;
    const json_t *item;
    const char *gap = "";
    size_t i;

    if (json_is_string(value)) {
        fputs(json_string_value(value), out);
    } else if (json_is_array(value)) {
        fputc('[', out);
        json_array_foreach(value, i, item)
        {
            fputs(gap, out);
            sl_print_value(out, item);
            gap = ", ";
        }
        fputc(']', out);
    } else if (json_is_object(value)) {
        fputc('{', out);
        json_object_foreach((json_t *)(uintptr_t)value, key, item)
        {
            fprintf(out, "%s%s: ", gap, key);
            sl_print_value(out, item);
            gap = ", ";
        }
        fputc('}', out);
    } else {
        json_dumpf(value, out, JSON_ENCODE_ANY);
    }
}
