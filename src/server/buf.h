/* A byte buffer with a maximum: everything the server gathers or sends goes through one.
 *
 * Memory is doubled up to `max`. Once an append does not fit, `failed` stays set until sl_buf_clear and nothing more is
 * added, so a writer may append freely and look once at the end. One thread. */
#ifndef SL_SERVER_BUF_H
#define SL_SERVER_BUF_H

#include "base/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sl_buf {
    char *data;
    size_t len, cap, max;
    bool failed;
};

/* An empty buffer that owns no memory yet and never holds more than `max` bytes. */
static inline struct sl_buf sl_buf_make(size_t max)
{
    return (struct sl_buf){.max = max};
}

/* Forgets the contents, keeps the memory. */
static inline void sl_buf_clear(struct sl_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

/* Frees the memory; the buffer may be used again. */
void sl_buf_fini(struct sl_buf *buf);

/* The out-of-line part of sl_buf_reserve. */
char *sl_buf_grow(struct sl_buf *buf, size_t n);

/* Room for n more bytes: returns where they go (then add to `len` what was written), or NULL and `failed`. */
static inline char *sl_buf_reserve(struct sl_buf *buf, size_t n)
{
    if (__builtin_expect(!buf->failed && n <= buf->cap - buf->len && buf->data, 1))
        return buf->data + buf->len;
    return sl_buf_grow(buf, n);
}

static inline void sl_buf_add(struct sl_buf *buf, const void *data, size_t n)
{
    char *at = sl_buf_reserve(buf, n);

    if (at && n) {
        memcpy(at, data, n);
        buf->len += n;
    }
}

static inline void sl_buf_text(struct sl_buf *buf, const char *text)
{
    sl_buf_add(buf, text, strlen(text));
}

/* A number in decimal. */
void sl_buf_int(struct sl_buf *buf, int64_t value);

/* A JSON string with its quotes. `text` must be valid UTF-8; control characters, quotes and backslashes are escaped. */
void sl_buf_json(struct sl_buf *buf, const char *text, size_t len);

void sl_buf_printf(struct sl_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops n bytes from the front. */
void sl_buf_drop(struct sl_buf *buf, size_t n);

#endif
