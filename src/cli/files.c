#include "cli/files.h"

#include <string.h>

struct sl_policy *cli_load_policy(const char *path, struct sl_secret secret, bool loud)
{
    struct sl_policy_options options = {.secret = secret, .alloc = sl_alloc_system(), .has_store = false};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    int err;

    sl_diags_init(&diags, options.alloc);
    err = sl_policy_load(path, &options, &policy, &diags);
    if (err || loud)
        sl_diags_print(&diags, stderr);
    if (err)
        policy = NULL;
    sl_diags_fini(&diags);
    return policy;
}

struct sl_limiter *cli_open_limiter(const char *path, uint64_t keys)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_limiter *limiter = NULL;
    struct sl_table *table;
    struct sl_policy *policy;
    char why[512];

    options.keys = keys;
    options.log_entries = keys;
    if (sl_table_open(&options, &table, why, sizeof why)) {
        cli_fail(CLI_USAGE, "%s", why);
        return NULL;
    }
    policy = cli_load_policy(path, sl_table_secret(table), false);
    if (!policy || sl_limiter_new(table, policy, &alloc, &limiter)) {
        if (policy)
            cli_fail(CLI_USAGE, "out of memory");
        sl_policy_unref(policy);
        sl_table_close(&table);
        return NULL;
    }
    return limiter;
}

static int make_labels(const struct sl_option_list *list, struct sluice_label labels[static SLUICE_LABELS_MAX])
{
    if (list->n > SLUICE_LABELS_MAX)
        return cli_fail(CLI_USAGE, "--label is given more than %d times", SLUICE_LABELS_MAX);
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');

        if (!equals)
            return cli_fail(CLI_USAGE, "--label: `%s`: write NAME=VALUE", list->items[i]);
        labels[i] = (struct sluice_label){.name = list->items[i],
                                          .name_len = (size_t)(equals - list->items[i]),
                                          .value = equals + 1,
                                          .value_len = strlen(equals + 1)};
    }
    return 0;
}

int cli_make_request(const struct cli_call *call, const char *key, const char *scope,
                     const struct cli_request_options *options, struct sluice_label labels[static SLUICE_LABELS_MAX],
                     struct sluice_request *ret_request)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    int status = make_labels(&options->labels, labels);

    if (status)
        return status;
    request.key = key, request.key_len = strlen(key);
    if (scope)
        request.scope = scope, request.scope_len = strlen(scope);
    if (options->key_type)
        request.key_type = options->key_type, request.key_type_len = strlen(options->key_type);
    if (options->tier)
        request.tier = options->tier, request.tier_len = strlen(options->tier);
    if (options->address)
        request.address = options->address, request.address_len = strlen(options->address);
    request.labels = labels, request.n_labels = options->labels.n;
    if (cli_given(call, "cost"))
        request.cost = (int64_t)options->cost;
    *ret_request = request;
    return 0;
}
