/* Settings as a table: one row says everything about one, and the command line, the environment, the config file,
 * --help, the manual page and validation all read that row.
 *
 *     static const struct sl_option rows[] = {
 *         {.name = "workers", .type = SL_OPTION_COUNT, .offset = offsetof(struct config, workers), .argument = "N",
 *          .preset = "0", .max = 256, .sentence = "threads that serve; 0: one a core"}, ...
 *     };
 *     struct config config;
 *     struct sl_options options;
 *     sl_options_init(&options, rows, n_rows, &config);
 *     if (sl_options_args(&options, &argc, argv, why, sizeof why) || sl_options_env(&options, why, sizeof why) || ...)
 *         complain(why);
 *     ...
 *     sl_options_fini(&options);
 *
 * A name is spelled `drain-timeout` in the table, `--drain-timeout` as a flag, `drain-timeout` or `drain_timeout` in
 * the config file, and SLUICE_DRAIN_TIMEOUT in the environment. A flag beats the environment, which beats the config
 * file, which beats the default, whatever the order of the calls.
 *
 * Functions that can fail return 0 or SL_EINVALID with one sentence in `why` (NUL-terminated) that names the place;
 * nothing is half-applied of the one setting at fault. One thread. */
#ifndef SL_OPTIONS_OPTION_H
#define SL_OPTIONS_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sl_option_type {
    SL_OPTION_TEXT,     /* char *, NULL when not given; owned by the options */
    SL_OPTION_SECRET,   /* the same; "@/path" takes the first line of that file; never shown */
    SL_OPTION_COUNT,    /* uint64_t, min ... max */
    SL_OPTION_BYTES,    /* uint64_t, min ... max; `64k`, `4M`, `1G` are powers of 1,024 */
    SL_OPTION_DURATION, /* uint64_t microseconds, min ... max; `250ms`, `5s`, `1m`; 0 is written `0s` */
    SL_OPTION_CHOICE,   /* unsigned: the index of the word in `choices` */
    SL_OPTION_SWITCH,   /* bool; a flag without a value means true */
    SL_OPTION_LIST,     /* struct sl_option_list: given once a value, or as a YAML list, or (environment) with commas */
};

#define SL_OPTION_LIST_MAX 64

struct sl_option_list {
    char *items[SL_OPTION_LIST_MAX];
    size_t n;
};

/* Bits of `flags`. */
#define SL_OPTION_FLAG_ONLY 1u  /* neither in the environment nor in the config file */
#define SL_OPTION_RELOADABLE 2u /* a reload takes the new value */
#define SL_OPTION_NO_CONFIG 4u  /* not in the config file */
#define SL_OPTION_HIDDEN 8u     /* a value is never shown, as of SL_OPTION_SECRET */

struct sl_option {
    const char *name;
    char letter; /* a one-letter flag too; 0: none */
    enum sl_option_type type;
    size_t offset;
    const char *argument; /* what stands for the value in --help; NULL for switches */
    const char *preset;   /* default as it would be written; NULL: not given */
    uint64_t min, max;
    const char *const *choices; /* ends with NULL */
    unsigned flags;
    const char *group;    /* heading in --help; NULL: as the row before */
    const char *sentence; /* without a capital and a full stop */
    /* A further check of a text; writes what would be right into `why`. NULL: any. */
    int (*check)(const char *value, char *why, size_t why_size);
};

enum sl_option_source { SL_FROM_PRESET, SL_FROM_CONFIG, SL_FROM_ENV, SL_FROM_FLAG };

#define SL_OPTIONS_MAX 64
#define SL_OPTION_TEXT_MAX 4096

struct sl_options {
    const struct sl_option *rows;
    size_t n;
    void *values;
    uint8_t source[SL_OPTIONS_MAX]; /* enum sl_option_source of each row's value */
};

/* Zeroes nothing but the fields the rows name, and sets those to their presets. */
void sl_options_init(struct sl_options *options, const struct sl_option *rows, size_t n, void *values);
void sl_options_fini(struct sl_options *options);

/* The row of a name (`-` and `_` are the same), or NULL. */
const struct sl_option *sl_options_find(const struct sl_options *options, const char *name);

/* The row's name that a mistyped one was probably meant to be, or NULL. */
const char *sl_options_nearest(const struct sl_options *options, const char *name);

/* Sets one value from text, unless a stronger source has set it. `place` begins the sentence
 * ("--workers"; "" for none). */
int sl_options_set(struct sl_options *options, const struct sl_option *row, const char *text,
                   enum sl_option_source source, const char *place, char *why, size_t why_size);

/* Reads argv[1] ... argv[*argc - 1]: `--name value`, `--name=value`, `--switch`, letters, and `--`, after which
 * nothing is a flag. What is no flag is moved to the front in its order: argv[1] ... argv[*argc - 1] afterwards. */
int sl_options_args(struct sl_options *options, int *argc, char **argv, char *why, size_t why_size);

/* Reads SLUICE_... of every row that has one. An empty variable counts as not given. */
int sl_options_env(struct sl_options *options, char *why, size_t why_size);

/* Calls fn for each SLUICE_... variable of the environment that no row has but one is near to: a typing error that
 * nobody else would tell of. `name` is the variable as it stands ("SLUICE_WORKRES=4"), `nearest` the row's name. */
void sl_options_env_typos(const struct sl_options *options,
                          void (*fn)(void *ctx, const char *name, const char *nearest), void *ctx);

/* Reads a YAML file: a mapping of names to scalars, or to lists for SL_OPTION_LIST. Tells of the first finding and how
 * many more there are. */
int sl_options_config(struct sl_options *options, const char *path, char *why, size_t why_size);

/* The rows as --help shows them, wrapped to `columns`. */
void sl_options_help(const struct sl_option *rows, size_t n, unsigned columns, FILE *out);

/* The rows as a section of a manual page (mdoc). */
void sl_options_man(const struct sl_option *rows, size_t n, FILE *out);

#endif
