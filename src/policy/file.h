/* Reads a file whole, for policies and keys_files. */
#ifndef SL_POLICY_FILE_H
#define SL_POLICY_FILE_H

#include "base/alloc.h"

#include <stddef.h>

/* Reads a regular file (following links) of at most `max` bytes; a pipe or device is refused, never waited for. Returns
 * 0 and the bytes (NUL-terminated; free with sl_free), SL_ENOMEM, or SL_EIO with a reason in ret_why. */
#define SL_FILE_WHY_MAX 128
int sl_file_read(const char *path, size_t max, const struct sl_alloc *alloc, char **ret_text, size_t *ret_len,
                 char ret_why[SL_FILE_WHY_MAX]);

#endif
