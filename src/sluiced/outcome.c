#include "sluiced/outcome.h"

#include <stdio.h>
#include <string.h>

int sl_outcome_status(enum sl_control outcome)
{
    static const int statuses[] = {
        [SL_CONTROL_OK] = 500,      [SL_CONTROL_NONE] = 404,    [SL_CONTROL_CONFLICT] = 409, [SL_CONTROL_FOREIGN] = 502,
        [SL_CONTROL_DAMAGED] = 502, [SL_CONTROL_INVALID] = 400, [SL_CONTROL_REFUSED] = 502,  [SL_CONTROL_AWAY] = 503,
        [SL_CONTROL_UNKNOWN] = 503, [SL_CONTROL_NOMEM] = 500,
    };

    return statuses[outcome];
}

const char *sl_outcome_why(enum sl_control outcome, const char *why)
{
    if (why && why[0])
        return why;
    return outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached";
}

void sl_outcome_sentence(const char *why, char *buf, size_t size)
{
    size_t len = strlen(why);

    snprintf(buf, size, "%s%s", why, len && why[len - 1] == '.' ? "" : ".");
    if (buf[0] >= 'a' && buf[0] <= 'z')
        buf[0] = (char)(buf[0] - 'a' + 'A');
}
