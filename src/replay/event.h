/* Events between the thread that reads and the one that decides: one flat record each, in batches.
 *
 * A record holds a request that has passed sl_request_check, in its normalised form, and the key as the log has it.
 * When a second policy is compared whose identity rules differ (ipv6_prefix, trusted_proxies), the request as that
 * policy sees it follows in a record of its own, the twin. A batch counts the events in it that wait; the last one
 * gives it back. */
#ifndef SL_REPLAY_EVENT_H
#define SL_REPLAY_EVENT_H

#include "base/slice.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_EVENT_BYTES_MAX (16u << 10)
#define SL_EVENT_BATCH_BYTES (256u << 10)

enum sl_event_part {
    SL_EVENT_KEY,     /* as counted */
    SL_EVENT_SHOWN,   /* the key as the log has it; absent when it is the same */
    SL_EVENT_TYPE,    /* absent: api_key */
    SL_EVENT_SCOPE,   /* absent: "" */
    SL_EVENT_TIER,    /* absent: not given */
    SL_EVENT_ADDRESS, /* absent: none */
    SL_EVENT_PARTS,
};

#define SL_EVENT_ABSENT UINT16_MAX

struct sl_event {
    uint64_t t_us;
    int64_t cost;
    uint32_t size;   /* of the whole record, a multiple of 8 */
    uint32_t offset; /* from the start of its batch */
    uint16_t len[SL_EVENT_PARTS];
    uint8_t n_labels;
    bool has_twin;
    char text[]; /* the parts in order, then per label its two lengths (16 bits each), name and value */
};

struct sl_event_batch {
    struct sl_event_batch *next;  /* in the list it is in */
    struct sl_event_batch *older; /* of all batches that were made */
    size_t used;                  /* bytes of `records` */
    uint64_t live;                /* events in it that are not decided yet; of the deciding thread */
    _Alignas(8) char records[SL_EVENT_BATCH_BYTES];
};

/* What a record is made from. A span with NULL text is absent. */
struct sl_event_source {
    uint64_t t_us;
    const struct sluice_request *request; /* normalised */
    struct sl_slice shown;
};

/* Appends an event, with a twin when n is 2; false when the batch is too full. An empty batch takes any event. */
bool sl_event_append(struct sl_event_batch *batch, const struct sl_event_source *sources, unsigned n);

/* The record to put to the second policy: the twin, or the event itself. */
struct sl_event *sl_event_twin(struct sl_event *event);

struct sl_event_batch *sl_event_home(struct sl_event *event);

struct sl_slice sl_event_part(const struct sl_event *event, enum sl_event_part part);

/* The key as the log has it. */
struct sl_slice sl_event_shown(const struct sl_event *event);

/* The normalised request; borrows from the event and `labels`. */
void sl_event_request(const struct sl_event *event, struct sluice_label labels[static SLUICE_LABELS_MAX],
                      struct sluice_request *ret_request);

#endif
