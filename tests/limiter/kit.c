#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sl_policy *compile(struct sl_secret secret, const char *yaml)
{
    struct sl_policy_options options = {.secret = secret, .alloc = sl_alloc_system()};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    char *text;

    assert_true(asprintf(&text, "version: 1\n%s", yaml) > 0);
    sl_diags_init(&diags, sl_alloc_system());
    if (sl_policy_parse(text, strlen(text), "test.yaml", &options, &policy, &diags) != 0) {
        sl_diags_print(&diags, stderr);
        fail_msg("the policy is refused:\n%s", text);
    }
    sl_diags_fini(&diags);
    free(text);
    return policy;
}

struct sl_policy *kit_policy(struct kit *kit, const char *yaml)
{
    return compile(sl_table_secret(sl_limiter_table(kit->limiter)), yaml);
}

void kit_open(struct kit *kit, const char *yaml)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_table *table;
    char why[256];

    kit->now_us = T0_US;
    options.keys = 10000;
    options.clock = sl_clock_manual(&kit->now_us);
    if (sl_table_open(&options, &table, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(sl_limiter_new(table, compile(sl_table_secret(table), yaml), &alloc, &kit->limiter), 0);
}

void kit_close(struct kit *kit)
{
    sl_limiter_free(kit->limiter);
    kit->limiter = NULL;
}

void kit_reload(struct kit *kit, const char *yaml)
{
    assert_int_equal(sl_limiter_set_policy(kit->limiter, kit_policy(kit, yaml)), 0);
}

struct sluice_request kit_request(const char *key, const char *scope, int64_t cost)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    request.scope = scope;
    request.scope_len = scope ? strlen(scope) : 0;
    request.cost = cost;
    return request;
}

struct sluice_verdict kit_decide(struct kit *kit, const struct sluice_request *request)
{
    struct sluice_verdict verdict;
    const char *field = "", *why = "";

    memset(&verdict, 0xA5, sizeof verdict);
    if (sl_limiter_check(kit->limiter, request, &verdict, NULL, &field, &why) != 0)
        fail_msg("%s: %s", field, why);
    return verdict;
}

struct sluice_verdict kit_check(struct kit *kit, const char *key, const char *scope, int64_t cost)
{
    struct sluice_request request = kit_request(key, scope, cost);

    return kit_decide(kit, &request);
}

unsigned kit_admitted(struct kit *kit, const char *key, const char *scope, unsigned n)
{
    unsigned admitted = 0;

    for (unsigned i = 0; i < n; i++)
        admitted += kit_check(kit, key, scope, 1).allowed;
    return admitted;
}

struct sl_limiter_count kit_count(struct kit *kit, const char *limit)
{
    static struct sl_limiter_count rows[SL_COUNT_ROWS_MAX];
    size_t n = sl_limiter_counts(kit->limiter, rows, SL_COUNT_ROWS_MAX);

    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].limit, limit) == 0)
            return rows[i];
    return (struct sl_limiter_count){.limit = ""};
}

uint64_t kit_live(struct kit *kit)
{
    return sl_table_scan(sl_limiter_table(kit->limiter), UINT64_MAX);
}
