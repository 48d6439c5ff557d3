#include "fleet/members.h"

#include "base/err.h"
#include "store/codec.h"

#include <stdio.h>
#include <string.h>

#define LOOK_US UINT64_C(50000) /* until the first answer: how often it is looked whether the client can send */
#define KEY_MAX (SL_NAMESPACE_MAX + 24)
#define ID_LEN 16u
#define REFUSED_TOLD 2u /* beats refused in a row before it is told */

/* Effects, not the text, are replicated (the default since Redis 5), so the store's own time may be used before a
 * write. A full store cannot take us into the set, but still tells its secret: others' counts and ours go on without
 * us. */
static const char script[] =
    "local instances, secret = KEYS[1], KEYS[2]\n"
    "local me, offered, silent = ARGV[1], ARGV[2], tonumber(ARGV[3])\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000000 + t[2]\n"
    "local function hex(s, len) return #s == len and not s:find('[^0-9a-f]') end\n"
    "local function kind(key) return redis.call('TYPE', key).ok end\n"
    "local function number(x) return string.format('%.0f', x) end\n"
    "local function ours(at)\n"
    "  local found = redis.call('ZRANGE', instances, at, at)[1]\n"
    "  return not found or hex(found, 16)\n"
    "end\n"
    "local known, count = '', -1\n"
    "local k = kind(secret)\n"
    "if k == 'none' then\n"
    "  redis.call('SET', secret, offered)\n"
    "  known = offered\n"
    "elseif k == 'string' then\n"
    "  local found = redis.call('GETRANGE', secret, 0, 32)\n"
    "  if hex(found, 32) then known = found end\n"
    "end\n"
    "k = kind(instances)\n"
    "if k == 'none' or k == 'zset' and ours(0) and ours(-1) then\n"
    "  local added = redis.pcall('ZADD', instances, number(now), me)\n"
    "  if type(added) == 'table' and added.err and added.err:sub(1, 3) ~= 'OOM' then return added end\n"
    "  redis.call('ZREMRANGEBYSCORE', instances, '-inf', number(now - silent))\n"
    "  redis.call('ZREMRANGEBYSCORE', instances, number(now + silent), '+inf')\n"
    "  redis.call('PEXPIRE', instances, number(silent / 1000))\n"
    "  count = redis.call('ZCARD', instances)\n"
    "end\n"
    "return {count, known, now}\n";

enum oddity { WELL, BAD_INSTANCES, BAD_SECRET, BAD_ANSWER, REFUSED };

struct sl_members {
    struct sl_members_config config;
    struct sl_alloc alloc;
    struct sl_timer *timer;
    char instances_key[KEY_MAX], secret_key[KEY_MAX];
    size_t instances_len, secret_len;
    char id[ID_LEN + 1];
    struct sl_secret secret; /* the fleet's, or the one we would give it */
    uint64_t next_us;
    unsigned count;   /* the last one known */
    bool beating;     /* a beat is on its way */
    bool told;        /* a secret has been told: `secret` */
    unsigned refused; /* in a row */
    bool ready;       /* the client was, when last looked at */
    bool leaving, gone;
    void (*left)(void *owner);
    void *left_owner;
    enum oddity odd; /* the last one told */
    struct sl_members_stats stats;
};

/* ---- secrets as text */

void sl_members_write_secret(const struct sl_secret *secret, char buf[static SL_MEMBERS_SECRET_LEN + 1])
{
    snprintf(buf, SL_MEMBERS_SECRET_LEN + 1, "%016llx%016llx", (unsigned long long)secret->k0,
             (unsigned long long)secret->k1);
}

int sl_members_read_secret(const char *text, size_t len, struct sl_secret *ret_secret)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t halves[2] = {0, 0};

    if (len != SL_MEMBERS_SECRET_LEN)
        return SL_EFORMAT;
    for (size_t i = 0; i < len; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

        if (!digit)
            return SL_EFORMAT;
        halves[i / 16] = halves[i / 16] << 4 | (uint64_t)(digit - digits);
    }
    *ret_secret = (struct sl_secret){.k0 = halves[0], .k1 = halves[1]};
    return 0;
}

/* ---- what comes back */

/* `text` is told when it is another oddity than the last one. */
static void note(struct sl_members *members, enum oddity odd, const char *text)
{
    if (odd == members->odd)
        return;
    members->odd = odd;
    if (odd != WELL && members->config.odd)
        members->config.odd(members->config.owner, text);
}

static void note_foreign(struct sl_members *members, enum oddity odd)
{
    static const char *const meanings[] = {
        [BAD_INSTANCES] = "holds something that is not the set of this fleet's instances: it is left alone, and their "
                          "last known number stays",
        [BAD_SECRET] = "holds something that is not this fleet's secret: it is left alone, and limits are not shared "
                       "by whoever does not know the secret until it is removed",
        [BAD_ANSWER] = "cannot be kept: the store answers the heartbeat with something else than it was asked for",
    };
    char text[KEY_MAX + 256];

    members->stats.foreign++;
    snprintf(text, sizeof text, "the key %s %s", odd == BAD_SECRET ? members->secret_key : members->instances_key,
             meanings[odd]);
    note(members, odd, text);
}

static void note_refused(struct sl_members *members, enum sl_result result, const struct sl_reply *reply)
{
    char text[320];

    members->stats.failed++;
    if (!reply || !reply->text)
        return; /* the connection's trouble: the client tells of it */
    if (++members->refused < REFUSED_TOLD)
        return; /* a server that just starts, or was the master until now */
    snprintf(text, sizeof text, "the store refuses the heartbeat (%s): %.200s", sl_result_name(result), reply->text);
    note(members, REFUSED, text);
}

static void hear(struct sl_members *members, const struct sl_secret *secret)
{
    bool changed = !members->told || secret->k0 != members->secret.k0 || secret->k1 != members->secret.k1;

    members->secret = *secret;
    members->told = true;
    members->stats.beats++;
    members->config.heard(members->config.owner, members->count, secret, changed);
}

static void take(struct sl_members *members, const struct sl_reply *reply)
{
    struct sl_secret secret;
    int64_t count;

    if (!sl_reply_is_array(reply, 3) || reply->elements[0]->type != SL_REPLY_INTEGER ||
        reply->elements[1]->type != SL_REPLY_STRING || reply->elements[2]->type != SL_REPLY_INTEGER) {
        note_foreign(members, BAD_ANSWER);
        return;
    }
    count = reply->elements[0]->integer;
    members->stats.store_us = (uint64_t)reply->elements[2]->integer;
    if (count > 0 && count <= INT32_MAX)
        members->count = (unsigned)count;
    if (sl_members_read_secret(reply->elements[1]->text, reply->elements[1]->n, &secret)) {
        note_foreign(members, BAD_SECRET);
        return;
    }
    if (count < 0)
        note_foreign(members, BAD_INSTANCES);
    else
        note(members, WELL, NULL);
    hear(members, &secret);
}

static void destroy(struct sl_members *members)
{
    struct sl_alloc alloc = members->alloc;

    sl_free(&alloc, members);
}

static void on_beat(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_members *members = ctx;

    members->beating = false;
    if (members->gone) {
        destroy(members);
        return;
    }
    if (members->leaving)
        return;
    if (result == SL_RESULT_OK) {
        members->refused = 0;
        take(members, reply);
    } else {
        note_refused(members, result, reply);
    }
}

/* ---- what goes out */

static uint64_t timeout_us(const struct sl_members *members)
{
    return members->config.timeout_us > SL_MEMBERS_TIMEOUT_US ? members->config.timeout_us : SL_MEMBERS_TIMEOUT_US;
}

static void beat(struct sl_members *members)
{
    char secret[SL_MEMBERS_SECRET_LEN + 1], silent[24];
    struct sl_word key = {members->instances_key, members->instances_len};
    struct sl_word words[] = {
        SL_WORD("EVAL"),
        {script, sizeof script - 1},
        SL_WORD("2"),
        key,
        {members->secret_key, members->secret_len},
        {members->id, ID_LEN},
        {secret, SL_MEMBERS_SECRET_LEN},
        {silent, (size_t)snprintf(silent, sizeof silent, "%llu", (unsigned long long)SL_MEMBERS_SILENT_US)},
    };

    sl_members_write_secret(&members->secret, secret);
    if (sl_client_command(members->config.client, words, sizeof words / sizeof words[0], &key, timeout_us(members),
                          on_beat, members) == SL_RESULT_OK)
        members->beating = true;
    else
        members->stats.failed++;
}

static void finish_leave(struct sl_members *members)
{
    void (*left)(void *owner) = members->left;

    members->left = NULL;
    if (left)
        left(members->left_owner);
}

static void on_timer(void *owner)
{
    struct sl_members *members = owner;
    const struct sl_net *net = members->config.net;
    uint64_t now = net->now_us(net->ctx), wake;
    bool ready = sl_client_ready(members->config.client);
    bool first = !members->told && ready && !members->ready;

    if (members->leaving) {
        finish_leave(members);
        return;
    }
    members->ready = ready;
    if (!members->beating && (first || now >= members->next_us)) {
        members->next_us =
            now + sl_net_between(net, SL_MEMBERS_BEAT_US - SL_MEMBERS_BEAT_US / 10, SL_MEMBERS_BEAT_US * 11 / 10);
        beat(members);
    }
    wake = members->next_us > now ? members->next_us : now + LOOK_US;
    if (!members->told && wake > now + LOOK_US)
        wake = now + LOOK_US;
    net->timer_set(members->timer, wake);
}

/* ---- life */

/* The secret we would give a fleet that has none: the system's best, since no one may guess it. */
static struct sl_secret new_secret(const struct sl_net *net)
{
    struct sl_secret secret;

    if (sl_secret_random(&secret))
        secret = (struct sl_secret){.k0 = net->random(net->ctx), .k1 = net->random(net->ctx)};
    return secret;
}

int sl_members_new(const struct sl_members_config *config, struct sl_members **ret_members)
{
    const struct sl_net *net = config->net;
    struct sl_members *members = sl_calloc(config->alloc, 1, sizeof *members);

    if (!members)
        return SL_ENOMEM;
    members->config = *config;
    members->alloc = *config->alloc;
    members->count = config->instances ? config->instances : 1;
    members->secret = config->secret ? *config->secret : new_secret(net);
    members->instances_len =
        (size_t)snprintf(members->instances_key, KEY_MAX, "%.*s:{fleet}:instances", SL_NAMESPACE_MAX, config->ns);
    members->secret_len =
        (size_t)snprintf(members->secret_key, KEY_MAX, "%.*s:{fleet}:secret", SL_NAMESPACE_MAX, config->ns);
    snprintf(members->id, sizeof members->id, "%016llx", (unsigned long long)config->id);
    members->timer = net->timer_new(net->ctx, on_timer, members);
    if (!members->timer) {
        destroy(members);
        return SL_ENOMEM;
    }
    members->next_us = net->now_us(net->ctx);
    net->timer_set(members->timer, members->next_us);
    *ret_members = members;
    return 0;
}

static void on_left(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    (void)result; /* whatever it is: those who stay miss us in a moment */
    (void)reply;
    finish_leave(ctx);
}

void sl_members_leave(struct sl_members *members, void (*left)(void *owner), void *owner)
{
    struct sl_word key = {members->instances_key, members->instances_len};
    struct sl_word words[] = {SL_WORD("ZREM"), key, {members->id, ID_LEN}};
    const struct sl_net *net = members->config.net;

    members->leaving = true;
    members->left = left;
    members->left_owner = owner;
    /* What cannot be sent is over with the next turn. */
    if (sl_client_command(members->config.client, words, 3, &key, timeout_us(members), on_left, members) ==
        SL_RESULT_OK)
        net->timer_set(members->timer, UINT64_MAX);
    else
        net->timer_set(members->timer, 0);
}

void sl_members_free(struct sl_members *members)
{
    if (!members)
        return;
    members->config.net->timer_free(members->timer);
    members->gone = true;
    if (!members->beating)
        destroy(members);
}

void sl_members_stats(const struct sl_members *members, struct sl_members_stats *ret_stats)
{
    *ret_stats = members->stats;
}
