/* Addresses of webhooks. Any thread. */
#ifndef SL_NOTIFY_TARGET_H
#define SL_NOTIFY_TARGET_H

#include <stddef.h>

#define SL_TARGET_TEXT_MAX 300u

/* Is it http://host... or https://host...? Returns 0, or SL_EINVALID with a sentence that shows nothing of it: whoever knows
 * the path may often write there. */
int sl_target_check(const char *url, char *why, size_t why_size);

/* What may be shown of an address that has passed: "https://host:port". */
void sl_target_text(const char *url, char buf[static SL_TARGET_TEXT_MAX]);

#endif
