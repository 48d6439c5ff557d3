/* The shared tier of one limiter: a fleet (fleet/fleet.h), and one lane of it on a background thread with a libuv loop.
 *
 *     program's threads                          background thread
 *     sl_fleet_begin: the near part
 *     sl_tier_post: a ticket in the mailbox  ->  takes it, sl_lane_fly, asks the store for a whole turn at once
 *     waits, or goes on                      <-  done: wakes the waiter, calls back, or queues a completion
 *
 * What the thread alone needs and may outlive the limiter is in lib/loop.h. */
#ifndef SL_LIB_TIER_H
#define SL_LIB_TIER_H

#include "fleet/fleet.h"
#include "lib/kept.h"
#include "lib/mailbox.h"
#include "lib/wait.h"
#include "observe/store_watch.h"

#include <stdatomic.h>
#include <sys/types.h>

struct sl_loop;

struct sl_tier {
    struct sl_alloc alloc;
    struct sluice *handle; /* borrowed */
    struct sl_fleet *fleet;
    struct sl_store_url url;
    char ns[SL_NAMESPACE_MAX + 1];
    uint64_t timeout_us;
    bool own_policy;      /* the store's versions are not taken */
    atomic_bool reloaded; /* by the program, and not told yet */
    pid_t pid;            /* of the process that opened it: a child of it has no background thread */
    struct sl_mailbox mailbox;
    struct sl_kept kept;
    struct sl_loop *loop;
    atomic_uint pending;
    atomic_uint_fast64_t pending_full;
    /* The background thread's. */
    struct sl_lane *lane;
    struct sl_alarms alarms;
    struct sl_store_watch *watch; /* NULL: nobody listens to the log */
    bool unadopted;               /* a secret was heard, and the policy is not compiled under it yet */
    bool stopping;
};

/* Reads the address and its files, and checks the other options. NULL is stored for memory:. Returns 0, SL_EINVALID,
 * SL_EIO or SL_ENOMEM, with a sentence. */
int sl_tier_new(const struct sluice_options *options, const struct sl_alloc *alloc, struct sl_tier **ret_tier,
                char *ret_why, size_t why_size);

/* Of one that was not started, or was stopped. Accepts NULL. */
void sl_tier_free(struct sl_tier *tier);

/* Starts the thread and waits for the store as the options say. The handle has its limiter; its policy was compiled
 * from `text`, which is kept, under `secret`. */
int sl_tier_start(struct sl_tier *tier, struct sluice *handle, const struct sluice_options *options,
                  struct policy_text *text, const struct sl_secret *secret, char *ret_why, size_t why_size);

/* Ends what is under way, says goodbye, joins the thread. Bounded. */
void sl_tier_stop(struct sl_tier *tier);

/* In the child of a fork: frees what can be freed without touching what is the parent's. */
void sl_tier_abandon(struct sl_tier *tier);
bool sl_tier_is_inherited(const struct sl_tier *tier);

/* True on the background thread: who waits there waits for himself. */
bool sl_tier_is_here(const struct sl_tier *tier);

/* Hands a ticket, and those that follow it by `next`, to the background thread together; false when it will not be
 * taken any more. */
bool sl_tier_post(struct sl_tier *tier, struct sl_ticket *ticket);

/* Wakes it when a near part found leases to renew. */
void sl_tier_tend(struct sl_tier *tier);

/* ---- policy (secret.c, overrides.c) */

/* Puts a policy in force, with the overrides there are laid over it. Called with kept.lock held. Returns 0 or
 * SL_ENOMEM; the caller keeps its reference. */
int sl_tier_put(struct sl_tier *tier, struct sl_policy *policy);

/* These are the overrides from now on; takes the reference. False: out of memory, and all stays as it was. On the
 * background thread. */
bool sl_tier_lay(struct sl_tier *tier, struct sl_overrides *overrides);

/* Those whose time has come end. On the background thread, now and then. */
void sl_tier_end_overrides(struct sl_tier *tier);

/* The secret to compile a policy under: the fleet's, else that of the policy in force. Called with kept.lock held. */
struct sl_secret sl_tier_secret(struct sl_tier *tier);

/* Puts a version in force that was compiled under `secret`, and keeps its text (and clears *text). *ret_stale:
 * nothing was done, for another secret is wanted by now. Returns 0 or SL_ENOMEM. The caller keeps its reference of
 * the policy. */
int sl_tier_take_version(struct sl_tier *tier, const struct sl_version *version, struct sl_version_text *text,
                         struct sl_policy *policy, const struct sl_secret *secret, bool *ret_stale);

/* What is in force: a version; or number 0 and the hash of the program's policy. Any thread. */
struct sl_pointer sl_tier_runs(struct sl_tier *tier);

/* Compiles the policy in force under the fleet's secret and puts it in force, if it is not. False: to be tried again.
 * On the background thread. */
bool sl_tier_adopt(struct sl_tier *tier);

#endif
