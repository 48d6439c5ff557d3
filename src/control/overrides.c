/* Looking at overrides: the revision, the whole list, the log. */
#include "control/overrides.h"
#include "control/task.h"

#include "base/err.h"
#include "policy/instant.h"
#include "policy/override_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "50" /* records of 5 KiB at most in one reply */
#define LOG_PAGE 20u    /* entries of twice that */
#define ROUNDS_MAX 3u   /* lists that changed while they were fetched, in a row */
#define RECORD_BYTES_MAX (SL_OVERRIDE_RECORD_MAX + 64u)
#define RECORDS_MAX (2u * SL_OVERRIDES_MAX) /* a scan may tell of one twice */

/* A page of the records. One that is longer than ours can be is told of as an empty one: whoever put it there would else
 * make the reply too long to be read, and keep all others from us. */
static const char scan_script[] = "local page = redis.pcall('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])\n"
                                  "if page.err then return page end\n"
                                  "local records = {}\n"
                                  "for i = 2, #page[2], 2 do\n"
                                  "  records[#records + 1] = #page[2][i] <= tonumber(ARGV[3]) and page[2][i] or ''\n"
                                  "end\n"
                                  "return {page[1], records}\n";

/* ---- names */

struct sl_control_key sl_overrides_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "overrides");
}

struct sl_control_key sl_override_ends_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "overrides:ends");
}

struct sl_control_key sl_override_revision_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "overrides:revision");
}

struct sl_control_key sl_override_log_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "overrides:log");
}

/* ---- the revision */

int sl_revision_read(const char *text, size_t len, struct sl_revision *ret_revision)
{
    struct sl_revision revision = {.number = 0};
    size_t digits = 0;

    for (; digits < len && text[digits] >= '0' && text[digits] <= '9' && digits < 16; digits++)
        revision.number = revision.number * 10 + (uint64_t)(text[digits] - '0');
    if (len == 0) {
        *ret_revision = revision;
        return 0;
    }
    if (len >= sizeof revision.text || digits < 1 || digits > 15 || text[0] == '0' ||
        len != digits + 1 + SL_TOKEN_HEX || text[digits] != ' ')
        return SL_EFORMAT;
    for (size_t i = digits + 1; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return SL_EFORMAT;
    memcpy(revision.text, text, len);
    *ret_revision = revision;
    return 0;
}

struct look {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    sl_overrides_looked *done;
    void *ctx;
};

static void on_looked(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct look look = *(struct look *)ctx;
    struct sl_control_key key = sl_override_revision_key(&look.place);
    struct sl_revision revision = {.number = 0};
    char why[SL_CONTROL_WHY_MAX] = "";
    enum sl_control outcome = SL_CONTROL_OK;

    sl_free(&look.alloc, ctx);
    if (result != SL_RESULT_OK)
        outcome = sl_control_failed(result, reply, &key, why, sizeof why);
    else if (reply->type != SL_REPLY_STRING || sl_revision_read(reply->text, reply->n, &revision))
        outcome = sl_control_foreign(&key, "the revision of the overrides", why, sizeof why);
    look.done(look.ctx, outcome, &revision, why);
}

enum sl_control sl_overrides_look(const struct sl_versions_place *place, sl_overrides_looked *done, void *ctx)
{
    struct sl_control_key key = sl_override_revision_key(place);
    struct sl_word words[] = {SL_WORD("GETRANGE"), sl_control_word(&key), SL_WORD("0"), SL_WORD("99")};
    struct look *look = sl_calloc(place->alloc, 1, sizeof *look);
    enum sl_control outcome;

    if (!look)
        return SL_CONTROL_NOMEM;
    *look = (struct look){.place = *place, .alloc = *place->alloc, .done = done, .ctx = ctx};
    outcome = sl_control_ask(place, words, 4, &key, on_looked, look);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, look);
    return outcome;
}

/* ---- the list: the revision, a scan, and the revision again */

struct fetch {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    struct sl_revision revision;
    json_t *values; /* of the records; overrides borrow from them */
    struct sl_override *list;
    size_t n, max, unreadable;
    unsigned rounds;
    bool scanned;
    sl_overrides_fetched *done;
    void *ctx;
};

static void drop_list(struct fetch *fetch)
{
    json_decref(fetch->values);
    sl_free(&fetch->alloc, fetch->list);
    fetch->values = NULL;
    fetch->list = NULL;
    fetch->n = fetch->max = fetch->unreadable = 0;
}

static void finish(struct fetch *fetch, enum sl_control outcome, struct sl_overrides *overrides, const char *why)
{
    struct fetch last = *fetch;

    drop_list(fetch);
    sl_free(&last.alloc, fetch);
    last.done(last.ctx, outcome, overrides, &last.revision, why);
}

static void finish_unsent(struct fetch *fetch, enum sl_control outcome)
{
    finish(fetch, outcome, NULL, outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached");
}

static bool make_room(struct fetch *fetch)
{
    size_t max = fetch->max ? 2 * fetch->max : 64;
    struct sl_override *list;

    if (fetch->n < fetch->max)
        return true;
    list = sl_reallocarray(&fetch->alloc, fetch->list, max, sizeof *list);
    if (!list)
        return false;
    fetch->list = list;
    fetch->max = max;
    return true;
}

/* False: out of memory. A record that cannot be read is counted, and the others are taken. */
static bool take_record(struct fetch *fetch, const struct sl_reply *text)
{
    json_t *value =
        text->type == SL_REPLY_STRING ? json_loadb(text->text, text->n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *field;

    if (!make_room(fetch)) {
        json_decref(value);
        return false;
    }
    if (!value || sl_override_read(value, SL_OVERRIDE_RECORD, &fetch->list[fetch->n], &field)) {
        fetch->unreadable++;
        json_decref(value);
        return true;
    }
    fetch->n++;
    return json_array_append_new(fetch->values, value) == 0;
}

static void on_revision(void *ctx, enum sl_control outcome, const struct sl_revision *revision, const char *why);

static void ask_revision(struct fetch *fetch)
{
    enum sl_control outcome = sl_overrides_look(&fetch->place, on_revision, fetch);

    if (outcome != SL_CONTROL_OK)
        finish_unsent(fetch, outcome);
}

static void scan(struct fetch *fetch, const char *cursor, size_t len);

static void on_scanned(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct fetch *fetch = ctx;
    struct sl_control_key key = sl_overrides_key(&fetch->place);
    const struct sl_reply *cursor, *records;
    char why[SL_CONTROL_WHY_MAX];

    if (result != SL_RESULT_OK) {
        finish(fetch, sl_control_failed(result, reply, &key, why, sizeof why), NULL, why);
        return;
    }
    if (!sl_reply_is_array(reply, 2) || reply->elements[0]->type != SL_REPLY_STRING ||
        reply->elements[1]->type != SL_REPLY_ARRAY || fetch->n + fetch->unreadable > RECORDS_MAX) {
        finish(fetch, sl_control_foreign(&key, "a list of overrides", why, sizeof why), NULL, why);
        return;
    }
    cursor = reply->elements[0];
    records = reply->elements[1];
    for (size_t i = 0; i < records->n; i++)
        if (!take_record(fetch, records->elements[i])) {
            finish_unsent(fetch, SL_CONTROL_NOMEM);
            return;
        }
    fetch->scanned = sl_reply_is(cursor, "0");
    if (fetch->scanned)
        ask_revision(fetch);
    else
        scan(fetch, cursor->text, cursor->n);
}

static void scan(struct fetch *fetch, const char *cursor, size_t len)
{
    struct sl_control_key key = sl_overrides_key(&fetch->place);
    char most[16];
    struct sl_word args[] = {
        {cursor, len},
        SL_WORD(SCAN_COUNT),
        {most, (size_t)snprintf(most, sizeof most, "%u", RECORD_BYTES_MAX)},
    };
    enum sl_control outcome = sl_control_eval(&fetch->place, scan_script, &key, 1, args, 3, on_scanned, fetch);

    if (outcome != SL_CONTROL_OK)
        finish_unsent(fetch, outcome);
}

static void make_list(struct fetch *fetch)
{
    struct sl_overrides *overrides;
    char why[128] = "";

    if (sl_overrides_new(&fetch->alloc, fetch->list, fetch->n, fetch->revision.number, &overrides)) {
        finish_unsent(fetch, SL_CONTROL_NOMEM);
        return;
    }
    if (fetch->unreadable)
        snprintf(why, sizeof why, "%zu records of overrides cannot be read, and are not in force", fetch->unreadable);
    finish(fetch, SL_CONTROL_OK, overrides, why);
}

static void begin_round(struct fetch *fetch, const struct sl_revision *revision)
{
    fetch->revision = *revision;
    fetch->scanned = false;
    drop_list(fetch);
    fetch->values = json_array();
    if (!fetch->values)
        finish_unsent(fetch, SL_CONTROL_NOMEM);
    else
        scan(fetch, "0", 1);
}

/* A list that changes again and again is taken in the end, under the revision that it had before it was read: each record
 * is whole, and the next look finds that there is a newer revision. Waiting for a pause would mean that who sets many
 * overrides keeps every instance from all of them. */
static void on_revision(void *ctx, enum sl_control outcome, const struct sl_revision *revision, const char *why)
{
    struct fetch *fetch = ctx;

    if (outcome != SL_CONTROL_OK)
        finish(fetch, outcome, NULL, why);
    else if (fetch->scanned && (!strcmp(revision->text, fetch->revision.text) || ++fetch->rounds >= ROUNDS_MAX))
        make_list(fetch);
    else
        begin_round(fetch, revision);
}

enum sl_control sl_overrides_fetch(const struct sl_versions_place *place, sl_overrides_fetched *done, void *ctx)
{
    struct fetch *fetch = sl_calloc(place->alloc, 1, sizeof *fetch);
    enum sl_control outcome;

    if (!fetch)
        return SL_CONTROL_NOMEM;
    *fetch = (struct fetch){.place = *place, .alloc = *place->alloc, .done = done, .ctx = ctx};
    outcome = sl_overrides_look(place, on_revision, fetch);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, fetch);
    return outcome;
}

/* ---- the log */

struct telling {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    unsigned at, max;
    json_t *entries;
    sl_overrides_told *done;
    void *ctx;
};

static void finish_telling(struct telling *telling, enum sl_control outcome, const char *why)
{
    struct telling last = *telling;

    sl_free(&last.alloc, telling);
    last.done(last.ctx, outcome, outcome == SL_CONTROL_OK ? last.entries : NULL, why);
    json_decref(last.entries);
}

static enum sl_control ask_page(struct telling *telling);

static void on_page(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct telling *telling = ctx;
    struct sl_control_key key = sl_override_log_key(&telling->place);
    char why[SL_CONTROL_WHY_MAX];
    enum sl_control outcome;

    if (result != SL_RESULT_OK || reply->type != SL_REPLY_ARRAY) {
        outcome = result == SL_RESULT_OK ? sl_control_foreign(&key, "the log of overrides", why, sizeof why)
                                         : sl_control_failed(result, reply, &key, why, sizeof why);
        finish_telling(telling, outcome, why);
        return;
    }
    for (size_t i = 0; i < reply->n; i++) {
        const struct sl_reply *text = reply->elements[i];
        json_t *entry = text->type == SL_REPLY_STRING ? json_loadb(text->text, text->n, 0, NULL) : NULL;

        if (json_is_object(entry))
            json_array_append(telling->entries, entry);
        json_decref(entry);
    }
    telling->at += LOG_PAGE;
    if (reply->n < LOG_PAGE || telling->at >= telling->max) {
        finish_telling(telling, SL_CONTROL_OK, "");
        return;
    }
    outcome = ask_page(telling);
    if (outcome != SL_CONTROL_OK)
        finish_telling(telling, outcome, "the store cannot be reached");
}

static enum sl_control ask_page(struct telling *telling)
{
    struct sl_control_key key = sl_override_log_key(&telling->place);
    unsigned end = telling->at + LOG_PAGE < telling->max ? telling->at + LOG_PAGE : telling->max;
    char from[16], to[16];
    struct sl_word words[] = {SL_WORD("LRANGE"),
                              sl_control_word(&key),
                              {from, (size_t)snprintf(from, sizeof from, "%u", telling->at)},
                              {to, (size_t)snprintf(to, sizeof to, "%u", end - 1)}};

    return sl_control_ask(&telling->place, words, 4, &key, on_page, telling);
}

enum sl_control sl_overrides_log(const struct sl_versions_place *place, unsigned max, sl_overrides_told *done,
                                 void *ctx)
{
    struct telling *telling = sl_calloc(place->alloc, 1, sizeof *telling);
    enum sl_control outcome = SL_CONTROL_NOMEM;

    if (!telling)
        return SL_CONTROL_NOMEM;
    *telling = (struct telling){
        .place = *place, .alloc = *place->alloc, .max = max, .entries = json_array(), .done = done, .ctx = ctx};
    if (telling->entries)
        outcome = ask_page(telling);
    if (outcome != SL_CONTROL_OK) {
        json_decref(telling->entries);
        sl_free(place->alloc, telling);
    }
    return outcome;
}

/* ---- entries */

static json_t *record_of(const struct sl_override *o)
{
    return o ? sl_override_json(o, SL_OVERRIDE_RECORD) : json_null();
}

json_t *sl_override_entry(uint64_t revision, uint64_t time_us, const char *op, const char *author, const char *comment,
                          const struct sl_override *old, const struct sl_override *now)
{
    return json_pack("{s:I,s:I,s:s,s:s,s:s,s:o,s:o}", "revision", (json_int_t)revision, "timeUs", (json_int_t)time_us,
                     "op", op, "author", author, "comment", comment, "old", record_of(old), "new", record_of(now));
}

static json_t *shown(const json_t *record)
{
    struct sl_override o;
    const char *field;

    if (!json_is_object(record) || sl_override_read(record, SL_OVERRIDE_RECORD, &o, &field))
        return json_null();
    return sl_override_json(&o, SL_OVERRIDE_SHOWN);
}

static const char *text_of(const json_t *entry, const char *name)
{
    const char *text = json_string_value(json_object_get(entry, name));

    return text ? text : "";
}

json_t *sl_override_entry_shown(const json_t *entry)
{
    json_int_t us = json_integer_value(json_object_get(entry, "timeUs"));
    char time[SL_INSTANT_MAX];

    sl_instant_format(us > 0 ? (uint64_t)us : 0, time);
    return json_pack("{s:I,s:s,s:s,s:s,s:s,s:o,s:o}", "revision",
                     json_integer_value(json_object_get(entry, "revision")), "time", time, "op", text_of(entry, "op"),
                     "author", text_of(entry, "author"), "comment", text_of(entry, "comment"), "old",
                     shown(json_object_get(entry, "old")), "new", shown(json_object_get(entry, "new")));
}
