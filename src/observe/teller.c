#include "observe/teller.h"

#include <stdio.h>

static void say(const struct sl_teller *teller, enum sl_alarm alarm, bool on, const char *detail)
{
    char line[512 + SL_TELLER_DETAIL_MAX];
    bool more = detail && *detail;

    if (on)
        snprintf(line, sizeof line, "alarm %s: %s%s%.*s; docs/runbook.md says what to do", sl_alarm_name(alarm),
                 sl_alarm_meaning(alarm), more ? ": " : "", SL_TELLER_DETAIL_MAX, more ? detail : "");
    else
        snprintf(line, sizeof line, "alarm %s is over", sl_alarm_name(alarm));
    teller->say(teller->ctx, on, line);
}

void sl_teller_set(const struct sl_teller *teller, enum sl_alarm alarm, bool on, const char *detail, uint64_t now_us)
{
    if (on ? sl_alarm_raise(teller->alarms, alarm, detail, now_us) : sl_alarm_rest(teller->alarms, alarm, now_us))
        say(teller, alarm, on, detail);
}
