#include "server/verdict_json.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)
#define YEAR_9999_END_MS INT64_C(253402300799999)

static char *put_digits(char *at, unsigned value, unsigned width)
{
    for (unsigned i = width; i-- > 0; value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + width;
}

/* Days since 1970-01-01 to a Gregorian date: Howard Hinnant's civil_from_days, for days >= 0. */
static void write_date(char text[10], int64_t day)
{
    int64_t z = day + 719468;
    int64_t era = z / 146097;
    unsigned doe = (unsigned)(z - era * 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    unsigned month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = yoe + (unsigned)era * 400 + (month <= 2);

    put_digits(text, year, 4);
    text[4] = text[7] = '-';
    put_digits(text + 5, month, 2);
    put_digits(text + 8, doy - (153 * mp + 2) / 5 + 1, 2);
}

char *sl_write_rfc3339(char *at, int64_t unix_ms, struct sl_date_cache *cache)
{
    int64_t ms = unix_ms < 0 ? 0 : unix_ms > YEAR_9999_END_MS ? YEAR_9999_END_MS : unix_ms;
    int64_t day = ms / DAY_MS;
    unsigned rest = (unsigned)(ms - day * DAY_MS);

    if (cache->day != day || !cache->text[0]) {
        write_date(cache->text, day);
        cache->day = day;
    }
    memcpy(at, cache->text, 10);
    at[10] = 'T';
    put_digits(at + 11, rest / 3600000, 2);
    at[13] = ':';
    put_digits(at + 14, rest / 60000 % 60, 2);
    at[16] = ':';
    put_digits(at + 17, rest / 1000 % 60, 2);
    at[19] = '.';
    put_digits(at + 20, rest % 1000, 3);
    at[23] = 'Z';
    return at + SL_RFC3339_LEN;
}

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
