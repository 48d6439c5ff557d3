#include "replay/jsonl_line.h"

#include "base/err.h"
#include "core/limits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int refuse(char why[SL_JSONL_WHY_MAX], const char *field, const char *problem)
{
    snprintf(why, SL_JSONL_WHY_MAX, "%s: %s", field, problem);
    return SL_EINVALID;
}

static int take_string(json_t *value, const char *field, const char **ret, size_t *ret_len, char why[SL_JSONL_WHY_MAX])
{
    if (!json_is_string(value))
        return refuse(why, field, "must be a string");
    *ret = json_string_value(value);
    *ret_len = json_string_length(value);
    return 0;
}

static int take_integer(json_t *value, const char *field, int64_t max, int64_t *ret, char why[SL_JSONL_WHY_MAX])
{
    char problem[80];

    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= max) {
        *ret = json_integer_value(value);
        return 0;
    }
    snprintf(problem, sizeof problem, "must be a whole number from 0 to %lld", (long long)max);
    return refuse(why, field, problem);
}

static int take_labels(json_t *value, struct sl_jsonl_line *line, char why[SL_JSONL_WHY_MAX])
{
    const char *name;
    json_t *text;
    size_t n = 0;

    if (!json_is_object(value))
        return refuse(why, "labels", "must be an object of strings");
    if (json_object_size(value) > SLUICE_LABELS_MAX)
        return refuse(why, "labels", "more than 16");
    json_object_foreach(value, name, text)
    {
        struct sluice_label *label = &line->labels[n++];
        int error = take_string(text, "labels", &label->value, &label->value_len, why);

        if (error)
            return error;
        label->name = name;
        label->name_len = strlen(name);
    }
    line->request.labels = line->labels;
    line->request.n_labels = n;
    return 0;
}

static int take_member(const char *name, json_t *value, struct sl_jsonl_line *line, char why[SL_JSONL_WHY_MAX])
{
    struct sluice_request *r = &line->request;
    int64_t t_us;
    int error;

    if (strcmp(name, "t_us") == 0) {
        error = take_integer(value, name, (int64_t)SL_TIME_MAX_US, &t_us, why);
        if (!error)
            line->t_us = (uint64_t)t_us;
        return error;
    }
    if (strcmp(name, "key") == 0)
        return take_string(value, name, &r->key, &r->key_len, why);
    if (strcmp(name, "scope") == 0)
        return take_string(value, name, &r->scope, &r->scope_len, why);
    if (strcmp(name, "cost") == 0)
        return take_integer(value, name, INT64_MAX, &r->cost, why);
    if (strcmp(name, "keyType") == 0)
        return take_string(value, name, &r->key_type, &r->key_type_len, why);
    if (strcmp(name, "tier") == 0)
        return take_string(value, name, &r->tier, &r->tier_len, why);
    if (strcmp(name, "address") == 0)
        return take_string(value, name, &r->address, &r->address_len, why);
    if (strcmp(name, "labels") == 0)
        return take_labels(value, line, why);
    snprintf(why, SL_JSONL_WHY_MAX, "unknown member \"%.60s\"", name);
    return SL_EINVALID;
}

static int take_object(struct sl_jsonl_line *line, char why[SL_JSONL_WHY_MAX])
{
    const char *name;
    json_t *value;

    if (!json_is_object(line->root))
        return refuse(why, "the line", "must be a JSON object");
    json_object_foreach(line->root, name, value)
    {
        int error = take_member(name, value, line, why);

        if (error)
            return error;
    }
    if (!json_object_get(line->root, "t_us"))
        return refuse(why, "t_us", "is missing");
    if (!line->request.key)
        return refuse(why, "key", "is missing");
    return 0;
}

int sl_jsonl_line_parse(const char *text, size_t len, struct sl_jsonl_line *ret_line, char ret_why[SL_JSONL_WHY_MAX])
{
    json_error_t problem;
    int error;

    if (len == 0)
        return refuse(ret_why, "the line", "is empty");
    *ret_line = (struct sl_jsonl_line){.request = SLUICE_REQUEST_INIT};
    ret_line->root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &problem);
    if (!ret_line->root) {
        if (json_error_code(&problem) == json_error_out_of_memory)
            return SL_ENOMEM;
        snprintf(ret_why, SL_JSONL_WHY_MAX, "not JSON, at byte %d: %.100s", problem.position, problem.text);
        return SL_EINVALID;
    }
    error = take_object(ret_line, ret_why);
    if (error)
        sl_jsonl_line_fini(ret_line);
    return error;
}

void sl_jsonl_line_fini(struct sl_jsonl_line *line)
{
    json_decref(line->root);
    line->root = NULL;
}
