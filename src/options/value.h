/* One setting's text to its value. Shared by the readers of this folder. */
#ifndef SL_OPTIONS_VALUE_H
#define SL_OPTIONS_VALUE_H

#include "options/option.h"

/* Parses text into row's place in `values`, replacing (and freeing) what is there; a list grows by one. Returns 0 or
 * SL_EINVALID with a fragment ("must be a whole number from 1 to 64") and the old value in place. */
int sl_option_parse(const struct sl_option *row, const char *text, void *values, char *why, size_t why_size);

/* Frees what the row owns and leaves it empty. */
void sl_option_clear(const struct sl_option *row, void *values);

/* Parses `64k`, `4M`, `1G` and bare bytes. Returns 0 or SL_EINVALID. */
int sl_bytes_parse(const char *text, uint64_t *ret_bytes);

/* Writes a duration as it is written in a policy: the largest unit that divides it. */
void sl_duration_format(uint64_t us, char *buf, size_t size);

/* Writes bytes with the largest suffix that divides them. */
void sl_bytes_format(uint64_t bytes, char *buf, size_t size);

#endif
