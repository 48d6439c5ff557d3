/* The fields of a limit: one row each. */
#include "policy/draft.h"

#include "policy/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const sl_mode_words[] = {"enforce", "dry_run", "off", NULL};
const char *const sl_coordination_words[] = {"auto", "local", "shared", "leased", "split", "synced", NULL};
const char *const sl_on_failure_words[] = {"local", "open", "closed", NULL};
const char *const sl_algorithm_words[] = {"token_bucket",       "leaky_bucket",           "fixed_window",
                                          "sliding_window_log", "sliding_window_counter", NULL};

static_assert(sizeof sl_mode_words / sizeof(char *) == SL_MODE_OFF + 2, "words and enum sl_mode differ");
static_assert(sizeof sl_coordination_words / sizeof(char *) == SL_COORD_SYNCED + 2,
              "words and enum sl_coordination differ");
static_assert(sizeof sl_on_failure_words / sizeof(char *) == SL_FAIL_CLOSED + 2, "words and enum sl_on_failure differ");
static_assert(sizeof sl_algorithm_words / sizeof(char *) == SL_ALGORITHMS + 1, "words and enum sl_algorithm differ");

#define NAME_BYTES (SLUICE_NAME_MAX - 1)

/* ---- rates ------------------------------------------------------------------------------------------------------ */

bool sl_read_rate(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_rate_draft *rate = (void *)((char *)target + field->offset);
    const char *why;

    if (!sl_read_is_text(r, value, 4096))
        return false;
    if (sl_rate_parse(value->text, value->len, &rate->rate, &why) != 0)
        return sl_read_error(r, value, "%s", why);
    rate->node = value;
    return true;
}

static const struct sl_field rate_rows[] = {
    {"rate", "rate", "required", "COUNT/PERIOD, e.g. `100/s`, `5/15m`.", sl_read_rate, 0, 0, 0, NULL},
    {"burst", "whole number, 1 ... 10^9", "COUNT", "Capacity of a token bucket, queue of a leaky bucket.", sl_read_u32,
     offsetof(struct sl_rate_draft, burst), 1, SL_COUNT_MAX, NULL},
};
const struct sl_fields sl_rate_fields = {.what = "a rate", .list = rate_rows, .n = 2};

static bool read_one_of_rates(struct sl_reader *r, const struct sl_node *item, struct sl_rate_draft *rate)
{
    struct sl_given given;
    bool ok = item->kind == SL_NODE_MAP ? sl_read_fields(r, item, &sl_rate_fields, rate, &given)
                                        : sl_read_rate(r, item, &rate_rows[0], rate);

    rate->node = item;
    if (ok && rate->rate.kind != SL_RATE_LIMITED)
        return sl_read_error(r, item, "a list of rates holds numbers only; write `rate: %s` by itself",
                             rate->rate.kind == SL_RATE_BLOCKED ? "blocked" : "unlimited");
    return ok;
}

static bool read_rates(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_rates_draft rates = {.n = 0};
    bool ok = true;

    if (!sl_read_is_list(r, value))
        return false;
    if (value->n < 1 || value->n > SL_RATES_MAX)
        return sl_read_error(r, value, "expected 1 to %d rates, not %zu", SL_RATES_MAX, value->n);
    for (const struct sl_node *item = value->first; item; item = item->next) {
        size_t base = sl_path_index(&r->path, rates.n);

        ok &= read_one_of_rates(r, item, &rates.list[rates.n++]);
        sl_path_cut(&r->path, base);
    }
    *(struct sl_rates_draft *)(void *)((char *)target + field->offset) = rates;
    return ok;
}

/* ---- matching and separating ------------------------------------------------------------------------------------ */

static int compare_labels(const void *x, const void *y)
{
    return strcmp(((const struct sluice_label *)x)->name, ((const struct sluice_label *)y)->name);
}

static bool read_label(struct sl_reader *r, const struct sl_node *value, struct sl_labels_draft *labels)
{
    struct sluice_label *label = &labels->list[labels->n];
    bool ok = sl_read_is_text(r, value->key, SLUICE_LABEL_NAME_MAX);

    ok = sl_read_is_text(r, value, SLUICE_LABEL_VALUE_MAX) && ok;
    if (!ok)
        return false;
    label->name = sl_read_copy(r, value->key);
    label->name_len = value->key->len;
    label->value = sl_read_copy(r, value);
    label->value_len = value->len;
    labels->n++;
    return label->name && label->value;
}

static bool read_labels(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_labels_draft *labels = (void *)((char *)target + field->offset);
    bool ok = true;

    *labels = (struct sl_labels_draft){.n = 0};
    if (!sl_read_is_map(r, value))
        return false;
    if (value->n < 1 || value->n > SLUICE_LABELS_MAX)
        return sl_read_error(r, value, "expected 1 to %d labels, not %zu", SLUICE_LABELS_MAX, value->n);
    labels->list = sl_read_alloc(r, value->n, sizeof *labels->list);
    if (!labels->list)
        return false;
    for (const struct sl_node *member = value->first; member; member = member->next) {
        size_t base = sl_path_field(&r->path, member->key->text, member->key->len);

        ok &= read_label(r, member, labels);
        sl_path_cut(&r->path, base);
    }
    if (r->nomem || !ok)
        return false;
    qsort(labels->list, labels->n, sizeof *labels->list, compare_labels);
    return true;
}

static const struct {
    const char *word;
    unsigned bit;
} per_words[] = {
    {"key", SL_PER_KEY},     {"address", SL_PER_ADDRESS}, {"endpoint", SL_PER_ENDPOINT},
    {"scope", SL_PER_SCOPE}, {"tier", SL_PER_TIER},
};
#define PER_WORDS (sizeof per_words / sizeof *per_words)

static const char *per_word(const void *ctx, size_t i)
{
    (void)ctx;
    return i < PER_WORDS ? per_words[i].word : "label.NAME";
}

static bool read_per_label(struct sl_reader *r, const struct sl_node *item, struct sl_per_draft *per)
{
    const char *name = item->text + strlen("label.");
    size_t len = item->len - strlen("label.");

    if (len < 1 || len > SLUICE_LABEL_NAME_MAX)
        return sl_read_error(r, item, "expected `label.NAME` with a name of 1 to %d bytes", SLUICE_LABEL_NAME_MAX);
    if (per->n_labels == SLUICE_LABELS_MAX)
        return sl_read_error(r, item, "more than %d labels", SLUICE_LABELS_MAX);
    for (unsigned i = 0; i < per->n_labels; i++)
        if (!strcmp(per->labels[i], name))
            return sl_read_error(r, item, "stands in this list twice");
    per->labels[per->n_labels] = sl_arena_strndup(r->arena, name, len);
    r->nomem |= !per->labels[per->n_labels];
    per->n_labels++;
    per->bits |= SL_PER_LABEL;
    return !r->nomem;
}

static bool read_dimension(struct sl_reader *r, const struct sl_node *item, struct sl_per_draft *per)
{
    struct sl_names names = {.at = per_word, .n = PER_WORDS + 1};
    char quoted[SL_QUOTE_MAX], hint[SL_HINT_MAX];

    if (!sl_read_is_text(r, item, 4096))
        return false;
    if (!strncmp(item->text, "label.", strlen("label.")))
        return read_per_label(r, item, per);
    for (size_t i = 0; i < PER_WORDS; i++)
        if (!strcmp(item->text, per_words[i].word)) {
            if (per->bits & per_words[i].bit)
                return sl_read_error(r, item, "stands in this list twice");
            per->bits |= per_words[i].bit;
            return true;
        }
    return sl_read_error(r, item, "`%s` is not one of `key`, `address`, `endpoint`, `scope`, `tier`, `label.NAME`%s",
                         sl_text_quote(item->text, item->len, quoted),
                         sl_read_hint(item->text, item->len, names, hint));
}

static int compare_texts(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static bool read_per(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_per_draft *per = (void *)((char *)target + field->offset);
    size_t i = 0;
    bool ok = true;

    *per = (struct sl_per_draft){.bits = 0};
    if (!sl_read_is_list(r, value))
        return false;
    per->labels = sl_read_alloc(r, SLUICE_LABELS_MAX, sizeof *per->labels);
    if (!per->labels)
        return false;
    for (const struct sl_node *item = value->first; item; item = item->next) {
        size_t base = sl_path_index(&r->path, i++);

        ok &= read_dimension(r, item, per);
        sl_path_cut(&r->path, base);
    }
    if (!ok || r->nomem)
        return false;
    qsort(per->labels, per->n_labels, sizeof *per->labels, compare_texts);
    return true;
}

/* ---- coordination ----------------------------------------------------------------------------------------------- */

static bool read_local_factor(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field,
                              void *target)
{
    double *factor = (void *)((char *)target + field->offset);
    char quoted[SL_QUOTE_MAX];
    uint64_t millionths;

    if (!sl_read_is_text(r, value, 4096))
        return false;
    if (!strcmp(value->text, "per_instance")) {
        *factor = -1;
        return true;
    }
    if (!value->plain || !sl_read_decimal(value->text, value->len, 6, &millionths) ||
        millionths < (uint64_t)field->min * 1000000 || millionths > (uint64_t)field->max * 1000000)
        return sl_read_error(r, value, "expected a number from %lld to %lld, or `per_instance`, not `%s`",
                             (long long)field->min, (long long)field->max,
                             sl_text_quote(value->text, value->len, quoted));
    *factor = (double)millionths / 1e6;
    return true;
}

/* `33.3333%`: up to four digits after the point, so that a part per million is one unit. */
static bool read_share(struct sl_reader *r, const struct sl_node *value, uint32_t *ret_ppm)
{
    char quoted[SL_QUOTE_MAX];
    uint64_t ten_thousandths;

    if (!sl_read_is_text(r, value, 4096))
        return false;
    if (value->text[value->len - 1] != '%' || !sl_read_decimal(value->text, value->len - 1, 4, &ten_thousandths) ||
        ten_thousandths < 1 || ten_thousandths > 1000000)
        return sl_read_error(r, value,
                             "expected a share such as `60%%` or `12.5%%`, above 0 %% and up to 100 %%, not `%s`",
                             sl_text_quote(value->text, value->len, quoted));
    *ret_ppm = (uint32_t)ten_thousandths;
    return true;
}

#define REGIONS_MAX 64

/* As --region takes them: another name could be no instance's. */
static bool is_region(struct sl_reader *r, const struct sl_node *key)
{
    char quoted[SL_QUOTE_MAX];

    if (!sl_read_is_text(r, key, NAME_BYTES))
        return false;
    return sl_text_is_name(key->text, key->len) ||
           sl_read_error(r, key, "`%s` is not a name: use only a-z, 0-9, `.`, `_` and `-`",
                         sl_text_quote(key->text, key->len, quoted));
}

static bool read_regions(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_regions_draft *regions = (void *)((char *)target + field->offset);
    uint64_t sum = 0;
    bool ok = true;

    *regions = (struct sl_regions_draft){.n = 0};
    if (!sl_read_is_map(r, value))
        return false;
    if (value->n < 1 || value->n > REGIONS_MAX)
        return sl_read_error(r, value, "expected 1 to %d regions, not %zu", REGIONS_MAX, value->n);
    regions->list = sl_read_alloc(r, value->n, sizeof *regions->list);
    for (const struct sl_node *member = value->first; member && regions->list; member = member->next) {
        struct sl_limit_region *region = &regions->list[regions->n];
        size_t base = sl_path_field(&r->path, member->key->text, member->key->len);

        if (is_region(r, member->key) && read_share(r, member, &region->share_ppm)) {
            region->name = sl_read_copy(r, member->key);
            sum += region->share_ppm;
            regions->n++;
        } else {
            ok = false;
        }
        sl_path_cut(&r->path, base);
    }
    if (sum > 1000000)
        return sl_read_error(r, value, "the shares sum to %llu.%04llu %%; they may not exceed 100 %%",
                             (unsigned long long)(sum / 10000), (unsigned long long)(sum % 10000));
    return ok && !r->nomem;
}

static const struct sl_field lease_rows[] = {
    {"block", "whole number, 1 ... 10^9", "2 % of burst / instances, at least 1",
     "Tokens debited in the store at a time.", sl_read_i64, 0, 1, SL_COUNT_MAX, NULL},
    {"ttl", "duration, 10ms ... 1h", "1s", "Unspent tokens go back after this.", sl_read_duration, sizeof(uint64_t),
     10000, INT64_C(3600000000), NULL},
};
const struct sl_fields sl_lease_fields = {.what = "a lease", .list = lease_rows, .n = 2};

static const struct sl_field sync_rows[] = {
    {"interval", "duration, 100ms ... 1s", "250ms", "How often shares are reconciled.", sl_read_duration, 0, 100000,
     1000000, NULL},
};
const struct sl_fields sl_sync_fields = {.what = "a sync", .list = sync_rows, .n = 1};

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct sl_limit_draft, member)

static const struct sl_field limit_rows[SL_LIMIT_FIELDS] = {
    [SL_LF_NAME] = {"name", "name, [a-z0-9._-], at most 63", "required",
                    "Unique; what verdicts, metrics and headers call it.", sl_read_name, AT(name), 0, NAME_BYTES, NULL},
    [SL_LF_KEY] = {"key", "text, at most 512 bytes", "", "Matches this key only.", sl_read_text, AT(key), 0,
                   SLUICE_KEY_MAX, NULL},
    [SL_LF_ENDPOINT] = {"endpoint", "name of an endpoint", "", "Matches requests for this endpoint.", sl_read_text,
                        AT(endpoint), 0, NAME_BYTES, NULL},
    [SL_LF_TIER] = {"tier", "text, at most 63 bytes", "", "Matches keys of this tier.", sl_read_text, AT(tier), 0,
                    NAME_BYTES, NULL},
    [SL_LF_KEY_TYPE] = {"key_type", "text, at most 63 bytes", "", "Matches keys of this type.", sl_read_text,
                        AT(key_type), 0, NAME_BYTES, NULL},
    [SL_LF_LABELS] = {"labels", "mapping of name to glob", "", "Matches requests that have all of these labels.",
                      read_labels, AT(labels), 0, 0, NULL},
    [SL_LF_LAYER] = {"layer", "name, [a-z0-9._-], at most 63", "default",
                     "One limit of every layer applies; all must allow.", sl_read_name, AT(layer), 0, NAME_BYTES, NULL},
    [SL_LF_PER] = {"per", "list of key, address, endpoint, scope, tier, label.NAME", "[key]",
                   "What has buckets of its own; [] is one bucket for all.", read_per, AT(per), 0, 0, NULL},
    [SL_LF_ALGORITHM] =
        {"algorithm", "word", "token_bucket",
         "`token_bucket`, `leaky_bucket`, `fixed_window`, `sliding_window_log`, `sliding_window_counter`.",
         sl_read_enum, AT(algorithm), 0, 0, sl_algorithm_words},
    [SL_LF_RATE] = {"rate", "rate", "", "COUNT/PERIOD, or `unlimited`, or `blocked`.", sl_read_rate, AT(rate), 0, 0,
                    NULL},
    [SL_LF_RATES] = {"rates", "list of 1 ... 8 rates or {rate, burst}", "",
                     "Several rates at once: all must have room.", read_rates, AT(rates), 0, 0, NULL},
    [SL_LF_BURST] = {"burst", "whole number, 1 ... 10^9", "COUNT",
                     "Capacity of a token bucket, queue of a leaky bucket; not beside `rates`.", sl_read_u32, AT(burst),
                     1, SL_COUNT_MAX, NULL},
    [SL_LF_COST] = {"cost", "whole number, 0 ... 10^9", "the endpoint's, else 1",
                    "What a request costs that names no cost.", sl_read_i64, AT(cost), 0, SL_COST_MAX, NULL},
    [SL_LF_MODE] = {"mode", "word", "enforce", "`enforce`, `dry_run` (decided and reported only) or `off`.",
                    sl_read_enum, AT(mode), 0, 0, sl_mode_words},
    [SL_LF_COORDINATION] = {"coordination", "word", "auto",
                            "`auto`, `local`, `shared`, `leased`, `split` or `synced`: how instances agree.",
                            sl_read_enum, AT(coordination), 0, 0, sl_coordination_words},
    [SL_LF_LEASE] = {"lease", "mapping of block, ttl", "", "Of `leased` coordination.", sl_read_nested, AT(lease), 0, 0,
                     &sl_lease_fields},
    [SL_LF_SPLIT] = {"split", "whole number, 2 ... 256", "4", "Sub-buckets of `split` coordination.", sl_read_u32,
                     AT(split), 2, 256, NULL},
    [SL_LF_SYNC] = {"sync", "mapping of interval", "", "Of `synced` coordination.", sl_read_nested, AT(sync), 0, 0,
                    &sl_sync_fields},
    [SL_LF_LOCAL_FACTOR] = {"local_factor", "number, 1 ... 1000, or `per_instance`", "2",
                            "The pre-filter before the store, in multiples of the limit.", read_local_factor,
                            AT(local_factor), 1, 1000, NULL},
    [SL_LF_ON_STORE_FAILURE] = {"on_store_failure", "word", "local",
                                "`local`, `open` or `closed`: who decides when the store does not answer.",
                                sl_read_enum, AT(on_store_failure), 0, 0, sl_on_failure_words},
    [SL_LF_WARN_AT] = {"warn_at", "percentage, 1% ... 100%", "", "Verdicts warn when this much of the limit is used.",
                       sl_read_percent, AT(warn_at_percent), 1, 100, NULL},
    [SL_LF_REGIONS] = {"regions", "mapping of region to percentage", "", "Shares of the limit; at most 100 % in all.",
                       read_regions, AT(regions), 0, 0, NULL},
    [SL_LF_NOTE] = {"note", "text, at most 1000 bytes", "", "For people.", sl_read_text, AT(note), 0, 1000, NULL},
};
const struct sl_fields sl_limit_fields = {.what = "a limit", .list = limit_rows, .n = SL_LIMIT_FIELDS};
static const struct sl_fields defaults_fields = {
    .what = "`defaults`", .list = limit_rows, .n = SL_LIMIT_FIELDS, .partial = true};

static_assert(SL_LIMIT_FIELDS <= SL_FIELDS_MAX, "more fields than struct sl_given has room for");
static_assert(offsetof(struct sl_rate_draft, rate) == 0, "rate_rows[0] reads at offset 0");

void sl_limit_draft_init(struct sl_limit_draft *limit)
{
    *limit = (struct sl_limit_draft){.layer = "default", .per = {.bits = SL_PER_KEY}, .cost = -1};
}

bool sl_limit_draft_knows(const struct sl_draft *draft, const struct sl_limit_draft *limit, enum sl_limit_field field)
{
    const struct sl_given *given =
        limit->given.at[field] || limit->given.meant >> field & 1 ? &limit->given : &draft->defaults.given;

    return given->at[field] ? sl_given_ok(given, field) : !(given->meant >> field & 1);
}

bool sl_read_defaults(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_limit_draft *limit = (void *)((char *)target + field->offset);
    bool ok = sl_read_fields(r, value, &defaults_fields, limit, &limit->given);

    limit->node = value;
    if (limit->given.at[SL_LF_NAME]) {
        size_t base = sl_path_field(&r->path, "name", 4);

        ok = sl_read_error(r, limit->given.at[SL_LF_NAME], "every limit has a name of its own; it cannot be defaulted");
        sl_path_cut(&r->path, base);
    }
    if (limit->given.at[SL_LF_RATE] && limit->given.at[SL_LF_RATES]) {
        size_t base = sl_path_field(&r->path, "rates", 5);

        ok = sl_read_error(r, limit->given.at[SL_LF_RATES], "`rate` and `rates` exclude each other");
        sl_path_cut(&r->path, base);
    }
    return ok;
}

bool sl_read_limits(struct sl_reader *r, const struct sl_node *value, struct sl_draft *draft)
{
    size_t i = 0;
    bool ok = true;

    if (!sl_read_is_list(r, value))
        return false;
    if (value->n > SL_POLICY_LIMITS_MAX)
        return sl_read_error(r, value, "at most %d limits, not %zu", SL_POLICY_LIMITS_MAX, value->n);
    draft->limits = sl_read_alloc(r, value->n, sizeof *draft->limits);
    if (!draft->limits)
        return false;
    draft->n_limits = value->n;
    for (const struct sl_node *item = value->first; item; item = item->next, i++) {
        struct sl_limit_draft *limit = &draft->limits[i];
        size_t base = sl_path_index(&r->path, i);

        *limit = draft->defaults;
        limit->name = NULL;
        limit->node = item;
        limit->index = (unsigned)i;
        ok &= sl_read_fields(r, item, &sl_limit_fields, limit, &limit->given);
        sl_path_cut(&r->path, base);
    }
    return ok;
}
