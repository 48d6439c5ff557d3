/* The least a program needs: open, check, close.
 *
 *     cc minimal.c $(pkg-config --cflags --libs sluice) && ./a.out */
#include <sluice/sluice.h>

#include <stdio.h>
#include <string.h>

static const char policy[] = "version: 1\n"
                             "limits:\n"
                             "  - {name: per-customer, rate: 3/m}\n";

int main(void)
{
    struct sluice_options options = sluice_options_default();
    struct sluice *limiter;
    char why[SLUICE_WHY_MAX];

    options.policy_text = policy;
    options.policy_text_len = strlen(policy);
    if (sluice_open(&options, &limiter, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }

    for (int i = 1; i <= 5; i++) {
        struct sluice_request request = SLUICE_REQUEST_INIT;
        struct sluice_verdict verdict;

        request.key = "acct_8812";
        request.key_len = strlen(request.key);
        if (sluice_check(limiter, &request, &verdict) != 0)
            break;
        if (verdict.allowed)
            printf("request %d: allowed, %lld left\n", i, (long long)verdict.remaining);
        else
            printf("request %d: rejected by %s, again in %lld s\n", i, verdict.policy,
                   (long long)(verdict.retry_after_ms + 999) / 1000);
    }

    sluice_close(&limiter);
    return 0;
}
