#include "replay/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

size_t sl_replay_text_utf8_len(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (n == 1)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

char *sl_replay_text_utf8(const struct sl_alloc *alloc, const char *text, size_t len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *copy = sl_calloc(alloc, len + 1, sizeof replacement - 1), *at = copy;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t n = sl_replay_text_utf8_len(text + i, len - i);
        int control = n == 1 && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f);

        if (n == 0 || control) {
            memcpy(at, replacement, sizeof replacement - 1);
            at += sizeof replacement - 1;
        } else {
            memcpy(at, text + i, n);
            at += n;
        }
        i += n ? n : 1;
    }
    return copy;
}

/* Events lie between 1970 and 4000, so a year has four digits and gmtime_r cannot fail. */
static struct tm utc(uint64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm = {0};

    gmtime_r(&t, &tm);
    return tm;
}

void sl_replay_text_time(uint64_t t_us, char buf[SL_REPLAY_TEXT_TIME_MAX])
{
    struct tm tm = utc(t_us / 1000000);

    snprintf(buf, SL_REPLAY_TEXT_TIME_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
             (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100, (unsigned)(t_us / 1000 % 1000));
}

void sl_replay_text_minute(uint64_t minute, char buf[SL_REPLAY_TEXT_MINUTE_MAX])
{
    struct tm tm = utc(minute * 60);

    snprintf(buf, SL_REPLAY_TEXT_MINUTE_MAX, "%04u-%02u-%02uT%02u:%02uZ", (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
             (unsigned)tm.tm_min % 100);
}
