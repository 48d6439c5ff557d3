/* What /metrics says of the shared tier. */
#ifndef SL_SERVER_METRICS_STORE_H
#define SL_SERVER_METRICS_STORE_H

#include "fleet/fleet.h"
#include "server/exposition.h"

/* Shards with a label of their own; what others count is added up under the label "other". */
#define SL_METRICS_SHARDS_MAX 100u

/* Writes all families of the store and of the instances' agreement. Returns false when memory is out. Any thread. */
bool sl_expose_store(struct sl_exposition *x, struct sl_fleet *fleet);

#endif
