#include "server/see_limits.h"

#include "policy/override_json.h"

#include <jansson.h>
#include <string.h>

const struct sl_limit *sl_see_limit(const struct sl_policy *policy, const char *name)
{
    for (size_t i = 0; i < sl_policy_n_limits(policy); i++)
        if (!strcmp(sl_policy_limit(policy, i)->name, name))
            return sl_policy_limit(policy, i);
    return NULL;
}

const struct sl_override *sl_see_override(const struct sl_policy *policy, const char *limit, const char *key,
                                          const char *key_type)
{
    const struct sl_overrides *all = sl_policy_overrides(policy);
    const struct sl_limit *found = all && all->n ? sl_see_limit(policy, limit) : NULL;
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key;
    request.key_len = strlen(key);
    request.key_type = key_type;
    request.key_type_len = strlen(key_type);
    return found ? sl_policy_override_for(policy, &request, found) : NULL;
}

bool sl_see_is_since(const struct sl_override *override, uint64_t decided_us)
{
    return override->set_us <= decided_us;
}

int sl_see_add_override(json_t *object, const struct sl_override *override)
{
    if (json_object_set_new(object, "overridden", json_true()))
        return -1;
    return override ? json_object_set_new(object, "override", sl_override_json(override, SL_OVERRIDE_SHOWN)) : 0;
}
