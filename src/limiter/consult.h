/* One request on its way through a decision: what to consult, what each bucket said, and what comes of it. */
#ifndef SL_LIMITER_CONSULT_H
#define SL_LIMITER_CONSULT_H

#include "limiter/limiter.h"

/* What the policy says of one request (struct sl_resolution), with the buckets wherever they lie. */
struct sl_consult {
    const struct sl_item *items; /* enforcing, in file order of layers and rates */
    const struct sl_item *dry;   /* dry-run winners, likewise */
    unsigned n_items, n_dry;
    const struct sl_limit *blocked, *unlimited, *dry_blocked; /* as in struct sl_resolution */
    unsigned n_bare;
    bool denied, unmatched;
    bool anonymous; /* the key's type is `address`; set by who has the request */
    bool shared;    /* a limit in items or dry has its buckets in the store */
    uint16_t store; /* as in struct sl_resolution, like the hashes */
    struct sl_hash128 key_hash, address_hash;
    const struct sl_limit
        *bare[SL_LAYERS_MAX]; /* every winner without a bucket: unlimited or blocked; n_bare are set */
};

/* Borrows the resolution's arrays. */
void sl_consult_make(const struct sl_resolution *resolution, struct sl_consult *ret_consult);

/* Moves the buckets to `items`, which has room for them: before the resolution is used for the next request. */
static inline void sl_consult_move(struct sl_consult *consult, struct sl_item *items)
{
    for (unsigned i = 0; i < consult->n_items; i++)
        items[i] = consult->items[i];
    consult->items = items;
    items += consult->n_items;
    for (unsigned i = 0; i < consult->n_dry; i++)
        items[i] = consult->dry[i];
    consult->dry = items;
}

/* Who judged a bucket that was not decided in this table, and where its figures are. */
enum sl_told {
    SL_TOLD_TABLE,       /* this table: the decision says all */
    SL_TOLD_DECISION,    /* another tier, by this very decision */
    SL_TOLD_NUMBERS,     /* in `numbers`; of the decision only allowed, never and now_us count */
    SL_TOLD_UNKNOWN,     /* allowed, and nobody knows what remains */
    SL_TOLD_UNAVAILABLE, /* rejected for want of an answer, for numbers.retry_after_ms */
};

struct sl_telling {
    uint8_t how;    /* enum sl_told */
    uint8_t source; /* enum sluice_source */
    uint32_t share; /* what `remaining` is left of, where that is less than the limit; 0: the limit */
    struct sl_numbers numbers;
};

/* What came of it. Only the first n_items and n_dry decisions are set. */
struct sl_outcome {
    bool allowed;
    const struct sl_telling *telling, *dry_telling; /* one an item; NULL: this table decided all of them */
    struct sl_decision items[SL_ITEMS_MAX];
    struct sl_decision dry[SL_ITEMS_MAX];
};

/* The figures of one of them, whoever gave them. `telling` may be NULL. next_token_ms only when `full`. */
void sl_told_numbers(const struct sl_item *item, const struct sl_decision *decision, const struct sl_telling *telling,
                     bool full, struct sl_numbers *ret_numbers);

/* Looks at every bucket; true when all have room. */
bool sl_items_look(struct sl_table *table, const struct sl_item *items, unsigned n, uint64_t now_us,
                   struct sl_decision *ret_decisions);

/* Charges all of them, narrowest first, or, when one refuses after all, none. */
bool sl_items_charge(struct sl_table *table, const struct sl_item *items, unsigned n, uint64_t now_us,
                     struct sl_decision *decisions);

/* Gives back what sl_items_charge charged. */
void sl_items_refund(struct sl_table *table, const struct sl_item *items, unsigned n,
                     const struct sl_decision *decisions);

/* Decides: looks at every bucket, charges all or none of the enforcing ones, then the dry-run ones that have room if
 * the request was allowed. A decision with `allowed` false is a bucket that refused. */
void sl_consult_decide(struct sl_table *table, const struct sl_consult *consult, uint64_t now_us,
                       struct sl_outcome *ret_outcome);

/* A limit's name as a verdict holds it: padded with zeros, so that it is copied whole. */
struct sl_name {
    char text[SLUICE_NAME_MAX];
};

/* Fills the verdict; returns the deciding limit, NULL when none was met. names: of the policy's limits by index; NULL:
 * taken from the limits. */
const struct sl_limit *sl_consult_verdict(const struct sl_consult *consult, const struct sl_outcome *outcome,
                                          const struct sl_name *names, struct sluice_verdict *ret_verdict);

/* The verdict of a request that met one enforcing bucket and nothing else. */
void sl_bucket_verdict(const struct sl_item *item, const struct sl_decision *decision, const struct sl_name *names,
                       struct sluice_verdict *ret_verdict);

/* True when there is one enforcing bucket and nothing else: then sl_table_charge and sl_bucket_verdict are all. */
static inline bool sl_consult_is_plain(const struct sl_consult *consult)
{
    return consult->n_items == 1 && consult->n_dry == 0 && consult->n_bare == 0 && !consult->dry_blocked;
}

/* Fills the report. Looks at the buckets of a rejected request once more, to show them as it left them. */
void sl_consult_report(struct sl_table *table, const struct sl_consult *consult, const struct sl_outcome *outcome,
                       uint64_t now_us, struct sl_report *ret_report);

/* Index after the last item of items[first]'s limit: rates of one limit lie together. */
static inline unsigned sl_items_group_end(const struct sl_item *items, unsigned n, unsigned first)
{
    unsigned end = first + 1;

    while (end < n && items[end].limit == items[first].limit)
        end++;
    return end;
}

#endif
