/* What /metrics says of notifications. */
#ifndef SL_SERVER_METRICS_NOTIFY_H
#define SL_SERVER_METRICS_NOTIFY_H

#include "notify/counts.h"
#include "server/exposition.h"

/* Any thread. */
void sl_expose_notices(struct sl_exposition *x, struct sl_notice_counts *counts);

#endif
