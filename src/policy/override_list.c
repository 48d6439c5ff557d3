/* Lists of overrides: one allocation each, sorted, never changed. */
#include "policy/override.h"

#include "base/err.h"
#include "core/limits.h"
#include "core/shape.h"
#include "policy/text.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(const char *x, const char *y)
{
    if (!x || !y)
        return (x != NULL) - (y != NULL);
    return strcmp(x, y);
}

int sl_override_compare(const struct sl_override *x, const struct sl_override *y)
{
    int order = memcmp(x->key, y->key, x->key_len < y->key_len ? x->key_len : y->key_len);

    if (order == 0)
        order = (x->key_len > y->key_len) - (x->key_len < y->key_len);
    if (order == 0)
        order = strcmp(x->key_type, y->key_type);
    return order ? order : compare_texts(x->limit, y->limit);
}

/* Those that are known by the same keep the order in which they were given. */
static int compare_placed(const void *a, const void *b)
{
    const struct sl_override *const *x = a, *const *y = b;
    int order = sl_override_compare(*x, *y);

    return order ? order : (*x > *y) - (*x < *y);
}

/* ---- copies */

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static size_t texts_size(const struct sl_override *o)
{
    return o->key_len + 1 + text_size(o->key_type) + text_size(o->limit) + text_size(o->author) + text_size(o->comment);
}

static const char *copy_text(char **at, const char *text)
{
    size_t size = text_size(text);
    char *copy = *at;

    if (!text)
        return NULL;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}

static void copy_one(struct sl_override *to, const struct sl_override *from, char **at)
{
    char *key = *at;

    *to = *from;
    memcpy(key, from->key, from->key_len);
    key[from->key_len] = '\0';
    *at += from->key_len + 1;
    to->key = key;
    to->key_type = copy_text(at, from->key_type);
    to->limit = copy_text(at, from->limit);
    to->author = copy_text(at, from->author);
    to->comment = copy_text(at, from->comment);
}

/* `sorted`: n pointers into one array, in its order; used up. */
static int copy_sorted(const struct sl_alloc *alloc, const struct sl_override **sorted, size_t n, uint64_t revision,
                       struct sl_overrides **ret_overrides)
{
    struct sl_overrides *overrides;
    size_t size = sizeof *overrides, kept = 0;
    char *at;

    if (n)
        qsort(sorted, n, sizeof(const struct sl_override *), compare_placed);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || sl_override_compare(sorted[i], sorted[i + 1]) != 0)
            sorted[kept++] = sorted[i];
    for (size_t i = 0; i < kept; i++)
        size += sizeof(struct sl_override) + texts_size(sorted[i]);
    overrides = sl_calloc(alloc, 1, size);
    if (!overrides)
        return SL_ENOMEM;
    atomic_init(&overrides->refs, 1);
    overrides->alloc = *alloc;
    overrides->revision = revision;
    overrides->n = kept;
    overrides->list = (struct sl_override *)(overrides + 1);
    at = (char *)(overrides->list + kept);
    for (size_t i = 0; i < kept; i++)
        copy_one(&overrides->list[i], sorted[i], &at);
    *ret_overrides = overrides;
    return 0;
}

int sl_overrides_new(const struct sl_alloc *alloc, const struct sl_override *list, size_t n, uint64_t revision,
                     struct sl_overrides **ret_overrides)
{
    const struct sl_override **sorted = sl_calloc(alloc, n + 1, sizeof(const struct sl_override *));
    int err;

    if (!sorted)
        return SL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &list[i];
    err = copy_sorted(alloc, sorted, n, revision, ret_overrides);
    sl_free(alloc, sorted);
    return err;
}

int sl_overrides_with(const struct sl_alloc *alloc, const struct sl_overrides *overrides,
                      const struct sl_override *changed, bool remove, uint64_t now_us, uint64_t revision,
                      struct sl_overrides **ret_overrides)
{
    size_t n = overrides ? overrides->n : 0, kept = 0;
    struct sl_override *list = sl_calloc(alloc, n + 1, sizeof *list);
    int err;

    if (!list)
        return SL_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!sl_override_is_over(&overrides->list[i], now_us) &&
            (!changed || sl_override_compare(&overrides->list[i], changed) != 0))
            list[kept++] = overrides->list[i];
    if (changed && !remove)
        list[kept++] = *changed;
    err = sl_overrides_new(alloc, list, kept, revision, ret_overrides);
    sl_free(alloc, list);
    return err;
}

/* ---- life */

struct sl_overrides *sl_overrides_ref(struct sl_overrides *overrides)
{
    if (overrides)
        atomic_fetch_add_explicit(&overrides->refs, 1, memory_order_relaxed);
    return overrides;
}

void sl_overrides_unref(struct sl_overrides *overrides)
{
    struct sl_alloc alloc;

    if (!overrides || atomic_fetch_sub_explicit(&overrides->refs, 1, memory_order_acq_rel) != 1)
        return;
    alloc = overrides->alloc;
    sl_free(&alloc, overrides);
}

/* ---- reading */

const struct sl_override *sl_overrides_find(const struct sl_overrides *overrides, const struct sl_override *like)
{
    size_t from = 0, to = overrides ? overrides->n : 0;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = sl_override_compare(&overrides->list[middle], like);

        if (order == 0)
            return &overrides->list[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

uint64_t sl_overrides_next_end(const struct sl_overrides *overrides, uint64_t now_us)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; overrides && i < overrides->n; i++) {
        uint64_t until = overrides->list[i].until_us;

        if (until > now_us && until < next)
            next = until;
    }
    return next;
}

/* ---- checks */

static const char *check_text(const char *text, size_t len, size_t min, size_t max, const char *wrong)
{
    return len >= min && len <= max && sl_text_printable(text, len) && sl_text_utf8_prefix(text, len) == len ? NULL
                                                                                                             : wrong;
}

/* Ranges that hold whatever the algorithm is; what an algorithm adds is seen when it meets a limit. */
static const char *check_rate(const struct sl_override *o, const char **ret_field)
{
    struct sl_shape shape;
    const char *why;

    *ret_field = o->burst ? "burst" : "rate";
    if (o->rate.kind != SL_RATE_LIMITED)
        return o->burst ? "what is blocked or unlimited has no burst" : NULL;
    if (o->burst > SL_COUNT_MAX)
        return "the burst must be 1 ... 1000000000";
    return sl_shape_init(&shape, SL_TOKEN_BUCKET, &o->rate, o->burst, &why) ? why : NULL;
}

const char *sl_override_check(const struct sl_override *o, const char **ret_field)
{
    const char *wrong;

    *ret_field = "key";
    wrong = check_text(o->key, o->key_len, 1, SLUICE_KEY_MAX,
                       "the key must be 1 ... 512 bytes of UTF-8 without control characters");
    if (wrong)
        return wrong;
    *ret_field = "keyType";
    wrong = check_text(o->key_type, strlen(o->key_type), 1, SLUICE_NAME_MAX - 1,
                       "the key type must be 1 ... 63 bytes of UTF-8 without control characters");
    if (wrong)
        return wrong;
    *ret_field = "limit";
    if (o->limit && (strlen(o->limit) >= SLUICE_NAME_MAX || !sl_text_is_name(o->limit, strlen(o->limit))))
        return "the limit must be the name of one: a-z, 0-9, `.`, `_` and `-`, at most 63";
    wrong = check_rate(o, ret_field);
    if (wrong)
        return wrong;
    *ret_field = "until";
    if (o->until_us > SL_TIME_MAX_US)
        return "the time is after the year 4000";
    *ret_field = "author";
    wrong = check_text(o->author, strlen(o->author), 1, SL_OVERRIDE_AUTHOR_MAX,
                       "the author must be 1 ... 128 bytes of UTF-8 without control characters");
    if (wrong)
        return wrong;
    *ret_field = "comment";
    return check_text(o->comment, strlen(o->comment), 0, SL_OVERRIDE_COMMENT_MAX,
                      "the comment must be at most 1024 bytes of UTF-8 without control characters");
}
