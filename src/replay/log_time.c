#include "replay/log_time.h"

#include "core/limits.h"

#include <stdbool.h>
#include <string.h>

#define LEN 26 /* "17/May/2015:10:05:03 +0000" without a fraction */

/* Reads n decimal digits; false when one of them is none. */
static bool digits(const char *text, unsigned n, unsigned *ret)
{
    unsigned value = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned digit = (unsigned char)text[i] - '0';

        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

/* 1 ... 12, or 0. */
static unsigned month_number(const char *text)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (unsigned i = 0; i < 12; i++) {
        if (memcmp(text, names + 3 * i, 3) == 0)
            return i + 1;
    }
    return 0;
}

static unsigned days_in_month(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* Days from 1970-01-01 to a Gregorian date (Howard Hinnant's days_from_civil, for years from 1970 on). */
static int64_t days_from_civil(unsigned year, unsigned month, unsigned day)
{
    unsigned y = month <= 2 ? year - 1 : year;
    unsigned era = y / 400, yoe = y % 400;
    unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

    return (int64_t)era * 146097 + doe - 719468;
}

/* The fraction behind the seconds, in microseconds; returns its length with the point, 0 when there is none. */
static size_t fraction(const char *text, size_t len, uint32_t *ret_us)
{
    uint32_t us = 0, unit = 100000;
    size_t n = 1;

    *ret_us = 0;
    if (len < 2 || (text[0] != '.' && text[0] != ','))
        return 0;
    for (; n < len && text[n] >= '0' && text[n] <= '9'; n++) {
        us += unit * (uint32_t)(text[n] - '0');
        unit /= 10;
    }
    if (n == 1)
        return 0;
    *ret_us = us;
    return n;
}

/* " +0130" to seconds east of Greenwich. */
static bool zone(const char *text, int64_t *ret_seconds)
{
    unsigned hours, minutes;

    if (text[0] != ' ' || (text[1] != '+' && text[1] != '-') || !digits(text + 2, 2, &hours) ||
        !digits(text + 4, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_seconds = hours * 3600 + minutes * 60;
    if (text[1] == '-')
        *ret_seconds = -*ret_seconds;
    return true;
}

size_t sl_log_time_parse(const char *text, size_t len, uint64_t *ret_us)
{
    unsigned day, month, year, hour, minute, second;
    uint32_t us;
    int64_t offset, seconds;
    size_t extra;

    if (len < LEN || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':')
        return 0;
    if (!digits(text, 2, &day) || !digits(text + 7, 4, &year) || !digits(text + 12, 2, &hour) ||
        !digits(text + 15, 2, &minute) || !digits(text + 18, 2, &second))
        return 0;
    month = month_number(text + 3);
    if (month == 0 || year < 1970 || year > 3999 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 60)
        return 0;
    extra = fraction(text + 20, len - LEN, &us);
    if (!zone(text + 20 + extra, &offset))
        return 0;
    seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    if (seconds < 0 || (uint64_t)seconds * SL_SECOND_US + us > SL_TIME_MAX_US)
        return 0;
    *ret_us = (uint64_t)seconds * SL_SECOND_US + us;
    return LEN + extra;
}
