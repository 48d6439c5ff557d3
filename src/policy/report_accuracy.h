/* How exact a bucket is, and what an outage means for it, with the numbers of its limit put in. The formulas are those of
 * docs/policy.md (a test holds the two together). */
#ifndef SL_POLICY_REPORT_ACCURACY_H
#define SL_POLICY_REPORT_ACCURACY_H

#include "policy/compiled.h"

#include <jansson.h>

enum sl_accuracy_kind {
    SL_ACCURACY_EXACT,
    SL_ACCURACY_OVER,  /* may admit so many tokens more than the limit */
    SL_ACCURACY_EARLY, /* may reject while so many tokens are left */
};

#define SL_NUMBERS_MAX 128
#define SL_SENTENCE_MAX 400
#define SL_FILTER_LINE_MAX 160

struct sl_accuracy {
    enum sl_accuracy_kind kind;
    const char *formula;          /* in the words of docs/policy.md */
    char numbers[SL_NUMBERS_MAX]; /* the same with numbers; "" where there are none */
    uint64_t tokens;              /* what it comes to */
    char also[SL_SENTENCE_MAX];   /* what else is to be known, or "" */
};

/* instances: at least 1. */
void sl_accuracy_of(const struct sl_policy *policy, const struct sl_item *item, unsigned instances,
                    struct sl_accuracy *ret_accuracy);

/* {"kind","formula","numbers","tokens","also"}; the last when there is something. */
json_t *sl_accuracy_json(const struct sl_accuracy *accuracy);

/* What an instance lets pass to the store at most; false when there is no pre-filter. */
bool sl_pre_filter_line(const struct sl_item *item, unsigned instances, char buf[SL_FILTER_LINE_MAX]);

/* What the limit's on_store_failure means for this bucket. */
void sl_outage_line(const struct sl_policy *policy, const struct sl_item *item, unsigned instances,
                    char buf[SL_SENTENCE_MAX]);

#endif
