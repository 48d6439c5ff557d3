/* What an override does under a policy, for people: what it stands in the place of, and what it depends on; and which others
 * of its key there are. JSON values are new references; NULL, or -1, stands for memory that ran out. Pure; any thread. */
#ifndef SL_POLICY_OVERRIDE_EFFECT_H
#define SL_POLICY_OVERRIDE_EFFECT_H

#include "policy/override.h"

struct json_t;

/* Adds "limits" (how many it replaces), "instead" (what the policy says of that limit, when it is one; else null) and "where"
 * (a limit that it names and that wins for some requests only: which; else null). `index`: of the list that lies over the
 * policy; policy NULL: nothing is known, and all are null. */
int sl_override_add_effect(struct json_t *object, const struct sl_policy *policy, size_t index);

/* One of that list as it is shown, with "state" ("unknown" without a policy), its effect, and "why" it has less. */
struct json_t *sl_override_in_force_json(const struct sl_override *override, const struct sl_policy *policy,
                                         size_t index);

/* "there is no such override", and for which limits the key has others. The list may be NULL. */
void sl_override_missing(const struct sl_overrides *list, const struct sl_override *asked, uint64_t now_us, char *buf,
                         size_t size);

#endif
