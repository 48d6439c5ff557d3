/* A policy explained to people and to programs: `sluice policy show | explain | diff`.
 *
 * Each returns jansson values (new references) that print as --json, and a text printer for the terminal. */
#ifndef SL_POLICY_REPORT_H
#define SL_POLICY_REPORT_H

#include "policy/policy.h"

#include <stdio.h>

struct json_t;

/* The whole policy as compiled: limits in file order with effective rates, layers, endpoints, tiers, ceiling,
 * identity, hash. */
struct json_t *sl_policy_show_json(const struct sl_policy *policy);
void sl_policy_show_text(const struct sl_policy *policy, FILE *out);

/* Every step for one request: endpoint (which glob), tier (from where), per layer the candidates in order with
 * why each lost, cost (from where), ceiling, buckets, dry-run winners, and what coordination and failure mode
 * mean for each bucket in a fleet of so many instances (at least 1). */
struct json_t *sl_policy_explain_json(const struct sl_policy *policy, const struct sluice_request *request,
                                      unsigned instances);
void sl_policy_explain_text(const struct sl_policy *policy, const struct sluice_request *request, unsigned instances,
                            FILE *out);
/* Prints what sl_policy_explain_json has given. */
void sl_policy_print_explained(const struct json_t *explained, FILE *out);

/* As sl_policy_explain_json, of a request for whose key (sl_policy_asks_store) the store has this tier (not NUL-terminated);
 * NULL: none. */
struct json_t *sl_policy_explain_asked_json(const struct sl_policy *policy, const struct sluice_request *request,
                                            unsigned instances, const char *tier, size_t tier_len);

/* What changes from `from` to `to`: limits added, removed, changed (field by field, with what happens to the
 * state in their buckets), other settings. Returns an object {"changes": [...]}; the list is empty when both mean
 * the same. */
struct json_t *sl_policy_diff_json(const struct sl_policy *from, const struct sl_policy *to);
void sl_policy_diff_text(const struct sl_policy *from, const struct sl_policy *to, FILE *out);

#endif
