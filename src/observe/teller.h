/* Raises and ends alarms, and says so: one line when one begins, with what was seen, and one when it is over.
 *
 * Belongs to whoever looks; the alarms are shared by all who do. */
#ifndef SL_OBSERVE_TELLER_H
#define SL_OBSERVE_TELLER_H

#include "observe/alarm.h"

#define SL_TELLER_DETAIL_MAX SL_ALARM_DETAIL_MAX

struct sl_teller {
    struct sl_alarms *alarms; /* borrowed */
    void (*say)(void *ctx, bool serious, const char *line);
    void *ctx;
};

/* The alarm's condition is there, or is not. detail: what was seen, a clause, told when the alarm begins; NULL or "" for
 * nothing to add. */
void sl_teller_set(const struct sl_teller *teller, enum sl_alarm alarm, bool on, const char *detail, uint64_t now_us);

#endif
