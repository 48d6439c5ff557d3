/* Which version a rollback brings back when none is named: the one that was current before the policy in force came up. */
#include "control/task.h"

#include <inttypes.h>
#include <stdio.h>

struct before {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    uint64_t number; /* looked at */
    sl_versions_found *done;
    void *ctx;
};

static void finish(struct before *before, enum sl_control outcome, uint64_t number, const char *why)
{
    struct before last = *before;

    sl_free(&last.alloc, before);
    last.done(last.ctx, outcome, number, why);
}

static enum sl_control ask_record(struct before *before);

/* What brought an older version back stands for that one. A record that is not there, or cannot be read, brought none. */
static void take_record(struct before *before, const struct sl_reply *reply)
{
    struct sl_version version;
    enum sl_control outcome;

    if (reply->type != SL_REPLY_STRING || sl_version_read(before->number, reply->text, reply->n, &version))
        version.from = 0;
    if (version.from == 0 || version.from >= before->number) {
        finish(before, SL_CONTROL_OK, before->number - 1, "");
        return;
    }
    before->number = version.from;
    outcome = ask_record(before);
    if (outcome != SL_CONTROL_OK)
        finish(before, outcome, 0, outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached");
}

static void on_record(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct before *before = ctx;
    struct sl_control_key key = sl_versions_key(&before->place);
    char why[SL_CONTROL_WHY_MAX];
    enum sl_control outcome;

    if (result == SL_RESULT_OK) {
        take_record(before, reply);
        return;
    }
    outcome = sl_control_failed(result, reply, &key, why, sizeof why);
    finish(before, outcome, 0, why);
}

static enum sl_control ask_record(struct before *before)
{
    struct sl_control_key key = sl_versions_key(&before->place);
    char field[24];
    size_t n = (size_t)snprintf(field, sizeof field, "%" PRIu64, before->number);
    struct sl_word words[] = {SL_WORD("HGET"), sl_control_word(&key), {field, n}};

    return sl_control_ask(&before->place, words, 3, &key, on_record, before);
}

enum sl_control sl_versions_before(const struct sl_versions_place *place, uint64_t number, sl_versions_found *done,
                                   void *ctx)
{
    struct before *before = sl_calloc(place->alloc, 1, sizeof *before);
    enum sl_control outcome;

    if (!before)
        return SL_CONTROL_NOMEM;
    *before = (struct before){
        .place = *place, .alloc = *place->alloc, .number = number ? number : 1, .done = done, .ctx = ctx};
    outcome = ask_record(before);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, before);
    return outcome;
}
