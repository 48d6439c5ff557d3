#include "notify/message.h"

#include "base/utf8.h"
#include "base/write.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- texts */

/* Bytes as a JSON string; what is no UTF-8 becomes U+FFFD, byte by byte. */
static json_t *text(const char *bytes, size_t len)
{
    json_t *value;
    char *mended, *to;

    if (!bytes)
        return json_string("");
    value = json_stringn(bytes, len);
    if (value)
        return value;
    mended = to = malloc(3 * len + 1);
    if (!mended)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t n = sl_utf8_len(bytes + i, len - i);

        memcpy(to, n ? bytes + i : "\xEF\xBF\xBD", n ? n : 3);
        to += n ? n : 3;
        i += n ? n : 1;
    }
    value = json_stringn(mended, (size_t)(to - mended));
    free(mended);
    return value;
}

static json_t *instant(uint64_t unix_ms)
{
    struct sl_date_cache cache = {0};
    char buf[SL_RFC3339_LEN];

    return json_stringn(buf, (size_t)(sl_write_rfc3339(buf, (int64_t)unix_ms, &cache) - buf));
}

static json_t *number_or_null(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

/* ---- messages */

static json_t *begin(const struct sl_message_source *source, enum sl_notice_kind kind, uint64_t at_ms,
                     char id[static SL_MESSAGE_ID_MAX])
{
    uint64_t random[2];
    json_t *root;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return NULL;
    snprintf(id, SL_MESSAGE_ID_MAX, "ntf_%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    root = json_object();
    json_object_set_new(root, "id", json_string(id));
    json_object_set_new(root, "event", json_string(sl_notice_name(kind)));
    json_object_set_new(root, "time", instant(at_ms));
    json_object_set_new(root, "instance", text(source->instance, strlen(source->instance)));
    return root;
}

/* Takes `root`, which may be NULL or have lost a member for want of memory. */
static struct sl_message *finish(json_t *root, enum sl_notice_kind kind, const char *id)
{
    struct sl_message *message = NULL;
    char *body = root ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (body)
        message = malloc(sizeof *message + strlen(body) + 1);
    if (message) {
        *message = (struct sl_message){.refs = 1, .kind = kind, .len = strlen(body)};
        memcpy(message->id, id, SL_MESSAGE_ID_MAX);
        memcpy(message->body, body, message->len + 1);
    }
    free(body);
    return message;
}

struct sl_message *sl_message_ref(struct sl_message *message)
{
    atomic_fetch_add_explicit(&message->refs, 1, memory_order_relaxed);
    return message;
}

void sl_message_unref(struct sl_message *message)
{
    if (message && atomic_fetch_sub_explicit(&message->refs, 1, memory_order_acq_rel) == 1)
        free(message);
}

/* ---- warnings */

uint64_t sl_warning_window_us(const struct sl_item *item)
{
    uint64_t period_us = item->shape->period_us;

    return period_us > SL_WARNING_WINDOW_US ? period_us : SL_WARNING_WINDOW_US;
}

static json_t *labels_of(const struct sl_limit *limit, const struct sluice_request *request)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < limit->n_per_labels; i++) {
        const char *name = limit->per_labels[i];

        for (size_t j = 0; j < request->n_labels; j++) {
            const struct sluice_label *label = &request->labels[j];

            if (label->name_len == strlen(name) && memcmp(label->name, name, label->name_len) == 0)
                json_object_set_new(object, name, text(label->value, label->value_len));
        }
    }
    return object;
}

/* What tells this bucket from the limit's others: only that. */
static json_t *bucket_of(const struct sl_message_warning *w)
{
    const struct sluice_request *request = w->request;
    unsigned per = w->item->limit->per;
    json_t *bucket = json_object();

    if (per & SL_PER_KEY) {
        json_object_set_new(bucket, "key", text(request->key, request->key_len));
        json_object_set_new(bucket, "keyType",
                            request->key_type ? text(request->key_type, request->key_type_len)
                                              : json_string("api_key"));
    }
    if (per & SL_PER_ADDRESS)
        json_object_set_new(bucket, "address", text(request->address, request->address_len));
    if (per & SL_PER_ENDPOINT)
        json_object_set_new(bucket, "endpoint", text(w->endpoint, strlen(w->endpoint)));
    if (per & SL_PER_SCOPE)
        json_object_set_new(bucket, "scope", text(request->scope, request->scope_len));
    if (per & SL_PER_TIER)
        json_object_set_new(bucket, "tier", text(w->tier, strlen(w->tier)));
    if (per & SL_PER_LABEL)
        json_object_set_new(bucket, "labels", labels_of(w->item->limit, request));
    return bucket;
}

/* When the limit that decided is the one that is warned of, the verdict knows when it is whole again. */
static json_t *reset_of(const struct sl_message_warning *w)
{
    const struct sluice_verdict *v = w->verdict;
    bool same = strcmp(v->policy, v->warning_policy) == 0 && v->limit == v->warning_limit &&
                v->remaining == v->warning_remaining;

    return same && v->reset_at_ms >= 0 ? instant((uint64_t)v->reset_at_ms) : json_null();
}

struct sl_message *sl_message_warning(const struct sl_message_source *source, const struct sl_message_warning *warning,
                                      uint64_t at_ms)
{
    const struct sluice_verdict *v = warning->verdict;
    char id[SL_MESSAGE_ID_MAX] = "";
    json_t *root = begin(source, SL_NOTICE_LIMIT_WARNING, at_ms, id);
    struct sl_message *message;

    json_object_set_new(root, "policy", json_string(v->warning_policy));
    json_object_set_new(root, "bucket", bucket_of(warning));
    json_object_set_new(root, "warnAtPercent", json_integer(v->warn_at_percent));
    json_object_set_new(root, "usedPercent", json_integer(v->warning_used_percent));
    json_object_set_new(root, "limit", number_or_null(v->warning_limit));
    json_object_set_new(root, "remaining", number_or_null(v->warning_remaining));
    json_object_set_new(root, "periodMs", json_integer((json_int_t)(warning->item->shape->period_us / 1000)));
    json_object_set_new(root, "resetAt", reset_of(warning));
    json_object_set_new(root, "source", json_string(sluice_source_name(v->source)));
    message = finish(root, SL_NOTICE_LIMIT_WARNING, id);
    if (message) {
        message->fp = warning->item->fp;
        message->window_us = sl_warning_window_us(warning->item);
    }
    return message;
}

/* ---- the others */

struct sl_message *sl_message_alarm(const struct sl_message_source *source, const struct sl_alarm_news *news,
                                    uint64_t since_ms, uint64_t at_ms)
{
    char id[SL_MESSAGE_ID_MAX] = "";
    json_t *root = begin(source, SL_NOTICE_ALARM, at_ms, id);

    json_object_set_new(root, "alarm", json_string(news->kind));
    json_object_set_new(root, "state", json_string(news->raised ? "raised" : "ended"));
    json_object_set_new(root, "since", instant(since_ms));
    json_object_set_new(root, "sentence", text(news->sentence, strlen(news->sentence)));
    json_object_set_new(root, "detail", text(news->detail, strlen(news->detail)));
    json_object_set_new(root, "runbook", json_string(news->runbook));
    return finish(root, SL_NOTICE_ALARM, id);
}

struct sl_message *sl_message_test(const struct sl_message_source *source, uint64_t at_ms)
{
    char id[SL_MESSAGE_ID_MAX] = "";
    json_t *root = begin(source, SL_NOTICE_TEST, at_ms, id);

    json_object_set_new(root, "sentence", json_string("This is a test; nothing has happened."));
    return finish(root, SL_NOTICE_TEST, id);
}
