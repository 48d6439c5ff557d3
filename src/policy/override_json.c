#include "policy/override_json.h"

#include "policy/instant.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *optional(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *instant(uint64_t us)
{
    char text[SL_INSTANT_MAX];

    if (!us)
        return json_null();
    sl_instant_format(us, text);
    return json_string(text);
}

json_t *sl_override_json(const struct sl_override *o, enum sl_override_form form)
{
    char rate[SL_RATE_TEXT_MAX];
    json_t *object;

    sl_rate_format(&o->rate, rate);
    object = json_pack("{s:s%,s:s,s:o,s:s,s:o,s:o,s:s,s:s}", "key", o->key, o->key_len, "keyType", o->key_type, "limit",
                       optional(o->limit), "rate", rate, "burst", o->burst ? json_integer(o->burst) : json_null(),
                       "until", instant(o->until_us), "author", o->author, "comment", o->comment);
    if (object && form == SL_OVERRIDE_SHOWN)
        json_object_set_new(object, "set", instant(o->set_us));
    if (object && form == SL_OVERRIDE_RECORD)
        json_object_set_new(object, "setUs", json_integer((json_int_t)o->set_us));
    return object;
}

/* ---- reading */

static const char *take_text(const json_t *value, const char **ret_text)
{
    if (!json_is_string(value))
        return "must be a text";
    if (strlen(json_string_value(value)) != json_string_length(value))
        return "must not hold NUL";
    *ret_text = json_string_value(value);
    return NULL;
}

static const char *take_number(const json_t *value, uint64_t min, uint64_t max, uint64_t *ret_number)
{
    json_int_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 0 || (uint64_t)number < min || (uint64_t)number > max)
        return "must be a whole number in range";
    *ret_number = (uint64_t)number;
    return NULL;
}

static const char *take_burst(const json_t *value, struct sl_override *o)
{
    uint64_t burst = 0;

    if (take_number(value, 1, SL_COUNT_MAX, &burst))
        return "must be a whole number from 1 to 1000000000";
    o->burst = (uint32_t)burst;
    return NULL;
}

static const char *take_until(const json_t *value, struct sl_override *o)
{
    const char *text, *wrong = take_text(value, &text);

    if (!wrong && sl_instant_parse(text, strlen(text), &o->until_us, &wrong) == 0)
        wrong = o->until_us ? NULL : "must lie after 1970";
    return wrong;
}

static const char *take_rate(const json_t *value, struct sl_override *o, bool *ret_has_rate)
{
    const char *text, *wrong = take_text(value, &text);

    if (!wrong && sl_rate_parse(text, strlen(text), &o->rate, &wrong) == 0)
        wrong = NULL;
    *ret_has_rate = !wrong;
    return wrong;
}

static const char *take_member(const char *name, const json_t *value, enum sl_override_form form, struct sl_override *o,
                               bool *has_rate)
{
    const char *wrong;

    if (json_is_null(value) && (!strcmp(name, "limit") || !strcmp(name, "burst") || !strcmp(name, "until")))
        return NULL;
    if (!strcmp(name, "key")) {
        wrong = take_text(value, &o->key);
        o->key_len = wrong ? 0 : strlen(o->key);
        return wrong;
    }
    if (!strcmp(name, "keyType"))
        return take_text(value, &o->key_type);
    if (!strcmp(name, "limit"))
        return take_text(value, &o->limit);
    if (!strcmp(name, "rate"))
        return take_rate(value, o, has_rate);
    if (!strcmp(name, "burst"))
        return take_burst(value, o);
    if (!strcmp(name, "until"))
        return take_until(value, o);
    if (!strcmp(name, "author"))
        return take_text(value, &o->author);
    if (!strcmp(name, "comment"))
        return take_text(value, &o->comment);
    if (!strcmp(name, "setUs") && form == SL_OVERRIDE_RECORD)
        return take_number(value, 0, SL_TIME_MAX_US, &o->set_us);
    return "is unknown; known are key, keyType, limit, rate, burst, until, author and comment";
}

static const char *about(const char *field, const char *wrong)
{
    static _Thread_local char text[400];

    snprintf(text, sizeof text, "`%.64s`: %s", field, wrong);
    return text;
}

static const char *check(const struct sl_override *o, enum sl_override_form form, const char **ret_field)
{
    struct sl_override whole = *o;

    if (!whole.author && form == SL_OVERRIDE_ASKED)
        whole.author = "-";
    *ret_field = "author";
    return whole.author ? sl_override_check(&whole, ret_field) : "the author is missing";
}

const char *sl_override_read(const json_t *value, enum sl_override_form form, struct sl_override *ret_override,
                             const char **ret_field)
{
    struct sl_override o = {.key_type = "api_key", .comment = ""};
    const char *name, *wrong;
    bool has_rate = false;
    json_t *member;

    *ret_field = "";
    if (!json_is_object(value))
        return "an override is an object";
    json_object_foreach((json_t *)value, name, member)
    {
        wrong = take_member(name, member, form, &o, &has_rate);
        *ret_field = name;
        if (wrong)
            return about(name, wrong);
    }
    *ret_field = o.key ? "rate" : "key";
    if (!o.key || !has_rate)
        return o.key ? "the rate is missing: COUNT/PERIOD, `blocked` or `unlimited`" : "the key is missing";
    wrong = check(&o, form, ret_field);
    if (wrong)
        return wrong;
    *ret_field = "";
    *ret_override = o;
    return NULL;
}

const char *sl_override_state(const struct sl_override_status *status)
{
    return status->over ? "over" : status->n_limits ? "active" : "inactive";
}
