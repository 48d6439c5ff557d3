/* The text of the policy in force, the program's or a version's of the store, kept so that it can be compiled under
 * another secret when the store's is heard. */
#ifndef SL_LIB_KEPT_H
#define SL_LIB_KEPT_H

#include "control/versions.h"
#include "lib/handle.h"
#include "policy/override.h"

#include <pthread.h>

struct sl_kept_text {
    char *bytes, *name;
    size_t len;
};

struct sl_kept {
    pthread_mutex_t
        lock; /* what follows, and which policy is put in force. No callback of the program is called in it */
    struct sl_kept_text text;  /* the program's */
    struct sl_pointer version; /* what is in force; number 0: the program's */
    struct sl_version_text version_text;
    struct sl_overrides *overrides; /* of the store; NULL: none were heard of */
    uint64_t overrides_end_us;      /* when the next of those in force ends, by the table's clock */
    struct sl_secret secret;        /* under which the policy in force is compiled */
};

void sl_kept_init(struct sl_kept *kept);
void sl_kept_fini(struct sl_kept *kept, const struct sl_alloc *alloc);

/* Copies the text, or takes what it owns. Returns 0 or SL_ENOMEM. */
int sl_kept_copy(struct policy_text *text, const struct sl_alloc *alloc, struct sl_kept_text *ret_text);
/* As sl_lib_compile, of a version, for this handle and under this secret. Borrows all. */
int sl_kept_compile_version(const struct sl_version *version, const struct sl_version_text *text,
                            const struct sluice *handle, const struct sl_secret *secret,
                            const struct finding_sink *sink, struct sl_policy **ret_policy, char *ret_why,
                            size_t why_size);
void sl_kept_text_free(struct sl_kept_text *text, const struct sl_alloc *alloc);

#endif
