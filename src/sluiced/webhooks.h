/* The daemon's side of notifications: which webhooks there are, what they are told of, and who notices it: a witness of
 * decisions with warnings, and the sink of alarms.
 *
 *     sl_webhooks_start(&webhooks, &setting, &witnesses, why, sizeof why);   before the server; without --webhook it does nothing
 *     ... the server runs, and is freed ...
 *     sl_webhooks_stop(&webhooks);                        before tier and limiter go
 *
 * Zeroed before use.
 *
 * Nothing here waits for a webhook or a store: what a decision costs is a look at a table, and making the notification once
 * in an hour for each bucket. */
#ifndef SL_SLUICED_WEBHOOKS_H
#define SL_SLUICED_WEBHOOKS_H

#include "notify/notifier.h"
#include "server/witness.h"
#include "sluiced/log.h"
#include "sluiced/tier.h"

#define SL_WEBHOOKS_GRACE_MS 2000
#define SL_INSTANCE_TEXT_MAX 320u

struct sl_webhooks {
    struct sl_notifier *notifier; /* NULL: no webhooks */
    struct sl_tier *tier;         /* borrowed, as the log */
    struct sl_log *log;
    struct sl_notice_counts none; /* while there are no webhooks */
    bool alarms;
    char instance[SL_INSTANCE_TEXT_MAX]; /* "host/name among the instances", or "host/process" */
};

/* Returns 0, or SL_EINVALID, SL_EIO, SL_ENOMEM with a sentence. */
int sl_webhooks_start(struct sl_webhooks *webhooks, const struct sl_config *config, struct sl_tier *tier,
                      struct sl_log *log, struct sl_witnesses *witnesses, char *why, size_t why_size);

/* For metrics: all 0 without webhooks. */
struct sl_notice_counts *sl_webhooks_counts(struct sl_webhooks *webhooks);

/* Accepts one that was zeroed and never started. */
void sl_webhooks_stop(struct sl_webhooks *webhooks);

#endif
