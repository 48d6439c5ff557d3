#include "base/write.h"

#include <string.h>

char *sl_write_int(char *at, int64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
        "9899";
    char digits[20];
    char *p = digits + sizeof digits;
    uint64_t v = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n;

    while (v >= 100) {
        p -= 2;
        memcpy(p, pairs + v % 100 * 2, 2);
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        memcpy(p, pairs + v * 2, 2);
    } else {
        *--p = (char)('0' + v);
    }
    if (value < 0)
        *at++ = '-';
    n = (size_t)(digits + sizeof digits - p);
    memcpy(at, p, n);
    return at + n;
}

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
