/* keys_file: `key,tier` a line. Findings carry the file's own name and lines.
 *
 * A field may stand in double quotes ("" is one quote inside), as spreadsheets write them. Empty lines and lines that
 * begin with # are skipped; a key that begins with # is written in quotes. The mark that some programs put in front of
 * UTF-8 is no part of the first key. */
#include "policy/draft.h"

#include "policy/text.h"

#include <string.h>

struct line {
    const char *text;
    size_t len, at; /* at: what is read so far */
    unsigned number;
};

struct parser {
    struct sl_reader *r;
    const char *file;
    struct line line;
};

static bool fail(const struct parser *p, const char *message)
{
    sl_diags_add(p->r->diags, SL_DIAG_ERROR, p->file, p->line.number, (unsigned)p->line.at + 1, "", "%s", message);
    return false;
}

/* The rest of a quoted field, unescaped, after its opening quote. */
static bool read_quoted(struct parser *p, char *out, size_t *ret_len)
{
    struct line *l = &p->line;
    size_t n = 0;

    for (l->at++; l->at < l->len; l->at++) {
        if (l->text[l->at] == '"') {
            if (l->at + 1 >= l->len || l->text[l->at + 1] != '"') {
                l->at++;
                *ret_len = n;
                return true;
            }
            l->at++;
        }
        out[n++] = l->text[l->at];
    }
    return fail(p, "the quoted text is not closed on its line");
}

/* One field up to a comma or the line's end. `out` has room for the whole line. */
static bool read_field(struct parser *p, char *out, size_t *ret_len)
{
    struct line *l = &p->line;
    size_t start = l->at, n;

    if (l->at < l->len && l->text[l->at] == '"')
        return read_quoted(p, out, ret_len);
    while (l->at < l->len && l->text[l->at] != ',')
        l->at++;
    n = l->at - start;
    memcpy(out, l->text + start, n);
    *ret_len = n;
    return true;
}

static bool check_text(const struct parser *p, const char *what_empty, const char *what_long, const char *text,
                       size_t len, size_t max)
{
    if (len == 0)
        return fail(p, what_empty);
    if (len > max)
        return fail(p, what_long);
    return sl_text_printable(text, len) || fail(p, "control characters are not allowed");
}

static char *copy(struct parser *p, const char *text, size_t len)
{
    char *result = sl_arena_strndup(p->r->arena, text, len);

    if (!result)
        p->r->nomem = true;
    return result;
}

#define ROW_MAX (2 * (SLUICE_KEY_MAX + SLUICE_NAME_MAX) + 8)

static bool read_line(struct parser *p, struct sl_key_draft *ret_key)
{
    char key[ROW_MAX], tier[ROW_MAX];
    size_t key_len, tier_len;
    struct line *l = &p->line;

    if (l->len > ROW_MAX)
        return fail(p, "the line is too long for a key of 512 and a tier of 63 bytes");
    if (!read_field(p, key, &key_len) ||
        !check_text(p, "the key is empty", "the key is longer than 512 bytes", key, key_len, SLUICE_KEY_MAX))
        return false;
    if (l->at >= l->len || l->text[l->at] != ',')
        return fail(p, "expected `key,tier`; the tier is missing");
    l->at++;
    if (!read_field(p, tier, &tier_len) ||
        !check_text(p, "the tier is empty", "the tier is longer than 63 bytes", tier, tier_len, SLUICE_NAME_MAX - 1))
        return false;
    if (l->at < l->len)
        return fail(p, "expected `key,tier`; put a key that has a comma in double quotes");
    *ret_key = (struct sl_key_draft){.key_len = key_len, .file = p->file, .line = l->number, .column = 1};
    ret_key->key = copy(p, key, key_len);
    ret_key->tier = copy(p, tier, tier_len);
    return !p->r->nomem;
}

/* Takes the next line off the text, without its end. */
static struct line next_line(const char **text, size_t *left, unsigned number)
{
    const char *end = memchr(*text, '\n', *left);
    struct line line = {.text = *text, .len = end ? (size_t)(end - *text) : *left, .number = number};
    size_t used = end ? line.len + 1 : line.len;

    *text += used;
    *left -= used;
    if (line.len && line.text[line.len - 1] == '\r')
        line.len--;
    return line;
}

static bool is_row(const struct line *line)
{
    return line->len && line->text[0] != '#';
}

/* How many there is room needed for: 64 MiB of empty lines need none. */
static size_t count_rows(const char *text, size_t len)
{
    size_t n = 0;

    while (len) {
        struct line line = next_line(&text, &len, 0);

        n += is_row(&line);
    }
    return n;
}

static size_t mark_len(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

void sl_keys_file_parse(struct sl_reader *r, const char *text, size_t len, const char *file,
                        struct sl_tiers_draft *tiers)
{
    struct parser p = {.r = r, .file = file};
    struct sl_key_draft *keys;
    unsigned number = 0;
    size_t mark;

    mark = mark_len(text, len);
    text += mark;
    len -= mark;
    keys = sl_read_alloc(r, tiers->n_keys + count_rows(text, len), sizeof *keys);
    if (!keys)
        return;
    if (tiers->n_keys)
        memcpy(keys, tiers->keys, tiers->n_keys * sizeof *keys);
    tiers->keys = keys;
    while (len && !r->nomem) {
        p.line = next_line(&text, &len, ++number);
        if (is_row(&p.line) && read_line(&p, &tiers->keys[tiers->n_keys]))
            tiers->n_keys++;
    }
}
