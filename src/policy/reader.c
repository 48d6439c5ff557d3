#include "policy/reader.h"

#include "core/rate.h"
#include "policy/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_MAX 400

/* ---- findings --------------------------------------------------------------------------------------------------- */

bool sl_read_error(struct sl_reader *r, const struct sl_node *node, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, node->line, node->column, r->path.text, "%s", message);
    return false;
}

void sl_read_warning(struct sl_reader *r, const struct sl_node *node, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    sl_diags_add(r->diags, SL_DIAG_WARNING, r->file, node->line, node->column, r->path.text, "%s", message);
}

const char *sl_read_hint(const char *text, size_t len, struct sl_names names, char buf[SL_HINT_MAX])
{
    const char *best = sl_text_suggest(text, len, names.at, names.ctx, names.n);

    buf[0] = '\0';
    if (best)
        snprintf(buf, SL_HINT_MAX, "; did you mean `%.64s`?", best);
    return buf;
}

/* ---- mappings by table ------------------------------------------------------------------------------------------ */

static const char *field_name(const void *ctx, size_t i)
{
    return ((const struct sl_field *)ctx)[i].name;
}

static unsigned find_field(const struct sl_fields *fields, const struct sl_node *key)
{
    unsigned i = 0;

    while (i < fields->n &&
           (strlen(fields->list[i].name) != key->len || memcmp(fields->list[i].name, key->text, key->len) != 0))
        i++;
    return i;
}

static bool unknown_field(struct sl_reader *r, const struct sl_node *key, const struct sl_fields *fields,
                          struct sl_given *given)
{
    struct sl_names names = {.at = field_name, .ctx = fields->list, .n = fields->n};
    char hint[SL_HINT_MAX];
    const char *near;

    if (!sl_diags_takes(r->diags, SL_DIAG_ERROR)) { /* nothing would be said of them, nor of what is missing */
        given->meant = UINT32_MAX;
        return sl_read_error(r, key, "unknown field");
    }
    near = sl_text_suggest(key->text, key->len, names.at, names.ctx, names.n);
    for (unsigned i = 0; i < fields->n; i++)
        if (!near || near == fields->list[i].name)
            given->meant |= UINT32_C(1) << i;
    return sl_read_error(r, key, "unknown field of %s%s", fields->what, sl_read_hint(key->text, key->len, names, hint));
}

static bool read_member(struct sl_reader *r, const struct sl_node *value, const struct sl_fields *fields, void *target,
                        struct sl_given *given)
{
    size_t base = sl_path_field(&r->path, value->key->text, value->key->len);
    unsigned i = find_field(fields, value->key);
    bool ok;

    if (i == fields->n) {
        ok = unknown_field(r, value->key, fields, given);
    } else if (given->at[i]) {
        ok = false; /* a duplicate, which the tree's builder has reported */
    } else {
        given->at[i] = value;
        ok = fields->list[i].read(r, value, &fields->list[i], target);
        given->ok |= (uint32_t)ok << i;
    }
    sl_path_cut(&r->path, base);
    return ok;
}

bool sl_read_fields(struct sl_reader *r, const struct sl_node *node, const struct sl_fields *fields, void *target,
                    struct sl_given *ret_given)
{
    bool ok = true;

    *ret_given = (struct sl_given){.ok = 0};
    if (node->kind != SL_NODE_MAP)
        return sl_read_error(r, node, "expected %s: a mapping of fields", fields->what);
    for (const struct sl_node *value = node->first; value; value = value->next)
        ok &= read_member(r, value, fields, target, ret_given);
    for (unsigned i = 0; i < fields->n; i++) {
        const struct sl_field *field = &fields->list[i];

        if (!fields->partial && !ret_given->at[i] && !(ret_given->meant >> i & 1) &&
            !strcmp(field->fallback, "required")) {
            size_t base = sl_path_field(&r->path, field->name, strlen(field->name));

            ok = sl_read_error(r, node, "missing: %s needs `%s` (%s)", fields->what, field->name, field->type);
            sl_path_cut(&r->path, base);
        }
    }
    return ok;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static const char *kind_name(const struct sl_node *node)
{
    return node->kind == SL_NODE_MAP ? "a mapping" : node->kind == SL_NODE_LIST ? "a list" : "a single value";
}

bool sl_read_is_list(struct sl_reader *r, const struct sl_node *node)
{
    return node->kind == SL_NODE_LIST || sl_read_error(r, node, "expected a list, [...], not %s", kind_name(node));
}

bool sl_read_is_map(struct sl_reader *r, const struct sl_node *node)
{
    return node->kind == SL_NODE_MAP || sl_read_error(r, node, "expected a mapping, {...}, not %s", kind_name(node));
}

static bool is_null(const struct sl_node *node)
{
    return node->plain && (node->len == 0 || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

bool sl_read_is_text(struct sl_reader *r, const struct sl_node *node, size_t max_len)
{
    if (node->kind != SL_NODE_SCALAR)
        return sl_read_error(r, node, "expected a single value, not %s", kind_name(node));
    if (is_null(node) || node->len == 0)
        return sl_read_error(r, node, "the value is missing");
    if (node->len > max_len)
        return sl_read_error(r, node, "longer than %zu bytes", max_len);
    return sl_text_printable(node->text, node->len) || sl_read_error(r, node, "control characters are not allowed");
}

void *sl_read_alloc(struct sl_reader *r, size_t n, size_t size)
{
    void *p = sl_arena_calloc(r->arena, n, size);

    if (!p)
        r->nomem = true;
    return p;
}

char *sl_read_copy(struct sl_reader *r, const struct sl_node *node)
{
    char *copy = sl_arena_strndup(r->arena, node->text, node->len);

    if (!copy)
        r->nomem = true;
    return copy;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

bool sl_read_number(struct sl_reader *r, const struct sl_node *node, int64_t min, int64_t max, int64_t *ret_number)
{
    char quoted[SL_QUOTE_MAX];
    int64_t number = 0;

    if (!sl_read_is_text(r, node, 4096))
        return false;
    if (!node->plain)
        return sl_read_error(r, node, "expected a whole number, not a string; remove the quotes");
    for (size_t i = 0; i < node->len; i++) {
        if (node->text[i] < '0' || node->text[i] > '9')
            return sl_read_error(r, node, "expected a whole number from %lld to %lld, not `%s`", (long long)min,
                                 (long long)max, sl_text_quote(node->text, node->len, quoted));
        number = number * 10 + (node->text[i] - '0');
        if (number > max)
            return sl_read_error(r, node, "at most %lld", (long long)max);
    }
    if (number < min)
        return sl_read_error(r, node, "at least %lld", (long long)min);
    *ret_number = number;
    return true;
}

bool sl_read_decimal(const char *text, size_t len, unsigned decimals, uint64_t *ret_number)
{
    uint64_t number = 0;
    unsigned after = 0;
    bool point = false;

    if (len == 0 || text[0] == '.' || text[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || (point && ++after > decimals) || number > UINT64_C(1000000000000))
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    for (; after < decimals; after++)
        number *= 10;
    *ret_number = number;
    return true;
}

static const char *word_at(const void *ctx, size_t i)
{
    return ((const char *const *)ctx)[i];
}

static size_t list_words(const char *const *words, char *buf, size_t size)
{
    size_t n = 0, len = 0;

    buf[0] = '\0';
    for (; words[n]; n++)
        if (len < size)
            len += (size_t)snprintf(buf + len, size - len, "%s`%s`", n ? ", " : "", words[n]);
    return n;
}

bool sl_read_word(struct sl_reader *r, const struct sl_node *node, const char *const *words, int *ret_index)
{
    char quoted[SL_QUOTE_MAX], hint[SL_HINT_MAX], all[200];
    size_t n = list_words(words, all, sizeof all);
    struct sl_names names = {.at = word_at, .ctx = words, .n = n};

    if (!sl_read_is_text(r, node, 4096))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(node->text, words[i])) {
            *ret_index = (int)i;
            return true;
        }
    return sl_read_error(r, node, "`%s` is not one of %s%s", sl_text_quote(node->text, node->len, quoted), all,
                         sl_read_hint(node->text, node->len, names, hint));
}

/* ---- reading functions ------------------------------------------------------------------------------------------ */

static void *target_of(const struct sl_field *field, void *target)
{
    return (char *)target + field->offset;
}

bool sl_read_u32(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    int64_t number;

    if (!sl_read_number(r, value, field->min, field->max, &number))
        return false;
    *(uint32_t *)target_of(field, target) = (uint32_t)number;
    return true;
}

bool sl_read_i64(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    return sl_read_number(r, value, field->min, field->max, target_of(field, target));
}

bool sl_read_bool(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    static const char *const words[] = {"false", "true", NULL};
    int index;

    if (!sl_read_word(r, value, words, &index))
        return false;
    *(bool *)target_of(field, target) = index;
    return true;
}

bool sl_read_text(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    char *copy;

    if (!sl_read_is_text(r, value, (size_t)field->max))
        return false;
    copy = sl_read_copy(r, value);
    *(const char **)target_of(field, target) = copy;
    return copy != NULL;
}

bool sl_read_name(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    char quoted[SL_QUOTE_MAX];

    if (!sl_read_is_text(r, value, (size_t)field->max))
        return false;
    if (!sl_text_is_name(value->text, value->len))
        return sl_read_error(r, value, "`%s` is not a name: use only a-z, 0-9, `.`, `_` and `-`",
                             sl_text_quote(value->text, value->len, quoted));
    return sl_read_text(r, value, field, target);
}

bool sl_read_enum(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    return sl_read_word(r, value, field->detail, target_of(field, target));
}

bool sl_read_duration(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    uint64_t us;
    const char *why;

    if (!sl_read_is_text(r, value, 4096))
        return false;
    if (sl_duration_parse(value->text, value->len, &us, &why) != 0)
        return sl_read_error(r, value, "%s", why);
    if (us < (uint64_t)field->min || us > (uint64_t)field->max)
        return sl_read_error(r, value, "outside its range: %s", field->type);
    *(uint64_t *)target_of(field, target) = us;
    return true;
}

bool sl_read_percent(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    char quoted[SL_QUOTE_MAX];
    uint64_t number;

    if (!sl_read_is_text(r, value, 4096))
        return false;
    if (value->text[value->len - 1] != '%' || !sl_read_decimal(value->text, value->len - 1, 0, &number))
        return sl_read_error(r, value, "expected a percentage such as `80%%`, not `%s`",
                             sl_text_quote(value->text, value->len, quoted));
    if (number < (uint64_t)field->min || number > (uint64_t)field->max)
        return sl_read_error(r, value, "outside its range: %s", field->type);
    *(uint32_t *)target_of(field, target) = (uint32_t)number;
    return true;
}

bool sl_read_nested(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_given given;

    return sl_read_fields(r, value, field->detail, target_of(field, target), &given);
}

static bool is_repeated(const struct sl_texts *texts, const struct sl_node *node)
{
    for (size_t i = 0; i < texts->n; i++)
        if (texts->list[i].len == node->len && !memcmp(texts->list[i].text, node->text, node->len))
            return true;
    return false;
}

bool sl_read_texts(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target)
{
    struct sl_texts texts = {.n = 0};
    size_t i = 0;
    bool ok = true;

    if (!sl_read_is_list(r, value))
        return false;
    if (value->n < (size_t)field->min)
        return sl_read_error(r, value, "the list is empty; it needs at least %lld", (long long)field->min);
    texts.list = sl_read_alloc(r, value->n, sizeof *texts.list);
    if (!texts.list)
        return false;
    for (const struct sl_node *item = value->first; item; item = item->next, i++) {
        size_t base = sl_path_index(&r->path, i);
        const char *copy = NULL;

        if (!sl_read_is_text(r, item, (size_t)field->max))
            ok = false;
        else if (is_repeated(&texts, item))
            ok = sl_read_error(r, item, "stands in this list twice");
        else if ((copy = sl_read_copy(r, item)) != NULL)
            texts.list[texts.n++] = (struct sl_placed_text){.text = copy, .len = item->len, .node = item};
        sl_path_cut(&r->path, base);
    }
    *(struct sl_texts *)target_of(field, target) = texts;
    return ok && !r->nomem;
}
