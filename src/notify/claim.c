#include "notify/claim.h"

#include "store/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ":warned"
#define KEY_MAX (SL_STORE_KEY_MAX + sizeof SUFFIX)

struct asked {
    struct sl_client *client;
    uint64_t window_us;
    sl_claim_done *done;
    void *ctx;
    size_t key_len;
    char key[KEY_MAX];
};

/* As keys of buckets are written, with another ending. */
static size_t write_key(char buf[static KEY_MAX], const char *ns, struct sl_hash128 fp)
{
    size_t len = sl_store_key(buf, ns, strlen(ns), fp, 0);

    while (len > 0 && buf[len - 1] != ':')
        len--;
    memcpy(buf + len - 1, SUFFIX, sizeof SUFFIX);
    return len - 1 + sizeof SUFFIX - 1;
}

static void end(struct asked *asked, enum sl_claim claim, uint64_t left_us)
{
    sl_claim_done *done = asked->done;
    void *ctx = asked->ctx;

    free(asked);
    done(ctx, claim, left_us);
}

/* A key that is not ours, or that ended meanwhile, has no time left. */
static void on_left(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct asked *asked = ctx;
    uint64_t left_us = asked->window_us;

    if (result == SL_RESULT_OK && reply->type == SL_REPLY_INTEGER && reply->integer >= 0 &&
        (uint64_t)reply->integer < asked->window_us / 1000)
        left_us = (uint64_t)reply->integer * 1000;
    end(asked, SL_CLAIM_LOST, left_us);
}

static void ask_left(struct asked *asked)
{
    struct sl_word key = {asked->key, asked->key_len};
    struct sl_word words[] = {SL_WORD("PTTL"), key};

    if (sl_client_command(asked->client, words, 2, &key, SL_CLAIM_TIMEOUT_US, on_left, asked) != SL_RESULT_OK)
        end(asked, SL_CLAIM_LOST, asked->window_us);
}

static void on_set(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct asked *asked = ctx;

    if (result == SL_RESULT_OK && sl_reply_is(reply, "OK"))
        end(asked, SL_CLAIM_WON, 0);
    else if (result == SL_RESULT_OK && reply->type == SL_REPLY_NIL)
        ask_left(asked);
    else
        end(asked, SL_CLAIM_UNKNOWN, 0);
}

bool sl_claim_start(struct sl_client *client, const char *ns, struct sl_hash128 fp, uint64_t window_us,
                    sl_claim_done *done, void *ctx)
{
    struct asked *asked = malloc(sizeof *asked);
    char window[24];

    if (!asked)
        return false;
    *asked = (struct asked){.client = client, .window_us = window_us, .done = done, .ctx = ctx};
    asked->key_len = write_key(asked->key, ns, fp);

    struct sl_word key = {asked->key, asked->key_len};
    struct sl_word words[] = {
        SL_WORD("SET"), key,           SL_WORD("1"),
        SL_WORD("NX"),  SL_WORD("PX"), {window, (size_t)snprintf(window, sizeof window, "%" PRIu64, window_us / 1000)},
    };

    if (sl_client_command(client, words, 6, &key, SL_CLAIM_TIMEOUT_US, on_set, asked) == SL_RESULT_OK)
        return true;
    free(asked);
    return false;
}
