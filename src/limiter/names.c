#include "sluice/sluice.h"

const char *sluice_source_name(int source)
{
    static const char *const names[] = {
        [SLUICE_LOCAL] = "local", [SLUICE_SHARED] = "shared", [SLUICE_DEGRADED] = "degraded"};

    return source >= 0 && (unsigned)source < sizeof names / sizeof *names ? names[source] : "";
}

const char *sluice_reason_name(int reason)
{
    static const char *const names[] = {
        [SLUICE_REASON_NONE] = "",
        [SLUICE_REASON_RATE_LIMITED] = "rate_limited",
        [SLUICE_REASON_COST_EXCEEDS_LIMIT] = "cost_exceeds_limit",
        [SLUICE_REASON_STORE_UNAVAILABLE] = "store_unavailable",
        [SLUICE_REASON_BLOCKED] = "blocked",
        [SLUICE_REASON_UNMATCHED] = "unmatched",
    };

    return reason >= 0 && (unsigned)reason < sizeof names / sizeof *names ? names[reason] : "";
}
