/* policy_rejected: the latest policy that was offered, by the file or as a version of the store, was refused, and what was
 * in force before still is. It lasts until one is taken from there; a version that is taken ends both, as the file does
 * not count any more.
 *
 *     sl_policy_watch_refused(&watch, SL_POLICY_OF_FILE, "policy.yaml:3:5: unknown key", now_us);   the first finding
 *     sl_policy_watch_taken(&watch, SL_POLICY_OF_FILE, now_us);                  also when it is the one in force
 *     sl_policy_watch_look(&watch, now_us);                                      every now and then
 *
 * A policy that its author is told about, by whoever refuses to make it a version, is none of these.
 *
 * Time is an argument. Any thread. */
#ifndef SL_OBSERVE_WATCH_POLICY_H
#define SL_OBSERVE_WATCH_POLICY_H

#include "observe/teller.h"

enum sl_policy_origin { SL_POLICY_OF_FILE, SL_POLICY_OF_STORE, SL_POLICY_ORIGINS };

struct sl_policy_watch {
    struct sl_teller teller;
    pthread_mutex_t lock; /* what follows */
    bool refused[SL_POLICY_ORIGINS];
    char findings[SL_POLICY_ORIGINS][SL_TELLER_DETAIL_MAX];
};

void sl_policy_watch_init(struct sl_policy_watch *watch, const struct sl_teller *teller);
void sl_policy_watch_fini(struct sl_policy_watch *watch);

void sl_policy_watch_refused(struct sl_policy_watch *watch, enum sl_policy_origin origin, const char *finding,
                             uint64_t now_us);
void sl_policy_watch_taken(struct sl_policy_watch *watch, enum sl_policy_origin origin, uint64_t now_us);
void sl_policy_watch_look(struct sl_policy_watch *watch, uint64_t now_us);

#endif
