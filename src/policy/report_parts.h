/* Pieces that show, explain and diff share. JSON values are new references; NULL members stand for memory that ran
 * out. */
#ifndef SL_POLICY_REPORT_PARTS_H
#define SL_POLICY_REPORT_PARTS_H

#include "policy/compiled.h"

#include <jansson.h>

/* Text for JSON: as it is when it is UTF-8, else with every byte that is not printable ASCII as \xNN. */
json_t *sl_json_text(const char *text, size_t len);
/* The same for a C string; JSON null for NULL. */
json_t *sl_json_optional(const char *text);

/* A member that is a string, else "-". */
const char *sl_json_string_of(const json_t *object, const char *name);

/* "100/s" or, with a burst that is not COUNT, "100/s burst 400". */
#define SL_RATE_LINE_MAX 80
void sl_rate_line(const struct sl_rate *rate, uint32_t burst, char buf[SL_RATE_LINE_MAX]);

/* The same of a shape. */
void sl_shape_line(const struct sl_shape *shape, char buf[SL_RATE_LINE_MAX]);

/* A limit as written and as compiled: every field of the file, and `effective` rates. */
json_t *sl_limit_json(const struct sl_policy *policy, const struct sl_limit *limit);

/* What the limit matches ({"tier": "free"}), and the dimensions of its buckets (["key"]). */
json_t *sl_limit_match_json(const struct sl_limit *limit);
json_t *sl_limit_per_json(const struct sl_limit *limit);

/* "fixed_window 5/15m per key" */
void sl_limit_line(const struct sl_limit *limit, char *buf, size_t size);

/* What a limit's coordination and failure mode mean here, in a sentence each. */
void sl_coordination_line(const struct sl_policy *policy, const struct sl_limit *limit, char *buf, size_t size);
const char *sl_failure_line(const struct sl_policy *policy, const struct sl_limit *limit);

/* Prints "name: value" pairs of an object, one a line, nested values in flow style. */
void sl_print_value(FILE *out, const json_t *value);

#endif
