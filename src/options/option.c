#include "options/option.h"

#include "base/err.h"
#include "options/value.h"
#include "policy/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define ENV_PREFIX "SLUICE_"
#define NAME_MAX_LEN 48

void sl_options_init(struct sl_options *options, const struct sl_option *rows, size_t n, void *values)
{
    char why[256];

    assert(n <= SL_OPTIONS_MAX);
    *options = (struct sl_options){.rows = rows, .n = n, .values = values};
    for (size_t i = 0; i < n; i++) {
        void *place = (char *)values + rows[i].offset;

        switch (rows[i].type) {
        case SL_OPTION_TEXT:
        case SL_OPTION_SECRET:
            memset(place, 0, sizeof(char *));
            break;
        case SL_OPTION_LIST:
            memset(place, 0, sizeof(struct sl_option_list));
            break;
        case SL_OPTION_SWITCH:
            memset(place, 0, sizeof(bool));
            break;
        case SL_OPTION_CHOICE:
            memset(place, 0, sizeof(unsigned));
            break;
        default:
            memset(place, 0, sizeof(uint64_t));
            break;
        }
        if (rows[i].preset && sl_option_parse(&rows[i], rows[i].preset, values, why, sizeof why)) {
            fprintf(stderr, "preset of %s: %s\n", rows[i].name, why);
            abort(); /* a mistake in our own table */
        }
    }
}

void sl_options_fini(struct sl_options *options)
{
    for (size_t i = 0; i < options->n; i++)
        sl_option_clear(&options->rows[i], options->values);
}

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
    }
    return *a == *b;
}

const struct sl_option *sl_options_find(const struct sl_options *options, const char *name)
{
    for (size_t i = 0; i < options->n; i++) {
        if (same_name(options->rows[i].name, name))
            return &options->rows[i];
    }
    return NULL;
}

int sl_options_set(struct sl_options *options, const struct sl_option *row, const char *text,
                   enum sl_option_source source, const char *place, char *why, size_t why_size)
{
    uint8_t *now = &options->source[row - options->rows];
    char reason[512];

    if (*now > source)
        return 0;
    /* A list grows within one source; a stronger one starts it anew. */
    if (row->type == SL_OPTION_LIST && *now < source)
        sl_option_clear(row, options->values);
    if (sl_option_parse(row, text, options->values, reason, sizeof reason)) {
        if (row->type == SL_OPTION_SECRET || row->flags & SL_OPTION_HIDDEN)
            snprintf(why, why_size, "%s%s%s", place, place[0] ? ": " : "", reason);
        else
            snprintf(why, why_size, "%s%s`%.200s`: %s", place, place[0] ? ": " : "", text, reason);
        return SL_EINVALID;
    }
    *now = (uint8_t)source;
    return 0;
}

static const struct sl_option *find_letter(const struct sl_options *options, char letter)
{
    for (size_t i = 0; i < options->n; i++) {
        if (options->rows[i].letter == letter)
            return &options->rows[i];
    }
    return NULL;
}

static const char *name_at(const void *rows, size_t i)
{
    return ((const struct sl_option *)rows)[i].name;
}

const char *sl_options_nearest(const struct sl_options *options, const char *name)
{
    return sl_text_suggest(name, strlen(name), name_at, options->rows, options->n);
}

static int unknown_flag(const struct sl_options *options, const char *name, char *why, size_t why_size)
{
    const char *nearest = sl_options_nearest(options, name);

    if (nearest)
        snprintf(why, why_size, "no option --%s; did you mean --%s?", name, nearest);
    else
        snprintf(why, why_size, "no option --%s; --help lists them", name);
    return SL_EINVALID;
}

/* Finds the row and the value's text of one flag; *i moves on when the value is the next argument. */
static int read_flag(const struct sl_options *options, int argc, char **argv, int *i, const struct sl_option **ret_row,
                     const char **ret_text, char *why, size_t why_size)
{
    const char *flag = argv[*i];
    char name[NAME_MAX_LEN];
    const char *equals = NULL;
    const struct sl_option *row;

    if (flag[1] == '-') {
        equals = strchr(flag, '=');
        snprintf(name, sizeof name, "%.*s", (int)strcspn(flag + 2, "="), flag + 2);
        row = strchr(name, '_') ? NULL : sl_options_find(options, name);
    } else {
        row = flag[2] ? NULL : find_letter(options, flag[1]);
        if (!row) {
            snprintf(why, why_size, "no option %s; --help lists them", flag);
            return SL_EINVALID;
        }
    }
    if (!row)
        return unknown_flag(options, name, why, why_size);
    *ret_row = row;
    if (equals) {
        *ret_text = equals + 1;
    } else if (row->type == SL_OPTION_SWITCH) {
        *ret_text = "true";
    } else if (*i + 1 < argc) {
        *ret_text = argv[++*i];
    } else {
        snprintf(why, why_size, "--%s needs a value: --%s %s", row->name, row->name, row->argument);
        return SL_EINVALID;
    }
    return 0;
}

int sl_options_args(struct sl_options *options, int *argc, char **argv, char *why, size_t why_size)
{
    int kept = 1;
    bool flags = true;

    for (int i = 1; i < *argc; i++) {
        const struct sl_option *row;
        const char *text;
        char place[NAME_MAX_LEN + 2];
        int err;

        if (!flags || argv[i][0] != '-' || !argv[i][1]) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!strcmp(argv[i], "--")) {
            flags = false;
            continue;
        }
        err = read_flag(options, *argc, argv, &i, &row, &text, why, why_size);
        if (err)
            return err;
        snprintf(place, sizeof place, "--%s", row->name);
        err = sl_options_set(options, row, text, SL_FROM_FLAG, place, why, why_size);
        if (err)
            return err;
    }
    *argc = kept;
    return 0;
}

static void env_name(const struct sl_option *row, char buf[static NAME_MAX_LEN + sizeof ENV_PREFIX])
{
    size_t used =
        (size_t)snprintf(buf, NAME_MAX_LEN + sizeof ENV_PREFIX, ENV_PREFIX "%.*s", NAME_MAX_LEN - 1, row->name);

    for (size_t i = 0; i < used; i++)
        buf[i] = buf[i] == '-' ? '_' : (char)toupper((unsigned char)buf[i]);
}

static int set_list_from_env(struct sl_options *options, const struct sl_option *row, const char *text,
                             const char *place, char *why, size_t why_size)
{
    char item[SL_OPTION_TEXT_MAX];

    while (*text) {
        size_t len = strcspn(text, ",");
        int err;

        if (len >= sizeof item) {
            snprintf(why, why_size, "%s: an item is longer than %zu bytes", place, sizeof item - 1);
            return SL_EINVALID;
        }
        memcpy(item, text, len);
        item[len] = '\0';
        err = sl_options_set(options, row, item, SL_FROM_ENV, place, why, why_size);
        if (err)
            return err;
        text += len + (text[len] == ',');
    }
    return 0;
}

int sl_options_env(struct sl_options *options, char *why, size_t why_size)
{
    for (size_t i = 0; i < options->n; i++) {
        const struct sl_option *row = &options->rows[i];
        char name[NAME_MAX_LEN + sizeof ENV_PREFIX];
        const char *text;
        int err;

        if (row->flags & SL_OPTION_FLAG_ONLY)
            continue;
        env_name(row, name);
        text = getenv(name);
        if (!text || !text[0])
            continue;
        err = row->type == SL_OPTION_LIST ? set_list_from_env(options, row, text, name, why, why_size)
                                          : sl_options_set(options, row, text, SL_FROM_ENV, name, why, why_size);
        if (err)
            return err;
    }
    return 0;
}

void sl_options_env_typos(const struct sl_options *options,
                          void (*fn)(void *ctx, const char *name, const char *nearest), void *ctx)
{
    for (char **variable = environ; *variable; variable++) {
        char name[NAME_MAX_LEN];
        const char *nearest;
        size_t len;

        if (strncmp(*variable, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
            continue;
        len = strcspn(*variable + strlen(ENV_PREFIX), "=");
        if (len >= sizeof name)
            continue;
        for (size_t i = 0; i < len; i++) {
            char c = (*variable)[strlen(ENV_PREFIX) + i];

            name[i] = c == '_' ? '-' : (char)tolower((unsigned char)c);
        }
        name[len] = '\0';
        nearest = sl_options_find(options, name) ? NULL : sl_options_nearest(options, name);
        if (nearest)
            fn(ctx, *variable, nearest);
    }
}
