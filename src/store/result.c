#include "store/result.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name, *word, *meaning;
    enum sl_breaker_result breaker;
    bool ambiguous;
} rows[SL_RESULTS] = {
#define X(id, name, word, breaker, executed, meaning) {name, word, meaning, SL_BREAKER_##breaker, executed},
    SL_RESULT_MAP(X)
#undef X
};

const char *sl_result_name(enum sl_result result)
{
    assert(result < SL_RESULTS);
    return rows[result].name;
}

const char *sl_result_meaning(enum sl_result result)
{
    assert(result < SL_RESULTS);
    return rows[result].meaning;
}

enum sl_breaker_result sl_result_breaker(enum sl_result result)
{
    assert(result < SL_RESULTS);
    return rows[result].breaker;
}

bool sl_result_ambiguous(enum sl_result result)
{
    assert(result < SL_RESULTS);
    return rows[result].ambiguous;
}

enum sl_result sl_result_of_error(const char *text, size_t len)
{
    const char *space = memchr(text, ' ', len);
    size_t word_len = space ? (size_t)(space - text) : len;

    for (int i = 0; i < SL_RESULTS; i++) {
        if (word_len && word_len == strlen(rows[i].word) && memcmp(text, rows[i].word, word_len) == 0)
            return (enum sl_result)i;
    }
    return SL_RESULT_ERROR;
}
