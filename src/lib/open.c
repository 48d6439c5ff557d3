#include "lib/handle.h"

#include "base/err.h"
#include "lib/tier.h"
#include "table/layout.h"

#include <assert.h>
#include <string.h>

static_assert(SLUICE_ENOMEM == SL_ENOMEM && SLUICE_EINVALID == SL_EINVALID && SLUICE_EIO == SL_EIO &&
                  SLUICE_EPOLICY == SL_EPOLICY && SLUICE_EFORMAT == SL_EFORMAT && SLUICE_EBUSY == SL_EBUSY &&
                  SLUICE_ENOTFOUND == SL_ENOTFOUND && SLUICE_EUNSUPPORTED == SL_EUNSUPPORTED,
              "the codes of the public header are those of base/err.h");
static_assert(SLUICE_COST_MAX == SL_COST_MAX, "the ranges of the public header are those of core/limits.h");

#define FAIL(err, ...) (sl_lib_why(ret_why, why_size, __VA_ARGS__), (err))

/* Programs may be built against an older header (their options are shorter: the rest is default) or a newer one (theirs
 * are longer: what is beyond must be default, for nobody here knows it). */
static int copy_options(const struct sluice_options *given, struct sluice_options *ret_options, char *ret_why,
                        size_t why_size)
{
    const unsigned char *bytes = (const unsigned char *)given;
    size_t size = given->struct_size;

    if (size < sizeof given->struct_size || size > 65536)
        return FAIL(SL_EINVALID, "options.struct_size is %zu; start from sluice_options_default()", size);
    for (size_t i = sizeof *given; i < size; i++)
        if (bytes[i] != 0)
            return FAIL(SL_EUNSUPPORTED, "an option is set that this version (%s) does not know", sluice_version());
    memset(ret_options, 0, sizeof *ret_options);
    memcpy(ret_options, given, size < sizeof *given ? size : sizeof *given);
    return 0;
}

static int check_options(const struct sluice_options *o, char *ret_why, size_t why_size)
{
    if (!o->policy_file == !o->policy_text)
        return FAIL(SL_EINVALID, "exactly one of policy_file and policy_text must be given");
    if (!o->wall_us != !o->mono_us)
        return FAIL(SL_EINVALID, "wall_us and mono_us must be given together");
    if (o->region && !sl_region_is_valid(o->region))
        return FAIL(SL_EINVALID, "region: 1 to %d of a-z, 0-9, `.`, `_` and `-`", SLUICE_NAME_MAX - 1);
    return 0;
}

static int open_table(const struct sluice_options *o, const struct sl_alloc *alloc, struct sl_table **ret_table,
                      char *ret_why, size_t why_size)
{
    struct sl_table_options t = sl_table_defaults();

    if (o->table_keys != 0)
        t.keys = o->table_keys;
    t.log_entries = o->table_log_entries != 0           ? o->table_log_entries
                    : t.keys < SL_TABLE_LOG_ENTRIES_MAX ? t.keys
                                                        : SL_TABLE_LOG_ENTRIES_MAX;
    t.path = o->table_path;
    t.resize = o->table_resize;
    if (o->wall_us)
        t.clock = (struct sl_clock){.wall_us = o->wall_us, .mono_us = o->mono_us, .ctx = o->clock_ctx, .steady = false};
    t.alloc = *alloc;
    return sl_table_open(&t, ret_table, ret_why, why_size);
}

static int read_policy(const struct sluice_options *o, const struct finding_sink *sink, const struct sl_alloc *alloc,
                       struct policy_text *ret_text, char *ret_why, size_t why_size)
{
    const struct policy_source source = {
        .file = o->policy_file, .text = o->policy_text, .text_len = o->policy_text_len, .name = o->policy_name};

    return sl_lib_read(&source, alloc, sink, ret_text, ret_why, why_size);
}

/* Makes the handle of a table and a policy, which it takes on success. */
static int make_handle(const struct sluice_options *o, const struct sl_alloc *alloc, struct sl_table *table,
                       struct sl_policy *policy, struct sluice **ret_limiter, char *ret_why, size_t why_size)
{
    struct sluice *handle = sl_calloc(alloc, 1, sizeof *handle);

    if (!handle)
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    *handle = (struct sluice){.alloc = *alloc, .log = o->log, .log_ctx = o->log_ctx};
    if (o->region)
        memcpy(handle->region, o->region, strlen(o->region) + 1); /* its length was checked */
    if (sl_limiter_new(table, policy, alloc, &handle->limiter) != 0) {
        sl_free(alloc, handle);
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    }
    sl_completions_init(&handle->completions, alloc);
    *ret_limiter = handle;
    return 0;
}

static void free_handle(struct sluice *handle, bool inherited)
{
    struct sl_alloc alloc = handle->alloc;

    sl_completions_fini(&handle->completions, inherited);
    sl_limiter_free(handle->limiter);
    sl_free(&alloc, handle);
}

/* The table, and the policy on it. */
static int open_alone(const struct sluice_options *o, const struct sl_alloc *alloc, bool has_store,
                      struct policy_text *ret_text, struct sluice **ret_handle, char *ret_why, size_t why_size)
{
    const struct finding_sink sink = {
        .finding = o->finding, .finding_ctx = o->finding_ctx, .log = o->log, .log_ctx = o->log_ctx};
    struct sl_policy_options options = {.alloc = *alloc, .has_store = has_store, .region = o->region};
    struct sl_table *table = NULL;
    struct sl_policy *policy = NULL;
    int err = open_table(o, alloc, &table, ret_why, why_size);

    if (err == 0)
        err = read_policy(o, &sink, alloc, ret_text, ret_why, why_size);
    if (err == 0) {
        options.secret = sl_table_secret(table);
        err = sl_lib_compile(ret_text, &options, &sink, &policy, ret_why, why_size);
    }
    if (err == 0)
        err = make_handle(o, alloc, table, policy, ret_handle, ret_why, why_size);
    if (err != 0) {
        sl_policy_unref(policy);
        sl_table_close(&table);
        return err;
    }
    sl_lib_log_policy(o->log, o->log_ctx, policy);
    return 0;
}

/* What it decides together with others. */
static int open_tier(const struct sluice_options *o, struct sl_tier *tier, struct sluice *handle,
                     struct policy_text *text, char *ret_why, size_t why_size)
{
    struct sl_secret secret = sl_table_secret(sl_limiter_table(handle->limiter));
    int err = sl_tier_start(tier, handle, o, text, &secret, ret_why, why_size);

    if (err == 0)
        handle->tier = tier;
    return err;
}

int sluice_open(const struct sluice_options *options, struct sluice **ret_limiter, char *ret_why, size_t why_size)
{
    struct sluice_options o;
    struct sluice *handle = NULL;
    struct sl_tier *tier = NULL;
    struct policy_text text = {.bytes = NULL};
    int err = copy_options(options, &o, ret_why, why_size);

    if (err == 0)
        err = check_options(&o, ret_why, why_size);
    if (err != 0)
        return err;
    struct sl_alloc alloc =
        o.realloc ? (struct sl_alloc){.realloc = o.realloc, .ctx = o.realloc_ctx} : sl_alloc_system();

    err = sl_tier_new(&o, &alloc, &tier, ret_why, why_size);
    if (err == 0)
        err = open_alone(&o, &alloc, tier != NULL, &text, &handle, ret_why, why_size);
    if (err == 0 && tier)
        err = open_tier(&o, tier, handle, &text, ret_why, why_size);
    sl_lib_text_free(&text, &alloc);
    if (err != 0) {
        sl_tier_free(tier);
        if (handle)
            free_handle(handle, false);
        return err;
    }
    *ret_limiter = handle;
    return 0;
}

void sluice_close(struct sluice **limiter)
{
    struct sl_tier *tier;
    bool inherited;

    if (!limiter || !*limiter)
        return;
    tier = (*limiter)->tier;
    inherited = tier && sl_tier_is_inherited(tier);
    if (inherited) {
        sl_tier_abandon(tier);
    } else if (tier) {
        sl_tier_stop(tier);
        sl_tier_free(tier);
    }
    free_handle(*limiter, inherited);
    *limiter = NULL;
}
