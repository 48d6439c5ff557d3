#include "server/metrics_notify.h"

/* Those of tests are sent by the command line. */
#define KINDS SL_NOTICE_TEST

void sl_expose_notices(struct sl_exposition *x, struct sl_notice_counts *counts)
{
    sl_exposition_family(x, "sluice_notifications", "counter",
                         "Notifications to webhooks, by event and by what became of them; `retried` counts attempts.");
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned result = 0; result < SL_NOTICE_RESULTS; result++) {
            sl_exposition_begin(x, "_total");
            sl_exposition_label(x, "event", sl_notice_name((enum sl_notice_kind)kind));
            sl_exposition_label(x, "result", sl_notice_result_name((enum sl_notice_result)result));
            sl_exposition_int(x, atomic_load(&counts->n[kind][result]));
        }
    }
    sl_exposition_gauge(x, "sluice_notifications_queued", "Notifications that wait or are under way.",
                        atomic_load(&counts->queued));
}
