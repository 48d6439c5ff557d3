#include "lib/flying.h"
#include "lib/handle.h"

#include "base/err.h"

/* ---- now */

static int check_shared(struct sl_tier *tier, const struct sluice_request *request, struct sluice_verdict *ret_verdict)
{
    struct sl_flying flying;
    struct sl_wait wait;
    int result;

    if (sl_tier_is_here(tier))
        return SL_EBUSY;
    sl_wait_init(&wait, 1);
    result = sl_flying_begin(tier, request, ret_verdict, &wait, &flying);
    sl_tier_tend(tier);
    if (result != SL_PENDING)
        return result;
    sl_flying_send(tier, &flying, 1);
    sl_flying_wait(tier, &flying, 1, &wait);
    return 0;
}

int sluice_check(struct sluice *limiter, const struct sluice_request *request, struct sluice_verdict *ret_verdict)
{
    if (limiter->tier)
        return check_shared(limiter->tier, request, ret_verdict);
    return sl_limiter_check(limiter->limiter, request, ret_verdict, NULL, NULL, NULL);
}

static int validate_all(struct sluice *limiter, const struct sluice_request *requests, size_t n, size_t *ret_bad)
{
    struct sl_policy *policy = sl_limiter_policy(limiter->limiter);
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    const char *field, *why;
    int err = 0;

    for (size_t i = 0; i < n && err == 0; i++) {
        err = sl_request_check(policy, &requests[i], &checked, &buffer, &field, &why);
        if (err != 0 && ret_bad)
            *ret_bad = i;
    }
    sl_policy_unref(policy);
    return err;
}

/* All near parts in order, then what is left in one turn of the loop: requests on the same buckets go as one. */
static int batch_shared(struct sluice *limiter, const struct sluice_request *requests, size_t n,
                        struct sluice_verdict *ret_verdicts, size_t *ret_bad)
{
    struct sl_tier *tier = limiter->tier;
    struct sl_flying *flying;
    struct sl_wait wait;
    int err = sl_tier_is_here(tier) ? SL_EBUSY : validate_all(limiter, requests, n, ret_bad);

    if (err != 0 || n == 0)
        return err;
    flying = sl_calloc(&limiter->alloc, n, sizeof *flying);
    if (!flying)
        return SL_ENOMEM;
    sl_wait_init(&wait, (unsigned)n);
    for (size_t i = 0; i < n; i++)
        if (sl_flying_begin(tier, &requests[i], &ret_verdicts[i], &wait, &flying[i]) != SL_PENDING)
            sl_wait_done(&wait);
    sl_flying_send(tier, flying, n);
    sl_tier_tend(tier);
    sl_flying_wait(tier, flying, n, &wait);
    sl_free(&limiter->alloc, flying);
    return 0;
}

int sluice_check_batch(struct sluice *limiter, const struct sluice_request *requests, size_t n,
                       struct sluice_verdict *ret_verdicts, size_t *ret_bad)
{
    if (n > SLUICE_BATCH_MAX) {
        if (ret_bad)
            *ret_bad = n;
        return SL_EINVALID;
    }
    if (limiter->tier)
        return batch_shared(limiter, requests, n, ret_verdicts, ret_bad);
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

/* ---- later */

int sluice_check_async(struct sluice *limiter, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                       sluice_done_fn *done, void *ctx)
{
    const struct sl_later later = {.done = done, .verdict = ret_verdict, .ctx = ctx};

    if (limiter->tier)
        return sl_later_begin(limiter->tier, request, &later);
    return sl_limiter_check(limiter->limiter, request, ret_verdict, NULL, NULL, NULL);
}

int sluice_check_queued(struct sluice *limiter, const struct sluice_request *request,
                        struct sluice_verdict *ret_verdict, void *ctx)
{
    const struct sl_later later = {.queue = &limiter->completions, .verdict = ret_verdict, .ctx = ctx};

    if (limiter->tier)
        return sl_later_begin(limiter->tier, request, &later);
    return sl_limiter_check(limiter->limiter, request, ret_verdict, NULL, NULL, NULL);
}

size_t sluice_completions_take(struct sluice *limiter, struct sluice_completion *ret_list, size_t max)
{
    size_t n = sl_completions_take(&limiter->completions, ret_list, max);

    if (n > 0)
        sl_later_taken(limiter->tier, n);
    return n;
}

int sluice_completions_fd(struct sluice *limiter)
{
    return sl_completions_fd(&limiter->completions);
}

/* ---- the library */

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
