/* What is wrong, or odd, with a policy: every finding of one pass, each with its place.
 *
 * Text form, one a line, as a compiler writes it:
 *   policy.yaml:12:9: error: limits[2].ratee: unknown field; did you mean `rate`?
 * JSON form: {"severity","file","line","column","field","message"}. */
#ifndef SL_POLICY_DIAG_H
#define SL_POLICY_DIAG_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum sl_severity { SL_DIAG_WARNING, SL_DIAG_ERROR };

struct sl_diag {
    enum sl_severity severity;
    unsigned line, column; /* from 1; 0 when the whole file is meant */
    char *file;            /* the policy file or keys_file */
    char *field;           /* "limits[2].rate", "" when none */
    char *message;
};

/* Bounded: after SL_DIAGS_MAX findings the rest are only counted (n_dropped). */
#define SL_DIAGS_MAX 200

struct sl_diags {
    struct sl_alloc alloc;
    struct sl_diag *list; /* in order of file position */
    size_t n, n_errors, n_warnings, n_dropped;
    size_t n_misspelt; /* of the warnings: a name that nothing has, near one that something has; listed or not */
    size_t n_listed_warnings;
};

/* Which warnings keep a policy from being put in force. A misspelt name is valid and leaves what it should limit without a
 * limit, so nobody means it. */
enum sl_warnings { SL_WARNINGS_MISSPELT, SL_WARNINGS_NONE, SL_WARNINGS_ALL };

/* So many of them there are. */
static inline size_t sl_diags_refused(const struct sl_diags *diags, enum sl_warnings refused)
{
    return refused == SL_WARNINGS_ALL ? diags->n_warnings : refused == SL_WARNINGS_NONE ? 0 : diags->n_misspelt;
}

void sl_diags_init(struct sl_diags *diags, struct sl_alloc alloc);
void sl_diags_fini(struct sl_diags *diags);

/* Would such a finding be listed, or only counted? What takes long to say need not be said then. */
static inline bool sl_diags_takes(const struct sl_diags *diags, enum sl_severity severity)
{
    return diags->n < SL_DIAGS_MAX || (severity == SL_DIAG_ERROR && diags->n_listed_warnings);
}

/* Adds a finding; never fails (out of memory only counts it). */
void sl_diags_add(struct sl_diags *diags, enum sl_severity severity, const char *file, unsigned line, unsigned column,
                  const char *field, const char *format, ...) __attribute__((format(printf, 7, 8)));

/* Writes all of them in the text form. */
void sl_diags_print(const struct sl_diags *diags, FILE *out);

/* Writes one finding in the text form without the newline, at most size bytes with the NUL. */
void sl_diag_format(const struct sl_diag *diag, char *buf, size_t size);

#endif
