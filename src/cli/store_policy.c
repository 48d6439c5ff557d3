#include "cli/store_policy.h"

#include "cli/files.h"
#include "control/text.h"

struct sl_policy *cli_store_policy(struct cli_store *store, uint64_t *ret_number)
{
    struct sl_policy_options options = cli_policy_options((struct sl_secret){0}, true);
    struct sl_policy *policy = NULL;
    struct sl_version_text text;
    struct sl_version version;
    char why[SL_CONTROL_WHY_MAX];
    struct sl_diags diags;

    options.any_region = true;
    if (cli_store_fetch(store, 0, &version, &text, why, sizeof why) != SL_CONTROL_OK)
        return NULL;
    sl_diags_init(&diags, options.alloc);
    if (sl_version_text_compile(&text, "@current", &options, &policy, &diags))
        policy = NULL;
    sl_diags_fini(&diags);
    sl_version_text_free(&store->alloc, &text);
    if (ret_number)
        *ret_number = version.number;
    return policy;
}
