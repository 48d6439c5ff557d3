#include "lib/handle.h"

static int reload(struct sluice *handle, const struct policy_source *source, sluice_finding_fn *finding,
                  void *finding_ctx)
{
    const struct finding_sink sink = {
        .finding = finding, .finding_ctx = finding_ctx, .log = handle->log, .log_ctx = handle->log_ctx};
    struct sl_secret secret = sl_table_secret(sl_limiter_table(handle->limiter));
    struct sl_policy *policy, *in_force;
    int err = sl_lib_policy(source, secret, &handle->alloc, &sink, &policy, NULL, 0);

    if (err != 0)
        return err;
    in_force = sl_policy_ref(policy); /* for the message: another thread may reload meanwhile */
    err = sl_limiter_set_policy(handle->limiter, policy);
    if (err != 0)
        sl_policy_unref(policy);
    else
        sl_lib_log(handle->log, handle->log_ctx, SLUICE_LOG_INFO, "policy in force: %zu limits, sha256 %s",
                   sl_policy_n_limits(in_force), sl_policy_hash(in_force));
    sl_policy_unref(in_force);
    return err;
}

int sluice_reload_file(struct sluice *limiter, const char *path, sluice_finding_fn *finding, void *finding_ctx)
{
    return reload(limiter, &(struct policy_source){.file = path}, finding, finding_ctx);
}

int sluice_reload_text(struct sluice *limiter, const char *text, size_t text_len, const char *name,
                       sluice_finding_fn *finding, void *finding_ctx)
{
    const struct policy_source source = {.text = text, .text_len = text_len, .name = name};

    return reload(limiter, &source, finding, finding_ctx);
}
