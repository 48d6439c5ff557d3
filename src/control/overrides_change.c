/* A change of the overrides: one script that does it whole, or not at all. */
#include "control/overrides.h"
#include "control/task.h"

#include "policy/override_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 3u
#define FIELD_MAX (SLUICE_KEY_MAX + 2 * SLUICE_NAME_MAX + 2)
#define TEXT_MAX 2560u /* an author or a comment as JSON */

/* Everything is looked at before anything is written; the first write is one that a full store refuses. Records are taken
 * and given as they are: what the script itself adds is numbers. A change that is known by its token was here before: its
 * answer is given again. */
static const char change_script[] =
    "local list, ends, revision, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4]\n"
    "local op, field, rest, ending, token, most, kept, author, comment = unpack(ARGV)\n"
    "local function is(key, what) local k = redis.call('TYPE', key).ok return k == 'none' or k == what end\n"
    "if not is(list, 'hash') then return {'foreign', list} end\n"
    "if not is(ends, 'zset') then return {'foreign', ends} end\n"
    "if not is(revision, 'string') then return {'foreign', revision} end\n"
    "if not is(log, 'list') then return {'foreign', log} end\n"
    "local found, number = redis.call('GETRANGE', revision, 0, 99), '0'\n"
    "if found ~= '' then\n"
    "  number = found:match('^([1-9]%d*) %x+$')\n"
    "  if not number or #number > 14 then return {'foreign', revision} end\n"
    "end\n"
    "for _, entry in ipairs(redis.call('LRANGE', log, 0, 19)) do\n"
    "  if entry:find('\"token\":\"' .. token .. '\"', 1, true) then return {'done', entry} end\n"
    "end\n"
    "local t = redis.call('TIME')\n"
    "local now = string.format('%.0f', t[1] * 1000000 + t[2])\n"
    "local over, is_over = redis.call('ZRANGEBYSCORE', ends, '-inf', now), {}\n"
    "for _, f in ipairs(over) do is_over[f] = true end\n"
    "local old = redis.call('HGET', list, field)\n"
    "if old and old:sub(1, 9) ~= '{\"setUs\":' then return {'foreign', list} end\n"
    "if op == 'remove' and (not old or is_over[field]) then return {'none'} end\n"
    "if op == 'set' and ending ~= '' and tonumber(ending) <= tonumber(now) then return {'over'} end\n"
    "if op == 'set' and not old and redis.call('HLEN', list) - #over >= tonumber(most) then return {'full'} end\n"
    "local next = string.format('%.0f', number + 1)\n"
    "redis.call('SET', revision, next .. ' ' .. token)\n"
    "local head = '{\"revision\":' .. next .. ',\"timeUs\":' .. now .. ',\"op\":\"'\n"
    "for _, f in ipairs(over) do\n"
    "  local was = redis.call('HGET', list, f)\n"
    "  redis.call('HDEL', list, f)\n"
    "  redis.call('ZREM', ends, f)\n"
    "  if was and was:sub(1, 9) == '{\"setUs\":' then\n"
    "    redis.call('LPUSH', log, head .. 'expire\",\"author\":\"\",\"comment\":\"\",\"old\":' .. was .. "
    "',\"new\":null}')\n"
    "  end\n"
    "end\n"
    "if is_over[field] then old = false end\n"
    "local new = 'null'\n"
    "if op == 'set' then\n"
    "  new = '{\"setUs\":' .. now .. ',' .. rest\n"
    "  redis.call('HSET', list, field, new)\n"
    "else\n"
    "  redis.call('HDEL', list, field)\n"
    "end\n"
    "if op == 'set' and ending ~= '' then redis.call('ZADD', ends, ending, field)\n"
    "else redis.call('ZREM', ends, field) end\n"
    "local entry = head .. op .. '\",\"token\":\"' .. token .. '\",\"author\":' .. author .. ',\"comment\":' .. "
    "comment ..\n"
    "  ',\"old\":' .. (old or 'null') .. ',\"new\":' .. new .. '}'\n"
    "redis.call('LPUSH', log, entry)\n"
    "redis.call('LTRIM', log, 0, kept - 1)\n"
    "return {'done', entry}\n";

struct change {
    struct sl_versions_place place;
    struct sl_alloc alloc;
    bool remove;
    char field[FIELD_MAX + 1], ending[24], token[SL_TOKEN_HEX + 1];
    size_t field_len;
    char rest[SL_OVERRIDE_RECORD_MAX + 1], author[TEXT_MAX], comment[TEXT_MAX];
    unsigned n_tries;
    sl_overrides_changed *done;
    void *ctx;
};

static void finish(struct change *change, enum sl_control outcome, const json_t *entry, const char *why)
{
    struct change *last = change;
    sl_overrides_changed *done = last->done;
    void *ctx = last->ctx;
    struct sl_alloc alloc = last->alloc;

    sl_free(&alloc, last);
    done(ctx, outcome, entry, why);
}

static void finish_foreign(struct change *change, const char *key)
{
    char why[256];

    snprintf(why, sizeof why, "the key %.150s holds something that is not ours; it is left alone", key);
    finish(change, SL_CONTROL_FOREIGN, NULL, why);
}

static void take_done(struct change *change, const struct sl_reply *text)
{
    json_t *entry = json_loadb(text->text, text->n, 0, NULL);

    if (json_is_object(entry))
        finish(change, SL_CONTROL_OK, entry, "");
    else
        finish_foreign(change, sl_override_log_key(&change->place).text);
    json_decref(entry);
}

static void take_answer(struct change *change, const struct sl_reply *reply)
{
    bool told = sl_reply_is_array(reply, 2) && reply->elements[1]->type == SL_REPLY_STRING;

    if (told && sl_reply_is(reply->elements[0], "done"))
        take_done(change, reply->elements[1]);
    else if (told && sl_reply_is(reply->elements[0], "foreign"))
        finish_foreign(change, reply->elements[1]->text);
    else if (sl_reply_is_array(reply, 1) && sl_reply_is(reply->elements[0], "none"))
        finish(change, SL_CONTROL_NONE, NULL, "there is no such override");
    else if (sl_reply_is_array(reply, 1) && sl_reply_is(reply->elements[0], "over"))
        finish(change, SL_CONTROL_INVALID, NULL, "the end of the override has passed, by the store's clock");
    else if (sl_reply_is_array(reply, 1) && sl_reply_is(reply->elements[0], "full"))
        finish(change, SL_CONTROL_CONFLICT, NULL, "there are 10000 overrides, which is as many as there can be");
    else
        finish_foreign(change, sl_overrides_key(&change->place).text);
}

static void send(struct change *change);

static void on_answer(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct change *change = ctx;
    struct sl_control_key key = sl_overrides_key(&change->place);
    char why[SL_CONTROL_WHY_MAX];
    enum sl_control outcome;

    if (result == SL_RESULT_OK) {
        take_answer(change, reply);
        return;
    }
    if (!reply && sl_result_ambiguous(result)) {
        if (result != SL_RESULT_CLOSED && change->n_tries < TRIES_MAX) {
            send(change);
            return;
        }
        snprintf(why, sizeof why, "the store does not answer (%s): the list tells whether it was changed",
                 sl_result_meaning(result));
        finish(change, SL_CONTROL_UNKNOWN, NULL, why);
        return;
    }
    outcome = sl_control_failed(result, reply, &key, why, sizeof why);
    if (change->n_tries > 1 && outcome == SL_CONTROL_AWAY)
        outcome = SL_CONTROL_UNKNOWN;
    finish(change, outcome, NULL, why);
}

static enum sl_control ask(struct change *change)
{
    const struct sl_versions_place *place = &change->place;
    struct sl_control_key keys[] = {sl_overrides_key(place), sl_override_ends_key(place),
                                    sl_override_revision_key(place), sl_override_log_key(place)};
    char most[16], kept[16];
    const char *op = change->remove ? "remove" : "set";
    struct sl_word args[] = {
        {op, strlen(op)},
        {change->field, change->field_len},
        {change->rest, strlen(change->rest)},
        {change->ending, strlen(change->ending)},
        {change->token, SL_TOKEN_HEX},
        {most, (size_t)snprintf(most, sizeof most, "%u", SL_OVERRIDES_MAX)},
        {kept, (size_t)snprintf(kept, sizeof kept, "%u", SL_OVERRIDE_LOG_MAX)},
        {change->author, strlen(change->author)},
        {change->comment, strlen(change->comment)},
    };
    enum sl_control outcome =
        sl_control_eval(place, change_script, keys, 4, args, sizeof args / sizeof args[0], on_answer, change);

    change->n_tries += outcome == SL_CONTROL_OK;
    return outcome;
}

/* Once more. */
static void send(struct change *change)
{
    if (ask(change) != SL_CONTROL_OK)
        finish(change, SL_CONTROL_UNKNOWN, NULL, "the store went away: the list tells whether it was changed");
}

/* ---- the beginning */

static bool dump(json_t *value, char *buf, size_t size)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER) : NULL;
    bool good = text && strlen(text) < size;

    if (good)
        memcpy(buf, text, strlen(text) + 1);
    free(text);
    json_decref(value);
    return good;
}

/* The record without its beginning, which the script writes. */
static bool write_rest(struct change *change, const struct sl_override *o)
{
    char text[sizeof change->rest];

    if (!dump(sl_override_json(o, SL_OVERRIDE_ASKED), text, sizeof text))
        return false;
    memcpy(change->rest, text + 1, strlen(text));
    return true;
}

static bool describe(struct change *change, const struct sl_override_change *from)
{
    const struct sl_override *o = from->override;
    const struct sl_net *net = change->place.net;
    char *at = change->field;

    at += sprintf(at, "%s\n%s\n", o->key_type, o->limit ? o->limit : "");
    memcpy(at, o->key, o->key_len);
    change->field_len = (size_t)(at - change->field) + o->key_len;
    if (o->until_us)
        snprintf(change->ending, sizeof change->ending, "%" PRIu64, o->until_us);
    snprintf(change->token, sizeof change->token, "%016" PRIx64, net->random(net->ctx));
    return (from->remove || write_rest(change, o)) &&
           dump(json_string(from->author), change->author, sizeof change->author) &&
           dump(json_string(from->comment), change->comment, sizeof change->comment);
}

/* Of a removal only the names count: the rest is put in place of what is not given. */
static const char *check(const struct sl_override_change *change)
{
    struct sl_override whole = *change->override;
    const char *field;

    whole.author = change->author;
    whole.comment = change->comment;
    if (change->remove) {
        whole.rate = (struct sl_rate){.kind = SL_RATE_BLOCKED};
        whole.burst = 0;
        whole.until_us = 0;
    }
    return sl_override_check(&whole, &field);
}

enum sl_control sl_overrides_change(const struct sl_versions_place *place, const struct sl_override_change *from,
                                    sl_overrides_changed *done, void *ctx, const char **ret_why)
{
    struct change *change;
    enum sl_control outcome = SL_CONTROL_NOMEM;

    *ret_why = check(from);
    if (*ret_why)
        return SL_CONTROL_INVALID;
    change = sl_calloc(place->alloc, 1, sizeof *change);
    if (!change)
        return SL_CONTROL_NOMEM;
    change->place = *place;
    change->alloc = *place->alloc;
    change->remove = from->remove;
    change->done = done;
    change->ctx = ctx;
    if (describe(change, from))
        outcome = ask(change);
    if (outcome != SL_CONTROL_OK)
        sl_free(place->alloc, change);
    return outcome;
}
