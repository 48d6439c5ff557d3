#include "policy/glob.h"

#include <string.h>

struct sl_glob sl_glob_init(const char *text, size_t len)
{
    struct sl_glob glob = {.text = text, .len = len, .prefix_len = len};

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '*' && text[i] != '?')
            glob.literal_len++;
        else if (glob.prefix_len == len)
            glob.prefix_len = i;
    }
    return glob;
}

/* The usual greedy walk: on a mismatch the latest `*` takes one byte more. Only the latest need be retried, because an
 * earlier one could only move the later literals to the right. */
bool sl_glob_match(const char *glob, size_t glob_len, const char *text, size_t text_len)
{
    size_t g = 0, t = 0, star = glob_len, star_text = 0;

    while (t < text_len) {
        if (g < glob_len && glob[g] == '*') {
            star = g++;
            star_text = t;
        } else if (g < glob_len && (glob[g] == '?' || glob[g] == text[t])) {
            g++, t++;
        } else if (star < glob_len) {
            g = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (g < glob_len && glob[g] == '*')
        g++;
    return g == glob_len;
}

/* As a match of the narrow glob's own text, whose `*` only a `*` may take and whose `?` only a `?` or `*`. */
bool sl_glob_covers(const char *wide, size_t wide_len, const char *narrow, size_t narrow_len)
{
    size_t w = 0, n = 0, star = wide_len, star_narrow = 0;

    while (n < narrow_len) {
        if (w < wide_len && wide[w] == '*') {
            star = w++;
            star_narrow = n;
        } else if (w < wide_len && narrow[n] != '*' && (wide[w] == '?' || wide[w] == narrow[n])) {
            w++, n++;
        } else if (star < wide_len) {
            w = star + 1;
            n = ++star_narrow;
        } else {
            return false;
        }
    }
    while (w < wide_len && wide[w] == '*')
        w++;
    return w == wide_len;
}

/* Globs whose literal beginnings differ share no text: the usual case, and cheap. */
static bool prefixes_differ(const struct sl_glob *x, const struct sl_glob *y)
{
    size_t n = x->prefix_len < y->prefix_len ? x->prefix_len : y->prefix_len;

    return memcmp(x->text, y->text, n) != 0;
}

/* reach[j]: some text is matched by the first i bytes of x and the first j of y. */
static bool overlap(const char *x, size_t x_len, const char *y, size_t y_len)
{
    bool reach[SL_GLOB_OVERLAP_MAX + 1], before[SL_GLOB_OVERLAP_MAX + 1];

    reach[0] = true;
    for (size_t j = 1; j <= y_len; j++)
        reach[j] = reach[j - 1] && y[j - 1] == '*';
    for (size_t i = 1; i <= x_len; i++) {
        char a = x[i - 1];

        memcpy(before, reach, y_len + 1);
        reach[0] = before[0] && a == '*';
        for (size_t j = 1; j <= y_len; j++) {
            char b = y[j - 1];

            if (a == '*' || b == '*')
                reach[j] = before[j] || reach[j - 1];
            else
                reach[j] = before[j - 1] && (a == b || a == '?' || b == '?');
        }
    }
    return reach[y_len];
}

bool sl_glob_overlap(const char *x, size_t x_len, const char *y, size_t y_len)
{
    struct sl_glob a = sl_glob_init(x, x_len), b = sl_glob_init(y, y_len);

    if (prefixes_differ(&a, &b))
        return false;
    if (sl_glob_is_literal(&a))
        return sl_glob_match(y, y_len, x, x_len);
    if (sl_glob_is_literal(&b))
        return sl_glob_match(x, x_len, y, y_len);
    return x_len > SL_GLOB_OVERLAP_MAX || y_len > SL_GLOB_OVERLAP_MAX || overlap(x, x_len, y, y_len);
}
