/* Who is told of decisions, once their verdicts are there: recent rejections, traces, notifications, shadow policies.
 *
 *     witness = sl_witness_add(&witnesses, saw, NULL, ctx);     before the server runs; sl_server_options.witnesses
 *     sl_witness_set(witness, SL_SEE_REJECTED);                 at any time, any thread
 *
 * Every door tells of every decision with sl_witness_tell, on its loop's thread, after the verdict and before the answer is
 * written. While nobody wants to know of a decision of that kind, telling costs one comparison. A decision that waits for
 * the store keeps a copy of its request meanwhile (sl_request_copy), so that it can be told. */
#ifndef SL_SERVER_WITNESS_H
#define SL_SERVER_WITNESS_H

#include "server/service.h"

#include <stdatomic.h>

struct sl_witnesses;

/* What a witness wants to see, or-ed. */
#define SL_SEE_REJECTED 1u /* not allowed */
#define SL_SEE_WARNED 2u   /* allowed or not, with `warning` */
#define SL_SEE_DRY 4u      /* a dry-run limit would have rejected */
#define SL_SEE_ALL 8u

/* One decision, valid for the call. */
struct sl_witnessed {
    unsigned loop;                        /* whose thread this is, alone: 0 ... SL_SERVER_LOOPS_MAX - 1 */
    struct sl_service *service;           /* that loop's; for what is in force */
    const struct sluice_request *request; /* as the door read it, accepted */
    const struct sluice_verdict *verdict;
    const struct sl_report *report; /* NULL: nobody had asked for it, see `wants` */
};

/* Must be quick, and must not decide anything. */
typedef void sl_witness_saw(void *ctx, const struct sl_witnessed *decision);

/* Whether it wants the report of a request that is about to be decided; only asked while it wants SL_SEE_ALL. NULL: never. */
typedef bool sl_witness_wants(void *ctx, const struct sluice_request *request);

struct sl_witness {
    atomic_uint sees;
    sl_witness_saw *saw;
    sl_witness_wants *wants;
    void *ctx;
    struct sl_witnesses *among;
};

#define SL_WITNESSES_MAX 8u
#define SL_SERVER_LOOPS_MAX 257u /* 256 workers and the admin listener */

/* All of a server's. Zeroed, there are none. */
struct sl_witnesses {
    atomic_uint sees; /* what any of them wants */
    unsigned n;
    struct sl_witness list[SL_WITNESSES_MAX];
};

/* One more, which sees nothing yet. Not while loops run. NULL: there are SL_WITNESSES_MAX. */
struct sl_witness *sl_witness_add(struct sl_witnesses *witnesses, sl_witness_saw *saw, sl_witness_wants *wants,
                                  void *ctx);

/* What it sees from now on. A loop in the middle of telling may tell it once more. Any thread. */
void sl_witness_set(struct sl_witness *witness, unsigned sees);

bool sl_witness_asks_for_report(struct sl_service *service, const struct sluice_request *request);

/* Does any witness want the report of this request? Of a batch's elements too. */
static inline bool sl_witness_wants_report(struct sl_service *service, const struct sluice_request *request)
{
    struct sl_witnesses *witnesses = service->shared->witnesses;

    return witnesses &&
           __builtin_expect(atomic_load_explicit(&witnesses->sees, memory_order_relaxed) & SL_SEE_ALL, 0) &&
           sl_witness_asks_for_report(service, request);
}

/* What a decision is, of SL_SEE_.... */
static inline unsigned sl_witness_kind(const struct sluice_verdict *verdict)
{
    return SL_SEE_ALL | (verdict->allowed ? 0 : SL_SEE_REJECTED) | (verdict->warning ? SL_SEE_WARNED : 0) |
           (verdict->dry_run ? SL_SEE_DRY : 0);
}

void sl_witness_tell_now(struct sl_service *service, unsigned kind, const struct sluice_request *request,
                         const struct sluice_verdict *verdict, const struct sl_report *report);

/* Tells whoever wants to see such a decision. `report` may be NULL. */
static inline void sl_witness_tell(struct sl_service *service, const struct sluice_request *request,
                                   const struct sluice_verdict *verdict, const struct sl_report *report)
{
    struct sl_witnesses *witnesses = service->shared->witnesses;
    unsigned kind = sl_witness_kind(verdict);

    if (witnesses && __builtin_expect(atomic_load_explicit(&witnesses->sees, memory_order_relaxed) & kind, 0))
        sl_witness_tell_now(service, kind, request, verdict, report);
}

/* ---- requests that are kept until their verdicts come */

struct sl_request_copy {
    struct sl_request_copy *next; /* the keeper's */
    size_t at;                    /* which verdict, for the keeper */
    struct sl_report *report;     /* of its own; NULL: none. Goes with the copy */
    struct sluice_request request;
    struct sluice_label labels[]; /* then the bytes */
};

/* NULL: out of memory. */
struct sl_request_copy *sl_request_copy(const struct sluice_request *request);
void sl_request_copy_free(struct sl_request_copy *copy); /* accepts NULL */

#endif
