/* Reads mappings of a policy by tables: one row a field, from which parsing, the refusal of unknown fields, suggestions
 * and the reference in docs/policy.md come.
 *
 * A reading function takes the value's node, checks it, and writes the result at `field->offset` of the target. It
 * returns false after it has added an error; the walk goes on, so that one pass finds all errors. */
#ifndef SL_POLICY_READER_H
#define SL_POLICY_READER_H

#include "policy/arena.h"
#include "policy/diag.h"
#include "policy/path.h"
#include "policy/yaml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_reader {
    struct sl_arena *arena; /* where values go that outlive the tree */
    struct sl_diags *diags;
    const char *file;
    struct sl_path path;
    bool nomem; /* an allocation failed: the result is worthless */
};

struct sl_field;
typedef bool sl_read_fn(struct sl_reader *r, const struct sl_node *value, const struct sl_field *field, void *target);

struct sl_field {
    const char *name;
    const char *type;     /* as people say it: "whole number, 1 ... 10^9" */
    const char *fallback; /* what holds when the field is absent; "" when that is nothing, "required" */
    const char *sentence; /* what the field is for */
    sl_read_fn *read;
    size_t offset;
    int64_t min, max;   /* numbers: the range. Texts: max length */
    const void *detail; /* enums: names; nested mappings: a struct sl_fields */
};

#define SL_FIELDS_MAX 32
struct sl_fields {
    const char *what; /* "a limit": for messages */
    const struct sl_field *list;
    unsigned n;
    bool partial; /* required fields may be absent: `defaults` */
};

/* Which fields stood there, by index into the table, and which of them could be read. */
struct sl_given {
    const struct sl_node *at[SL_FIELDS_MAX]; /* the value; NULL: absent */
    uint32_t ok;
    uint32_t
        meant; /* fields that are absent because an unknown one was probably meant to be them: any, if none is near */
};

static inline bool sl_given_ok(const struct sl_given *given, unsigned field)
{
    return given->ok >> field & 1;
}

/* Walks a mapping (anything else is an error) by its table. Required fields that are missing, unless a misspelt one
 * was meant to be them, are errors at the mapping. Returns true when all was well. */
bool sl_read_fields(struct sl_reader *r, const struct sl_node *node, const struct sl_fields *fields, void *target,
                    struct sl_given *ret_given);

/* Findings at a node under the current path. sl_read_error returns false, for `return sl_read_error(...)`. */
bool sl_read_error(struct sl_reader *r, const struct sl_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sl_read_warning(struct sl_reader *r, const struct sl_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "did you mean `x`?" for an error about a name, or "": written into buf. */
struct sl_names {
    const char *(*at)(const void *ctx, size_t i);
    const void *ctx;
    size_t n;
};
#define SL_HINT_MAX 96
const char *sl_read_hint(const char *text, size_t len, struct sl_names names, char buf[SL_HINT_MAX]);

/* Shapes of nodes; false after an error that says what was expected. */
bool sl_read_is_list(struct sl_reader *r, const struct sl_node *node);
bool sl_read_is_map(struct sl_reader *r, const struct sl_node *node);
/* A scalar that is not empty, not null and has no control characters. */
bool sl_read_is_text(struct sl_reader *r, const struct sl_node *node, size_t max_len);

/* Memory for values; sets r->nomem on failure and returns NULL. */
void *sl_read_alloc(struct sl_reader *r, size_t n, size_t size);
char *sl_read_copy(struct sl_reader *r, const struct sl_node *node);

/* A plain whole number in [min, max]. */
bool sl_read_number(struct sl_reader *r, const struct sl_node *node, int64_t min, int64_t max, int64_t *ret_number);
/* A number with up to `decimals` digits after the point (at most 6), as an integer in units of 10^-decimals. */
bool sl_read_decimal(const char *text, size_t len, unsigned decimals, uint64_t *ret_number);
/* The index of a word among names that end with NULL. */
bool sl_read_word(struct sl_reader *r, const struct sl_node *node, const char *const *words, int *ret_index);

/* Reading functions for tables. */
sl_read_fn sl_read_u32;      /* uint32_t in [min, max] */
sl_read_fn sl_read_i64;      /* int64_t in [min, max] */
sl_read_fn sl_read_bool;     /* bool: true or false */
sl_read_fn sl_read_text;     /* const char *: printable, 1 ... max bytes */
sl_read_fn sl_read_name;     /* const char *: [a-z0-9._-] */
sl_read_fn sl_read_enum;     /* int: `detail` lists the words */
sl_read_fn sl_read_duration; /* uint64_t, microseconds in [min, max] */
sl_read_fn sl_read_percent;  /* uint32_t: `80%`, a whole number in [min, max] */
sl_read_fn sl_read_nested;   /* a mapping read by the struct sl_fields in `detail`, which may have no nested `given` */
sl_read_fn sl_read_texts;    /* struct sl_texts: a list of at least `min` texts of at most `max` bytes, all different */

/* A list of texts, with places for later findings. The nodes live as long as the tree. */
struct sl_placed_text {
    const char *text;
    size_t len;
    const struct sl_node *node;
};
struct sl_texts {
    struct sl_placed_text *list;
    size_t n;
};

#endif
