#include "sluiced/gently.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

struct task {
    void (*work)(void *ctx);
    void *ctx;
};

/* In Linux a nice value belongs to a thread. Only lowering one's priority needs no privilege, so a thread that has done it
 * cannot go back: hence a new one each time. */
static void *run(void *arg)
{
    struct task *task = arg;
    id_t self = (id_t)gettid();

    setpriority(PRIO_PROCESS, self,
                getpriority(PRIO_PROCESS, self) + SL_GENTLY_NICE); /* at most 19; cannot be refused */
    task->work(task->ctx);
    return NULL;
}

void sl_gently(void (*work)(void *ctx), void *ctx)
{
    struct task task = {work, ctx};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &task) == 0)
        pthread_join(thread, NULL);
    else
        work(ctx);
}
