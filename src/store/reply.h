/* Replies of a store, read out of a stream of bytes. hiredis' reader (RESP2) takes the stream apart and is spoken to
 * from reply.c alone; what it finds is kept here, within bounds, in memory that the next reply reuses. */
#ifndef SL_STORE_REPLY_H
#define SL_STORE_REPLY_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_REPLY_BYTES_MAX (512u * 1024)
#define SL_REPLY_LINE_MAX 4096u

enum sl_reply_type { SL_REPLY_STRING, SL_REPLY_STATUS, SL_REPLY_ERROR, SL_REPLY_INTEGER, SL_REPLY_NIL, SL_REPLY_ARRAY };

struct sl_reply {
    enum sl_reply_type type;
    size_t n; /* bytes of a string, status or error; elements of an array */
    int64_t integer;
    const char *text; /* NUL-terminated, and may hold zero bytes */
    struct sl_reply **elements;
};

/* True when it is a status or a string of exactly these bytes. */
bool sl_reply_is(const struct sl_reply *reply, const char *text);
/* True when it is a string (or status) that fits a NUL-terminated buffer of `size` and holds no zero byte; copies it.
 */
bool sl_reply_copy(const struct sl_reply *reply, char *buf, size_t size);
/* True for an array of at least n elements. */
bool sl_reply_is_array(const struct sl_reply *reply, size_t n);

struct sl_reply_reader;

/* bytes_max bounds one reply, as sent and as kept; 0: SL_REPLY_BYTES_MAX. Returns NULL when out of memory. */
struct sl_reply_reader *sl_reply_reader_new(const struct sl_alloc *alloc, size_t bytes_max);
void sl_reply_reader_free(struct sl_reply_reader *reader); /* accepts NULL */

/* Takes the next bytes of the stream. Returns 0, or SL_ENOMEM. */
int sl_reply_feed(struct sl_reply_reader *reader, const char *bytes, size_t len);

/* The next reply. Returns 1 and the reply, borrowed until the next call of either function; 0 when more bytes are
 * needed; or SL_EFORMAT, after which the stream is of no use, with *ret_why saying what was wrong. */
int sl_reply_next(struct sl_reply_reader *reader, const struct sl_reply **ret_reply, const char **ret_why);

#endif
