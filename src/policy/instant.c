#include "policy/instant.h"

#include "base/err.h"
#include "base/write.h"
#include "core/limits.h"

#include <stdbool.h>
#include <string.h>

struct reader {
    const char *at, *end;
    bool bad;
};

/* Exactly n digits. */
static unsigned number(struct reader *r, unsigned n)
{
    unsigned x = 0;

    for (; n && !r->bad; n--) {
        if (r->at == r->end || *r->at < '0' || *r->at > '9')
            r->bad = true;
        else
            x = x * 10 + (unsigned)(*r->at++ - '0');
    }
    return x;
}

static bool take(struct reader *r, const char *any)
{
    if (r->at < r->end && *r->at && strchr(any, *r->at)) {
        r->at++;
        return true;
    }
    return false;
}

static void need(struct reader *r, const char *any)
{
    r->bad |= !take(r, any);
}

/* Days from 1970-01-01, by counting years that begin in March. */
static int64_t days(unsigned year, unsigned month, unsigned day)
{
    int64_t y = (int64_t)year - (month <= 2), era = y / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (int64_t)(month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static unsigned days_of(unsigned year, unsigned month)
{
    static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return lengths[month - 1] + (month == 2 && leap);
}

static int64_t fraction_ms(struct reader *r)
{
    int64_t ms = 0, unit = 100;

    if (!take(r, "."))
        return 0;
    r->bad |= r->at == r->end || *r->at < '0' || *r->at > '9';
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; unit /= 10)
        ms += unit * (*r->at++ - '0');
    return ms;
}

static int64_t offset_s(struct reader *r)
{
    bool west = r->at < r->end && *r->at == '-';
    int64_t hours, minutes;

    if (take(r, "Zz"))
        return 0;
    need(r, "+-");
    hours = number(r, 2);
    need(r, ":");
    minutes = number(r, 2);
    r->bad |= hours > 23 || minutes > 59;
    return (west ? -1 : 1) * (hours * 3600 + minutes * 60);
}

int sl_instant_parse(const char *text, size_t len, uint64_t *ret_us, const char **ret_why)
{
    struct reader r = {.at = text, .end = text + len};
    unsigned year, month, day, hour, minute, second;
    int64_t ms;

    *ret_why = "write a time as 2026-12-31T18:00:00Z";
    year = number(&r, 4);
    need(&r, "-");
    month = number(&r, 2);
    need(&r, "-");
    day = number(&r, 2);
    need(&r, "Tt ");
    hour = number(&r, 2);
    need(&r, ":");
    minute = number(&r, 2);
    need(&r, ":");
    second = number(&r, 2);
    if (r.bad || month < 1 || month > 12 || day < 1 || day > days_of(year, month) || hour > 23 || minute > 59 ||
        second > 60)
        return SL_EINVALID;
    ms = fraction_ms(&r);
    ms += (days(year, month, day) * 86400 + (int64_t)hour * 3600 + minute * 60 + second) * 1000;
    ms -= offset_s(&r) * 1000;
    if (r.bad || r.at != r.end)
        return SL_EINVALID;
    if (ms < 0 || (uint64_t)ms * 1000 > SL_TIME_MAX_US) {
        *ret_why = "the time must lie in the years 1970 ... 3999";
        return SL_EINVALID;
    }
    *ret_us = (uint64_t)ms * 1000;
    return 0;
}

void sl_instant_format(uint64_t us, char buf[static SL_INSTANT_MAX])
{
    struct sl_date_cache cache = {0};

    *sl_write_rfc3339(buf, (int64_t)(us / 1000), &cache) = '\0';
}
