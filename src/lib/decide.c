#include "lib/handle.h"

#include "base/err.h"

int sluice_check(struct sluice *limiter, const struct sluice_request *request, struct sluice_verdict *ret_verdict)
{
    return sl_limiter_check(limiter->limiter, request, ret_verdict, NULL, NULL, NULL);
}

int sluice_check_batch(struct sluice *limiter, const struct sluice_request *requests, size_t n,
                       struct sluice_verdict *ret_verdicts, size_t *ret_bad)
{
    if (n > SLUICE_BATCH_MAX) {
        if (ret_bad)
            *ret_bad = n;
        return SL_EINVALID;
    }
    return sl_limiter_check_batch(limiter->limiter, requests, n, ret_verdicts, NULL, ret_bad, NULL, NULL);
}

int sluice_validate(struct sluice *limiter, const struct sluice_request *request, char *ret_why, size_t why_size)
{
    struct sl_policy *policy = sl_limiter_policy(limiter->limiter);
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    const char *field = "", *why = "";
    int err = sl_request_check(policy, request, &checked, &buffer, &field, &why);

    if (err != 0)
        sl_lib_why(ret_why, why_size, "%s: %s", field, why);
    sl_policy_unref(policy);
    return err;
}

const char *sluice_version(void)
{
#define TEXT(x) #x
#define DOTTED(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
    return DOTTED(SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH);
#undef DOTTED
#undef TEXT
}

const char *sluice_error_text(int code)
{
    return sl_err_text(code);
}
