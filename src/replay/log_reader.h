/* Lines of one log after another: plain or gzip (told by the first bytes; several members one after another), files or
 * standard input.
 * One buffer of fixed size; lines are handed out where they lie. One thread. */
#ifndef SL_REPLAY_LOG_READER_H
#define SL_REPLAY_LOG_READER_H

#include "base/alloc.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sl_log_reader;

struct sl_log_reader_line {
    struct sl_slice text; /* without LF or CRLF; valid until the next call. Empty when too_long */
    const char *path;
    uint64_t number; /* from 1, in its file */
    bool too_long;   /* above SL_REPLAY_LINE_MAX: skipped */
};

/* Borrows paths and input (NULL: stdin) until the reader is freed. Looks at every path first. Returns 0; SL_EIO with a
 * sentence that names the file; SL_ENOMEM. */
int sl_log_reader_new(const struct sl_alloc *alloc, const char *const *paths, size_t n_paths, FILE *input,
                      struct sl_log_reader **ret_reader, char *ret_why, size_t why_size);

void sl_log_reader_free(struct sl_log_reader *reader); /* accepts NULL */

/* The next line: 1; 0 at the end of the last file; SL_EIO with a sentence that names the file. */
int sl_log_reader_next(struct sl_log_reader *reader, struct sl_log_reader_line *ret_line, char *ret_why,
                       size_t why_size);

/* Bytes of the files read so far (compressed ones as they lie on disk). Any thread. */
uint64_t sl_log_reader_bytes(const struct sl_log_reader *reader);

/* Bytes of all files together; 0 when one of them is no regular file. */
uint64_t sl_log_reader_total(const struct sl_log_reader *reader);

#endif
