/* Inside of libsluice: the handle, and what its files share. */
#ifndef SL_LIB_HANDLE_H
#define SL_LIB_HANDLE_H

#include "limiter/limiter.h"
#include "sluice/sluice.h"

struct sluice {
    struct sl_alloc alloc;
    struct sl_limiter *limiter;
    sluice_log_fn *log; /* may be NULL */
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

/* Compiles a policy and passes its findings on. On failure writes the first error into ret_why. Returns 0, SL_EPOLICY
 * or SL_ENOMEM. */
int sl_lib_policy(const struct policy_source *source, struct sl_secret secret, const struct sl_alloc *alloc,
                  const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why, size_t why_size);

void sl_lib_log(sluice_log_fn *log, void *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes a reason; accepts NULL and size 0. */
void sl_lib_why(char *ret_why, size_t why_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
