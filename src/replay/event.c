#include "replay/event.h"

#include <assert.h>
#include <string.h>

static char *put(char *at, const void *data, size_t len)
{
    if (len > 0)
        memcpy(at, data, len);
    return at + len;
}

static size_t labels_bytes(const struct sluice_request *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_labels; i++)
        n += 2 * sizeof(uint16_t) + r->labels[i].name_len + r->labels[i].value_len;
    return n;
}

static char *put_labels(char *at, const struct sluice_request *r)
{
    for (size_t i = 0; i < r->n_labels; i++) {
        const struct sluice_label *label = &r->labels[i];
        uint16_t lens[2] = {(uint16_t)label->name_len, (uint16_t)label->value_len};

        at = put(at, lens, sizeof lens);
        at = put(at, label->name, label->name_len);
        at = put(at, label->value, label->value_len);
    }
    return at;
}

/* The parts of a record that are not labels. */
static void split(const struct sl_event_source *source, struct sl_slice ret_parts[static SL_EVENT_PARTS])
{
    const struct sluice_request *r = source->request;

    ret_parts[SL_EVENT_KEY] = (struct sl_slice){r->key, r->key_len};
    ret_parts[SL_EVENT_SHOWN] = source->shown;
    ret_parts[SL_EVENT_TYPE] = (struct sl_slice){r->key_type, r->key_type_len};
    ret_parts[SL_EVENT_SCOPE] = (struct sl_slice){r->scope, r->scope_len};
    ret_parts[SL_EVENT_TIER] = (struct sl_slice){r->tier, r->tier_len};
    ret_parts[SL_EVENT_ADDRESS] = (struct sl_slice){r->address, r->address_len};
}

/* Writes one record at `used`; returns its size, or 0 when it does not fit. */
static size_t append(struct sl_event_batch *batch, size_t used, const struct sl_event_source *source, bool has_twin)
{
    const struct sluice_request *r = source->request;
    struct sl_event *event = (struct sl_event *)(void *)(batch->records + used);
    struct sl_slice parts[SL_EVENT_PARTS];
    size_t size = sizeof *event + labels_bytes(r);
    char *at;

    split(source, parts);
    for (int i = 0; i < SL_EVENT_PARTS; i++)
        size += parts[i].len;
    size = (size + 7) & ~(size_t)7;
    assert(size <= SL_EVENT_BYTES_MAX);
    if (size > SL_EVENT_BATCH_BYTES - used)
        return 0;
    *event = (struct sl_event){.t_us = source->t_us,
                               .cost = r->cost,
                               .size = (uint32_t)size,
                               .offset = (uint32_t)used,
                               .n_labels = (uint8_t)r->n_labels,
                               .has_twin = has_twin};
    at = event->text;
    for (int i = 0; i < SL_EVENT_PARTS; i++) {
        event->len[i] = parts[i].text ? (uint16_t)parts[i].len : SL_EVENT_ABSENT;
        at = put(at, parts[i].text, parts[i].len);
    }
    put_labels(at, r);
    return size;
}

bool sl_event_append(struct sl_event_batch *batch, const struct sl_event_source *sources, unsigned n)
{
    size_t used = batch->used;

    for (unsigned i = 0; i < n; i++) {
        size_t size = append(batch, used, &sources[i], i + 1 < n);

        if (size == 0)
            return false;
        used += size;
    }
    batch->used = used;
    batch->live++;
    return true;
}

struct sl_event *sl_event_twin(struct sl_event *event)
{
    return event->has_twin ? (struct sl_event *)(void *)((char *)event + event->size) : event;
}

struct sl_event_batch *sl_event_home(struct sl_event *event)
{
    char *records = (char *)event - event->offset;

    return (struct sl_event_batch *)(void *)(records - offsetof(struct sl_event_batch, records));
}

struct sl_slice sl_event_part(const struct sl_event *event, enum sl_event_part part)
{
    const char *at = event->text;

    if (event->len[part] == SL_EVENT_ABSENT)
        return (struct sl_slice){NULL, 0};
    for (unsigned i = 0; i < (unsigned)part; i++)
        at += event->len[i] == SL_EVENT_ABSENT ? 0 : event->len[i];
    return (struct sl_slice){at, event->len[part]};
}

struct sl_slice sl_event_shown(const struct sl_event *event)
{
    return sl_event_part(event, event->len[SL_EVENT_SHOWN] == SL_EVENT_ABSENT ? SL_EVENT_KEY : SL_EVENT_SHOWN);
}

/* Cuts the next part off at *at. */
static struct sl_slice take(const struct sl_event *event, enum sl_event_part part, const char **at)
{
    struct sl_slice s = {NULL, 0};

    if (event->len[part] != SL_EVENT_ABSENT)
        s = (struct sl_slice){*at, event->len[part]};
    *at += s.len;
    return s;
}

void sl_event_request(const struct sl_event *event, struct sluice_label labels[static SLUICE_LABELS_MAX],
                      struct sluice_request *ret_request)
{
    const char *at = event->text;
    struct sl_slice parts[SL_EVENT_PARTS];

    for (unsigned i = 0; i < SL_EVENT_PARTS; i++)
        parts[i] = take(event, (enum sl_event_part)i, &at);
    for (unsigned i = 0; i < event->n_labels; i++) {
        uint16_t lens[2];

        memcpy(lens, at, sizeof lens);
        at += sizeof lens;
        labels[i] = (struct sluice_label){at, lens[0], at + lens[0], lens[1]};
        at += lens[0] + lens[1];
    }
    *ret_request = (struct sluice_request){
        .key = parts[SL_EVENT_KEY].text,
        .key_len = parts[SL_EVENT_KEY].len,
        .key_type = parts[SL_EVENT_TYPE].text,
        .key_type_len = parts[SL_EVENT_TYPE].len,
        .scope = parts[SL_EVENT_SCOPE].text,
        .scope_len = parts[SL_EVENT_SCOPE].len,
        .tier = parts[SL_EVENT_TIER].text,
        .tier_len = parts[SL_EVENT_TIER].len,
        .address = parts[SL_EVENT_ADDRESS].text,
        .address_len = parts[SL_EVENT_ADDRESS].len,
        .labels = event->n_labels ? labels : NULL,
        .n_labels = event->n_labels,
        .cost = event->cost,
    };
}
