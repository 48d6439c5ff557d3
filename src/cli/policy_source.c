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

int cli_policy_open_version(struct cli_versions *versions, uint64_t number, const char *region, enum cli_status invalid,
                            struct cli_policy *ret_policy)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct cli_policy found = {.policy = NULL};
    struct sl_diags diags;
    char name[40];
    int status = cli_versions_fetch(versions, number, NULL, &found.version, &found.text);

    options.region = region;
    if (status)
        return status;
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

static int open_number(const struct cli_call *call, uint64_t number, const struct cli_connect *connect,
                       const struct cli_store_options *options, const char *region, enum cli_status invalid,
                       struct cli_policy *ret_policy)
{
    struct cli_versions versions = {.in_store = true};
    int status =
        connect ? cli_versions_open(call, connect, options, &versions) : cli_store_open(&versions.store, options);

    if (status)
        return status;
    status = cli_policy_open_version(&versions, number, region, invalid, ret_policy);
    cli_versions_close(&versions);
    return status;
}

int cli_policy_open(const struct cli_call *call, const char *word, const struct cli_connect *connect,
                    const struct cli_store_options *options, const char *region, enum cli_status invalid,
                    struct cli_policy *ret_policy)
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
        return open_number(call, number, connect, options, region, invalid, ret_policy);
    status = cli_read_store(options->store, &has_store);
    if (status)
        return status;
    policy_options = cli_policy_options((struct sl_secret){0}, has_store);
    policy_options.region = region;
    ret_policy->policy = cli_load_policy(word, &policy_options);
    return ret_policy->policy ? 0 : (int)invalid;
}

int cli_warnings_read(const struct cli_warnings *given, enum sl_warnings *ret_refused)
{
    *ret_refused = given->strict ? SL_WARNINGS_ALL : given->allow ? SL_WARNINGS_NONE : SL_WARNINGS_MISSPELT;
    return given->strict && given->allow ? cli_fail(CLI_USAGE, "--strict or --allow-warnings, not both") : 0;
}

int cli_warnings_judge(const char *name, const struct sl_diags *diags, enum sl_warnings refused)
{
    size_t n = sl_diags_refused(diags, refused);

    if (n == 0)
        return 0;
    if (refused == SL_WARNINGS_ALL)
        return cli_fail(CLI_NO, "%s has %zu warning%s, which --strict refuses: nothing was changed", name, n,
                        n == 1 ? "" : "s");
    return cli_fail(CLI_NO,
                    "%s: %zu name%s misspelt (did you mean ...?), so nothing was changed: correct it, or say "
                    "--allow-warnings",
                    name, n, n == 1 ? " looks" : "s look");
}

int cli_policy_open_file(const char *path, enum sl_warnings refused, struct cli_policy *ret_policy)
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
    found.n_warnings = diags.n_warnings;
    if (!found.policy)
        status = cli_fail(CLI_NO, "%s is not valid: nothing was changed", path);
    else
        status = cli_warnings_judge(path, &diags, refused);
    sl_diags_fini(&diags);
    if (!status && sl_version_text_read(&options.alloc, path, found.policy, &found.text, why, sizeof why))
        status = cli_fail(CLI_USAGE, "%s", why);
    if (status)
        cli_policy_close(&found);
    else
        *ret_policy = found;
    return status;
}
