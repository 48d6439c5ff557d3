#include "replay/replay.h"

#include "replay/text.h"

#include <jansson.h>
#include <string.h>

/* An integer of JSON is a signed one; no count of events comes near its end. */
static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* Keys are bytes: what is no UTF-8 becomes U+FFFD. */
static json_t *text(const struct sl_alloc *alloc, const char *key, size_t len)
{
    char *clean = sl_replay_text_utf8(alloc, key, len);
    json_t *string = clean ? json_string(clean) : NULL;

    sl_free(alloc, clean);
    return string;
}

static json_t *peak(const struct sl_replay_peak *p)
{
    char minute[SL_REPLAY_TEXT_MINUTE_MAX];

    if (p->n == 0)
        return json_null();
    sl_replay_text_minute(p->minute, minute);
    return json_pack("{s:s, s:o}", "minute", minute, "n", number(p->n));
}

static json_t *limits_json(const struct sl_replay_summary *s)
{
    json_t *limits = json_object();

    for (size_t i = 0; i < s->n_limits; i++) {
        const struct sl_replay_limit *l = &s->limits[i];
        json_t *limit = json_pack("{s:o, s:o, s:o, s:o, s:o}", "allowed", number(l->count.allowed), "rejected",
                                  number(l->count.rejected), "decided", number(l->decided), "peak", peak(&l->checked),
                                  "rejected_peak", peak(&l->rejected));

        if (l->dry_run && limit)
            json_object_set_new(limit, "dry_run", json_true());
        json_object_set_new(limits, l->name, limit);
    }
    return limits;
}

static json_t *top_json(const struct sl_replay_summary *s)
{
    json_t *top = json_array();

    for (size_t i = 0; i < s->n_top_rejected; i++) {
        const struct sl_replay_key *k = &s->top_rejected[i];

        json_array_append_new(top, json_pack("{s:o, s:s, s:o}", "key", text(&s->alloc, k->key, k->key_len), "key_type",
                                             k->key_type, "rejected", number(k->rejected)));
    }
    return top;
}

static json_t *malformed_json(const struct sl_replay_summary *s)
{
    json_t *lines = json_array();

    for (size_t i = 0; i < s->n_malformed_shown; i++) {
        const struct sl_replay_malformed *m = &s->malformed_shown[i];

        json_array_append_new(lines, json_pack("{s:o, s:o, s:s}", "file", text(&s->alloc, m->path, strlen(m->path)),
                                               "line", number(m->line), "reason", m->reason));
    }
    return lines;
}

static json_t *compare_json(const struct sl_replay_summary *s)
{
    const struct sl_replay_compare *c = s->compare;
    json_t *limits = json_object(), *keys = json_array();

    for (size_t i = 0; i < c->n_limits; i++) {
        const struct sl_replay_diff_limit *l = &c->limits[i];

        json_object_set_new(limits, l->name,
                            json_pack("{s:o, s:o}", "newly_rejected", number(l->newly_rejected), "newly_allowed",
                                      number(l->newly_allowed)));
    }
    for (size_t i = 0; i < c->n_keys; i++) {
        const struct sl_replay_diff_key *k = &c->keys[i];

        json_array_append_new(keys, json_pack("{s:o, s:s, s:o, s:o}", "key", text(&s->alloc, k->key, k->key_len),
                                              "key_type", k->key_type, "newly_rejected", number(k->newly_rejected),
                                              "newly_allowed", number(k->newly_allowed)));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allowed", number(c->allowed), "rejected",
                     number(c->rejected), "newly_rejected", number(c->newly_rejected), "newly_allowed",
                     number(c->newly_allowed), "limits", limits, "keys", keys, "untallied", number(c->untallied),
                     "evictions", number(c->evictions));
}

static json_t *time_json(const struct sl_replay_summary *s, uint64_t t_us)
{
    char when[SL_REPLAY_TEXT_TIME_MAX];

    if (s->events == 0)
        return json_null();
    sl_replay_text_time(t_us, when);
    return json_string(when);
}

struct json_t *sl_replay_summary_json(const struct sl_replay_summary *summary)
{
    const struct sl_replay_summary *s = summary;
    json_t *root = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "events", number(s->events), "allowed",
                             number(s->allowed), "rejected", number(s->rejected), "malformed", number(s->malformed),
                             "late", number(s->late), "limits", limits_json(s), "top_rejected", top_json(s));
    json_t *more = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "lines", number(s->lines),
                             "early", number(s->early), "unmatched", number(s->unmatched), "dry_run",
                             number(s->dry_run), "first", time_json(s, s->first_us), "last", time_json(s, s->last_us),
                             "rejected_keys", number(s->rejected_keys), "untallied", number(s->untallied), "peak",
                             peak(&s->events_peak), "rejected_peak", peak(&s->rejected_peak), "malformed_lines",
                             malformed_json(s), "evictions", number(s->evictions));

    if (root && more)
        json_object_update(root, more);
    if (root && s->compare)
        json_object_set_new(root, "compare", compare_json(s));
    if (!more) {
        json_decref(root);
        root = NULL;
    }
    json_decref(more);
    return root;
}
