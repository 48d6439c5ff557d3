#include "control/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a call that never started means; one that was sent ends in sl_control_failed. */
static enum sl_control of_refusal(enum sl_result result)
{
    return result == SL_RESULT_NOMEM ? SL_CONTROL_NOMEM : SL_CONTROL_AWAY;
}

enum sl_control sl_control_ask(const struct sl_versions_place *place, const struct sl_word *words, size_t n,
                               const struct sl_control_key *key, sl_client_done *done, void *ctx)
{
    struct sl_word word = sl_control_word(key);
    enum sl_result result = sl_client_command(place->client, words, n, &word, place->timeout_us, done, ctx);

    return result == SL_RESULT_OK ? SL_CONTROL_OK : of_refusal(result);
}

enum sl_control sl_control_eval(const struct sl_versions_place *place, const char *script,
                                const struct sl_control_key *keys, size_t n_keys, const struct sl_word *args,
                                size_t n_args, sl_client_done *done, void *ctx)
{
    struct sl_word words[3 + SL_EVAL_WORDS_MAX];
    char count[4];
    size_t n = 0;

    words[n++] = SL_WORD("EVAL");
    words[n++] = (struct sl_word){script, strlen(script)};
    words[n++] = (struct sl_word){count, (size_t)snprintf(count, sizeof count, "%u", (unsigned)(n_keys & 0xff))};
    for (size_t i = 0; i < n_keys; i++)
        words[n++] = sl_control_word(&keys[i]);
    for (size_t i = 0; i < n_args; i++)
        words[n++] = args[i];
    return sl_control_ask(place, words, n, &keys[0], done, ctx);
}

enum sl_control sl_control_foreign(const struct sl_control_key *key, const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size, "the key %s holds something that is not %s; it is left alone", key->text, what);
    return SL_CONTROL_FOREIGN;
}

enum sl_control sl_control_failed(enum sl_result result, const struct sl_reply *reply, const struct sl_control_key *key,
                                  char *why, size_t why_size)
{
    if (result == SL_RESULT_WRONGTYPE)
        return sl_control_foreign(key, "of our kind", why, why_size);
    if (reply && reply->text)
        snprintf(why, why_size, "the store refuses (%s): %.300s", sl_result_name(result), reply->text);
    else
        snprintf(why, why_size, "the store does not answer: %s", sl_result_meaning(result));
    if (result == SL_RESULT_NOMEM)
        return SL_CONTROL_NOMEM;
    return reply ? SL_CONTROL_REFUSED : SL_CONTROL_AWAY;
}

/* ---- names */

struct sl_control_key sl_current_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "policy:current");
}

struct sl_control_key sl_versions_key(const struct sl_versions_place *place)
{
    return sl_control_key(place->ns, "policy:versions");
}

struct sl_control_key sl_body_key(const struct sl_versions_place *place, const char *hash)
{
    return sl_control_key(place->ns, "policy:body:%s", hash);
}

struct sl_control_key sl_running_key(const struct sl_versions_place *place, uint64_t id)
{
    return sl_control_key(place->ns, "policy:running:%016" PRIx64, id);
}

/* ---- pieces */

size_t sl_pieces(size_t len)
{
    return len ? (len + SL_PIECE_BYTES - 1) / SL_PIECE_BYTES : 1;
}

size_t sl_piece_len(size_t len, size_t i)
{
    size_t left = len - i * SL_PIECE_BYTES;

    return left < SL_PIECE_BYTES ? left : SL_PIECE_BYTES;
}

/* ---- the pointer */

enum sl_control sl_pointer_of(const struct sl_versions_place *place, const struct sl_reply *reply,
                              struct sl_pointer *ret_pointer, char *why, size_t why_size)
{
    struct sl_control_key key = sl_current_key(place);

    *ret_pointer = (struct sl_pointer){.number = 0};
    if (reply->type == SL_REPLY_STRING && reply->n == 0)
        return SL_CONTROL_OK;
    if (reply->type == SL_REPLY_STRING && sl_pointer_read(reply->text, reply->n, ret_pointer) == 0)
        return SL_CONTROL_OK;
    return sl_control_foreign(&key, "the current version's number and hash", why, why_size);
}

struct look {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    sl_versions_looked *done;
    void *ctx;
};

static void on_looked(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct look look = *(struct look *)ctx;
    struct sl_control_key key = sl_current_key(&look.place);
    struct sl_pointer pointer = {.number = 0};
    char why[SL_CONTROL_WHY_MAX] = "";
    enum sl_control outcome;

    sl_free(&look.alloc, ctx);
    if (result == SL_RESULT_OK)
        outcome = sl_pointer_of(&look.place, reply, &pointer, why, sizeof why);
    else
        outcome = sl_control_failed(result, reply, &key, why, sizeof why);
    look.done(look.ctx, outcome, &pointer, why);
}

enum sl_control sl_versions_look(const struct sl_versions_place *place, sl_versions_looked *done, void *ctx)
{
    struct sl_control_key key = sl_current_key(place);
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
