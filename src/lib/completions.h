/* Decisions that are done and not yet taken, oldest first, and a descriptor that is readable while there are some. Any
 * thread. */
#ifndef SL_LIB_COMPLETIONS_H
#define SL_LIB_COMPLETIONS_H

#include "base/alloc.h"
#include "sluice/sluice.h"

#include <pthread.h>

/* Allocated with the list's allocator; the list takes it. */
struct sl_completed {
    struct sl_completed *next;
    struct sluice_completion completion;
};

struct sl_completions {
    struct sl_alloc alloc;
    pthread_mutex_t lock; /* what follows */
    struct sl_completed *first, **last;
    int fd; /* negative until somebody asks for it */
};

void sl_completions_init(struct sl_completions *list, const struct sl_alloc *alloc);

/* `inherited`: in the child of a fork, where another thread may have been in the middle of it: only closes the
 * descriptor. */
void sl_completions_fini(struct sl_completions *list, bool inherited);

void sl_completions_add(struct sl_completions *list, struct sl_completed *completed);
size_t sl_completions_take(struct sl_completions *list, struct sluice_completion *ret_list, size_t max);

/* The descriptor, or SL_EIO. */
int sl_completions_fd(struct sl_completions *list);

#endif
