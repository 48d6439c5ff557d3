#include "cli/key_tier.h"

#include "fleet/tiers.h"

#include <string.h>

struct asked {
    bool done;
    enum sl_result result;
    bool is_error;
    char error[256];
    bool is_integer;
    int64_t integer;
    struct cli_key_tier tier;
};

static void on_answer(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct asked *asked = ctx;

    asked->done = true;
    asked->result = result;
    if (!reply)
        return;
    if (reply->type == SL_REPLY_ERROR) {
        asked->is_error = true;
        snprintf(asked->error, sizeof asked->error, "%s", reply->text);
    } else if (reply->type == SL_REPLY_INTEGER) {
        asked->is_integer = true;
        asked->integer = reply->integer;
    } else if (reply->type == SL_REPLY_STRING) {
        asked->tier.found = true;
        asked->tier.len = reply->n < sizeof asked->tier.text ? reply->n : sizeof asked->tier.text - 1;
        memcpy(asked->tier.text, reply->text, asked->tier.len);
    }
}

/* COMMAND hash words...: at most ASK_WORDS of them. */
#define ASK_WORDS (2 * CLI_KEY_TIERS_AT_ONCE)

static int ask(struct cli_store *store, const char *command, const struct sl_word *words, size_t n,
               struct asked *ret_asked)
{
    char name[SL_NAMESPACE_MAX + 8];
    struct sl_word hash = {name, (size_t)snprintf(name, sizeof name, SL_TIERS_HASH, store->place.ns)};
    struct sl_word all[2 + ASK_WORDS] = {{command, strlen(command)}, hash};

    memcpy(&all[2], words, n * sizeof *words);
    *ret_asked = (struct asked){.done = false};
    ret_asked->result = sl_client_command(store->client, all, 2 + n, &hash, store->timeout_us, on_answer, ret_asked);
    if (ret_asked->result == SL_RESULT_OK)
        cli_store_wait(store, &ret_asked->done);
    if (ret_asked->is_error)
        return cli_fail(CLI_USAGE, "%s: %s: %s", store->text, name, ret_asked->error);
    if (ret_asked->result != SL_RESULT_OK)
        return cli_fail(CLI_UNREACHABLE, "%s: %s", store->text, sl_result_meaning(ret_asked->result));
    return 0;
}

int cli_key_tier_get(struct cli_store *store, const char *key, size_t len, struct cli_key_tier *ret_tier)
{
    struct asked asked;
    int status = ask(store, "HGET", &(struct sl_word){key, len}, 1, &asked);

    *ret_tier = asked.tier;
    return status;
}

int cli_key_tier_set_many(struct cli_store *store, const struct sl_word *pairs, size_t n)
{
    struct asked asked;
    int status = 0;

    for (size_t at = 0, m; at < n && status == 0; at += m) {
        m = n - at < ASK_WORDS ? n - at : ASK_WORDS;
        status = ask(store, "HSET", pairs + at, m, &asked);
    }
    return status;
}

int cli_key_tier_remove(struct cli_store *store, const char *key, size_t len, bool *ret_old)
{
    struct asked asked;
    int status = ask(store, "HDEL", &(struct sl_word){key, len}, 1, &asked);

    *ret_old = asked.is_integer && asked.integer > 0;
    return status;
}
