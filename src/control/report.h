/* Versions and histories as JSON, for the command line and the admin listener. New references; NULL: out of memory. */
#ifndef SL_CONTROL_REPORT_H
#define SL_CONTROL_REPORT_H

#include "control/versions.h"

struct json_t;

/* {"version","hash","time","author","comment","rollbackOf"}, or {"version","error"} when the record cannot be read. */
struct json_t *sl_version_json(const struct sl_version *version);
/* {"current","versions","instances","unheard"}: current is null when there is none; an instance is
 * {"instance","host","version","hash","source","refused","reason"}; unheard counts those that do not say what they run. */
struct json_t *sl_history_json(const struct sl_history *history);

/* "2026-01-31 09:00:00" or, for machines, "2026-01-31T09:00:00Z": the store's time in UTC. */
#define SL_VERSION_TIME_MAX 32u
void sl_version_time(const struct sl_version *version, bool for_machines, char buf[static SL_VERSION_TIME_MAX]);

#endif
