#include "replay/verdict_line.h"

#include "replay/text.h"

#include <inttypes.h>

#define YEAR_9999_END_MS INT64_C(253402300799999)

static void put_string(FILE *out, struct sl_slice text)
{
    const char *s = text.text;
    size_t plain = 0; /* bytes that may be written as they are */

    putc_unlocked('"', out);
    for (size_t i = 0, n; i < text.len; i += n ? n : 1) {
        bool control = (unsigned char)s[i] < 0x20, special = control || s[i] == '"' || s[i] == '\\';

        n = sl_replay_text_utf8_len(s + i, text.len - i);
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

/* Beyond the year 9999, which RFC 3339 cannot write, its last millisecond. */
static void put_reset_at(FILE *out, int64_t unix_ms)
{
    char text[SL_REPLAY_TEXT_TIME_MAX];

    if (unix_ms < 0) {
        fputs("null", out);
        return;
    }
    sl_replay_text_time((uint64_t)(unix_ms > YEAR_9999_END_MS ? YEAR_9999_END_MS : unix_ms) * 1000, text);
    fprintf(out, "\"%s\"", text);
}

void sl_verdict_line_write(FILE *out, uint64_t t_us, struct sl_slice key, struct sl_slice scope,
                           const struct sluice_verdict *verdict)
{
    fprintf(out, "{\"t_us\":%" PRIu64 ",\"key\":", t_us);
    put_string(out, key);
    fputs(",\"scope\":", out);
    put_string(out, scope);
    fprintf(out, ",\"allowed\":%s,\"limit\":%" PRId64 ",\"remaining\":%" PRId64 ",\"resetAt\":",
            verdict->allowed ? "true" : "false", verdict->limit, verdict->remaining);
    put_reset_at(out, verdict->reset_at_ms);
    fprintf(out,
            ",\"retryAfterMs\":%" PRId64 ",\"resetAfterMs\":%" PRId64 ",\"delayMs\":%" PRId64
            ",\"source\":\"%s\",\"policy\":\"%s\",\"warning\":%s",
            verdict->retry_after_ms, verdict->reset_after_ms, verdict->delay_ms, sluice_source_name(verdict->source),
            verdict->policy, verdict->warning ? "true" : "false");
    if (!verdict->allowed)
        fprintf(out, ",\"reason\":\"%s\"", sluice_reason_name(verdict->reason));
    if (verdict->dry_run)
        fprintf(out, ",\"dryRun\":{\"policy\":\"%s\",\"retryAfterMs\":%" PRId64 "}", verdict->dry_run_policy,
                verdict->dry_run_retry_after_ms);
    fputs("}\n", out);
}
