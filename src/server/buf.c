#include "server/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAP 512u

void sl_buf_fini(struct sl_buf *buf)
{
    free(buf->data);
    *buf = sl_buf_make(buf->max);
}

char *sl_buf_grow(struct sl_buf *buf, size_t n)
{
    size_t cap = buf->cap ? buf->cap : FIRST_CAP;
    char *data;

    if (buf->failed || !buf->max || n > buf->max - buf->len) {
        buf->failed = true;
        return NULL;
    }
    while (cap - buf->len < n)
        cap *= 2; /* ends: len + n <= max, and max is far below SIZE_MAX / 2 */
    if (cap > buf->max)
        cap = buf->max;
    if (cap != buf->cap || !buf->data) {
        data = realloc(buf->data, cap);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void sl_buf_int(struct sl_buf *buf, int64_t value)
{
    char *at = sl_buf_reserve(buf, 20);

    if (at)
        buf->len += (size_t)(sl_write_int(at, value) - at);
}

void sl_buf_json(struct sl_buf *buf, const char *text, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t from = 0;

    sl_buf_add(buf, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[6] = {'\\', (char)c, '0', '0', 0, 0};

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        sl_buf_add(buf, text + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\') {
            sl_buf_add(buf, escape, 2);
        } else {
            escape[1] = 'u', escape[4] = hex[c >> 4], escape[5] = hex[c & 15];
            sl_buf_add(buf, escape, 6);
        }
    }
    sl_buf_add(buf, text + from, len - from);
    sl_buf_add(buf, "\"", 1);
}

void sl_buf_printf(struct sl_buf *buf, const char *format, ...)
{
    va_list args;
    int n;
    char *at;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !(at = sl_buf_reserve(buf, (size_t)n + 1))) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(at, (size_t)n + 1, format, args);
    va_end(args);
    buf->len += (size_t)n;
}

void sl_buf_drop(struct sl_buf *buf, size_t n)
{
    buf->len -= n;
    memmove(buf->data, buf->data + n, buf->len);
}
