#include "fleet/probe.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_MAJOR 6u
#define OLDEST_MINOR 2u

struct probe {
    struct sl_alloc alloc;
    const struct sl_net *net;
    unsigned n_open;
    struct sl_probe_result result;
    void (*found)(void *owner, const struct sl_probe_result *result);
    void *owner;
};

/* ---- answers */

/* The rest of the line of INFO that begins with `name` and a colon. */
static bool info_line(const char *text, const char *name, char *buf, size_t size)
{
    size_t len = strlen(name);

    for (const char *at = text; (at = strstr(at, name)); at += len) {
        if ((at == text || at[-1] == '\n') && at[len] == ':') {
            snprintf(buf, size, "%.*s", (int)strcspn(at + len + 1, "\r\n"), at + len + 1);
            return true;
        }
    }
    return false;
}

static void take_version(struct sl_probe_result *result, const struct sl_reply *reply)
{
    char *dot;

    if (reply->type != SL_REPLY_STRING)
        return;
    result->valkey = info_line(reply->text, "valkey_version", result->version, sizeof result->version);
    if (!result->valkey && !info_line(reply->text, "redis_version", result->version, sizeof result->version))
        return;
    result->major = (unsigned)strtoul(result->version, &dot, 10);
    if (dot == result->version || *dot != '.')
        return;
    result->minor = (unsigned)strtoul(dot + 1, NULL, 10);
    result->version_known = true;
}

/* Pairs of name and value. */
static const char *pair(const struct sl_reply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        if (sl_reply_is(reply->elements[i], name) && reply->elements[i + 1]->type == SL_REPLY_STRING)
            return reply->elements[i + 1]->text;
    }
    return NULL;
}

static void take_eviction(struct sl_probe_result *result, const struct sl_reply *reply)
{
    const char *policy, *limit;

    if (!sl_reply_is_array(reply, 4))
        return;
    policy = pair(reply, "maxmemory-policy");
    limit = pair(reply, "maxmemory");
    if (!policy || !limit)
        return;
    snprintf(result->eviction, sizeof result->eviction, "%s", policy);
    result->eviction_known = true;
    result->evicts = strcmp(policy, "noeviction") != 0 && strcmp(limit, "0") != 0;
}

static void take_module(struct sl_probe_result *result, const struct sl_reply *reply)
{
    if (!sl_reply_is_array(reply, 1))
        return;
    result->module_known = true;
    result->module = reply->elements[0]->type == SL_REPLY_ARRAY && reply->elements[0]->n > 0;
}

static bool number_of(const struct sl_reply *reply, uint64_t *ret_number)
{
    char *end;

    if (reply->type != SL_REPLY_STRING || reply->n == 0)
        return false;
    errno = 0;
    *ret_number = strtoull(reply->text, &end, 10);
    return !*end && !errno;
}

static void take_time(struct sl_probe_result *result, const struct sl_reply *reply)
{
    uint64_t seconds, micros;

    if (!sl_reply_is_array(reply, 2) || !number_of(reply->elements[0], &seconds) ||
        !number_of(reply->elements[1], &micros) || seconds > UINT64_C(1) << 40 || micros >= 1000000)
        return;
    result->store_us = seconds * 1000000 + micros;
    result->time_known = true;
}

static void answered(struct probe *probe, enum sl_result result, const struct sl_reply *reply,
                     void (*take)(struct sl_probe_result *result, const struct sl_reply *reply))
{
    struct sl_alloc alloc = probe->alloc;

    if (reply)
        probe->result.answered = true;
    if (result == SL_RESULT_OK && reply)
        take(&probe->result, reply);
    else if (probe->result.result == SL_RESULT_OK)
        probe->result.result = result;
    if (--probe->n_open)
        return;
    probe->found(probe->owner, &probe->result);
    sl_free(&alloc, probe);
}

static void on_time(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct probe *probe = ctx;

    probe->result.answered_us = probe->net->now_us(probe->net->ctx);
    answered(probe, result, reply, take_time);
}

static void on_info(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    answered(ctx, result, reply, take_version);
}

static void on_config(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    answered(ctx, result, reply, take_eviction);
}

static void on_command(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    answered(ctx, result, reply, take_module);
}

/* ---- questions */

int sl_probe_start(struct sl_client *client, const struct sl_net *net, const struct sl_alloc *alloc,
                   const char *module_command, uint64_t timeout_us,
                   void (*found)(void *owner, const struct sl_probe_result *result), void *owner)
{
    const struct {
        struct sl_word words[3];
        size_t n;
        sl_client_done *done;
    } questions[] = {
        {{SL_WORD("TIME")}, 1, on_time},
        {{SL_WORD("INFO"), SL_WORD("server")}, 2, on_info},
        {{SL_WORD("CONFIG"), SL_WORD("GET"), SL_WORD("maxmemory*")}, 3, on_config},
        {{SL_WORD("COMMAND"), SL_WORD("INFO"), {module_command, strlen(module_command)}}, 3, on_command},
    };
    struct probe *probe = sl_calloc(alloc, 1, sizeof *probe);

    if (!probe)
        return SL_ENOMEM;
    *probe = (struct probe){.alloc = *alloc, .net = net, .found = found, .owner = owner};
    probe->result.asked_us = net->now_us(net->ctx);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (sl_client_command(client, questions[i].words, questions[i].n, NULL, timeout_us, questions[i].done, probe) ==
            SL_RESULT_OK)
            probe->n_open++;
    }
    if (probe->n_open)
        return 0;
    sl_free(alloc, probe);
    return SL_EBUSY;
}

/* ---- findings */

bool sl_probe_finding(const struct sl_probe_result *result, unsigned i, char *buf, size_t size, bool *ret_serious)
{
    unsigned n = 0;

    /* Valkey's first version is younger than what is needed. */
    if (result->version_known && !result->valkey &&
        (result->major < OLDEST_MAJOR || (result->major == OLDEST_MAJOR && result->minor < OLDEST_MINOR)) && n++ == i) {
        snprintf(buf, size, "it is Redis %s; 6.2 is the oldest that limits can be shared on", result->version);
        *ret_serious = true;
        return true;
    }
    if (result->evicts && n++ == i) {
        snprintf(
            buf, size,
            "it may evict keys (maxmemory-policy %s): limits are forgotten when its memory is full; noeviction keeps "
            "them",
            result->eviction);
        *ret_serious = false;
        return true;
    }
    return false;
}
