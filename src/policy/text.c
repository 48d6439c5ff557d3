#include "policy/text.h"

#include "base/utf8.h"
#include "sluice/sluice.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/* Nonzero when any byte of the word is below 0x20 or equal to 0x7f. The borrow of the subtraction can only mark bytes
 * above one that is marked rightly, so "any" is exact. */
static inline uint64_t word_control(uint64_t x)
{
    uint64_t del = x ^ (ONES * 0x7f);

    return (((x - ONES * 0x20) & ~x) | ((del - ONES) & ~del)) & HIGHS;
}

bool sl_text_printable(const char *text, size_t len)
{
    uint64_t bad = 0, word;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        memcpy(&word, text + i, 8);
        bad |= word_control(word);
    }
    if (i < len && len >= 8) { /* the last eight bytes, some of them twice */
        memcpy(&word, text + len - 8, 8);
        bad |= word_control(word);
        i = len;
    }
    for (; i < len; i++)
        bad |= (unsigned char)text[i] < 0x20 || text[i] == 0x7f;
    return bad == 0;
}

bool sl_text_is_name(const char *text, size_t len)
{
    if (len == 0 || len >= SLUICE_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= '0' && text[i] <= '9') && text[i] != '.' &&
            text[i] != '_' && text[i] != '-')
            return false;
    return true;
}

size_t sl_text_utf8_prefix(const char *text, size_t len)
{
    size_t i = 0, n;

    while (i < len) {
        n = sl_utf8_len(text + i, len - i);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

const char *sl_text_quote(const char *text, size_t len, char buf[SL_QUOTE_MAX])
{
    size_t n = len <= SL_QUOTE_MAX - 4 ? len : SL_QUOTE_MAX - 4;

    for (size_t i = 0; i < n; i++)
        buf[i] = (text[i] >= 0x20 && text[i] < 0x7f) ? text[i] : '?';
    if (n < len) {
        memcpy(buf + n, "...", 3);
        n += 3;
    }
    buf[n] = '\0';
    return buf;
}

#define SUGGEST_MAX 40 /* longer words are not guessed at */

/* Optimal string alignment distance, case ignored; SUGGEST_MAX when either is too long. */
static unsigned distance(const char *x, size_t n, const char *y, size_t m)
{
    unsigned row[3][SUGGEST_MAX + 1];
    unsigned *older = row[0], *previous = row[1], *current = row[2], *swap;

    if (n > SUGGEST_MAX - 1 || m > SUGGEST_MAX - 1)
        return SUGGEST_MAX;
    for (size_t j = 0; j <= m; j++)
        previous[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        current[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            int a = tolower((unsigned char)x[i - 1]), b = tolower((unsigned char)y[j - 1]);
            unsigned best = previous[j - 1] + (a != b);

            if (previous[j] + 1 < best)
                best = previous[j] + 1;
            if (current[j - 1] + 1 < best)
                best = current[j - 1] + 1;
            if (i > 1 && j > 1 && a == tolower((unsigned char)y[j - 2]) && tolower((unsigned char)x[i - 2]) == b &&
                older[j - 2] + 1 < best)
                best = older[j - 2] + 1;
            current[j] = best;
        }
        swap = older;
        older = previous;
        previous = current;
        current = swap;
    }
    return previous[m];
}

const char *sl_text_suggest(const char *text, size_t len, const char *(*candidate)(const void *ctx, size_t i),
                            const void *ctx, size_t n)
{
    const char *best = NULL;
    unsigned best_distance = len < 2 ? 1 : len < 3 ? 2 : (unsigned)len / 3 + 1; /* the first that is too far */

    for (size_t i = 0; i < n; i++) {
        const char *name = candidate(ctx, i);
        unsigned d = distance(text, len, name, strlen(name));

        if (d < best_distance) {
            best_distance = d;
            best = name;
        }
    }
    return best;
}
