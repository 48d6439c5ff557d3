/* An override as a record, as it is asked for, and a point in time: the first byte chooses the reader. What is accepted is in
 * range, is written out again, fits its bound, and must be read as the same; what is laid over a policy decides. */
#include "policy/instant.h"
#include "policy/override_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_instant(const char *text, size_t len)
{
    char written[SL_INSTANT_MAX];
    const char *why = NULL;
    uint64_t us, again;

    if (sl_instant_parse(text, len, &us, &why)) {
        require(why != NULL);
        return;
    }
    sl_instant_format(us, written);
    require(us % 1000 == 0 && sl_instant_parse(written, strlen(written), &again, &why) == 0 && us == again);
}

static struct sl_policy *policy(void)
{
    static const char text[] = "version: 1\nlimits: [{name: a, rate: 5/s}, {name: w, layer: w, rate: 5/s, algorithm: "
                               "sliding_window_log}]\nceiling: {rate: 100/s}\n";
    struct sl_policy_options options = {.alloc = sl_alloc_system()};
    static struct sl_policy *compiled;
    struct sl_diags diags;

    if (compiled)
        return compiled;
    sl_diags_init(&diags, options.alloc);
    require(sl_policy_parse(text, strlen(text), "p", &options, &compiled, &diags) == 0);
    sl_diags_fini(&diags);
    return compiled;
}

static void decide(const struct sl_override *o)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct sl_overrides *list;
    struct sl_policy *over;
    struct sl_resolution r;

    require(sl_overrides_new(&alloc, o, 1, 1, &list) == 0);
    require(sl_policy_override(policy(), list, 1, &over) == 0);
    request.key = o->key;
    request.key_len = o->key_len;
    request.key_type = o->key_type;
    request.key_type_len = strlen(o->key_type);
    sl_policy_resolve(over, &request, &r);
    require(r.n_items + (r.blocked != NULL) + (r.unlimited != NULL) >= 1);
    sl_policy_unref(over);
    sl_overrides_unref(list);
}

static bool same(const struct sl_override *x, const struct sl_override *y)
{
    return sl_override_compare(x, y) == 0 && x->rate.kind == y->rate.kind && x->rate.count == y->rate.count &&
           x->rate.period_us == y->rate.period_us && x->burst == y->burst && x->until_us == y->until_us &&
           x->set_us == y->set_us && !strcmp(x->author, y->author) && !strcmp(x->comment, y->comment);
}

static void check_record(const json_t *value)
{
    struct sl_override o, again;
    const char *field;
    json_t *written;
    char *text;

    if (sl_override_read(value, SL_OVERRIDE_RECORD, &o, &field))
        return;
    require(sl_override_check(&o, &field) == NULL);
    written = sl_override_json(&o, SL_OVERRIDE_RECORD);
    text = json_dumps(written, JSON_COMPACT);
    require(text && strlen(text) <= SL_OVERRIDE_RECORD_MAX);
    require(sl_override_read(written, SL_OVERRIDE_RECORD, &again, &field) == NULL && same(&o, &again));
    decide(&o);
    free(text);
    json_decref(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_override o;
    const char *field;
    json_t *value;

    if (size < 1)
        return 0;
    if (data[0] == 't') {
        check_instant((const char *)data + 1, size - 1);
        return 0;
    }
    value = json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (value && data[0] == 'r')
        check_record(value);
    else if (value && !sl_override_read(value, SL_OVERRIDE_ASKED, &o, &field))
        require(o.key_len >= 1 && o.key_len <= SLUICE_KEY_MAX);
    json_decref(value);
    return 0;
}
