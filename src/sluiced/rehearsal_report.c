/* What is told of a candidate and of dry runs, as JSON. */
#include "sluiced/rehearsal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIME_MAX 32

static void format_time(uint64_t us, char buf[static TIME_MAX])
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || !strftime(buf, TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm))
        buf[0] = '\0';
}

static json_int_t seconds_since(uint64_t us)
{
    struct sl_clock clock = sl_clock_system();
    uint64_t now = clock.wall_us(clock.ctx);

    return now > us ? (json_int_t)((now - us) / 1000000) : 0;
}

static json_t *pointer_json(const struct sl_pointer *pointer)
{
    return json_pack("{s:I, s:o}", "version", (json_int_t)pointer->number, "hash",
                     pointer->hash[0] ? json_string(pointer->hash) : json_null());
}

/* Is another policy in force than when the candidate was started? An instance that was restarted since knows the
 * number alone. */
static bool has_changed(const struct sl_pointer *live, const struct sl_pointer *against)
{
    return live->number != against->number || (against->hash[0] && strcmp(live->hash, against->hash) != 0);
}

static json_t *candidate_json(const struct sl_rehearsal *rehearsal, const struct sl_shadow_figures *figures)
{
    const struct sl_version *version = &rehearsal->version;

    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:I}", "hash", figures->hash, "limits", (json_int_t)figures->n_limits,
                     "version", (json_int_t)version->number, "author", version->author, "comment", version->comment,
                     "longestMs", (json_int_t)(figures->longest_us / 1000));
}

static json_t *counts_json(const struct sl_shadow_figures *figures)
{
    const uint64_t *n = figures->compared.n;
    uint64_t sum = n[SL_BOTH_ALLOWED] + n[SL_BOTH_REJECTED] + n[SL_NEWLY_REJECTED] + n[SL_NEWLY_ALLOWED];

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "decisions", (json_int_t)sum, "allowed",
                     (json_int_t)n[SL_BOTH_ALLOWED], "rejected", (json_int_t)n[SL_BOTH_REJECTED], "newlyRejected",
                     (json_int_t)n[SL_NEWLY_REJECTED], "newlyAllowed", (json_int_t)n[SL_NEWLY_ALLOWED], "undecided",
                     (json_int_t)figures->compared.undecided, "refused", (json_int_t)figures->refused, "dropped",
                     (json_int_t)figures->dropped, "evictions", (json_int_t)figures->evictions);
}

/* Takes both; NULL when one of them is. */
static json_t *with(json_t *value, json_t *more)
{
    int failed = !value || !more || json_object_update(value, more);

    json_decref(more);
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *text_json(struct sl_rehearsal *rehearsal)
{
    const struct sl_version_text *text = sl_shadow_text(rehearsal->shadow);

    return json_pack("{s:o, s:o}", "policy", json_stringn(text->body, text->body_len), "keysFile",
                     text->keys ? json_stringn(text->keys, text->keys_len) : json_null());
}

json_t *sl_rehearsal_json(struct sl_rehearsal *rehearsal, bool with_text, json_t *fleet)
{
    struct sl_shadow_figures figures;
    struct sl_pointer live;
    char since[TIME_MAX];
    json_t *value;

    if (!sl_shadow_runs(rehearsal->shadow)) {
        json_decref(fleet);
        return json_pack("{s:b}", "active", 0);
    }
    sl_shadow_figures(rehearsal->shadow, &figures);
    live = sl_source_runs(rehearsal->set.source);
    format_time(rehearsal->since_us, since);
    value = json_pack("{s:b, s:o, s:o, s:o, s:b, s:s, s:I}", "active", 1, "candidate",
                      candidate_json(rehearsal, &figures), "live", pointer_json(&live), "against",
                      pointer_json(&rehearsal->against), "liveChanged", has_changed(&live, &rehearsal->against),
                      "since", since, "seconds", seconds_since(rehearsal->since_us));
    value = with(value, counts_json(&figures));
    value = with(value, json_pack("{s:o}", "fleet", fleet ? fleet : json_null()));
    value = with(value, sl_shadow_json(rehearsal->shadow));
    return with_text ? with(value, text_json(rehearsal)) : value;
}

/* ---- dry runs */

static json_t *dry_limits(const struct sl_rehearsal *rehearsal)
{
    struct sl_limiter_count *rows = calloc(SL_COUNT_ROWS_MAX, sizeof *rows);
    size_t n = rows ? sl_limiter_counts(rehearsal->set.limiter, rows, SL_COUNT_ROWS_MAX) : 0;
    json_t *array = rows ? json_array() : NULL;

    for (size_t i = 0; array && i < n; i++) {
        const struct sl_limiter_count *row = &rows[i];

        if (row->dry_allowed + row->dry_rejected > 0 &&
            json_array_append_new(array,
                                  json_pack("{s:s, s:I, s:I}", "name", row->limit, "allowed",
                                            (json_int_t)row->dry_allowed, "rejected", (json_int_t)row->dry_rejected))) {
            json_decref(array);
            array = NULL;
        }
    }
    free(rows);
    return array;
}

json_t *sl_rehearsal_dry_json(struct sl_rehearsal *rehearsal)
{
    uint64_t n = 0;
    json_t *keys = sl_dry_json(rehearsal->dry, &n);
    char since[TIME_MAX];

    format_time(rehearsal->dry_since_us, since);
    return json_pack("{s:s, s:I, s:I, s:o, s:o}", "since", since, "seconds", seconds_since(rehearsal->dry_since_us),
                     "wouldReject", (json_int_t)n, "limits", dry_limits(rehearsal), "keys", keys);
}
