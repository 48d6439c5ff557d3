#include "policy/yaml.h"

#include "base/err.h"
#include "policy/path.h"
#include "policy/text.h"

#include <assert.h>
#include <libfyaml.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- before the parser ------------------------------------------------------------------------------------------ */

struct place {
    unsigned line, column;
};

static struct place place_of(const char *text, size_t at)
{
    struct place p = {.line = 1, .column = 1};

    for (size_t i = 0; i < at; i++) {
        p.column++;
        if (text[i] == '\n')
            p = (struct place){.line = p.line + 1, .column = 1};
    }
    return p;
}

static int refuse(struct sl_diags *diags, const char *file, struct place p, const char *message)
{
    sl_diags_add(diags, SL_DIAG_ERROR, file, p.line, p.column, "", "%s", message);
    return SL_EPOLICY;
}

/* What one line may not be. Directives are refused here: libfyaml 0.7.12 takes quadratic time over a long one. */
static const char *bad_line(const char *line, size_t len, size_t *ret_at)
{
    *ret_at = 0;
    if (len > SL_YAML_LINE_MAX) {
        *ret_at = SL_YAML_LINE_MAX;
        return "the line is longer than 65536 bytes";
    }
    if (len && line[0] == '%')
        return "YAML directives are not supported";
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)line[i] < 0x20 && line[i] != '\t' && line[i] != '\r') || line[i] == 0x7f) {
            *ret_at = i;
            return "a control character; a policy is text";
        }
    return NULL;
}

/* Cheap checks of the bytes, so that the parser only sees text of bounded lines. */
static int check_bytes(const char *text, size_t len, const char *file, struct sl_diags *diags)
{
    size_t good = sl_text_utf8_prefix(text, len), at;
    unsigned line = 1;

    if (good < len)
        return refuse(diags, file, place_of(text, good), "a byte that is not UTF-8; a policy is UTF-8 text");
    for (size_t start = 0; start < len; line++) {
        const char *end = memchr(text + start, '\n', len - start);
        size_t line_len = end ? (size_t)(end - text) - start : len - start;
        const char *why = bad_line(text + start, line_len, &at);

        if (why)
            return refuse(diags, file, (struct place){line, (unsigned)at + 1}, why);
        start += line_len + 1;
    }
    return 0;
}

/* ---- building --------------------------------------------------------------------------------------------------- */

struct level {
    struct sl_node *node, *last, *key; /* the container, its latest member, a key that waits for its value */
};

struct builder {
    struct sl_arena *arena;
    struct sl_diags *diags;
    const char *file;
    struct sl_node *root;
    struct level levels[SL_YAML_DEPTH_MAX];
    unsigned depth, n_documents;
    size_t n_nodes;
};

/* The name of the place that is being built. */
static void current_path(const struct builder *b, struct sl_path *path)
{
    *path = (struct sl_path){.len = 0};
    for (unsigned i = 0; i < b->depth; i++) {
        const struct level *level = &b->levels[i];

        if (level->node->kind == SL_NODE_LIST && level->node->n)
            sl_path_index(path, level->node->n - 1);
        else if (level->last)
            sl_path_field(path, level->last->key->text, level->last->key->len);
    }
}

static int fail_at(struct builder *b, const struct sl_node *node, const char *message)
{
    return refuse(b->diags, b->file, (struct place){node->line, node->column}, message);
}

static int compare_keys(const void *x, const void *y)
{
    const struct sl_node *a = (*(struct sl_node *const *)x)->key, *b = (*(struct sl_node *const *)y)->key;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    if (order == 0)
        order = (a->len > b->len) - (a->len < b->len);
    if (order == 0)
        order = (a->line > b->line) - (a->line < b->line);
    return order ? order : (a->column > b->column) - (a->column < b->column);
}

/* Sorts the members of a closed mapping to find equal keys; each repetition is an error that names the line of the
 * first. */
static int check_duplicates(struct builder *b, const struct sl_node *map)
{
    struct sl_node **sorted;
    struct sl_path path;
    size_t i = 0, first = 0, base;

    if (map->n < 2)
        return 0;
    sorted = sl_reallocarray(&b->arena->alloc, NULL, map->n, sizeof(struct sl_node *));
    if (!sorted)
        return SL_ENOMEM;
    for (struct sl_node *member = map->first; member; member = member->next)
        sorted[i++] = member;
    current_path(b, &path);
    qsort(sorted, map->n, sizeof(struct sl_node *), compare_keys);
    for (i = 1; i < map->n; i++) {
        const struct sl_node *x = sorted[first]->key, *y = sorted[i]->key;
        char quoted[SL_QUOTE_MAX];

        if (x->len != y->len || memcmp(x->text, y->text, x->len) != 0) {
            first = i;
            continue;
        }
        if (!sl_diags_takes(b->diags, SL_DIAG_ERROR)) {
            sl_diags_add(b->diags, SL_DIAG_ERROR, b->file, y->line, y->column, "", "duplicate key");
            continue;
        }
        base = sl_path_field(&path, y->text, y->len);
        sl_diags_add(b->diags, SL_DIAG_ERROR, b->file, y->line, y->column, path.text,
                     "duplicate key `%s`; it stands first in line %u", sl_text_quote(y->text, y->len, quoted), x->line);
        sl_path_cut(&path, base);
    }
    sl_free(&b->arena->alloc, sorted);
    return 0;
}

static void add_member(struct level *level, struct sl_node *node)
{
    node->key = level->key;
    level->key = NULL;
    if (level->last)
        level->last->next = node;
    else
        level->node->first = node;
    level->last = node;
    level->node->n++;
}

/* Puts a finished scalar or a container that begins where it belongs. */
static int place_node(struct builder *b, struct sl_node *node)
{
    struct level *level = b->depth ? &b->levels[b->depth - 1] : NULL;

    if (!level) {
        b->root = node;
    } else if (level->node->kind == SL_NODE_MAP && !level->key) {
        if (node->kind != SL_NODE_SCALAR)
            return fail_at(b, node, "a key must be a plain word, not a list or mapping");
        level->key = node;
    } else {
        add_member(level, node);
    }
    return 0;
}

/* An absent value has no place of its own in libfyaml: it stands right behind its key's colon. */
static void place_absent(const struct builder *b, struct sl_node *node)
{
    const struct sl_node *key = b->depth ? b->levels[b->depth - 1].key : NULL;

    if (key) {
        node->line = key->line;
        node->column = key->column + (unsigned)key->len + 1;
    }
}

static struct sl_node *new_node(struct builder *b, enum sl_node_kind kind, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    struct sl_node *node = sl_arena_calloc(b->arena, 1, sizeof *node);

    if (node) {
        node->kind = kind;
        node->line = mark ? (unsigned)mark->line + 1 : 1;
        node->column = mark ? (unsigned)mark->column + 1 : 1;
    }
    return node;
}

static int on_scalar(struct builder *b, struct fy_event *event)
{
    struct sl_node *node = new_node(b, SL_NODE_SCALAR, event);
    struct fy_token *token = event->scalar.value;
    enum fy_scalar_style style;
    size_t len = 0;
    const char *text = token ? fy_token_get_text(token, &len) : "";

    if (!node || !text)
        return SL_ENOMEM;
    if (event->scalar.tag)
        return fail_at(b, node, "YAML tags are not supported; write the plain value");
    style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
    node->plain = style == FYSS_PLAIN;
    if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && node->column > 1)
        node->column--; /* libfyaml's token begins behind the quote */
    if (len == 0 && node->plain)
        place_absent(b, node);
    node->len = len;
    node->text = sl_arena_strndup(b->arena, text, len);
    return node->text ? place_node(b, node) : SL_ENOMEM;
}

static int on_begin(struct builder *b, struct fy_event *event, enum sl_node_kind kind)
{
    struct sl_node *node = new_node(b, kind, event);
    int rc;

    if (!node)
        return SL_ENOMEM;
    if (kind == SL_NODE_MAP ? event->mapping_start.tag != NULL : event->sequence_start.tag != NULL)
        return fail_at(b, node, "YAML tags are not supported; write the plain value");
    if (b->depth == SL_YAML_DEPTH_MAX)
        return fail_at(b, node, "nested deeper than 32 levels");
    rc = place_node(b, node);
    if (rc == 0)
        b->levels[b->depth++] = (struct level){.node = node};
    return rc;
}

static int on_end(struct builder *b)
{
    const struct sl_node *node = b->levels[--b->depth].node;

    assert(node);
    return node->kind == SL_NODE_MAP ? check_duplicates(b, node) : 0;
}

static int on_event(struct builder *b, struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    struct sl_node here = {.line = mark ? (unsigned)mark->line + 1 : 1,
                           .column = mark ? (unsigned)mark->column + 1 : 1};

    if (++b->n_nodes > SL_YAML_NODES_MAX)
        return fail_at(b, &here, "the document has too many parts");
    switch (event->type) {
    case FYET_SCALAR:
        return on_scalar(b, event);
    case FYET_MAPPING_START:
        return on_begin(b, event, SL_NODE_MAP);
    case FYET_SEQUENCE_START:
        return on_begin(b, event, SL_NODE_LIST);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return on_end(b);
    case FYET_ALIAS:
        here.column -= here.column > 1; /* the token begins behind the `*` */
        return fail_at(b, &here, "YAML aliases are not supported; use `defaults` for what limits have in common");
    case FYET_DOCUMENT_START:
        return b->n_documents++ ? fail_at(b, &here, "a second document; a policy is one document") : 0;
    default:
        return 0;
    }
}

/* ---- the parser ------------------------------------------------------------------------------------------------- */

/* The first thing libfyaml complains about; its later ones are consequences. */
static int report_syntax(struct builder *b, struct fy_diag *diag)
{
    void *iterator = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &iterator);

    if (!error || !error->msg)
        return refuse(b->diags, b->file, (struct place){1, 1}, "not valid YAML");
    sl_diags_add(b->diags, SL_DIAG_ERROR, b->file, error->line > 0 ? (unsigned)error->line : 1,
                 error->column > 0 ? (unsigned)error->column : 1, "", "not valid YAML: %s", error->msg);
    return SL_EPOLICY;
}

static int run(struct builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
    int rc = 0;
    bool end = false;

    while (rc == 0 && !end) {
        struct fy_event *event = fy_parser_parse(parser);

        if (!event)
            return report_syntax(b, diag);
        end = event->type == FYET_STREAM_END;
        rc = on_event(b, event);
        fy_parser_event_free(parser, event);
    }
    return rc;
}

static struct fy_diag *quiet_diag(void)
{
    struct fy_diag_cfg cfg;
    struct fy_diag *diag;

    fy_diag_cfg_default(&cfg);
    cfg.fp = NULL;
    cfg.colorize = false;
    diag = fy_diag_create(&cfg);
    if (diag)
        fy_diag_set_collect_errors(diag, true);
    return diag;
}

int sl_yaml_parse(const char *text, size_t len, const char *file, struct sl_arena *arena, struct sl_diags *diags,
                  struct sl_node **ret_root)
{
    struct builder b = {.arena = arena, .diags = diags, .file = file};
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET};
    struct fy_parser *parser;
    int rc = check_bytes(text, len, file, diags);

    if (rc)
        return rc;
    cfg.diag = quiet_diag();
    parser = cfg.diag ? fy_parser_create(&cfg) : NULL;
    rc = parser && fy_parser_set_string(parser, text, len) == 0 ? run(&b, parser, cfg.diag) : SL_ENOMEM;
    fy_parser_destroy(parser);
    fy_diag_destroy(cfg.diag);
    if (rc == 0 && !b.root)
        rc = refuse(diags, file, (struct place){1, 1}, "the policy is empty; it needs at least `version` and `limits`");
    if (rc == 0)
        *ret_root = b.root;
    return rc;
}
