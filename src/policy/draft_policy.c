/* The fields of the document and its smaller parts: http, tiers, endpoints, ceiling, dedicated. */
#include "policy/draft.h"

#include "policy/text.h"

#include <assert.h>
#include <string.h>

#define NAME_BYTES (SLUICE_NAME_MAX - 1)
#define MATCHES_MAX 10000

const char *const sl_header_style_words[] = {"classic", "x", "draft", NULL};
const char *const sl_unknown_words[] = {"default", "anonymous", "deny", NULL};
static const char *const error_words[] = {"default", "problem", NULL};
static const char *const unmatched_words[] = {"allow", "deny", NULL};

static_assert(sizeof sl_header_style_words / sizeof(char *) == SL_HEADERS_DRAFT + 2,
              "words and enum sl_header_style differ");
static_assert(sizeof sl_unknown_words / sizeof(char *) == SL_UNKNOWN_DENY + 2, "words and enum sl_unknown differ");

/* ---- http ------------------------------------------------------------------------------------------------------- */

static const struct sl_field http_rows[] = {
    {"headers", "word", "classic", "`classic` (RateLimit-*), `x` (also X-RateLimit-*) or `draft` (the IETF draft's).",
     sl_read_enum, offsetof(struct sl_draft, http.headers), 0, 0, sl_header_style_words},
    {"errors", "word", "default", "`default` or `problem` (application/problem+json).", sl_read_enum,
     offsetof(struct sl_draft, http.errors), 0, 0, error_words},
    {"closed_status", "whole number, 400 ... 599", "429", "Status of a `closed` limit while the store is away.",
     sl_read_u32, offsetof(struct sl_draft, http.closed_status), 400, 599, NULL},
};
const struct sl_fields sl_http_fields = {.what = "`http`", .list = http_rows, .n = 3};

/* ---- tiers ------------------------------------------------------------------------------------------------------ */

static bool read_keys(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_tiers_draft *tiers = target;
    bool ok = true;

    (void)field;
    if (!sl_read_is_map(r, value))
        return false;
    tiers->keys = sl_read_alloc(r, value->n, sizeof *tiers->keys);
    for (const struct sl_node *member = value->first; member && tiers->keys; member = member->next) {
        struct sl_key_draft *key = &tiers->keys[tiers->n_keys];
        size_t base = sl_path_field(&r->path, member->key->text, member->key->len);

        if (sl_read_is_text(r, member->key, SLUICE_KEY_MAX) && sl_read_is_text(r, member, NAME_BYTES)) {
            *key = (struct sl_key_draft){
                .key_len = member->key->len, .file = r->file, .line = member->key->line, .column = member->key->column};
            key->key = sl_read_copy(r, member->key);
            key->tier = sl_read_copy(r, member);
            tiers->n_keys++;
        } else {
            ok = false;
        }
        sl_path_cut(&r->path, base);
    }
    return ok && !r->nomem;
}

#define AT(member) offsetof(struct sl_tiers_draft, member)

static const struct sl_field tiers_rows[SL_TIERS_FIELDS] = {
    [SL_TF_DEFAULT] = {"default", "text, at most 63 bytes", "", "Tier of a known kind of key that is in no table.",
                       sl_read_text, AT(default_tier), 0, NAME_BYTES, NULL},
    [SL_TF_ANONYMOUS] = {"anonymous", "text, at most 63 bytes", "", "Tier of keys of type `address`.", sl_read_text,
                         AT(anonymous), 0, NAME_BYTES, NULL},
    [SL_TF_UNKNOWN] = {"unknown", "word", "default", "`default`, `anonymous` or `deny`: a key in no table.",
                       sl_read_enum, AT(unknown), 0, 0, sl_unknown_words},
    [SL_TF_KEYS] = {"keys", "mapping of key to tier", "", "Tiers of single keys.", read_keys, 0, 0, 0, NULL},
    [SL_TF_KEYS_FILE] = {"keys_file", "path, relative to the policy's folder", "",
                         "`key,tier` a line; re-read with the policy.", sl_read_text, AT(keys_file), 0, 4000, NULL},
    [SL_TF_KEYS_STORE] = {"keys_store", "true or false", "false", "Else the key's tier is looked up in the store.",
                          sl_read_bool, AT(keys_store), 0, 0, NULL},
};
const struct sl_fields sl_tiers_fields = {.what = "`tiers`", .list = tiers_rows, .n = SL_TIERS_FIELDS};

bool sl_read_tiers(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_tiers_draft *tiers = (void *)((char *)target + field->offset);

    return sl_read_fields(r, value, &sl_tiers_fields, tiers, &tiers->given);
}

/* ---- endpoints -------------------------------------------------------------------------------------------------- */

static const struct sl_field endpoint_rows[] = {
    {"match", "list of globs", "required",
     "Scopes of this endpoint: `*` is any run of characters, `?` one; the longest literal text wins.", sl_read_texts,
     offsetof(struct sl_endpoint_draft, match), 1, SLUICE_SCOPE_MAX, NULL},
    {"cost", "whole number, 0 ... 10^9", "1", "What a request costs when neither it nor the limit says.", sl_read_i64,
     offsetof(struct sl_endpoint_draft, cost), 0, SL_COST_MAX, NULL},
};
const struct sl_fields sl_endpoint_fields = {.what = "an endpoint", .list = endpoint_rows, .n = 2};

static bool read_endpoints(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_draft *draft = target;
    bool ok = true;

    (void)field;
    if (!sl_read_is_map(r, value))
        return false;
    if (value->n > SL_POLICY_ENDPOINTS_MAX)
        return sl_read_error(r, value, "at most %d endpoints, not %zu", SL_POLICY_ENDPOINTS_MAX, value->n);
    draft->endpoints = sl_read_alloc(r, value->n, sizeof *draft->endpoints);
    for (const struct sl_node *member = value->first; member && draft->endpoints; member = member->next) {
        struct sl_endpoint_draft *endpoint = &draft->endpoints[draft->n_endpoints];
        size_t base = sl_path_field(&r->path, member->key->text, member->key->len);
        struct sl_given given;

        *endpoint = (struct sl_endpoint_draft){.cost = -1, .node = member};
        if (sl_read_is_text(r, member->key, NAME_BYTES)) {
            endpoint->name = sl_read_copy(r, member->key);
            draft->n_endpoints++;
        } else {
            ok = false;
        }
        ok &= sl_read_fields(r, member, &sl_endpoint_fields, endpoint, &given);
        sl_path_cut(&r->path, base);
    }
    return ok && !r->nomem;
}

/* ---- ceiling and dedicated -------------------------------------------------------------------------------------- */

static const struct sl_field ceiling_rows[SL_CEILING_FIELDS] = {
    [SL_CF_RATE] = {"rate", "rate", "required", "No key gets more than this from any limit.", sl_read_rate,
                    offsetof(struct sl_draft, ceiling.rate), 0, 0, NULL},
    [SL_CF_BURST] = {"burst", "whole number, 1 ... 10^9", "COUNT", "Nor more than this at once.", sl_read_u32,
                     offsetof(struct sl_draft, ceiling.burst), 1, SL_COUNT_MAX, NULL},
};
const struct sl_fields sl_ceiling_fields = {.what = "`ceiling`", .list = ceiling_rows, .n = SL_CEILING_FIELDS};

static bool read_ceiling(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_draft *draft = target;
    size_t base;
    bool ok = sl_read_fields(r, value, &sl_ceiling_fields, draft, &draft->ceiling.given);

    (void)field;
    if (sl_given_ok(&draft->ceiling.given, SL_CF_RATE) && draft->ceiling.rate.rate.kind != SL_RATE_LIMITED) {
        base = sl_path_field(&r->path, "rate", 4);
        ok = sl_read_error(r, draft->ceiling.rate.node, "a ceiling is a number, e.g. `10000/s`");
        draft->ceiling.given.ok = 0;
        sl_path_cut(&r->path, base);
    }
    return ok;
}

static bool read_store(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_dedicated_draft *dedicated = target;
    static const char *const schemes[] = {"redis://",          "rediss://",        "redis+unix://",
                                          "redis+sentinel://", "redis+cluster://", "rediss+sentinel://",
                                          "rediss+cluster://"};

    if (!sl_read_is_text(r, value, (size_t)field->max))
        return false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncmp(value->text, schemes[i], strlen(schemes[i])) && value->text[strlen(schemes[i])]) {
            dedicated->store_node = value;
            return sl_read_text(r, value, field, target);
        }
    return sl_read_error(r, value,
                         "expected the URL of a store: redis://, rediss://, redis+unix://, redis+sentinel:// or "
                         "redis+cluster:// and its address");
}

static const struct sl_field dedicated_rows[] = {
    {"keys", "list of keys", "required", "The keys that have this store to themselves.", sl_read_texts,
     offsetof(struct sl_dedicated_draft, keys), 1, SLUICE_KEY_MAX, NULL},
    {"store", "URL of a store", "required", "As the daemon's --store.", read_store,
     offsetof(struct sl_dedicated_draft, store), 0, 1000, NULL},
};
const struct sl_fields sl_dedicated_fields = {.what = "a dedicated store", .list = dedicated_rows, .n = 2};

static bool read_dedicated(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_draft *draft = target;
    bool ok = true;

    (void)field;
    if (!sl_read_is_list(r, value))
        return false;
    if (value->n > SL_POLICY_DEDICATED_MAX)
        return sl_read_error(r, value, "at most %u dedicated stores, not %zu", SL_POLICY_DEDICATED_MAX, value->n);
    draft->dedicated = sl_read_alloc(r, value->n, sizeof *draft->dedicated);
    for (const struct sl_node *item = value->first; item && draft->dedicated; item = item->next) {
        size_t base = sl_path_index(&r->path, draft->n_dedicated);
        struct sl_given given;

        ok &= sl_read_fields(r, item, &sl_dedicated_fields, &draft->dedicated[draft->n_dedicated++], &given);
        sl_path_cut(&r->path, base);
    }
    return ok && !r->nomem;
}

/* ---- the document ----------------------------------------------------------------------------------------------- */

static bool read_version(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    int64_t version;

    (void)field;
    (void)target;
    return sl_read_number(r, value, 0, 1000000, &version) &&
           (version == 1 || sl_read_error(r, value, "this program reads version 1 only"));
}

/* Limits are read last, whatever the order of the file, because `defaults` come first. */
static bool note_limits(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    (void)r;
    (void)value;
    (void)field;
    (void)target;
    return true;
}

static const struct sl_field policy_rows[SL_POLICY_FIELDS] = {
    [SL_PF_VERSION] = {"version", "1", "required", "Of this format.", read_version, 0, 0, 0, NULL},
    [SL_PF_DEFAULTS] = {"defaults", "mapping of fields of a limit", "", "What limits hold that do not say otherwise.",
                        sl_read_defaults, offsetof(struct sl_draft, defaults), 0, 0, NULL},
    [SL_PF_IDENTITY] = {"identity", "mapping", "", "How HTTP requests get their key.", sl_read_identity,
                        offsetof(struct sl_draft, identity), 0, 0, NULL},
    [SL_PF_HTTP] = {"http", "mapping", "", "How HTTP answers look.", sl_read_nested, 0, 0, 0, &sl_http_fields},
    [SL_PF_TIERS] = {"tiers", "mapping", "", "Which plan a key is on.", sl_read_tiers, offsetof(struct sl_draft, tiers),
                     0, 0, NULL},
    [SL_PF_ENDPOINTS] = {"endpoints", "mapping of name to endpoint", "", "Groups of scopes.", read_endpoints, 0, 0, 0,
                         NULL},
    [SL_PF_LIMITS] = {"limits", "list of limits", "required", "The rules.", note_limits, 0, 0, 0, NULL},
    [SL_PF_CEILING] = {"ceiling", "mapping of rate, burst", "", "Caps every limit that separates by key.", read_ceiling,
                       0, 0, 0, NULL},
    [SL_PF_UNMATCHED] = {"unmatched", "word", "allow", "`allow` or `deny`: a request that no limit matches.",
                         sl_read_enum, offsetof(struct sl_draft, unmatched), 0, 0, unmatched_words},
    [SL_PF_DEDICATED] = {"dedicated", "list of {keys, store}", "", "Very large customers on stores of their own.",
                         read_dedicated, 0, 0, 0, NULL},
};
const struct sl_fields sl_policy_fields = {.what = "a policy", .list = policy_rows, .n = SL_POLICY_FIELDS};

void sl_draft_read(struct sl_reader *r, const struct sl_node *root, struct sl_draft *ret_draft)
{
    *ret_draft = (struct sl_draft){.http = {.closed_status = 429},
                                   .identity = {.ipv6_prefix = 64, .forwarded = "x-forwarded-for"}};
    sl_limit_draft_init(&ret_draft->defaults);
    sl_read_fields(r, root, &sl_policy_fields, ret_draft, &ret_draft->given);
    if (ret_draft->given.at[SL_PF_LIMITS]) {
        size_t base = sl_path_field(&r->path, "limits", 6);

        if (!sl_read_limits(r, ret_draft->given.at[SL_PF_LIMITS], ret_draft))
            ret_draft->given.ok &= ~(1u << SL_PF_LIMITS);
        sl_path_cut(&r->path, base);
    }
}
