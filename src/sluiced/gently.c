#include "sluiced/gently.h"

#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE_MIN (-20)
#define NICE_MAX 19

struct task {
    void (*work)(void *ctx);
    void *ctx;
    atomic_int idle; /* the thread's id while it only gets what is left over, else 0 */
};

/* The kernel's rule for leaving SCHED_IDLE: the limit of nice values reaches to this one, or the thread may do anything. The
 * latter shows in being allowed to raise its priority. */
static bool may_go_back(id_t self, int now, int later)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur >= (rlim_t)(20 - later))
        return true;
    return now > NICE_MIN && setpriority(PRIO_PROCESS, self, now - 1) == 0;
}

/* sched_setattr(2), which Debian 12's C library does not have. A slice of 100 ms, the longest there is: since Linux 6.12 a
 * thread's turn comes the later the longer its slice. */
static int set_idle(id_t thread, int nice)
{
    const struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice_ns, deadline_ns, period_ns;
    } attributes = {.size = sizeof attributes, .policy = SCHED_IDLE, .nice = nice, .slice_ns = 100000000};

    return (int)syscall(SYS_sched_setattr, thread, &attributes, 0);
}

/* In Linux a nice value and a policy belong to a thread. Having lowered it, the thread yields: a worker that was waiting
 * already would wait for the rest of its slice. */
static void lower(struct task *task)
{
    id_t self = (id_t)gettid();
    int now = getpriority(PRIO_PROCESS, self), later = now + SL_GENTLY_NICE;
    bool back;

    if (later > NICE_MAX)
        later = NICE_MAX;
    back = may_go_back(self, now, later);
    setpriority(PRIO_PROCESS, self, later);
    if (back) {
        atomic_store(&task->idle, (int)self);
        set_idle(self, later);
    }
    sched_yield();
}

/* Only lowering one's priority needs no privilege, so a thread that has done it may not go back: hence a new one each time. */
static void *run(void *arg)
{
    struct task *task = arg;

    lower(task);
    task->work(task->ctx);
    return NULL;
}

/* Waits; when it takes too long, the thread gets a share of its own. Again and again, as it may have been kept from giving
 * way itself until now. */
static void wait_for(pthread_t thread, struct task *task)
{
    struct timespec until = sl_time_in_ms(CLOCK_REALTIME, SL_GENTLY_PATIENCE_MS);

    while (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        int self = atomic_load(&task->idle); /* not joined: it is this thread's still */

        if (self)
            sched_setscheduler(self, SCHED_OTHER, &(struct sched_param){.sched_priority = 0});
        until = sl_time_in_ms(CLOCK_REALTIME, SL_GENTLY_PATIENCE_MS);
    }
}

void sl_gently(void (*work)(void *ctx), void *ctx)
{
    struct task task = {.work = work, .ctx = ctx};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, &task) == 0)
        wait_for(thread, &task);
    else
        work(ctx);
}
