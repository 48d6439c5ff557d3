#include "json_oracle.h"

#include "server/check_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool same_text(const json_t *value, const char *text, size_t len)
{
    if (!value)
        return text == NULL;
    return text && json_string_length(value) == len && !memcmp(json_string_value(value), text, len);
}

static bool text_or_absent(const json_t *value)
{
    return !value || json_is_string(value);
}

static bool labels_fit(json_t *labels)
{
    const char *name;
    json_t *value;

    if (!labels)
        return true;
    if (!json_is_object(labels) || json_object_size(labels) > SLUICE_LABELS_MAX)
        return false;
    json_object_foreach(labels, name, value) if (!json_is_string(value)) return false;
    return true;
}

static bool object_fits(json_t *object)
{
    static const char *const known[] = {"key", "scope", "cost", "keyType", "tier", "address", "labels"};
    json_t *cost = json_object_get(object, "cost");
    const char *name;
    json_t *value;

    if (!json_is_object(object) || !json_is_string(json_object_get(object, "key")))
        return false;
    json_object_foreach(object, name, value)
    {
        bool found = false;

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= !strcmp(name, known[i]);
        if (!found)
            return false;
    }
    if (cost && (!json_is_integer(cost) || json_integer_value(cost) < 0 || json_integer_value(cost) > SLUICE_COST_MAX))
        return false;
    return text_or_absent(json_object_get(object, "scope")) && text_or_absent(json_object_get(object, "keyType")) &&
           text_or_absent(json_object_get(object, "tier")) && text_or_absent(json_object_get(object, "address")) &&
           labels_fit(json_object_get(object, "labels"));
}

static bool body_fits(json_t *body)
{
    if (json_is_object(body))
        return object_fits(body);
    if (!json_is_array(body) || json_array_size(body) < 1 || json_array_size(body) > SLUICE_BATCH_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(body); i++)
        if (!object_fits(json_array_get(body, i)))
            return false;
    return true;
}

static bool same_labels(json_t *labels, const struct sluice_request *q)
{
    if ((labels ? json_object_size(labels) : 0) != q->n_labels)
        return false;
    for (size_t i = 0; i < q->n_labels; i++) {
        const struct sluice_label *label = &q->labels[i];
        json_t *value = json_object_getn(labels, label->name, label->name_len);

        if (!value || !same_text(value, label->value, label->value_len))
            return false;
    }
    return true;
}

static bool same_request(json_t *object, const struct sluice_request *q)
{
    json_t *cost = json_object_get(object, "cost");

    return same_text(json_object_get(object, "key"), q->key, q->key_len) &&
           same_text(json_object_get(object, "scope"), q->scope, q->scope_len) &&
           same_text(json_object_get(object, "keyType"), q->key_type, q->key_type_len) &&
           same_text(json_object_get(object, "tier"), q->tier, q->tier_len) &&
           same_text(json_object_get(object, "address"), q->address, q->address_len) &&
           q->cost == (cost ? json_integer_value(cost) : SLUICE_COST_DEFAULT) &&
           same_labels(json_object_get(object, "labels"), q);
}

static const char *compare_values(json_t *body, const struct sl_check_input *in)
{
    size_t n = json_is_array(body) ? json_array_size(body) : 1;

    if (in->batch != json_is_array(body) || in->n != n)
        return "another number of requests";
    for (size_t i = 0; i < n; i++)
        if (!same_request(in->batch ? json_array_get(body, i) : body, &in->requests[i]))
            return "another value";
    return NULL;
}

const char *json_disagreement(const char *body, size_t len)
{
    static struct sl_check_input in;
    struct sl_check_error error = {"", ""};
    char *copy = malloc(len ? len : 1); /* of the exact size, so that a sanitizer sees a read beyond it */
    /* jansson overlooks a NUL behind a number; no JSON text holds one. */
    json_t *want = memchr(body, 0, len) ? NULL : json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    const char *difference;
    int e;

    memcpy(copy, body, len);
    e = sl_check_parse(copy, len, &in, &error);
    if (e)
        difference = want && body_fits(want) ? "refused, but it is right"
                     : *error.detail         ? NULL
                                             : "refused without a reason";
    else
        difference = !want              ? "accepted, but it is no JSON"
                     : !body_fits(want) ? "accepted, but it does not fit"
                                        : compare_values(want, &in);
    json_decref(want);
    free(copy);
    return difference;
}
