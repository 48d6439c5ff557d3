#include "policy/override_effect.h"

#include "policy/override_json.h"
#include "policy/report_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 1024u
#define NAMED_MAX 5u

static int set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value);
}

/* What the file says of the limit that a variant stands for. */
static json_t *instead_json(const struct sl_policy *policy, const struct sl_override_status *status)
{
    char line[LINE_MAX_BYTES];
    const struct sl_limit *limit;

    if (status->n_limits != 1)
        return json_null();
    limit = sl_policy_limit(policy, status->first->index);
    sl_limit_line(limit, line, sizeof line);
    return json_sprintf("limit `%s`: %s", limit->name, line);
}

static json_t *where_json(const struct sl_override *override, const struct sl_override_status *status)
{
    const struct sl_limit *limit = status->first;
    const char *tier = limit ? limit->tier : NULL, *endpoint = limit ? limit->endpoint : NULL;

    if (!override->limit || (!tier && !endpoint))
        return json_null();
    return json_sprintf("counts only where limit `%s` wins:%s%s%s%s%s%s%s", limit->name, tier ? " tier `" : "",
                        tier ? tier : "", tier ? "`" : "", tier && endpoint ? "," : "", endpoint ? " endpoint `" : "",
                        endpoint ? endpoint : "", endpoint ? "`" : "");
}

int sl_override_add_effect(json_t *object, const struct sl_policy *policy, size_t index)
{
    struct sl_override_status status = {.why = NULL};

    if (!policy)
        return set(object, "limits", json_null()) || set(object, "instead", json_null()) ||
               set(object, "where", json_null());
    sl_policy_override_status(policy, index, &status);
    return set(object, "limits", json_integer((json_int_t)status.n_limits)) ||
           set(object, "instead", instead_json(policy, &status)) ||
           set(object, "where", where_json(&sl_policy_overrides(policy)->list[index], &status));
}

json_t *sl_override_in_force_json(const struct sl_override *override, const struct sl_policy *policy, size_t index)
{
    struct sl_override_status status = {.why = NULL};
    json_t *object = sl_override_json(override, SL_OVERRIDE_SHOWN);

    if (policy)
        sl_policy_override_status(policy, index, &status);
    if (object && (set(object, "state", json_string(policy ? sl_override_state(&status) : "unknown")) ||
                   sl_override_add_effect(object, policy, index) ||
                   set(object, "why", status.why ? json_string(status.why) : json_null()))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- which others there are */

static void append(char *buf, size_t size, const char *text)
{
    size_t used = strlen(buf);

    snprintf(buf + used, size - used, "%s", text);
}

static bool is_of_same_key(const struct sl_override *x, const struct sl_override *y)
{
    return x->key_len == y->key_len && memcmp(x->key, y->key, x->key_len) == 0 && !strcmp(x->key_type, y->key_type);
}

void sl_override_missing(const struct sl_overrides *list, const struct sl_override *asked, uint64_t now_us, char *buf,
                         size_t size)
{
    unsigned n = 0;

    snprintf(buf, size, "there is no such override");
    for (size_t i = 0; list && i < list->n; i++) {
        const struct sl_override *o = &list->list[i];

        if (!is_of_same_key(o, asked) || sl_override_is_over(o, now_us) || n++ > NAMED_MAX)
            continue;
        append(buf, size, n == 1 ? "; of this key there is one for " : ", one for ");
        if (n > NAMED_MAX) {
            append(buf, size, "others");
        } else if (o->limit) {
            append(buf, size, "limit `");
            append(buf, size, o->limit);
            append(buf, size, "`");
        } else {
            append(buf, size, "every limit");
        }
    }
}
