#include "observe/show.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Is this the beginning of a character whose end has been cut off? */
static bool is_cut_off(const char *text, size_t kept)
{
    const unsigned char *bytes = (const unsigned char *)text;

    if (kept > 3 || bytes[0] < 0xc2 || bytes[0] > 0xf4)
        return false;
    for (size_t i = 1; i < kept; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return false;
    return true;
}

/* One well-formed sequence of n bytes. */
static uint32_t character(const unsigned char *bytes, size_t n)
{
    uint32_t c = n == 1 ? bytes[0] : bytes[0] & (0xffu >> (n + 1));

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (bytes[i] & 0x3fu);
    return c;
}

static bool is_seen(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return false;
    if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f))
        return false;
    return c != 0xad && c != 0x61c && c != 0xfeff && !(c >= 0xe0000 && c <= 0xe007f);
}

void sl_show(char *to, const char *text, size_t len, size_t kept)
{
    static const char replacement[] = "\xef\xbf\xbd", ellipsis[] = "\xe2\x80\xa6";
    bool cut = kept < len;

    while (kept > 0) {
        size_t n = sl_utf8_len(text, kept);
        bool whole = n > 0 && is_seen(character((const unsigned char *)text, n));

        if (n == 0 && cut && is_cut_off(text, kept))
            break;
        memcpy(to, whole ? text : replacement, whole ? n : 3);
        to += whole ? n : 3;
        n += n == 0;
        text += n;
        kept -= n;
    }
    memcpy(to, cut ? ellipsis : "", cut ? sizeof ellipsis : 1);
}
