/* What threads of the library and of the daemon need to begin and to be waited for. Any thread. */
#ifndef SL_BASE_THREAD_H
#define SL_BASE_THREAD_H

#include <signal.h>
#include <time.h>

/* The program's signals are not for a thread that is started now, nor for those that it starts; but a fault stays one. Put the
 * mask back with pthread_sigmask(SIG_SETMASK, &before, NULL). */
void sl_block_signals(sigset_t *ret_before);

/* The time in `ms` from now, for a wait that takes a time of that clock. */
struct timespec sl_time_in_ms(clockid_t clock, unsigned ms);

#endif
