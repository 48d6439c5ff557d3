/* The part of `policy explain` about buckets. */
#ifndef SL_POLICY_REPORT_BUCKETS_H
#define SL_POLICY_REPORT_BUCKETS_H

#include "policy/report_parts.h"
#include "policy/resolve.h"

/* One object for each of n items. */
json_t *sl_items_json(const struct sl_subject *subject, const struct sl_item *items, unsigned n, unsigned instances);

/* One of those for people; kind: "bucket" or "dry run". */
void sl_print_bucket(const json_t *bucket, const char *kind, FILE *out);

#endif
