#include "lib/handle.h"

#include "base/err.h"

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
    if (o->store && strcmp(o->store, "memory:") != 0)
        return FAIL(SL_EUNSUPPORTED, "store: only memory: is supported");
    return 0;
}

static int open_table(const struct sluice_options *o, const struct sl_alloc *alloc, struct sl_table **ret_table,
                      char *ret_why, size_t why_size)
{
    struct sl_table_options t = sl_table_defaults();

    if (o->table_keys != 0)
        t.keys = o->table_keys;
    t.log_entries = o->table_log_entries != 0 ? o->table_log_entries : t.keys;
    t.path = o->table_path;
    t.resize = o->table_resize;
    if (o->wall_us)
        t.clock = (struct sl_clock){.wall_us = o->wall_us, .mono_us = o->mono_us, .ctx = o->clock_ctx, .steady = false};
    t.alloc = *alloc;
    return sl_table_open(&t, ret_table, ret_why, why_size);
}

static int open_policy(const struct sluice_options *o, struct sl_table *table, const struct sl_alloc *alloc,
                       struct sl_policy **ret_policy, char *ret_why, size_t why_size)
{
    const struct policy_source source = {
        .file = o->policy_file, .text = o->policy_text, .text_len = o->policy_text_len, .name = o->policy_name};
    const struct finding_sink sink = {
        .finding = o->finding, .finding_ctx = o->finding_ctx, .log = o->log, .log_ctx = o->log_ctx};

    return sl_lib_policy(&source, sl_table_secret(table), alloc, &sink, ret_policy, ret_why, why_size);
}

/* Makes the handle of a table and a policy, which it takes on success. */
static int make_handle(const struct sluice_options *o, const struct sl_alloc *alloc, struct sl_table *table,
                       struct sl_policy *policy, struct sluice **ret_limiter, char *ret_why, size_t why_size)
{
    struct sluice *handle = sl_calloc(alloc, 1, sizeof *handle);

    if (!handle)
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    *handle = (struct sluice){.alloc = *alloc, .log = o->log, .log_ctx = o->log_ctx};
    if (sl_limiter_new(table, policy, alloc, &handle->limiter) != 0) {
        sl_free(alloc, handle);
        return FAIL(SL_ENOMEM, "%s", sl_err_text(SL_ENOMEM));
    }
    *ret_limiter = handle;
    return 0;
}

int sluice_open(const struct sluice_options *options, struct sluice **ret_limiter, char *ret_why, size_t why_size)
{
    struct sluice_options o;
    struct sl_table *table = NULL;
    struct sl_policy *policy = NULL;
    int err = copy_options(options, &o, ret_why, why_size);

    if (err == 0)
        err = check_options(&o, ret_why, why_size);
    if (err != 0)
        return err;
    struct sl_alloc alloc =
        o.realloc ? (struct sl_alloc){.realloc = o.realloc, .ctx = o.realloc_ctx} : sl_alloc_system();

    err = open_table(&o, &alloc, &table, ret_why, why_size);
    if (err == 0)
        err = open_policy(&o, table, &alloc, &policy, ret_why, why_size);
    if (err == 0)
        err = make_handle(&o, &alloc, table, policy, ret_limiter, ret_why, why_size);
    if (err != 0) {
        sl_policy_unref(policy);
        sl_table_close(&table);
        return err;
    }
    sl_lib_log(o.log, o.log_ctx, SLUICE_LOG_INFO, "policy in force: %zu limits, sha256 %s", sl_policy_n_limits(policy),
               sl_policy_hash(policy));
    return 0;
}

void sluice_close(struct sluice **limiter)
{
    if (!limiter || !*limiter)
        return;
    struct sl_alloc alloc = (*limiter)->alloc;

    sl_limiter_free((*limiter)->limiter);
    sl_free(&alloc, *limiter);
    *limiter = NULL;
}
