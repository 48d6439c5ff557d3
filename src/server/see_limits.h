/* What the policy in force says of a limit by its name, for answers about decisions that lie behind. Any thread; what is
 * returned lives as long as the policy. */
#ifndef SL_SERVER_SEE_LIMITS_H
#define SL_SERVER_SEE_LIMITS_H

#include "policy/override.h"

struct json_t;

/* NULL: it has no such limit. */
const struct sl_limit *sl_see_limit(const struct sl_policy *policy, const char *name);

/* The override that stands in that limit's place for this key; NULL: none, or no such limit. `key` as it is shown
 * (observe/show.h): one that was cut, or of which something was replaced, has none. */
const struct sl_override *sl_see_override(const struct sl_policy *policy, const char *limit, const char *key,
                                          const char *key_type);

/* Was it there already when something was decided at decided_us (wall clock)? */
bool sl_see_is_since(const struct sl_override *override, uint64_t decided_us);

/* Adds "overridden": true, and "override" unless NULL: by now it is another, or none. Returns 0, or -1: out of memory. */
int sl_see_add_override(struct json_t *object, const struct sl_override *override);

#endif
