/* A notification: what happened, as the JSON that every webhook is sent, and what its deduplication needs.
 *
 *     message = sl_message_warning(&instance, &warning, at_ms);
 *     sl_message_unref(message);
 *
 * Immutable but for the count of references; any thread. */
#ifndef SL_NOTIFY_MESSAGE_H
#define SL_NOTIFY_MESSAGE_H

#include "notify/counts.h"
#include "observe/alarm.h"
#include "policy/policy.h"

#define SL_MESSAGE_ID_MAX 37u /* "ntf_" and 32 hex digits, with NUL */

struct sl_message {
    atomic_uint refs;
    enum sl_notice_kind kind;
    /* Told of once for each `fp` in a window of so long, over all instances; 0: always told of */
    uint64_t window_us;
    struct sl_hash128 fp;
    char id[SL_MESSAGE_ID_MAX];
    size_t len;
    char body[]; /* JSON, NUL-terminated */
};

/* Who tells. */
struct sl_message_source {
    const char *instance; /* UTF-8 */
};

/* A bucket past its limit's mark. */
struct sl_message_warning {
    const struct sl_item *item;
    const struct sluice_request *request; /* checked */
    const struct sluice_verdict *verdict; /* with a warning of `item` */
    const char *endpoint, *tier;          /* as in struct sl_resolution */
};

/* A bucket is told of at most once in max(its limit's PERIOD, this). */
#define SL_WARNING_WINDOW_US UINT64_C(3600000000)
uint64_t sl_warning_window_us(const struct sl_item *item);

/* at_ms: Unix time. Each returns a message with one reference, or NULL: out of memory, or no randomness for its name. */
struct sl_message *sl_message_warning(const struct sl_message_source *source, const struct sl_message_warning *warning,
                                      uint64_t at_ms);
/* since_ms: when it began. */
struct sl_message *sl_message_alarm(const struct sl_message_source *source, const struct sl_alarm_news *news,
                                    uint64_t since_ms, uint64_t at_ms);
struct sl_message *sl_message_test(const struct sl_message_source *source, uint64_t at_ms);

struct sl_message *sl_message_ref(struct sl_message *message);
void sl_message_unref(struct sl_message *message); /* accepts NULL */

#endif
