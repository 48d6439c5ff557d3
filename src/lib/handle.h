/* Inside of libsluice: the handle, and what its files share. */
#ifndef SL_LIB_HANDLE_H
#define SL_LIB_HANDLE_H

#include "lib/completions.h"
#include "limiter/limiter.h"
#include "sluice/sluice.h"

struct sl_tier;

struct sluice {
    struct sl_alloc alloc;
    struct sl_limiter *limiter;
    struct sl_tier *tier; /* NULL: the store is memory: */
    struct sl_completions completions;
    char region[SLUICE_NAME_MAX]; /* what policies are compiled for; "": none */
    sluice_log_fn *log;           /* may be NULL */
    void *log_ctx;
};

/* Where the findings of one policy go. */
struct finding_sink {
    sluice_finding_fn *finding; /* may be NULL: then warnings go to `log` */
    void *finding_ctx;
    sluice_log_fn *log; /* may be NULL */
    void *log_ctx;
};

/* A policy to read: exactly one of file and text. */
struct policy_source {
    const char *file;
    const char *text;
    size_t text_len;
    const char *name; /* of text; NULL: "policy" */
};

/* A policy as it was read. */
struct policy_text {
    const char *bytes;
    size_t len;
    const char *name;
    char *owned; /* bytes, when they were read from a file; else they and the name are borrowed from the source */
};

/* Reads the source. On failure tells the sink and ret_why, and returns SL_EPOLICY or SL_ENOMEM. */
int sl_lib_read(const struct policy_source *source, const struct sl_alloc *alloc, const struct finding_sink *sink,
                struct policy_text *ret_text, char *ret_why, size_t why_size);
void sl_lib_text_free(struct policy_text *text, const struct sl_alloc *alloc);

/* Compiles a policy and passes its findings on; sink may be NULL. On failure writes the first error into ret_why.
 * Returns 0, SL_EPOLICY or SL_ENOMEM. */
int sl_lib_compile(const struct policy_text *text, const struct sl_policy_options *options,
                   const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why, size_t why_size);

/* Says that a policy is in force. Borrows it. */
void sl_lib_log_policy(sluice_log_fn *log, void *ctx, const struct sl_policy *policy);

void sl_lib_log(sluice_log_fn *log, void *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes a reason; accepts NULL and size 0. */
void sl_lib_why(char *ret_why, size_t why_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
