/* The least a program needs to share its limits with others: name a store.
 *
 *     cc minimal_shared.c $(pkg-config --cflags --libs sluice) && ./a.out redis://127.0.0.1
 *
 * Start it again, there or on another host: together they are allowed three requests a minute. */
#include <sluice/sluice.h>

#include <stdio.h>
#include <string.h>

static const char policy[] = "version: 1\n"
                             "limits:\n"
                             "  - {name: per-customer, rate: 3/m, on_store_failure: closed}\n";

static void log_line(void *ctx, int level, const char *message)
{
    (void)ctx;
    if (level != SLUICE_LOG_INFO)
        fprintf(stderr, "%s\n", message);
}

static void print(int i, const struct sluice_verdict *verdict)
{
    const char *source = sluice_source_name(verdict->source);

    if (verdict->allowed)
        printf("request %d: allowed (%s), %lld left\n", i, source, (long long)verdict->remaining);
    else
        printf("request %d: rejected (%s): %s, again in %lld s\n", i, source, sluice_reason_name(verdict->reason),
               (long long)(verdict->retry_after_ms + 999) / 1000);
}

int main(int argc, char **argv)
{
    struct sluice_options options = sluice_options_default();
    struct sluice *limiter;
    char why[SLUICE_WHY_MAX];

    if (argc != 2) {
        fprintf(stderr, "usage: %s STORE\n", argv[0]);
        return 2;
    }
    options.policy_text = policy;
    options.policy_text_len = strlen(policy);
    options.store = argv[1];
    options.timeout_us = 200000; /* the default, 10 ms, is for a store nearby that has a machine of its own */
    options.log = log_line;
    if (sluice_open(&options, &limiter, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }

    for (int i = 1; i <= 2; i++) {
        struct sluice_request request = SLUICE_REQUEST_INIT;
        struct sluice_verdict verdict;

        request.key = "acct_8812";
        request.key_len = strlen(request.key);
        if (sluice_check(limiter, &request, &verdict) != 0)
            break;
        print(i, &verdict);
    }

    sluice_close(&limiter);
    return 0;
}
