#include "server/chunked.h"

#include <stdbool.h>
#include <string.h>

#define DIGITS_MAX 7 /* of a size: up to 256 MiB, beyond every limit of ours */

enum {
    SIZE,         /* hex digits */
    EXTENSION,    /* until CR */
    SIZE_LF,      /* LF of the size's line */
    DATA,         /* `left` bytes */
    DATA_CR,      /* CR behind them */
    DATA_LF,      /* LF behind them */
    TRAILER,      /* the first byte of a trailer line */
    TRAILER_LINE, /* until CR */
    TRAILER_LF,   /* LF of a trailer line */
    LAST_LF,      /* LF of the empty line */
};

static int hex_digit(unsigned char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* Text of an extension or a trailer: no control character but the tab. */
static bool is_text(unsigned char c)
{
    return c == '\t' || (c >= ' ' && c != 0x7f);
}

/* One byte of a size line. Returns false when it may not stand there. */
static bool read_size(struct sl_chunked *c, unsigned char byte)
{
    int digit = hex_digit(byte);

    if (digit >= 0) {
        c->left = c->left << 4 | (uint32_t)digit;
        return ++c->n_digits <= DIGITS_MAX;
    }
    if (!c->n_digits)
        return false;
    c->state = byte == '\r' ? SIZE_LF : EXTENSION;
    return byte == '\r' || byte == ';' || byte == ' ' || byte == '\t';
}

/* `wanted`, and then the next state. */
static bool expect(struct sl_chunked *c, unsigned char byte, unsigned char wanted, uint8_t next)
{
    c->state = next;
    return byte == wanted;
}

/* Text until CR. */
static bool read_line(struct sl_chunked *c, unsigned char byte, uint8_t next)
{
    if (byte == '\r')
        c->state = next;
    else
        c->extra++;
    return byte == '\r' || is_text(byte);
}

/* One byte that is not body. */
static bool read_byte(struct sl_chunked *c, unsigned char byte)
{
    switch (c->state) {
    case SIZE:
        return read_size(c, byte);
    case EXTENSION:
        return read_line(c, byte, SIZE_LF);
    case SIZE_LF:
        return expect(c, byte, '\n', c->left ? DATA : TRAILER);
    case DATA_CR:
        return expect(c, byte, '\r', DATA_LF);
    case DATA_LF:
        c->n_digits = 0;
        return expect(c, byte, '\n', SIZE);
    case TRAILER:
        c->state = TRAILER_LINE;
        return read_line(c, byte, LAST_LF);
    case TRAILER_LINE:
        return read_line(c, byte, TRAILER_LF);
    default: /* TRAILER_LF; LAST_LF is the caller's */
        return expect(c, byte, '\n', TRAILER);
    }
}

enum sl_chunked_result sl_chunked_read(struct sl_chunked *c, const struct sl_chunked_limits *limits, const char *data,
                                       size_t len, char *body, uint32_t *body_len, size_t *ret_used)
{
    size_t i = 0;

    while (i < len) {
        if (c->state == DATA) {
            size_t n = len - i < c->left ? len - i : c->left;

            memmove(body + *body_len, data + i, n);
            *body_len += (uint32_t)n;
            c->left -= (uint32_t)n;
            i += n;
            if (!c->left)
                c->state = DATA_CR;
        } else if (c->state == LAST_LF) {
            *ret_used = i + 1;
            return data[i] == '\n' ? SL_CHUNKED_DONE : SL_CHUNKED_BAD;
        } else if (!read_byte(c, (unsigned char)data[i++])) {
            return SL_CHUNKED_BAD;
        } else if (c->extra > limits->extra_bytes) {
            return SL_CHUNKED_LINE_LONG;
        } else if (c->state == DATA && c->left > limits->body_bytes - *body_len) {
            return SL_CHUNKED_BODY_LONG; /* as announced: nobody has to send it first */
        }
    }
    return SL_CHUNKED_MORE;
}
