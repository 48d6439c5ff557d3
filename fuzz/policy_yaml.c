/* Any bytes as a policy: an error with a place, or a policy that resolves, shows itself and does not differ from
 * itself. */
#include "base/err.h"
#include "policy/policy.h"
#include "policy/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libfyaml 0.7.12 forgets a buffer when a quoted scalar with several escapes is never closed, in memory that it does
 * not hand out: a failed load may lose about the scalar's length. The unit tests run without this, so a leak of ours,
 * or a parser that is not destroyed, still shows. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_findings(const struct sl_diags *diags)
{
    char line[6000];

    for (size_t i = 0; i < diags->n; i++) {
        sl_diag_format(&diags->list[i], line, sizeof line);
        require(diags->list[i].message[0] != '\0');
        require(!strcmp(diags->list[i].file, "fuzz.yaml"));
    }
}

/* A request that meets the limit, as far as one can be made from it. */
static void resolve_for(const struct sl_policy *policy, const struct sl_limit *limit, const char *scope)
{
    static struct sl_resolution r;
    struct sluice_request request = SLUICE_REQUEST_INIT, checked;
    struct sl_request_buffer buffer;
    const char *field, *why;

    request.key = limit && limit->key ? limit->key : "192.0.2.1";
    request.key_len = strlen(request.key);
    request.key_type = limit ? limit->key_type : NULL;
    request.key_type_len = request.key_type ? strlen(request.key_type) : 0;
    request.tier = limit ? limit->tier : NULL;
    request.tier_len = request.tier ? strlen(request.tier) : 0;
    request.labels = limit ? limit->labels : NULL;
    request.n_labels = limit ? limit->n_labels : 0;
    request.scope = scope;
    request.scope_len = strlen(scope);
    if (sl_request_check(policy, &request, &checked, &buffer, &field, &why) != 0)
        return;
    sl_policy_resolve(policy, &checked, &r);
    require(r.n_items <= SL_ITEMS_MAX && r.n_dry <= SL_ITEMS_MAX);
    for (unsigned i = 0; i < r.n_items; i++)
        require(r.items[i].shape->limit >= 1 && r.items[i].cost <= SLUICE_COST_MAX);
    json_decref(sl_policy_explain_json(policy, &checked, 3));
}

static void check_policy(const struct sl_policy *policy)
{
    json_t *diff = sl_policy_diff_json(policy, policy), *show = sl_policy_show_json(policy);
    char *text = json_dumps(show, 0);

    require(text != NULL);
    require(json_array_size(json_object_get(diff, "changes")) == 0);
    free(text);
    json_decref(diff);
    json_decref(show);
    resolve_for(policy, NULL, "");
    resolve_for(policy, NULL, "GET /b.css");
    resolve_for(policy, NULL, "GET /v1/search");
    for (size_t i = 0; i < sl_policy_n_limits(policy) && i < 20; i++)
        resolve_for(policy, sl_policy_limit(policy, i), "POST /login");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char keys_file[] = "keys_file";
    struct sl_policy_options options = {
        .secret = {1, 2}, .alloc = sl_alloc_system(), .has_store = size & 1, .region = size & 2 ? "eu" : NULL};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    int rc;

    if (memmem(data, size, keys_file, sizeof keys_file - 1))
        return 0; /* it would read files of this machine */
    sl_diags_init(&diags, sl_alloc_system());
    rc = sl_policy_parse((const char *)data, size, "fuzz.yaml", &options, &policy, &diags);
    require(rc == 0 ? policy && !diags.n_errors : rc == SL_EPOLICY && !policy && diags.n_errors);
    check_findings(&diags);
    if (policy)
        check_policy(policy);
    sl_policy_unref(policy);
    sl_diags_fini(&diags);
    return 0;
}
