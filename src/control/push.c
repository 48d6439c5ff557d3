/* A new version: its pieces go up to a draft, then one script makes a version of it, or does not. */
#include "control/task.h"

#include "policy/digest.h"
#include "policy/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMITS_MAX 3u

/* One piece of a draft, and how long the draft lives from now on. */
static const char stage_script[] = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])\n"
                                   "redis.call('PEXPIRE', KEYS[1], ARGV[3])\n"
                                   "return 1\n";

/* Everything is looked at before anything is written. The first write is the one that a full store refuses, so that a
 * version is written whole or not at all. The number is above all there are, even when the pointer was lost. A push that is
 * known by its token was here before: its answer is given again. */
static const char commit_script[] =
    "local current, versions, body, draft = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
    "local expected, hash, pieces, before, after, token = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], "
    "ARGV[6]\n"
    "local function kind(key) return redis.call('TYPE', key).ok end\n"
    "local function is(key, what) local k = kind(key) return k == 'none' or k == what end\n"
    "if not is(current, 'string') then return {'foreign', current} end\n"
    "if not is(versions, 'hash') then return {'foreign', versions} end\n"
    "if not is(body, 'hash') then return {'foreign', body} end\n"
    "local number = '0'\n"
    "if kind(current) == 'string' then\n"
    "  local found = redis.call('GETRANGE', current, 0, 99)\n"
    "  number = found:match('^([1-9]%d*) %x+$')\n"
    "  if not number or #number > 15 or #found ~= #number + 65 then return {'foreign', current} end\n"
    "end\n"
    "if number ~= expected then\n"
    "  local mine = string.format('%.0f', expected + 1)\n"
    "  local record = redis.call('HGET', versions, mine)\n"
    "  if record and record:find('\\n' .. token .. '\\n', 1, true) then return {'done', mine, record} end\n"
    "  return {'between', number, redis.call('HGET', versions, number)}\n"
    "end\n"
    "local next = math.max(tonumber(number), redis.call('HLEN', versions)) + 1\n"
    "while redis.call('HEXISTS', versions, string.format('%.0f', next)) == 1 do next = next + 1 end\n"
    "next = string.format('%.0f', next)\n"
    "if #next > 15 then return {'foreign', current} end\n"
    "local kept = kind(body) == 'hash'\n"
    "if redis.call('HLEN', kept and body or draft) ~= pieces then return {'again'} end\n"
    "local t = redis.call('TIME')\n"
    "local record = before .. string.format('%.0f', t[1] * 1000000 + t[2]) .. after\n"
    "redis.call('HSETNX', versions, next, record)\n"
    "if not kept then redis.call('RENAME', draft, body) redis.call('PERSIST', body) end\n"
    "redis.call('SET', current, next .. ' ' .. hash)\n"
    "return {'done', next, record}\n";

struct push {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    struct sl_version_draft draft;
    struct sl_version version;
    struct sl_control_key draft_key, body_key;
    bool kept; /* the store has the texts already: they are compared */
    size_t len, at;
    unsigned n_commits;
    char *piece; /* SL_PIECE_BYTES, for the one where body and keys_file meet */
    sl_versions_pushed *done;
    void *ctx;
};

static void finish(struct push *push, enum sl_control outcome, const struct sl_version *version, const char *why)
{
    struct push last = *push;
    struct sl_version copy;

    if (version)
        copy = *version;
    sl_free(&last.alloc, last.piece);
    sl_free(&last.alloc, push);
    last.done(last.ctx, outcome, version ? &copy : NULL, why);
}

static void finish_failed(struct push *push, enum sl_result result, const struct sl_reply *reply,
                          const struct sl_control_key *key)
{
    char why[SL_CONTROL_WHY_MAX];

    finish(push, sl_control_failed(result, reply, key, why, sizeof why), NULL, why);
}

static void finish_unsent(struct push *push, enum sl_control outcome)
{
    finish(push, outcome, NULL, outcome == SL_CONTROL_NOMEM ? "out of memory" : "the store cannot be reached");
}

/* ---- the commit */

static void conflict(struct push *push, const char *number, const struct sl_reply *record)
{
    struct sl_version between;
    char why[SL_CONTROL_WHY_MAX];
    uint64_t n = strtoull(number, NULL, 10), expected = push->draft.expected;

    if (n == 0) {
        snprintf(why, sizeof why, "version %" PRIu64 " was expected to be current, but the store has none", expected);
        finish(push, SL_CONTROL_CONFLICT, NULL, why);
    } else if (record->type != SL_REPLY_STRING || sl_version_read(n, record->text, record->n, &between)) {
        snprintf(why, sizeof why,
                 "version %" PRIu64 " is current instead of %" PRIu64 ", but its record cannot be read", n, expected);
        finish(push, SL_CONTROL_CONFLICT, NULL, why);
    } else {
        snprintf(why, sizeof why,
                 "version %" PRIu64 " by %s is current, and %" PRIu64 " was expected; nothing was changed", n,
                 between.author, expected);
        finish(push, SL_CONTROL_CONFLICT, &between, why);
    }
}

static void take_commit(struct push *push, const struct sl_reply *reply)
{
    struct sl_control_key versions = sl_versions_key(&push->place);
    char why[SL_CONTROL_WHY_MAX];
    struct sl_version made;

    if (sl_reply_is_array(reply, 3) && sl_reply_is(reply->elements[0], "done") &&
        reply->elements[1]->type == SL_REPLY_STRING && reply->elements[2]->type == SL_REPLY_STRING &&
        sl_version_read(strtoull(reply->elements[1]->text, NULL, 10), reply->elements[2]->text, reply->elements[2]->n,
                        &made) == 0) {
        finish(push, SL_CONTROL_OK, &made, "");
    } else if (sl_reply_is_array(reply, 3) && sl_reply_is(reply->elements[0], "between") &&
               reply->elements[1]->type == SL_REPLY_STRING) {
        conflict(push, reply->elements[1]->text, reply->elements[2]);
    } else if (sl_reply_is_array(reply, 2) && sl_reply_is(reply->elements[0], "foreign") &&
               reply->elements[1]->type == SL_REPLY_STRING) {
        snprintf(why, sizeof why, "the key %.150s holds something that is not ours; it is left alone",
                 reply->elements[1]->text);
        finish(push, SL_CONTROL_FOREIGN, NULL, why);
    } else if (sl_reply_is_array(reply, 1) && sl_reply_is(reply->elements[0], "again")) {
        finish(push, SL_CONTROL_REFUSED, NULL, "the draft was removed from the store on its way; nothing was changed");
    } else {
        finish(push, sl_control_foreign(&versions, "what the script for a push answers", why, sizeof why), NULL, why);
    }
}

static void commit(struct push *push);

static void on_committed(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct push *push = ctx;
    struct sl_control_key key = sl_versions_key(&push->place);
    char why[SL_CONTROL_WHY_MAX];

    if (result == SL_RESULT_OK) {
        take_commit(push, reply);
    } else if (!reply && sl_result_ambiguous(result)) {
        /* Asked again, since the script knows its own push; a client that is being closed asks nothing more. */
        if (result != SL_RESULT_CLOSED && push->n_commits < COMMITS_MAX) {
            commit(push);
            return;
        }
        snprintf(why, sizeof why, "the store does not answer (%s): the history tells whether the push took place",
                 sl_result_meaning(result));
        finish(push, SL_CONTROL_UNKNOWN, NULL, why);
    } else {
        enum sl_control outcome = sl_control_failed(result, reply, &key, why, sizeof why);

        if (push->n_commits > 1 && outcome == SL_CONTROL_AWAY)
            outcome = SL_CONTROL_UNKNOWN; /* an earlier one may have come through */
        finish(push, outcome, NULL, why);
    }
}

static void commit(struct push *push)
{
    struct sl_control_key keys[] = {sl_current_key(&push->place), sl_versions_key(&push->place), push->body_key,
                                    push->draft_key};
    char expected[24], pieces[24], before[SL_RECORD_MAX], after[SL_RECORD_MAX];
    struct sl_word args[] = {
        {expected, (size_t)snprintf(expected, sizeof expected, "%" PRIu64, push->draft.expected)},
        {push->version.hash, SL_HASH_HEX},
        {pieces, (size_t)snprintf(pieces, sizeof pieces, "%zu", sl_pieces(push->len))},
        {before, sl_version_write_before(&push->version, before)},
        {after, sl_version_write_after(&push->version, after)},
        {push->version.token, SL_TOKEN_HEX},
    };
    enum sl_control outcome =
        sl_control_eval(&push->place, commit_script, keys, 4, args, sizeof args / sizeof args[0], on_committed, push);

    if (outcome == SL_CONTROL_OK)
        push->n_commits++;
    else if (push->n_commits)
        finish(push, SL_CONTROL_UNKNOWN, NULL, "the store went away: the history tells whether the push took place");
    else
        finish_unsent(push, outcome);
}

/* ---- pieces */

/* Part of the text that is body, NUL, keys_file in a row. */
static struct sl_word piece_at(const struct push *push)
{
    const struct sl_version_draft *draft = &push->draft;
    size_t n = sl_piece_len(push->len, push->at / SL_PIECE_BYTES), from = push->at, keys_at = draft->body_len + 1, body;

    if (from + n <= draft->body_len)
        return (struct sl_word){draft->body + from, n};
    if (from >= keys_at)
        return (struct sl_word){draft->keys + (from - keys_at), n};
    body = draft->body_len - from;
    memcpy(push->piece, draft->body + from, body);
    push->piece[body] = '\0';
    memcpy(push->piece + body + 1, draft->keys, n - body - 1);
    return (struct sl_word){push->piece, n};
}

static void next_piece(struct push *push);

static void go_on(struct push *push, size_t n)
{
    push->at += n;
    if (push->at < push->len)
        next_piece(push);
    else
        commit(push);
}

static void on_staged(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct push *push = ctx;

    if (result == SL_RESULT_OK)
        go_on(push, piece_at(push).len);
    else
        finish_failed(push, result, reply, &push->draft_key);
}

static void on_kept(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct push *push = ctx;
    struct sl_word piece = piece_at(push);
    char why[SL_CONTROL_WHY_MAX];

    if (result != SL_RESULT_OK)
        finish_failed(push, result, reply, &push->body_key);
    else if (reply->type != SL_REPLY_STRING || reply->n != piece.len ||
             memcmp(reply->text, piece.bytes, piece.len) != 0)
        finish(push, sl_control_foreign(&push->body_key, "the policy that its hash says", why, sizeof why), NULL, why);
    else
        go_on(push, piece.len);
}

static void next_piece(struct push *push)
{
    struct sl_word piece = piece_at(push);
    char field[24], life[24];
    struct sl_word name = {field, (size_t)snprintf(field, sizeof field, "%zu", push->at / SL_PIECE_BYTES)};
    enum sl_control outcome;

    if (push->kept) {
        struct sl_word words[] = {SL_WORD("HGET"), sl_control_word(&push->body_key), name};

        outcome = sl_control_ask(&push->place, words, 3, &push->body_key, on_kept, push);
    } else {
        struct sl_word args[] = {name, piece, {life, (size_t)snprintf(life, sizeof life, "%u", SL_DRAFT_LIFE_MS)}};

        outcome = sl_control_eval(&push->place, stage_script, &push->draft_key, 1, args, 3, on_staged, push);
    }
    if (outcome != SL_CONTROL_OK)
        finish_unsent(push, outcome);
}

/* ---- the beginning */

static void on_exists(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct push *push = ctx;

    if (result != SL_RESULT_OK) {
        finish_failed(push, result, reply, &push->body_key);
        return;
    }
    push->kept = reply->type == SL_REPLY_INTEGER && reply->integer > 0;
    next_piece(push);
}

static const char *check(const struct sl_version_draft *draft)
{
    const char *wrong = sl_version_check_texts(draft->author, draft->comment);

    if (wrong)
        return wrong;
    if (draft->body_len == 0)
        return "the policy is empty";
    if (draft->body_len > SL_POLICY_BYTES_MAX || (draft->keys && draft->keys_len > SL_POLICY_BYTES_MAX))
        return "policy and keys_file may have 64 MiB each";
    if (memchr(draft->body, '\0', draft->body_len))
        return "the policy holds a NUL byte";
    if (draft->expected >= SL_VERSION_NUMBER_MAX || draft->from > SL_VERSION_NUMBER_MAX)
        return "there cannot be a version of that number";
    return NULL;
}

static enum sl_control describe(struct push *push)
{
    const struct sl_version_draft *draft = &push->draft;
    struct sl_version *version = &push->version;
    const struct sl_net *net = push->place.net;

    *version = (struct sl_version){.body_len = draft->body_len,
                                   .keys_len = draft->keys ? draft->keys_len : 0,
                                   .has_keys = draft->keys != NULL,
                                   .from = draft->from};
    if (sl_digest(draft->body, draft->body_len, draft->keys, draft->keys_len, version->hash))
        return SL_CONTROL_NOMEM;
    snprintf(version->token, sizeof version->token, "%016" PRIx64, net->random(net->ctx));
    snprintf(version->author, sizeof version->author, "%s", draft->author);
    snprintf(version->comment, sizeof version->comment, "%s", draft->comment);
    push->draft.author = push->draft.comment = NULL;
    push->len = version->body_len + (version->has_keys ? 1 + version->keys_len : 0);
    push->body_key = sl_body_key(&push->place, version->hash);
    push->draft_key = sl_control_key(push->place.ns, "policy:draft:%s", version->token);
    return SL_CONTROL_OK;
}

enum sl_control sl_versions_push(const struct sl_versions_place *place, const struct sl_version_draft *draft,
                                 sl_versions_pushed *done, void *ctx, const char **ret_why)
{
    struct push *push;
    enum sl_control outcome = SL_CONTROL_NOMEM;

    *ret_why = check(draft);
    if (*ret_why)
        return SL_CONTROL_INVALID;
    push = sl_calloc(place->alloc, 1, sizeof *push);
    if (!push)
        return SL_CONTROL_NOMEM;
    *push = (struct push){.place = *place, .alloc = *place->alloc, .draft = *draft, .done = done, .ctx = ctx};
    push->piece = sl_calloc(place->alloc, 1, SL_PIECE_BYTES);
    if (push->piece)
        outcome = describe(push);
    if (outcome == SL_CONTROL_OK) {
        struct sl_word words[] = {SL_WORD("EXISTS"), sl_control_word(&push->body_key)};

        outcome = sl_control_ask(place, words, 2, &push->body_key, on_exists, push);
    }
    if (outcome != SL_CONTROL_OK) {
        sl_free(place->alloc, push->piece);
        sl_free(place->alloc, push);
    }
    return outcome;
}
