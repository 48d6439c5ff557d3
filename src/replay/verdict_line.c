#include "replay/verdict_line.h"

#include "base/utf8.h"
#include "limiter/verdict_json.h"

#include <inttypes.h>

static void put_string(FILE *out, struct sl_slice text)
{
    const char *s = text.text;
    size_t plain = 0; /* bytes that may be written as they are */

    putc_unlocked('"', out);
    for (size_t i = 0, n; i < text.len; i += n ? n : 1) {
        bool control = (unsigned char)s[i] < 0x20, special = control || s[i] == '"' || s[i] == '\\';

        n = sl_utf8_len(s + i, text.len - i);
        if (n > 0 && !special) {
            plain += n;
            continue;
        }
        if (plain > 0)
            fwrite(s + i - plain, 1, plain, out);
        plain = 0;
        if (n == 0)
            fputs("\\ufffd", out);
        else if (control)
            fprintf(out, "\\u%04x", (unsigned)s[i]);
        else
            fprintf(out, "\\%c", s[i]);
    }
    if (plain > 0)
        fwrite(s + text.len - plain, 1, plain, out);
    putc_unlocked('"', out);
}

void sl_verdict_line_write(FILE *out, uint64_t t_us, struct sl_slice key, struct sl_slice scope,
                           const struct sluice_verdict *verdict)
{
    struct sl_date_cache dates = {0};
    char text[SL_VERDICT_JSON_MAX + 1];
    char *end = sl_write_verdict(text, verdict, &dates);

    fprintf(out, "{\"t_us\":%" PRIu64 ",\"key\":", t_us);
    put_string(out, key);
    fputs(",\"scope\":", out);
    put_string(out, scope);
    text[0] = ','; /* the verdict's members go on in the event's object */
    *end++ = '\n';
    fwrite(text, 1, (size_t)(end - text), out);
}
