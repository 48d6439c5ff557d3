/* Asks the store for the tiers of keys (`tiers.keys_store`): what tiers.h has waiting goes out with the lane's turn, a look a
 * call, on the hash SL_TIERS_HASH of the main store. */
#include "fleet/internal.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* HMGET, but that whatever is found keeps the reply small, and no refusal looks like the store's trouble to the breaker. */
#define LONGEST "63"
static const char script[] = "local found = redis.pcall('HMGET', KEYS[1], unpack(ARGV))\n"
                             "if found.err then return redis.error_reply('ERR ' .. found.err) end\n"
                             "for i = 1, #ARGV do\n"
                             "  if found[i] and #found[i] > " LONGEST " then found[i] = '' end\n"
                             "end\n"
                             "return found\n";
static_assert(SLUICE_NAME_MAX == 64, "LONGEST is the longest name of a tier");

#define TOLD_EVERY_US UINT64_C(60000000) /* tiers that the policy does not name */

/* ---- what decisions ask */

static bool find_tier(void *ctx, const char *key, size_t len, char *tier, size_t *ret_len)
{
    struct sl_fleet *fleet = ctx;
    struct sl_tier_name name;

    if (!sl_tiers_find(fleet->tiers, key, len, sl_table_now(fleet->limiter->table), &name))
        return false;
    memcpy(tier, name.text, name.len);
    *ret_len = name.len;
    return true;
}

void sl_fleet_find_tiers(struct sl_fleet *fleet, bool on)
{
    sl_limiter_set_key_tier(fleet->limiter, on ? find_tier : NULL, fleet);
}

/* ---- what there is to tell */

#define LINE_SIZE (SL_NAMESPACE_MAX + 400u)

static void tell(struct sl_fleet *fleet, const char *line)
{
    if (fleet->config.odd)
        fleet->config.odd(fleet->config.owner, line);
}

/* The store cannot be asked, or can again. `error`: what it says; "" when all is well. */
static void note_refusal(struct sl_fleet *fleet, const char *error)
{
    struct sl_keys_told *told = &fleet->keys_told;
    char line[LINE_SIZE];
    bool news;

    pthread_mutex_lock(&fleet->lock);
    news = strncmp(told->refusal, error, sizeof told->refusal - 1) != 0;
    if (news)
        snprintf(told->refusal, sizeof told->refusal, "%s", error);
    pthread_mutex_unlock(&fleet->lock);
    if (news && error[0])
        snprintf(line, sizeof line,
                 "the tiers of keys cannot be looked up in " SL_TIERS_HASH ": %.200s; what is known of keys stays",
                 fleet->keys_ns, error);
    if (news && error[0])
        tell(fleet, line);
}

/* Names in a log line are printable, whatever they are in the store. The key may be a secret, and is not told. */
static void note_unknown(struct sl_fleet *fleet, const struct sl_reply *value, uint64_t now_us)
{
    struct sl_keys_told *told = &fleet->keys_told;
    char name[SLUICE_NAME_MAX] = "", line[LINE_SIZE];
    bool news;

    for (size_t i = 0; value->type == SL_REPLY_STRING && i < value->n && i + 1 < sizeof name; i++)
        name[i] = value->text[i] > ' ' && value->text[i] < 0x7f ? value->text[i] : '?';
    pthread_mutex_lock(&fleet->lock);
    news = !told->unknown_us || now_us - told->unknown_us >= TOLD_EVERY_US;
    if (news)
        told->unknown_us = now_us;
    pthread_mutex_unlock(&fleet->lock);
    if (!news)
        return;
    if (name[0])
        snprintf(line, sizeof line,
                 SL_TIERS_HASH " gives a key the tier `%s`, which the policy does not name: such keys count as unknown",
                 fleet->keys_ns, name);
    else
        snprintf(line, sizeof line,
                 SL_TIERS_HASH " gives a key something that is no name of a tier: such keys count as unknown",
                 fleet->keys_ns);
    tell(fleet, line);
}

/* ---- answers */

static bool is_tier(const struct sl_policy *policy, const struct sl_reply *value)
{
    return value->type == SL_REPLY_STRING && value->n > 0 && value->n < SLUICE_NAME_MAX &&
           sl_policy_names_tier(policy, value->text, value->n);
}

/* A tier that this policy does not name is kept if it is a name at all: another policy may name it. */
static void learn(struct sl_fleet *fleet, const struct sl_policy *policy, struct sl_tiers_look *look, unsigned i,
                  const struct sl_reply *value)
{
    bool is_name = value->type == SL_REPLY_STRING && value->n > 0 && value->n < SLUICE_NAME_MAX;

    if (value->type == SL_REPLY_NIL) {
        sl_tiers_learn(look, i, NULL, 0, SL_TIERS_MISS);
    } else if (is_tier(policy, value)) {
        sl_tiers_learn(look, i, value->text, value->n, SL_TIERS_HIT);
    } else {
        sl_tiers_learn(look, i, is_name ? value->text : NULL, value->n, SL_TIERS_UNKNOWN_TIER);
        note_unknown(fleet, value, sl_table_now(fleet->limiter->table));
    }
}

static void on_answer(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_lane_look *out = ctx;
    struct sl_lane *lane = out->lane;
    struct sl_fleet *fleet = lane->fleet;
    struct sl_tiers_look *look = out->look;
    unsigned n = sl_tiers_look_n(look);
    struct sl_policy *policy;

    out->look = NULL;
    if (result == SL_RESULT_OK && reply->type == SL_REPLY_ARRAY && reply->n == n) {
        policy = sl_limiter_policy(fleet->limiter);
        for (unsigned i = 0; i < n; i++)
            learn(fleet, policy, look, i, reply->elements[i]);
        sl_policy_unref(policy);
        note_refusal(fleet, "");
    } else if (reply) { /* else the connection's trouble: the client tells of it */
        note_refusal(fleet, reply->type == SL_REPLY_ERROR ? reply->text : "the answer is no list of tiers");
    }
    sl_tiers_look_end(look, sl_table_now(fleet->limiter->table));
    if (!lane->stopping)
        sl_lane_look_up(lane); /* those that waited for this one */
}

/* ---- what goes out */

static enum sl_result ask(struct sl_lane *lane, struct sl_lane_look *out)
{
    struct sl_client *client = sl_lane_client(lane, 0);
    struct sl_word words[4 + SL_TIERS_LOOK_KEYS];
    char bytes[SL_NAMESPACE_MAX + 8];
    struct sl_word key = {bytes, (size_t)snprintf(bytes, sizeof bytes, SL_TIERS_HASH, lane->fleet->keys_ns)};
    unsigned n = sl_tiers_look_n(out->look);

    if (!client)
        return SL_RESULT_UNREACHABLE;
    words[0] = (struct sl_word)SL_WORD("EVAL");
    words[1] = (struct sl_word){script, sizeof script - 1};
    words[2] = (struct sl_word)SL_WORD("1");
    words[3] = key;
    for (unsigned i = 0; i < n; i++)
        words[4 + i].bytes = sl_tiers_look_key(out->look, i, &words[4 + i].len);
    return sl_client_command(client, words, 4 + n, &key, 0, on_answer, out);
}

static struct sl_lane_look *free_look(struct sl_lane *lane)
{
    for (unsigned i = 0; i < SL_TIERS_LOOKS_MAX; i++)
        if (!lane->looks[i].look)
            return &lane->looks[i];
    return NULL;
}

static void look_up(void *owner)
{
    struct sl_lane *lane = owner;
    struct sl_fleet *fleet = lane->fleet;
    struct sl_lane_look *out;

    lane->look_set = false;
    while (!lane->stopping && (out = free_look(lane))) {
        out->lane = lane;
        out->look = sl_tiers_look(fleet->tiers, sl_table_now(fleet->limiter->table));
        if (!out->look)
            return;
        if (ask(lane, out) != SL_RESULT_OK) { /* the breaker is open, or the like: it will not be better in this turn */
            sl_tiers_look_end(out->look, sl_table_now(fleet->limiter->table));
            out->look = NULL;
        }
    }
}

int sl_lane_init_looks(struct sl_lane *lane)
{
    lane->look_timer = lane->net->timer_new(lane->net->ctx, look_up, lane);
    return lane->look_timer ? 0 : SL_ENOMEM;
}

void sl_lane_fini_looks(struct sl_lane *lane)
{
    lane->net->timer_free(lane->look_timer);
}

void sl_lane_look_up(struct sl_lane *lane)
{
    if (lane->look_set || lane->stopping || !sl_tiers_waiting(lane->fleet->tiers))
        return;
    lane->look_set = true;
    lane->net->timer_set(lane->look_timer, 0);
}
