#include "cli/policy_source.h"

#include "cli/files.h"
#include "control/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool cli_is_version(const char *word, uint64_t *ret_number)
{
    char *end;

    *ret_number = 0;
    if (word[0] != '@')
        return false;
    if (!strcmp(word, "@current"))
        return true;
    if (word[1] < '1' || word[1] > '9')
        return false;
    errno = 0;
    *ret_number = strtoull(word + 1, &end, 10);
    return !*end && !errno && *ret_number <= SL_VERSION_NUMBER_MAX;
}

void cli_policy_close(struct cli_policy *policy)
{
    struct sl_alloc alloc = sl_alloc_system();

    sl_policy_unref(policy->policy);
    sl_version_text_free(&alloc, &policy->text);
    *policy = (struct cli_policy){.policy = NULL};
}

int cli_policy_open_version(struct cli_store *store, uint64_t number, const char *region, enum cli_status invalid,
                            struct cli_policy *ret_policy)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct cli_policy found = {.policy = NULL};
    struct sl_diags diags;
    char why[SL_CONTROL_WHY_MAX], name[40];
    enum sl_control outcome = cli_store_fetch(store, number, &found.version, &found.text, why, sizeof why);

    options.region = region;
    if (outcome != SL_CONTROL_OK)
        return cli_store_fail(store, outcome, why);
    snprintf(name, sizeof name, "@%" PRIu64, found.version.number);
    sl_diags_init(&diags, options.alloc);
    if (sl_version_text_compile(&found.text, name, &options, &found.policy, &diags)) {
        sl_diags_print(&diags, stderr);
        found.policy = NULL;
    }
    sl_diags_fini(&diags);
    if (!found.policy) {
        cli_policy_close(&found);
        return cli_fail(invalid, "%s is not valid here", name);
    }
    *ret_policy = found;
    return 0;
}

static int open_from_store(uint64_t number, const struct cli_store_options *options, const char *region,
                           enum cli_status invalid, struct cli_policy *ret_policy)
{
    struct cli_store store;
    int status = cli_store_open(&store, options);

    if (status)
        return status;
    status = cli_policy_open_version(&store, number, region, invalid, ret_policy);
    cli_store_close(&store);
    return status;
}

int cli_policy_open(const char *word, const struct cli_store_options *options, const char *region,
                    enum cli_status invalid, struct cli_policy *ret_policy)
{
    struct sl_policy_options policy_options;
    uint64_t number;
    bool has_store;
    int status;

    *ret_policy = (struct cli_policy){.policy = NULL};
    status = cli_check_region(region);
    if (status)
        return status;
    if (cli_is_version(word, &number))
        return open_from_store(number, options, region, invalid, ret_policy);
    status = cli_read_store(options->store, &has_store);
    if (status)
        return status;
    policy_options = cli_policy_options((struct sl_secret){0}, has_store);
    policy_options.region = region;
    ret_policy->policy = cli_load_policy(word, &policy_options);
    return ret_policy->policy ? 0 : (int)invalid;
}

int cli_policy_open_file(const char *path, struct cli_policy *ret_policy)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct cli_policy found = {.policy = NULL};
    struct sl_diags diags;
    char why[512];
    int status = 0;

    sl_diags_init(&diags, options.alloc);
    if (sl_policy_load(path, &options, &found.policy, &diags))
        found.policy = NULL;
    sl_diags_print(&diags, stderr);
    sl_diags_fini(&diags);
    if (!found.policy)
        status = cli_fail(CLI_NO, "%s is not valid: nothing was changed", path);
    else if (sl_version_text_read(&options.alloc, path, found.policy, &found.text, why, sizeof why))
        status = cli_fail(CLI_USAGE, "%s", why);
    if (status)
        cli_policy_close(&found);
    else
        *ret_policy = found;
    return status;
}
