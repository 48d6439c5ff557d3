/* The versions there are, page by page, and which instance runs which. */
#include "control/task.h"

#include "fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE 64u

struct history {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    struct sl_history found;
    uint64_t upto;
    unsigned max, asked; /* versions wanted; of them asked for */
    uint64_t *ids;       /* of the instances */
    size_t n_asked;      /* of them asked about */
    sl_versions_told *done;
    void *ctx;
};

static void finish(struct history *history, enum sl_control outcome, const char *why)
{
    struct history last = *history;

    sl_free(&last.alloc, history);
    last.done(last.ctx, outcome, outcome == SL_CONTROL_OK ? &last.found : NULL, why);
    sl_free(&last.alloc, last.found.versions);
    sl_free(&last.alloc, last.found.running);
    sl_free(&last.alloc, last.ids);
}

static void finish_failed(struct history *history, enum sl_result result, const struct sl_reply *reply,
                          const struct sl_control_key *key)
{
    char why[SL_CONTROL_WHY_MAX];

    finish(history, sl_control_failed(result, reply, key, why, sizeof why), why);
}

/* When the next command could not be sent, that was all. */
static void go_on(struct history *history, enum sl_control outcome)
{
    if (outcome != SL_CONTROL_OK)
        finish(history, outcome, outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached");
}

static void *more(struct history *history, void *list, size_t n, size_t size)
{
    return sl_reallocarray(&history->alloc, list, n, size);
}

/* ---- instances: who is alive, and what each of them says. What says nothing of our kind is not told of. */

static enum sl_control ask_running(struct history *history);

static enum sl_control take_running(struct history *history, const struct sl_reply *reply)
{
    struct sl_history *found = &history->found;
    size_t n = reply->type == SL_REPLY_ARRAY ? reply->n : 0, first = history->n_asked;
    struct sl_running *list = more(history, found->running, found->n_running + n + 1, sizeof *list);

    if (!list)
        return SL_CONTROL_NOMEM;
    found->running = list;
    for (size_t i = 0; i < n && first + i < found->n_instances; i++) {
        const struct sl_reply *record = reply->elements[i];

        if (record->type == SL_REPLY_STRING &&
            sl_running_read(history->ids[first + i], record->text, record->n, &list[found->n_running]) == 0)
            found->n_running++;
    }
    history->n_asked += PAGE;
    return SL_CONTROL_OK;
}

static void on_running(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct history *history = ctx;
    struct sl_control_key key = sl_running_key(&history->place, 0);

    if (result != SL_RESULT_OK)
        finish_failed(history, result, reply, &key);
    else if (take_running(history, reply) != SL_CONTROL_OK)
        go_on(history, SL_CONTROL_NOMEM);
    else if (history->n_asked < history->found.n_instances)
        go_on(history, ask_running(history));
    else
        finish(history, SL_CONTROL_OK, "");
}

static enum sl_control ask_running(struct history *history)
{
    struct sl_control_key keys[PAGE];
    struct sl_word words[1 + PAGE] = {SL_WORD("MGET")};
    size_t n = 0;

    for (; n < PAGE && history->n_asked + n < history->found.n_instances; n++) {
        keys[n] = sl_running_key(&history->place, history->ids[history->n_asked + n]);
        words[1 + n] = sl_control_word(&keys[n]);
    }
    return sl_control_ask(&history->place, words, 1 + n, &keys[0], on_running, history);
}

static bool read_id(const struct sl_reply *reply, uint64_t *ret_id)
{
    static const char digits[] = "0123456789abcdef";

    *ret_id = 0;
    if (reply->type != SL_REPLY_STRING || reply->n != 16)
        return false;
    for (size_t i = 0; i < 16; i++) {
        const char *digit = memchr(digits, reply->text[i], sizeof digits - 1);

        if (!digit)
            return false;
        *ret_id = *ret_id << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

static void on_instances(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct history *history = ctx;
    struct sl_history *found = &history->found;
    struct sl_control_key key = sl_control_key(history->place.ns, "instances");

    if (result != SL_RESULT_OK || reply->type != SL_REPLY_ARRAY) {
        finish_failed(history, result, reply, &key);
        return;
    }
    history->ids = more(history, NULL, reply->n + 1, sizeof *history->ids);
    if (!history->ids) {
        go_on(history, SL_CONTROL_NOMEM);
        return;
    }
    for (size_t i = 0; i < reply->n; i++) {
        if (read_id(reply->elements[i], &history->ids[found->n_instances]))
            found->n_instances++;
    }
    if (found->n_instances)
        go_on(history, ask_running(history));
    else
        finish(history, SL_CONTROL_OK, "");
}

static enum sl_control ask_instances(struct history *history)
{
    struct sl_control_key key = sl_control_key(history->place.ns, "instances");
    char last[24];
    struct sl_word words[] = {SL_WORD("ZRANGE"),
                              sl_control_word(&key),
                              SL_WORD("0"),
                              {last, (size_t)snprintf(last, sizeof last, "%u", SL_FLEET_INSTANCES_MAX - 1)}};

    return sl_control_ask(&history->place, words, 4, &key, on_instances, history);
}

/* ---- versions */

static enum sl_control ask_page(struct history *history);

/* One that is not there (removed by hand) is left out; one that cannot be read has no hash. */
static void take_record(struct history *history, uint64_t number, const struct sl_reply *record)
{
    struct sl_version *version = &history->found.versions[history->found.n_versions];

    if (record->type == SL_REPLY_NIL)
        return;
    if (record->type != SL_REPLY_STRING || sl_version_read(number, record->text, record->n, version))
        *version = (struct sl_version){.number = number};
    history->found.n_versions++;
}

static unsigned page_size(const struct history *history)
{
    uint64_t left = history->upto - history->asked;
    unsigned wanted = history->max - history->asked, n = wanted < PAGE ? wanted : PAGE;

    return left < n ? (unsigned)left : n;
}

static void on_page(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct history *history = ctx;
    struct sl_control_key key = sl_versions_key(&history->place);
    unsigned n = page_size(history);
    struct sl_version *list;

    if (result != SL_RESULT_OK || !sl_reply_is_array(reply, n)) {
        finish_failed(history, result, reply, &key);
        return;
    }
    list = more(history, history->found.versions, history->found.n_versions + n + 1, sizeof *list);
    if (!list) {
        go_on(history, SL_CONTROL_NOMEM);
        return;
    }
    history->found.versions = list;
    for (unsigned i = 0; i < n; i++)
        take_record(history, history->upto - history->asked - i, reply->elements[i]);
    history->asked += n;
    go_on(history, page_size(history) ? ask_page(history) : ask_instances(history));
}

static enum sl_control ask_page(struct history *history)
{
    struct sl_control_key key = sl_versions_key(&history->place);
    struct sl_word words[2 + PAGE] = {SL_WORD("HMGET"), sl_control_word(&key)};
    char fields[PAGE][24];
    unsigned n = page_size(history);

    for (unsigned i = 0; i < n; i++) {
        words[2 + i].len =
            (size_t)snprintf(fields[i], sizeof fields[i], "%" PRIu64, history->upto - history->asked - i);
        words[2 + i].bytes = fields[i];
    }
    return sl_control_ask(&history->place, words, 2 + n, &key, on_page, history);
}

/* The pointer may be lost, or behind: what was written is told of all the same. */
static void on_count(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct history *history = ctx;
    struct sl_control_key key = sl_versions_key(&history->place);
    struct sl_history *found = &history->found;

    if (result != SL_RESULT_OK || reply->type != SL_REPLY_INTEGER) {
        finish_failed(history, result, reply, &key);
        return;
    }
    found->last = found->current.number;
    if (reply->integer > 0 && (uint64_t)reply->integer > found->last)
        found->last = (uint64_t)reply->integer;
    if (history->upto == 0 || history->upto > found->last)
        history->upto = found->last;
    go_on(history, page_size(history) ? ask_page(history) : ask_instances(history));
}

static void on_pointer(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct history *history = ctx;
    struct sl_control_key key = sl_versions_key(&history->place);
    struct sl_word words[] = {SL_WORD("HLEN"), sl_control_word(&key)};

    history->found.current = *pointer;
    if (outcome != SL_CONTROL_OK)
        finish(history, outcome, why);
    else
        go_on(history, sl_control_ask(&history->place, words, 2, &key, on_count, history));
}

enum sl_control sl_versions_history(const struct sl_versions_place *place, uint64_t upto, unsigned max,
                                    sl_versions_told *done, void *ctx)
{
    struct history *history = sl_calloc(place->alloc, 1, sizeof *history);
    enum sl_control outcome;

    if (!history)
        return SL_CONTROL_NOMEM;
    *history = (struct history){
        .place = *place, .alloc = *place->alloc, .upto = upto, .max = max < 1 ? 1 : max, .done = done, .ctx = ctx};
    if (history->max > SL_HISTORY_MAX)
        history->max = SL_HISTORY_MAX;
    outcome = sl_versions_look(place, on_pointer, history);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, history);
    return outcome;
}

/* ---- what runs here */

/* Nothing but a text of our own is replaced. */
static const char report_script[] = "local k = redis.call('TYPE', KEYS[1]).ok\n"
                                    "if k ~= 'none' and (k ~= 'string' or redis.call('GETRANGE', KEYS[1], 0, 14) ~= "
                                    "'sluice-running ') then return 0 end\n"
                                    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n"
                                    "return 1\n";

struct report {
    struct sl_alloc alloc;
    struct sl_control_key key;
    sl_versions_reported *done;
    void *ctx;
};

static void on_reported(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct report report = *(struct report *)ctx;
    char why[SL_CONTROL_WHY_MAX] = "";
    enum sl_control outcome = SL_CONTROL_OK;

    sl_free(&report.alloc, ctx);
    if (result != SL_RESULT_OK)
        outcome = sl_control_failed(result, reply, &report.key, why, sizeof why);
    else if (reply->type != SL_REPLY_INTEGER || reply->integer != 1)
        outcome = sl_control_foreign(&report.key, "what this instance runs", why, sizeof why);
    if (report.done)
        report.done(report.ctx, outcome, why);
}

enum sl_control sl_versions_report(const struct sl_versions_place *place, const struct sl_running *running,
                                   sl_versions_reported *done, void *ctx)
{
    char record[SL_RECORD_MAX], life[24];
    struct sl_word args[] = {{record, sl_running_write(running, record)},
                             {life, (size_t)snprintf(life, sizeof life, "%u", SL_RUNNING_LIFE_MS)}};
    struct report *report = sl_calloc(place->alloc, 1, sizeof *report);
    enum sl_control outcome;

    if (!report)
        return SL_CONTROL_NOMEM;
    *report =
        (struct report){.alloc = *place->alloc, .key = sl_running_key(place, running->id), .done = done, .ctx = ctx};
    outcome = sl_control_eval(place, report_script, &report->key, 1, args, 2, on_reported, report);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, report);
    return outcome;
}
