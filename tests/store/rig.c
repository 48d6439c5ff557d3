#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <openssl/sha.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char script[] = "return redis.call('INCR', KEYS[1])";

static void on_event(void *owner, const struct sl_client_event *event)
{
    struct rig *rig = owner;
    size_t len = strlen(rig->said);

    if (len > sizeof rig->said - 512) {
        memmove(rig->said, rig->said + len / 2, len - len / 2 + 1);
        len -= len / 2;
    }
    snprintf(rig->said + len, sizeof rig->said - len, "%s: %s\n", event->shard, event->text);
    rig->connected += event->happening == SL_CLIENT_CONNECTED;
    rig->disconnected += event->happening == SL_CLIENT_DISCONNECTED;
    rig->failovers += event->happening == SL_CLIENT_FAILOVER;
    rig->opened += event->happening == SL_CLIENT_BREAKER && event->breaker == SL_BREAKER_OPEN;
    rig->closed += event->happening == SL_CLIENT_BREAKER && event->breaker == SL_BREAKER_CLOSED;
    if (!event->good)
        rig->cause = event->cause;
}

static uint64_t shifted_now_us(void *ctx)
{
    struct rig *rig = SL_CONTAINER(ctx, struct rig, net);

    return uv_hrtime() / 1000 + rig->ahead_us;
}

void rig_init(struct rig *rig, const char *url)
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    char why[512];

    signal(SIGPIPE, SIG_IGN);
    memset(rig, 0, sizeof *rig);
    rig->alloc = sl_alloc_system();
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    assert_int_equal(uv_timer_init(&rig->loop, &rig->tick), 0);
    assert_int_equal(sl_net_uv_init(&rig->net, &rig->loop, &rig->alloc), 0);
    rig->net.net.now_us = shifted_now_us;
    if (sl_store_url_parse(url, &rig->url, why, sizeof why) || sl_store_url_read_files(&rig->url, why, sizeof why))
        fail_msg("%s", why);
    SHA1((const unsigned char *)script, sizeof script - 1, digest);
    for (int i = 0; i < SHA_DIGEST_LENGTH; i++)
        snprintf(rig->sha1 + 2 * i, 3, "%02x", digest[i]);
    rig->config = (struct sl_client_config){
        .net = &rig->net.net,
        .alloc = &rig->alloc,
        .url = &rig->url,
        .script = script,
        .script_sha1 = rig->sha1,
        .timeout_us = 5000000,
        .happened = on_event,
        .owner = rig,
    };
}

void rig_open(struct rig *rig)
{
    char why[256];

    if (sl_client_new(&rig->config, &rig->client, why, sizeof why))
        fail_msg("%s", why);
}

void rig_close(struct rig *rig)
{
    sl_client_free(rig->client);
    rig->client = NULL;
    uv_close((uv_handle_t *)&rig->tick, NULL);
    uv_run(&rig->loop, UV_RUN_DEFAULT); /* ends when every handle is gone */
    assert_int_equal(rig->net.n_open, 0);
    sl_net_uv_fini(&rig->net);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    sl_store_url_fini(&rig->url);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer; /* wakes the loop, so that the condition is looked at */
}

bool rig_wait_until(struct rig *rig, bool (*reached)(void *ctx), void *ctx)
{
    uint64_t end = uv_hrtime() + RIG_PATIENCE_MS * UINT64_C(1000000);

    uv_update_time(&rig->loop);
    uv_timer_start(&rig->tick, on_tick, 5, 5);
    while (!reached(ctx) && uv_hrtime() < end)
        uv_run(&rig->loop, UV_RUN_ONCE);
    uv_timer_stop(&rig->tick);
    return reached(ctx);
}

static bool is_set(void *ctx)
{
    return *(const bool *)ctx;
}

bool rig_wait(struct rig *rig, const bool *flag)
{
    return rig_wait_until(rig, is_set, (void *)(uintptr_t)flag);
}

void rig_run_ms(struct rig *rig, unsigned ms)
{
    uint64_t end = uv_hrtime() + ms * UINT64_C(1000000);

    uv_update_time(&rig->loop);
    uv_timer_start(&rig->tick, on_tick, 5, 5);
    while (uv_hrtime() < end)
        uv_run(&rig->loop, UV_RUN_ONCE);
    uv_timer_stop(&rig->tick);
}

void rig_done(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct answer *answer = ctx;

    answer->done = true;
    answer->times++;
    answer->result = result;
    if (reply && reply->type == SL_REPLY_INTEGER)
        answer->integer = reply->integer;
    if (reply && reply->text)
        snprintf(answer->text, sizeof answer->text, "%s", reply->text);
}

void rig_count_later(struct rig *rig, const char *key, struct answer *answer)
{
    struct sl_word word = {key, strlen(key)};
    struct sl_script_call call = {.keys = &word, .n_keys = 1, .ask = "", .ask_len = 0};

    *answer = (struct answer){.done = false};
    answer->result = sl_client_script(rig->client, &call, 0, rig_done, answer);
    answer->done = answer->result != SL_RESULT_OK;
    answer->times = answer->done;
}

struct answer rig_count(struct rig *rig, const char *key)
{
    struct answer answer;

    rig_count_later(rig, key, &answer);
    assert_true(rig_wait(rig, &answer.done));
    return answer;
}

struct answer rig_command(struct rig *rig, const char *key, const char *const *words)
{
    struct sl_word list[16], route = {key, key ? strlen(key) : 0};
    struct answer answer = {.done = false};
    size_t n = 0;

    for (; words[n]; n++) {
        assert_true(n < sizeof list / sizeof *list);
        list[n] = (struct sl_word){words[n], strlen(words[n])};
    }
    answer.result = sl_client_command(rig->client, list, n, key ? &route : NULL, 0, rig_done, &answer);
    if (answer.result == SL_RESULT_OK)
        assert_true(rig_wait(rig, &answer.done));
    return answer;
}

uint64_t rig_until_ok(struct rig *rig, const char *key)
{
    uint64_t start = uv_hrtime();
    struct answer answer;

    do {
        answer = rig_count(rig, key);
        if (answer.result == SL_RESULT_OK)
            return (uv_hrtime() - start) / 1000000;
        rig_run_ms(rig, 2);
    } while (uv_hrtime() - start < RIG_PATIENCE_MS * UINT64_C(1000000));
    fail_msg("the store does not come back: %s\n%s", sl_result_name(answer.result), rig->said);
    return 0;
}

struct total {
    enum sl_result result;
    uint64_t sum;
};

static void add_up(void *ctx, const struct sl_shard_stats *stats)
{
    struct total *total = ctx;

    total->sum += stats->results[total->result];
}

uint64_t rig_total(struct rig *rig, enum sl_result result)
{
    struct total total = {.result = result};

    sl_client_stats(rig->client, add_up, &total);
    return total.sum;
}
