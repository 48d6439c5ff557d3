#include "cli/files.h"

#include "store/url.h"

#include <string.h>

struct sl_policy_options cli_policy_options(struct sl_secret secret, bool has_store)
{
    return (struct sl_policy_options){.secret = secret,
                                      .alloc = sl_alloc_system(),
                                      .has_store = has_store,
                                      .check_store = sl_store_url_check,
                                      .any_region = true};
}

int cli_check_region(const char *region)
{
    return !region || sl_region_is_valid(region)
               ? 0
               : cli_fail(CLI_USAGE, "--region: `%s`: a region is 1 to %d of a-z, 0-9, `.`, `_` and `-`", region,
                          SLUICE_NAME_MAX - 1);
}

struct sl_policy *cli_load_policy(const char *path, const struct sl_policy_options *options)
{
    struct sl_policy *policy = NULL;
    struct sl_diags diags;

    sl_diags_init(&diags, options->alloc);
    if (sl_policy_load(path, options, &policy, &diags)) {
        sl_diags_print(&diags, stderr);
        policy = NULL;
    }
    sl_diags_fini(&diags);
    return policy;
}

int cli_read_store(const char *store, bool *ret_has_store)
{
    struct sl_store_url url;
    char why[300];

    *ret_has_store = false;
    if (!store)
        return 0;
    if (sl_store_url_parse(store, &url, why, sizeof why) != 0)
        return cli_fail(CLI_USAGE, "--store: %s", why);
    *ret_has_store = url.kind != SL_STORE_MEMORY;
    sl_store_url_fini(&url);
    return 0;
}

struct sl_limiter *cli_open_limiter(const char *path, uint64_t keys)
{
    struct sl_table_options options = sl_table_defaults();
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_limiter *limiter = NULL;
    struct sl_policy_options policy_options;
    struct sl_table *table;
    struct sl_policy *policy;
    char why[512];

    options.keys = keys;
    options.log_entries = keys;
    if (sl_table_open(&options, &table, why, sizeof why)) {
        cli_fail(CLI_USAGE, "%s", why);
        return NULL;
    }
    policy_options = cli_policy_options(sl_table_secret(table), false);
    policy = cli_load_policy(path, &policy_options);
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
