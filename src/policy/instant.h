/* Points in time as people write them: RFC 3339, "2026-12-31T18:00:00Z", "2026-12-31T18:00:00.25+01:00". Pure; any thread. */
#ifndef SL_POLICY_INSTANT_H
#define SL_POLICY_INSTANT_H

#include <stddef.h>
#include <stdint.h>

/* Parses the whole text; what is finer than a millisecond is cut off. Years 1970 ... 3999; second 60 is the next minute's
 * first. Returns 0, or SL_EINVALID and a sentence in static storage. */
int sl_instant_parse(const char *text, size_t len, uint64_t *ret_us, const char **ret_why);

/* "2026-12-31T18:00:00.000Z", NUL-terminated. */
#define SL_INSTANT_MAX 25
void sl_instant_format(uint64_t us, char buf[static SL_INSTANT_MAX]);

#endif
