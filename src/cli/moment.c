#include "cli/moment.h"

#include "core/rate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The same time of day on another day. */
static int64_t local_ms(struct tm tm)
{
    tm.tm_isdst = -1;
    return (int64_t)mktime(&tm) * 1000;
}

/* "12:03[:04]" up to the end or a Z: hours, minutes and seconds into *tm, and whether there were seconds. */
static const char *read_clock(const char *text, struct tm *tm, bool *ret_minute)
{
    const char *rest = strptime(text, "%H:%M", tm), *seconds;

    *ret_minute = true;
    tm->tm_sec = 0;
    if (rest && *rest == ':') {
        seconds = strptime(rest + 1, "%S", tm);
        *ret_minute = false;
        rest = seconds;
    }
    if (rest && *rest == '.') { /* a fraction makes no difference here */
        rest++;
        rest += strspn(rest, "0123456789");
    }
    return rest;
}

static int read_time_of_day(const char *text, int64_t now_ms, struct moment *ret)
{
    time_t now = (time_t)(now_ms / 1000);
    struct tm tm = {0};
    const char *rest;

    if (!localtime_r(&now, &tm))
        return -1;
    rest = read_clock(text, &tm, &ret->minute);
    if (!rest || *rest)
        return -1;
    ret->ms = local_ms(tm);
    if (ret->ms > now_ms) {
        tm.tm_mday--; /* yesterday */
        ret->ms = local_ms(tm);
    }
    return 0;
}

static int read_date(const char *text, struct moment *ret)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%d", &tm);

    if (!rest || (*rest != 'T' && *rest != ' '))
        return -1;
    rest = read_clock(rest + 1, &tm, &ret->minute);
    if (!rest || (*rest && strcmp(rest, "Z") != 0))
        return -1;
    ret->ms = *rest ? (int64_t)timegm(&tm) * 1000 : local_ms(tm);
    return 0;
}

static int read_ago(const char *text, int64_t now_ms, struct moment *ret)
{
    const char *why;
    uint64_t us;

    if (sl_duration_parse(text, strlen(text), &us, &why))
        return -1;
    ret->ms = now_ms - (int64_t)(us / 1000);
    return 0;
}

int moment_read(const char *text, int64_t now_ms, struct moment *ret_moment)
{
    struct moment moment = {.given = true};

    if (read_ago(text, now_ms, &moment) && read_time_of_day(text, now_ms, &moment) && read_date(text, &moment))
        return -1;
    if (moment.ms < 0)
        return -1;
    *ret_moment = moment;
    return 0;
}
