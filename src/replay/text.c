#include "replay/text.h"

#include "base/utf8.h"
#include "base/write.h"

#include <string.h>

char *sl_replay_text_utf8(const struct sl_alloc *alloc, const char *text, size_t len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *copy = sl_calloc(alloc, len + 1, sizeof replacement - 1), *at = copy;

    if (!copy)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t n = sl_utf8_len(text + i, len - i);
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

void sl_replay_text_time(uint64_t t_us, char buf[SL_REPLAY_TEXT_TIME_MAX])
{
    struct sl_date_cache cache = {0};

    *sl_write_rfc3339(buf, (int64_t)(t_us / 1000), &cache) = '\0';
}

void sl_replay_text_minute(uint64_t minute, char buf[SL_REPLAY_TEXT_MINUTE_MAX])
{
    sl_replay_text_time(minute * 60000000, buf);
    memcpy(buf + strlen("2015-05-17T10:05"), "Z", 2);
}
