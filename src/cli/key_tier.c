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

static int ask(struct cli_store *store, const char *command, const char *key, size_t len, const char *tier,
               struct asked *ret_asked)
{
    char name[SL_NAMESPACE_MAX + 8];
    struct sl_word hash = {name, (size_t)snprintf(name, sizeof name, SL_TIERS_HASH, store->place.ns)};
    const struct sl_word words[] = {
        {command, strlen(command)}, hash, {key, len}, {tier ? tier : "", tier ? strlen(tier) : 0}};

    *ret_asked = (struct asked){.done = false};
    ret_asked->result =
        sl_client_command(store->client, words, tier ? 4 : 3, &hash, store->timeout_us, on_answer, ret_asked);
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
    int status = ask(store, "HGET", key, len, NULL, &asked);

    *ret_tier = asked.tier;
    return status;
}

int cli_key_tier_set(struct cli_store *store, const char *key, size_t len, const char *tier)
{
    struct asked asked;

    return ask(store, "HSET", key, len, tier, &asked);
}

int cli_key_tier_remove(struct cli_store *store, const char *key, size_t len, bool *ret_old)
{
    struct asked asked;
    int status = ask(store, "HDEL", key, len, NULL, &asked);

    *ret_old = asked.is_integer && asked.integer > 0;
    return status;
}
