/* One spelling for one endpoint: the path is decoded, merged and re-encoded in a single pass into the caller's
 * buffer. */
#include "identity/scope.h"

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The output: a buffer that refuses to grow past its end and remembers that it was too small. */
struct sink {
    char *buf;
    size_t len, size;
    size_t root; /* where the path begins */
    bool full;
};

static void put(struct sink *s, char c)
{
    if (s->len < s->size)
        s->buf[s->len++] = c;
    else
        s->full = true;
}

static bool is_alnum(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!is_alnum(c) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return len > 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_escape(struct sink *s, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    put(s, '%');
    put(s, digits[c >> 4]);
    put(s, digits[c & 15]);
}

/* Ends a segment: "." vanishes, ".." takes the one before it along. Leaves the path ending in the slash before it. */
static void fold_dots(struct sink *s)
{
    size_t start = s->len;

    while (start > s->root && s->buf[start - 1] != '/')
        start--;
    if (s->len - start == 1 && s->buf[start] == '.') {
        s->len = start;
    } else if (s->len - start == 2 && s->buf[start] == '.' && s->buf[start + 1] == '.') {
        size_t up = start - 1; /* the slash before the segment */

        while (up > s->root && s->buf[up - 1] != '/')
            up--;
        s->len = up > s->root ? up : s->root + 1;
    }
}

/* One byte of a path that is not part of an escape. */
static void put_path_byte(struct sink *s, char c)
{
    if (c == '/') {
        fold_dots(s);
        if (s->len == s->root || s->buf[s->len - 1] != '/')
            put(s, '/');
    } else if (c == ' ' || (unsigned char)c >= 0x80) {
        put_escape(s, (unsigned char)c);
    } else {
        put(s, c);
    }
}

/* Reads "%XX" at text; the escape of an unreserved character becomes the character. Returns 0 or SL_EINVALID. */
static int put_decoded(struct sink *s, const char *text, size_t left)
{
    int high = left >= 3 ? hex_value(text[1]) : -1, low = left >= 3 ? hex_value(text[2]) : -1;
    unsigned char c;

    if (high < 0 || low < 0)
        return SL_EINVALID;
    c = (unsigned char)(high << 4 | low);
    if (c == 0)
        return SL_EINVALID;
    if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~')
        put(s, (char)c);
    else
        put_escape(s, c);
    return 0;
}

static int put_path(struct sink *s, const char *text, size_t len)
{
    for (size_t i = 0; i < len && !s->full; i++) {
        if (text[i] != '%') {
            put_path_byte(s, text[i]);
            continue;
        }
        if (put_decoded(s, text + i, len - i))
            return SL_EINVALID;
        i += 2;
    }
    if (!s->full)
        fold_dots(s);
    return 0;
}

/* Where the path of an absolute-form target begins ("http://host/p": at "/p"); NULL when it has no scheme. */
static const char *after_authority(const char *target, size_t len)
{
    const char *end = target + len, *at = target;

    while (at < end && (is_alnum((unsigned char)*at) || *at == '+' || *at == '-' || *at == '.'))
        at++;
    if (at == target || end - at < 3 || memcmp(at, "://", 3) != 0)
        return NULL;
    at += 3;
    while (at < end && *at != '/')
        at++;
    return at;
}

/* The length without query and fragment; SIZE_MAX when there is a control character anywhere. */
static size_t path_len(const char *target, size_t len)
{
    size_t cut = len;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)target[i];

        if (c < 0x20 || c == 0x7f)
            return SIZE_MAX;
        if ((c == '?' || c == '#') && cut == len)
            cut = i;
    }
    return cut;
}

/* Targets that are no paths stay as they are: "*", and the authority of CONNECT. */
static bool is_opaque(const char *method, size_t method_len, const char *target, size_t len)
{
    if (len == 1 && target[0] == '*')
        return true;
    return method_len == 7 && memcmp(method, "CONNECT", 7) == 0 && len > 0 && target[0] != '/';
}

int sl_scope_from_http(const char *method, size_t method_len, const char *target, size_t target_len, char *buf,
                       size_t buf_size, size_t *ret_len)
{
    struct sink s = {.buf = buf, .size = buf_size, .root = method_len + 1};
    size_t len = path_len(target, target_len);
    const char *path = target;
    int error = 0;

    if (!is_token(method, method_len) || len == SIZE_MAX)
        return SL_EINVALID;
    if (method_len + 2 > buf_size)
        return SL_ENOMEM;
    memcpy(buf, method, method_len);
    buf[method_len] = ' ';
    s.len = s.root;
    if (is_opaque(method, method_len, target, len)) {
        for (size_t i = 0; i < len; i++)
            put(&s, target[i]);
    } else {
        if (len > 0 && target[0] != '/')
            path = after_authority(target, len);
        if (!path)
            return SL_EINVALID;
        if (path == target + len)
            put(&s, '/');
        error = put_path(&s, path, len - (size_t)(path - target));
    }
    if (error)
        return error;
    if (s.full)
        return SL_ENOMEM;
    *ret_len = s.len;
    return 0;
}
