/* policy_rejected: the latest policy that was offered, by a file or as a version, was refused, and what was in force
 * before still is. It lasts until one is taken.
 *
 *     sl_policy_watch_refused(&watch, "policy.yaml:3:5: unknown key", now_us);     with the first finding
 *     sl_policy_watch_taken(&watch, now_us);                                     also when it is the one in force
 *     sl_policy_watch_look(&watch, now_us);                                      every now and then
 *
 * A policy that its author is told about, by whoever refuses to make it a version, is none of these.
 *
 * Time is an argument. Any thread. */
#ifndef SL_OBSERVE_WATCH_POLICY_H
#define SL_OBSERVE_WATCH_POLICY_H

#include "observe/teller.h"

struct sl_policy_watch {
    struct sl_teller teller;
    pthread_mutex_t lock; /* what follows */
    bool refused;
    char finding[SL_TELLER_DETAIL_MAX];
};

void sl_policy_watch_init(struct sl_policy_watch *watch, const struct sl_teller *teller);
void sl_policy_watch_fini(struct sl_policy_watch *watch);

void sl_policy_watch_refused(struct sl_policy_watch *watch, const char *finding, uint64_t now_us);
void sl_policy_watch_taken(struct sl_policy_watch *watch, uint64_t now_us);
void sl_policy_watch_look(struct sl_policy_watch *watch, uint64_t now_us);

#endif
