/* Tells webhooks what happened, on a thread of its own, so that nobody waits for one: whoever has something to tell puts it
 * into a bounded queue, and what finds no room is dropped and counted.
 *
 *     sl_notifier_new(&config, &notifier, why, sizeof why);
 *     if (sl_notifier_wants(notifier, fp, window_us))              a bucket past its mark; usually false, and cheap
 *         sl_notifier_put(notifier, sl_message_warning(...));
 *     sl_notifier_put(notifier, sl_message_alarm(...));
 *     sl_notifier_free(notifier, grace_ms);
 *
 * A message with a window is told of once in it, among all instances that share a store: sl_notifier_wants is this instance's
 * memory (notify/recent.h), notify/claim.h is what instances have in common. A store that does not say makes every instance
 * tell for itself: rather twice than never. Then each webhook has an outbox of its own (notify/outbox.h). */
#ifndef SL_NOTIFY_NOTIFIER_H
#define SL_NOTIFY_NOTIFIER_H

#include "base/clock.h"
#include "notify/message.h"
#include "store/client.h"

#define SL_NOTIFIER_QUEUE 1024u   /* messages that nobody has looked at */
#define SL_NOTIFIER_RESERVED 128u /* of them not for warnings */
#define SL_NOTIFIER_CLAIMS 256u   /* asked of the store at once */
#define SL_NOTIFIER_WEBHOOKS_MAX 16u
#define SL_NOTIFIER_AGAIN_US UINT64_C(60000000) /* a bucket for which no outbox had room may be told of after this */
#define SL_WEBHOOK_SECRET_MIN 16u               /* bytes */
#define SL_WEBHOOK_SECRET_MAX 512u

struct sl_notifier;

struct sl_notifier_config {  /* borrowed, with all that is pointed to, for the notifier's life */
    const char *const *urls; /* 1 ... SL_NOTIFIER_WEBHOOKS_MAX that sl_target_check accepts */
    unsigned n_urls;
    const char *secret;
    const char *ca_file;              /* NULL: the system's */
    const struct sl_store_url *store; /* NULL: no instances to agree with */
    const char *ns;
    /* Have all instances the same fingerprints now? On the notifier's thread. NULL: yes. */
    bool (*in_common)(void *owner);
    /* A line for the log. On the notifier's thread. NULL: silent. */
    void (*say)(void *owner, bool bad, const char *line);
    void *owner;
    const struct sl_clock *clock; /* NULL: the system's */
};

/* Starts the thread. Returns 0, or SL_EINVALID, SL_EIO or SL_ENOMEM with a sentence. */
int sl_notifier_new(const struct sl_notifier_config *config, struct sl_notifier **ret_notifier, char *why,
                    size_t why_size);

/* What can be delivered within grace_ms still is, the rest is counted as dropped, and said. Nobody may be putting any more.
 * Blocks for that time at most. Accepts NULL. */
void sl_notifier_free(struct sl_notifier *notifier, uint64_t grace_ms);

/* Should this bucket be told of? True at most once in a window of so long, and when there is room: then it must be put. Any
 * thread. */
bool sl_notifier_wants(struct sl_notifier *notifier, struct sl_hash128 fp, uint64_t window_us);

/* Takes the message; NULL is a message that there was no memory for. Any thread; never waits. */
void sl_notifier_put(struct sl_notifier *notifier, struct sl_message *message, enum sl_notice_kind kind);

/* Lives as long as the notifier. */
struct sl_notice_counts *sl_notifier_counts(struct sl_notifier *notifier);

#endif
