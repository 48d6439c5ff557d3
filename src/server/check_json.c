#include "server/check_json.h"

#include "base/err.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct reader {
    char *start, *at, *end;
    struct sl_check_input *in;
    struct sl_check_error *error;
    size_t n_labels;
};

enum member { M_KEY, M_SCOPE, M_COST, M_KEY_TYPE, M_TIER, M_ADDRESS, M_LABELS, MEMBERS };

static const char *const member_names[MEMBERS] = {
    [M_KEY] = "key",   [M_SCOPE] = "scope",     [M_COST] = "cost",     [M_KEY_TYPE] = "keyType",
    [M_TIER] = "tier", [M_ADDRESS] = "address", [M_LABELS] = "labels",
};

/* Characters of a string that stand for themselves: printable ASCII but the quote and the backslash. */
static const uint8_t plain[256] = {
    [' '] = 1,
    [0x21] = 1,
    [0x23 ... 0x5b] = 1,
    [0x5d ... 0x7f] = 1,
};

static int malformed(struct reader *r, const char *what)
{
    r->error->field[0] = '\0';
    snprintf(r->error->detail, sizeof r->error->detail, "Malformed JSON at byte %zu: %s.", (size_t)(r->at - r->start),
             what);
    return SL_EINVALID;
}

/* Names the member at fault, with its place in a batch. */
static __attribute__((format(printf, 3, 4))) int wrong(struct reader *r, const char *member, const char *format, ...)
{
    va_list args;
    char index[24] = "";

    if (r->in->batch)
        snprintf(index, sizeof index, "[%zu]%s", r->in->n, *member ? "." : "");
    snprintf(r->error->field, sizeof r->error->field, "%s%s", index, member);
    va_start(args, format);
    vsnprintf(r->error->detail, sizeof r->error->detail, format, args);
    va_end(args);
    return SL_EINVALID;
}

static inline void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

/* Skips space, then eats c. */
static inline bool eat(struct reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static char *utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* Four hex digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* \uXXXX, `at` on the u; a high surrogate must be followed by a low one. */
static int read_unicode(struct reader *r, char **to)
{
    int32_t c = hex4(r->at + 1, r->end), low;

    if (c < 0)
        return malformed(r, "\\u needs four hex digits");
    if (c == 0)
        return malformed(r, "\\u0000 is not accepted");
    r->at += 5;
    if (c >= 0xdc00 && c <= 0xdfff)
        return malformed(r, "a low surrogate without a high one");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u' || (low = hex4(r->at + 2, r->end)) < 0xdc00 ||
            low > 0xdfff)
            return malformed(r, "a high surrogate without a low one");
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = utf8_put(*to, (uint32_t)c);
    return 0;
}

/* An escape, `at` behind the backslash. */
static int read_escape(struct reader *r, char **to)
{
    static const char meaning[256] = {
        ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    char c;

    if (r->at == r->end)
        return malformed(r, "the text ends inside a string");
    if (*r->at == 'u')
        return read_unicode(r, to);
    c = meaning[(unsigned char)*r->at];
    if (!c)
        return malformed(r, "an escape that JSON does not know");
    r->at++;
    *(*to)++ = c;
    return 0;
}

/* The rest of a string that is not plain ASCII throughout: resolves escapes in place, checks UTF-8. */
static int read_string_slow(struct reader *r, char *text, size_t *ret_len)
{
    char *to = r->at;

    while (r->at < r->end) {
        unsigned char c = (unsigned char)*r->at;
        size_t n;
        int e;

        if (c == '"') {
            *ret_len = (size_t)(to - text);
            r->at++;
            return 0;
        }
        if (c < 0x20)
            return malformed(r, "a control character inside a string");
        if (c == '\\') {
            r->at++;
            if ((e = read_escape(r, &to)))
                return e;
            continue;
        }
        n = sl_utf8_len(r->at, (size_t)(r->end - r->at));
        if (!n)
            return malformed(r, "invalid UTF-8");
        memmove(to, r->at, n);
        to += n;
        r->at += n;
    }
    return malformed(r, "the text ends inside a string");
}

/* A string, `at` behind its opening quote. */
static inline int read_string(struct reader *r, const char **ret_text, size_t *ret_len)
{
    char *text = r->at;
    char *p = text;

    while (p < r->end && plain[(unsigned char)*p])
        p++;
    r->at = p;
    *ret_text = text;
    if (p < r->end && *p == '"') {
        *ret_len = (size_t)(p - text);
        r->at++;
        return 0;
    }
    return read_string_slow(r, text, ret_len);
}

static int read_string_member(struct reader *r, enum member m, const char **ret_text, size_t *ret_len)
{
    if (!eat(r, '"'))
        return r->at == r->end ? malformed(r, "the text ends where a value should be")
                               : wrong(r, member_names[m], "`%s` must be a string.", member_names[m]);
    return read_string(r, ret_text, ret_len);
}

/* A whole number in the range of cost. */
static int read_cost(struct reader *r, int64_t *ret_cost)
{
    bool negative = false;
    int64_t v = 0;
    char *digits;

    skip_space(r);
    if (r->at < r->end && *r->at == '-') {
        negative = true;
        r->at++;
    }
    digits = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        v = v > SLUICE_COST_MAX ? v : v * 10 + (*r->at - '0'); /* stays above the maximum once there */
        r->at++;
    }
    if (r->at == digits && r->at == r->end)
        return malformed(r, "the text ends where a value should be");
    if (r->at == digits || (r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E')))
        return wrong(r, "cost", "`cost` must be a whole number.");
    if (*digits == '0' && r->at - digits > 1)
        return malformed(r, "a number that begins with 0");
    if (v > SLUICE_COST_MAX || (negative && v > 0))
        return wrong(r, "cost", "`cost` must be between 0 and 1000000000.");
    *ret_cost = v;
    return 0;
}

static int add_label(struct reader *r, struct sluice_request *q, const struct sluice_label *label)
{
    for (size_t i = 0; i < q->n_labels; i++)
        if (q->labels[i].name_len == label->name_len && !memcmp(q->labels[i].name, label->name, label->name_len))
            return wrong(r, "labels", "The same label is given twice.");
    if (q->n_labels == SLUICE_LABELS_MAX)
        return wrong(r, "labels", "More than %d labels.", SLUICE_LABELS_MAX);
    r->in->labels[r->n_labels++] = *label;
    q->n_labels++;
    return 0;
}

static int read_labels(struct reader *r, struct sluice_request *q)
{
    int e;

    if (!eat(r, '{'))
        return r->at == r->end ? malformed(r, "the text ends where a value should be")
                               : wrong(r, "labels", "`labels` must be an object of strings.");
    q->labels = r->in->labels + r->n_labels;
    if (eat(r, '}'))
        return 0;
    do {
        struct sluice_label label;

        if (!eat(r, '"'))
            return malformed(r, "a label's name is missing");
        if ((e = read_string(r, &label.name, &label.name_len)))
            return e;
        if (!eat(r, ':'))
            return malformed(r, "`:` is missing");
        if (!eat(r, '"'))
            return r->at == r->end ? malformed(r, "the text ends where a value should be")
                                   : wrong(r, "labels", "A label's value must be a string.");
        if ((e = read_string(r, &label.value, &label.value_len)) || (e = add_label(r, q, &label)))
            return e;
    } while (eat(r, ','));
    return eat(r, '}') ? 0 : malformed(r, "`,` or `}` is missing");
}

static enum member find_member(const char *name, size_t len)
{
    for (enum member m = 0; m < MEMBERS; m++)
        if (member_names[m][0] == name[0] && strlen(member_names[m]) == len && !memcmp(member_names[m], name, len))
            return m;
    return MEMBERS;
}

/* A member that is not ours: named when its name is harmless. */
static int unknown_member(struct reader *r, const char *name, size_t len)
{
    char text[33] = "";

    if (len && len < sizeof text &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") >= len) {
        memcpy(text, name, len);
        text[len] = '\0';
    }
    return wrong(r, text, "Unknown member; known are key, scope, cost, keyType, tier, address and labels.");
}

static int read_value(struct reader *r, enum member m, struct sluice_request *q)
{
    switch (m) {
    case M_KEY:
        return read_string_member(r, m, &q->key, &q->key_len);
    case M_SCOPE:
        return read_string_member(r, m, &q->scope, &q->scope_len);
    case M_COST:
        return read_cost(r, &q->cost);
    case M_KEY_TYPE:
        return read_string_member(r, m, &q->key_type, &q->key_type_len);
    case M_TIER:
        return read_string_member(r, m, &q->tier, &q->tier_len);
    case M_ADDRESS:
        return read_string_member(r, m, &q->address, &q->address_len);
    default:
        return read_labels(r, q);
    }
}

/* The members of an object, `at` behind its brace. */
static int read_members(struct reader *r, struct sluice_request *q)
{
    unsigned seen = 0;
    const char *name;
    size_t len;
    enum member m;
    int e;

    do {
        if (!eat(r, '"'))
            return malformed(r, "a member's name is missing");
        if ((e = read_string(r, &name, &len)))
            return e;
        if (!eat(r, ':'))
            return malformed(r, "`:` is missing");
        m = len ? find_member(name, len) : MEMBERS;
        if (m == MEMBERS)
            return unknown_member(r, name, len);
        if (seen & 1u << m)
            return wrong(r, member_names[m], "`%s` is given twice.", member_names[m]);
        seen |= 1u << m;
        if ((e = read_value(r, m, q)))
            return e;
    } while (eat(r, ','));
    if (!eat(r, '}'))
        return malformed(r, "`,` or `}` is missing");
    return seen & 1u << M_KEY ? 0 : wrong(r, "key", "`key` is missing.");
}

static int read_object(struct reader *r)
{
    struct sluice_request *q = &r->in->requests[r->in->n];
    int e;

    *q = (struct sluice_request)SLUICE_REQUEST_INIT;
    if (!eat(r, '{'))
        return r->at == r->end ? malformed(r, "the text ends where a value should be")
                               : wrong(r, "",
                                       r->in->batch ? "Every element must be an object."
                                                    : "The body must be an object or an array of objects.");
    if (eat(r, '}'))
        return wrong(r, "key", "`key` is missing.");
    if ((e = read_members(r, q)))
        return e;
    r->in->n++;
    return 0;
}

static int read_array(struct reader *r)
{
    int e;

    r->in->batch = true;
    if (eat(r, ']')) {
        r->in->batch = false;
        return wrong(r, "", "An empty array: a batch has 1 to %d elements.", SLUICE_BATCH_MAX);
    }
    do {
        if (r->in->n == SLUICE_BATCH_MAX)
            return wrong(r, "", "A batch has at most %d elements.", SLUICE_BATCH_MAX);
        if ((e = read_object(r)))
            return e;
    } while (eat(r, ','));
    return eat(r, ']') ? 0 : malformed(r, "`,` or `]` is missing");
}

int sl_check_parse(char *body, size_t len, struct sl_check_input *ret_input, struct sl_check_error *ret_error)
{
    struct reader r = {.start = body, .at = body, .end = body + len, .in = ret_input, .error = ret_error};
    int e;

    ret_input->batch = false;
    ret_input->n = 0;
    e = eat(&r, '[') ? read_array(&r) : read_object(&r);
    if (e)
        return e;
    skip_space(&r);
    return r.at == r.end ? 0 : malformed(&r, "something follows the end of the value");
}
