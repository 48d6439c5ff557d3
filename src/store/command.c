#include "store/command.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SIZE 256u

struct sl_out sl_out_make(const struct sl_alloc *alloc, size_t max)
{
    return (struct sl_out){.alloc = alloc, .max = max};
}

void sl_out_fini(struct sl_out *out)
{
    sl_free(out->alloc, out->bytes);
    *out = sl_out_make(out->alloc, out->max);
}

void sl_out_clear(struct sl_out *out)
{
    out->len = 0;
    out->failed = false;
}

static bool make_room(struct sl_out *out, size_t len)
{
    size_t size = out->size ? out->size : FIRST_SIZE;
    char *bytes;

    if (out->failed || len > out->max - out->len) {
        out->failed = true;
        return false;
    }
    if (len <= out->size - out->len)
        return true;
    while (size < out->len + len)
        size *= 2;
    bytes = sl_reallocarray(out->alloc, out->bytes, size, 1);
    if (!bytes) {
        out->failed = true;
        return false;
    }
    out->bytes = bytes;
    out->size = size;
    return true;
}

void sl_out_add(struct sl_out *out, const void *bytes, size_t len)
{
    if (!len || !make_room(out, len))
        return;
    memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

static void add_header(struct sl_out *out, char mark, size_t n)
{
    char text[32];
    char *at = text + sizeof text;

    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + n % 10);
    while (n /= 10);
    *--at = mark;
    sl_out_add(out, at, (size_t)(text + sizeof text - at));
}

void sl_out_array(struct sl_out *out, size_t n)
{
    add_header(out, '*', n);
}

void sl_out_word(struct sl_out *out, const char *bytes, size_t len)
{
    add_header(out, '$', len);
    sl_out_add(out, bytes, len);
    sl_out_add(out, "\r\n", 2);
}

void sl_out_command(struct sl_out *out, const struct sl_word *words, size_t n)
{
    sl_out_array(out, n);
    for (size_t i = 0; i < n; i++)
        sl_out_word(out, words[i].bytes, words[i].len);
}
