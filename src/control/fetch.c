/* A version with its texts: its record, then piece by piece. */
#include "control/task.h"
#include "control/text.h"

#include "policy/digest.h"
#include "policy/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct fetch {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    bool current;
    struct sl_pointer pointer; /* what is fetched; its hash when `current` */
    struct sl_version version;
    struct sl_version_text text;
    size_t len, at; /* of body, NUL and keys; how much of it is here */
    sl_versions_fetched *done;
    void *ctx;
};

static void finish(struct fetch *fetch, enum sl_control outcome, const char *why)
{
    struct fetch last = *fetch;
    bool good = outcome == SL_CONTROL_OK;

    if (!good)
        sl_version_text_free(&last.alloc, &last.text);
    sl_free(&last.alloc, fetch);
    last.done(last.ctx, outcome, good ? &last.version : NULL, good ? &last.text : NULL, why);
}

static void finish_failed(struct fetch *fetch, enum sl_result result, const struct sl_reply *reply,
                          const struct sl_control_key *key)
{
    char why[SL_CONTROL_WHY_MAX];

    finish(fetch, sl_control_failed(result, reply, key, why, sizeof why), why);
}

/* The next command could not be sent. */
static void finish_unsent(struct fetch *fetch, enum sl_control outcome)
{
    finish(fetch, outcome, outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached");
}

static void finish_damaged(struct fetch *fetch, const char *what)
{
    struct sl_control_key key = sl_body_key(&fetch->place, fetch->version.hash);
    char why[SL_CONTROL_WHY_MAX];

    snprintf(why, sizeof why, "version %" PRIu64 " is damaged in the store: %s (%s)", fetch->version.number, what,
             key.text);
    finish(fetch, SL_CONTROL_DAMAGED, why);
}

/* ---- pieces */

static void check_text(struct fetch *fetch)
{
    const struct sl_version_text *text = &fetch->text;
    char hash[SL_HASH_HEX + 1];

    if (fetch->version.has_keys && text->bytes[text->body_len] != '\0')
        finish_damaged(fetch, "body and keys_file are not where they should be");
    else if (sl_digest(text->body, text->body_len, text->keys, text->keys_len, hash))
        finish_unsent(fetch, SL_CONTROL_NOMEM);
    else if (strcmp(hash, fetch->version.hash) != 0)
        finish_damaged(fetch, "it is not what its hash says");
    else
        finish(fetch, SL_CONTROL_OK, "");
}

static void ask_piece(struct fetch *fetch);

static void on_piece(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct fetch *fetch = ctx;
    struct sl_control_key key = sl_body_key(&fetch->place, fetch->version.hash);
    size_t i = fetch->at / SL_PIECE_BYTES;

    if (result != SL_RESULT_OK) {
        finish_failed(fetch, result, reply, &key);
    } else if (reply->type == SL_REPLY_NIL) {
        finish_damaged(fetch, "a part of it is missing");
    } else if (reply->type != SL_REPLY_STRING || reply->n != sl_piece_len(fetch->len, i)) {
        finish_damaged(fetch, "a part of it has another size");
    } else {
        memcpy(fetch->text.bytes + fetch->at, reply->text, reply->n);
        fetch->at += reply->n;
        if (fetch->at < fetch->len)
            ask_piece(fetch);
        else
            check_text(fetch);
    }
}

static void ask_piece(struct fetch *fetch)
{
    struct sl_control_key key = sl_body_key(&fetch->place, fetch->version.hash);
    char field[24];
    size_t n = (size_t)snprintf(field, sizeof field, "%zu", fetch->at / SL_PIECE_BYTES);
    struct sl_word words[] = {SL_WORD("HGET"), sl_control_word(&key), {field, n}};
    enum sl_control outcome = sl_control_ask(&fetch->place, words, 3, &key, on_piece, fetch);

    if (outcome != SL_CONTROL_OK)
        finish_unsent(fetch, outcome);
}

static bool make_room(struct fetch *fetch)
{
    const struct sl_version *version = &fetch->version;

    fetch->len = version->body_len + (version->has_keys ? 1 + version->keys_len : 0);
    return sl_version_text_make(&fetch->alloc, version->body_len, version->has_keys, version->keys_len, &fetch->text) ==
           0;
}

/* ---- the record */

static void take_record(struct fetch *fetch, const struct sl_reply *reply)
{
    struct sl_control_key key = sl_versions_key(&fetch->place);
    char why[SL_CONTROL_WHY_MAX], what[64];

    snprintf(what, sizeof what, "the record of version %" PRIu64, fetch->pointer.number);
    if (reply->type == SL_REPLY_NIL && !fetch->current) {
        snprintf(why, sizeof why, "there is no version %" PRIu64, fetch->pointer.number);
        finish(fetch, SL_CONTROL_NONE, why);
    } else if (reply->type == SL_REPLY_NIL) {
        snprintf(why, sizeof why, "version %" PRIu64 " is current, but %s does not have it", fetch->pointer.number,
                 key.text);
        finish(fetch, SL_CONTROL_DAMAGED, why);
    } else if (reply->type != SL_REPLY_STRING ||
               sl_version_read(fetch->pointer.number, reply->text, reply->n, &fetch->version) ||
               (fetch->current && strcmp(fetch->version.hash, fetch->pointer.hash) != 0)) {
        finish(fetch, sl_control_foreign(&key, what, why, sizeof why), why);
    } else if (!make_room(fetch)) {
        finish_unsent(fetch, SL_CONTROL_NOMEM);
    } else {
        ask_piece(fetch);
    }
}

static void on_record(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct fetch *fetch = ctx;
    struct sl_control_key key = sl_versions_key(&fetch->place);

    if (result == SL_RESULT_OK)
        take_record(fetch, reply);
    else
        finish_failed(fetch, result, reply, &key);
}

static enum sl_control ask_record(struct fetch *fetch)
{
    struct sl_control_key key = sl_versions_key(&fetch->place);
    char field[24];
    size_t n = (size_t)snprintf(field, sizeof field, "%" PRIu64, fetch->pointer.number);
    struct sl_word words[] = {SL_WORD("HGET"), sl_control_word(&key), {field, n}};

    return sl_control_ask(&fetch->place, words, 3, &key, on_record, fetch);
}

static void on_pointer(void *ctx, enum sl_control outcome, const struct sl_pointer *pointer, const char *why)
{
    struct fetch *fetch = ctx;

    fetch->pointer = *pointer;
    if (outcome != SL_CONTROL_OK) {
        finish(fetch, outcome, why);
    } else if (pointer->number == 0) {
        finish(fetch, SL_CONTROL_NONE, "the store has no version of the policy");
    } else {
        outcome = ask_record(fetch);
        if (outcome != SL_CONTROL_OK)
            finish_unsent(fetch, outcome);
    }
}

enum sl_control sl_versions_fetch(const struct sl_versions_place *place, uint64_t number, sl_versions_fetched *done,
                                  void *ctx)
{
    struct fetch *fetch = sl_calloc(place->alloc, 1, sizeof *fetch);
    enum sl_control outcome;

    if (!fetch)
        return SL_CONTROL_NOMEM;
    *fetch = (struct fetch){.place = *place,
                            .alloc = *place->alloc,
                            .current = number == 0,
                            .pointer = {.number = number},
                            .done = done,
                            .ctx = ctx};
    outcome = number ? ask_record(fetch) : sl_versions_look(place, on_pointer, fetch);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, fetch);
    return outcome;
}
