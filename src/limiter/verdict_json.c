#include "limiter/verdict_json.h"

#include <string.h>

#define PUT(at, text) (memcpy(at, text, sizeof(text) - 1), (at) + sizeof(text) - 1)

static char *put_text(char *at, const char *text, size_t max)
{
    size_t len = strnlen(text, max);

    memcpy(at, text, len);
    return at + len;
}

static char *put_reset_at(char *at, int64_t unix_ms, struct sl_date_cache *cache)
{
    if (unix_ms < 0)
        return PUT(at, "null");
    *at++ = '"';
    at = sl_write_rfc3339(at, unix_ms, cache);
    *at++ = '"';
    return at;
}

static char *put_bool(char *at, bool value)
{
    return value ? PUT(at, "true") : PUT(at, "false");
}

/* Names of limits are [a-z0-9._-] and need no escaping. */
char *sl_write_verdict(char *at, const struct sluice_verdict *verdict, struct sl_date_cache *cache)
{
    at = PUT(at, "{\"allowed\":");
    at = put_bool(at, verdict->allowed);
    at = PUT(at, ",\"limit\":");
    at = sl_write_int(at, verdict->limit);
    at = PUT(at, ",\"remaining\":");
    at = sl_write_int(at, verdict->remaining);
    at = PUT(at, ",\"resetAt\":");
    at = put_reset_at(at, verdict->reset_at_ms, cache);
    at = PUT(at, ",\"retryAfterMs\":");
    at = sl_write_int(at, verdict->retry_after_ms);
    at = PUT(at, ",\"resetAfterMs\":");
    at = sl_write_int(at, verdict->reset_after_ms);
    at = PUT(at, ",\"delayMs\":");
    at = sl_write_int(at, verdict->delay_ms);
    at = PUT(at, ",\"source\":\"");
    at = put_text(at, sluice_source_name(verdict->source), 16);
    at = PUT(at, "\",\"policy\":\"");
    at = put_text(at, verdict->policy, SLUICE_NAME_MAX);
    at = PUT(at, "\",\"warning\":");
    at = put_bool(at, verdict->warning);
    if (verdict->warning && strncmp(verdict->warning_policy, verdict->policy, SLUICE_NAME_MAX) != 0) {
        at = PUT(at, ",\"warningPolicy\":\"");
        at = put_text(at, verdict->warning_policy, SLUICE_NAME_MAX);
        *at++ = '"';
    }
    if (!verdict->allowed) {
        at = PUT(at, ",\"reason\":\"");
        at = put_text(at, sluice_reason_name(verdict->reason), 24);
        *at++ = '"';
    }
    if (verdict->dry_run) {
        at = PUT(at, ",\"dryRun\":{\"policy\":\"");
        at = put_text(at, verdict->dry_run_policy, SLUICE_NAME_MAX);
        at = PUT(at, "\",\"retryAfterMs\":");
        at = sl_write_int(at, verdict->dry_run_retry_after_ms);
        *at++ = '}';
    }
    *at++ = '}';
    return at;
}
