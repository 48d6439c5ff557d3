/* Settings from a YAML file: one mapping of names to scalars or lists. */
#include "options/option.h"

#include "base/err.h"
#include "policy/file.h"
#include "policy/yaml.h"

#include <string.h>

#define FILE_MAX (1u << 20)

/* Findings are collected in the form a policy's are, so that places look alike everywhere. */
struct reading {
    struct sl_options *options;
    const char *file;
    struct sl_diags *diags;
};

static void set_scalar(struct reading *r, const struct sl_option *row, const struct sl_node *value)
{
    char why[512];

    if (value->kind != SL_NODE_SCALAR) {
        sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, value->line, value->column, row->name,
                     "must be a single value%s", row->type == SL_OPTION_LIST ? " or a list of them" : "");
        return;
    }
    if (strlen(value->text) != value->len) {
        sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, value->line, value->column, row->name, "holds a NUL byte");
        return;
    }
    if (sl_options_set(r->options, row, value->text, SL_FROM_CONFIG, "", why, sizeof why))
        sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, value->line, value->column, row->name, "%s", why);
}

static void set_member(struct reading *r, const struct sl_node *value)
{
    const char *name = value->key->text;
    const struct sl_option *row = sl_options_find(r->options, name);

    if (!row || row->flags & (SL_OPTION_FLAG_ONLY | SL_OPTION_NO_CONFIG)) {
        const char *nearest = sl_options_nearest(r->options, name);
        bool near = !row && nearest;

        sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, value->key->line, value->key->column, name, "%s%s%s%s",
                     row ? "cannot stand in a config file" : "unknown setting", near ? "; did you mean `" : "",
                     near ? nearest : "", near ? "`?" : "");
    } else if (row->type == SL_OPTION_LIST && value->kind == SL_NODE_LIST) {
        for (const struct sl_node *item = value->first; item; item = item->next)
            set_scalar(r, row, item);
    } else {
        set_scalar(r, row, value);
    }
}

/* Nothing but blanks and comments: a file in which every setting is still commented out. */
static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '#')
            i += strcspn(text + i, "\n");
        else if (!strchr(" \r\n", text[i]))
            return false;
    }
    return true;
}

static void set_all(struct reading *r, const struct sl_node *root)
{
    if (root->kind != SL_NODE_MAP) {
        sl_diags_add(r->diags, SL_DIAG_ERROR, r->file, root->line, root->column, "",
                     "must be a mapping of settings, one `name: value` a line");
        return;
    }
    for (const struct sl_node *value = root->first; value; value = value->next)
        set_member(r, value);
}

static int report(const struct sl_diags *diags, char *why, size_t why_size)
{
    size_t used;

    for (size_t i = 0; i < diags->n; i++) {
        if (diags->list[i].severity != SL_DIAG_ERROR)
            continue;
        sl_diag_format(&diags->list[i], why, why_size);
        used = strlen(why);
        if (diags->n_errors > 1 && used < why_size)
            snprintf(why + used, why_size - used, " (and %zu more)", diags->n_errors - 1);
        return SL_EINVALID;
    }
    return 0;
}

int sl_options_config(struct sl_options *options, const char *path, char *why, size_t why_size)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_arena arena;
    struct sl_diags diags;
    struct sl_node *root = NULL;
    struct reading reading = {.options = options, .file = path, .diags = &diags};
    size_t len = 0;
    char *text, reason[SL_FILE_WHY_MAX];
    int err = sl_file_read(path, FILE_MAX, &alloc, &text, &len, reason);

    if (err) {
        snprintf(why, why_size, "%s: %s", path, err == SL_EIO ? reason : sl_err_text(err));
        return SL_EINVALID;
    }
    if (is_blank(text, len)) {
        sl_free(&alloc, text);
        return 0;
    }
    sl_diags_init(&diags, alloc);
    sl_arena_init(&arena, alloc);
    err = sl_yaml_parse(text, len, path, &arena, &diags, &root);
    if (!err && root)
        set_all(&reading, root);
    if (err == SL_ENOMEM)
        snprintf(why, why_size, "%s", sl_err_text(err));
    else
        err = report(&diags, why, why_size);
    sl_arena_fini(&arena);
    sl_diags_fini(&diags);
    sl_free(&alloc, text);
    return err ? SL_EINVALID : 0;
}
