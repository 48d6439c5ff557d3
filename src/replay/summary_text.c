#include "replay/replay.h"

#include "replay/text.h"

#include <inttypes.h>
#include <string.h>

#define LIMITS_SHOWN 50

/* A share in tenths of a percent, for reading. */
static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static void print_key(const struct sl_alloc *alloc, const char *key, size_t len, FILE *out)
{
    char *clean = sl_replay_text_utf8(alloc, key, len);

    fputs(clean ? clean : "(out of memory)", out);
    sl_free(alloc, clean);
}

static void print_peak(const char *what, const struct sl_replay_peak *peak, FILE *out)
{
    char minute[SL_REPLAY_TEXT_MINUTE_MAX];

    if (peak->n == 0)
        return;
    sl_replay_text_minute(peak->minute, minute);
    fprintf(out, "%s %" PRIu64 " in the minute %s", what, peak->n, minute);
}

static void print_totals(const struct sl_replay_summary *s, FILE *out)
{
    char first[SL_REPLAY_TEXT_TIME_MAX], last[SL_REPLAY_TEXT_TIME_MAX];

    fprintf(out, "events     %12" PRIu64, s->events);
    if (s->events > 0) {
        sl_replay_text_time(s->first_us, first);
        sl_replay_text_time(s->last_us, last);
        fprintf(out, "   %s to %s", first, last);
    }
    fprintf(out, "\nallowed    %12" PRIu64 "   %5.1f %%\n", s->allowed, percent(s->allowed, s->events));
    fprintf(out, "rejected   %12" PRIu64 "   %5.1f %%", s->rejected, percent(s->rejected, s->events));
    if (s->rejected > 0)
        fprintf(out, "   of %" PRIu64 " %s", s->rejected_keys, s->rejected_keys == 1 ? "key" : "keys");
    fputc('\n', out);
    if (s->unmatched > 0)
        fprintf(out, "unmatched  %12" PRIu64 "   no limit applies to these\n", s->unmatched);
    if (s->dry_run > 0)
        fprintf(out, "dry run    %12" PRIu64 "   allowed, but a dry-run limit would have rejected them\n", s->dry_run);
    if (s->late > 0)
        fprintf(out, "late       %12" PRIu64 "   older than the reorder window; decided at the latest time\n", s->late);
    if (s->malformed > 0)
        fprintf(out, "malformed  %12" PRIu64 "   lines that are no events\n", s->malformed);
    print_peak("busiest   ", &s->events_peak, out);
    print_peak(s->rejected_peak.n ? "; most rejected" : "", &s->rejected_peak, out);
    if (s->events_peak.n > 0)
        fputc('\n', out);
}

/* What makes the figures less than exact comes first, where it is seen. */
static void print_doubts(const struct sl_replay_summary *s, FILE *out)
{
    if (s->evictions > 0)
        fprintf(out,
                "NOT EXACT: the table was too small, and %" PRIu64
                " live buckets were forgotten. Run again with more table keys.\n",
                s->evictions);
    if (s->compare && s->compare->evictions > 0)
        fprintf(out,
                "NOT EXACT: the second policy's table was too small, and %" PRIu64 " live buckets were forgotten.\n",
                s->compare->evictions);
    if (s->early > 0)
        fprintf(out,
                "NOT EXACT: too many events fell into one reorder window; %" PRIu64
                " were decided before it had passed. Use a shorter one.\n",
                s->early);
}

static void print_limit(const struct sl_replay_limit *l, FILE *out)
{
    uint64_t checked = l->count.allowed + l->count.rejected;

    fprintf(out, "  %-28s %12" PRIu64 " %12" PRIu64 "   %5.1f %%", l->name[0] ? l->name : "(ceiling)", l->count.allowed,
            l->count.rejected, percent(l->count.rejected, checked));
    print_peak("   peak", &l->checked, out);
    print_peak("; rejected", &l->rejected, out);
    fputs(l->dry_run ? "   (dry run)\n" : "\n", out);
}

static void print_limits(const struct sl_replay_summary *s, FILE *out)
{
    size_t shown = 0, hidden = 0, idle = 0;

    fprintf(out, "\n  %-28s %12s %12s\n", "limit", "had room", "had none");
    for (size_t i = 0; i < s->n_limits; i++) {
        const struct sl_replay_limit *l = &s->limits[i];

        if (l->count.allowed + l->count.rejected == 0)
            idle += l->name[0] != '\0'; /* the row of unmatched requests is no limit */
        else if (shown < LIMITS_SHOWN)
            print_limit(l, out), shown++;
        else
            hidden++;
    }
    if (hidden > 0)
        fprintf(out, "  and %zu more: all of them are in the JSON summary\n", hidden);
    if (idle > 0)
        fprintf(out, "  no event met %zu %s\n", idle, idle == 1 ? "limit" : "limits");
}

static void print_top(const struct sl_replay_summary *s, FILE *out)
{
    if (s->n_top_rejected == 0)
        return;
    fputs("\n  most rejected keys\n", out);
    for (size_t i = 0; i < s->n_top_rejected; i++) {
        const struct sl_replay_key *k = &s->top_rejected[i];

        fprintf(out, "  %12" PRIu64 "  ", k->rejected);
        print_key(&s->alloc, k->key, k->key_len, out);
        fprintf(out, " (%s)\n", k->key_type);
    }
    if (s->untallied > 0)
        fprintf(out, "  %12" PRIu64 "  of further keys, which were not counted one by one\n", s->untallied);
}

static void print_malformed(const struct sl_replay_summary *s, FILE *out)
{
    if (s->n_malformed_shown == 0)
        return;
    fprintf(out, "\n  malformed lines%s\n", s->malformed > s->n_malformed_shown ? " (the first of them)" : "");
    for (size_t i = 0; i < s->n_malformed_shown; i++) {
        const struct sl_replay_malformed *m = &s->malformed_shown[i];

        fprintf(out, "  %s:%" PRIu64 ": ", strcmp(m->path, "-") == 0 ? "standard input" : m->path, m->line);
        print_key(&s->alloc, m->reason, strlen(m->reason), out);
        fputc('\n', out);
    }
}

static void print_compare(const struct sl_replay_summary *s, FILE *out)
{
    const struct sl_replay_compare *c = s->compare;

    if (!c)
        return;
    fprintf(out, "\nsecond policy: %" PRIu64 " allowed, %" PRIu64 " rejected\n", c->allowed, c->rejected);
    fprintf(out, "  it rejects %" PRIu64 " that the first allows, and allows %" PRIu64 " that the first rejects\n",
            c->newly_rejected, c->newly_allowed);
    if (c->n_limits > 0)
        fprintf(out, "\n  %-28s %14s %14s\n", "limit", "newly rejected", "newly allowed");
    for (size_t i = 0; i < c->n_limits && i < LIMITS_SHOWN; i++) {
        const struct sl_replay_diff_limit *l = &c->limits[i];

        fprintf(out, "  %-28s %14" PRIu64 " %14" PRIu64 "\n", l->name[0] ? l->name : "(none)", l->newly_rejected,
                l->newly_allowed);
    }
    if (c->n_keys > 0)
        fprintf(out, "\n  %-28s %14s %14s\n", "key", "newly rejected", "newly allowed");
    for (size_t i = 0; i < c->n_keys; i++) {
        const struct sl_replay_diff_key *k = &c->keys[i];
        int pad = k->key_len < 28 ? 28 - (int)k->key_len : 0;

        fputs("  ", out);
        print_key(&s->alloc, k->key, k->key_len, out);
        fprintf(out, "%*s %14" PRIu64 " %14" PRIu64 "\n", pad, "", k->newly_rejected, k->newly_allowed);
    }
}

void sl_replay_print_text(const struct sl_replay_summary *summary, FILE *out)
{
    print_doubts(summary, out);
    print_totals(summary, out);
    print_limits(summary, out);
    print_top(summary, out);
    print_malformed(summary, out);
    print_compare(summary, out);
}
