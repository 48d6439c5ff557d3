/* Work that must not make decisions wait: compiling a policy, putting it in force, freeing the old one.
 *
 * A policy of 10,000 limits is 60 ms of work. A thread that works so long keeps its processor for a slice, 3 ms and more, even
 * when a worker wakes up there; a lower nice value gives it fewer slices, but (since Linux 6.6) no shorter ones. One under
 * SCHED_IDLE gives way at once. So the work is done by a thread of its own, and the caller waits for it.
 *
 * Work that only gets what is left over would never end on a machine that is busy throughout, and that is when a new policy
 * is wanted most. So after SL_GENTLY_PATIENCE_MS it goes on with a nice value that is higher by SL_GENTLY_NICE: a tenth of a
 * processor beside one busy thread. Where a thread may not leave SCHED_IDLE again (no CAP_SYS_NICE, and RLIMIT_NICE does
 * not reach so far) it has the nice value from the start. */
#ifndef SL_SLUICED_GENTLY_H
#define SL_SLUICED_GENTLY_H

#define SL_GENTLY_NICE 10
#define SL_GENTLY_PATIENCE_MS 250

/* Calls work(ctx) on such a thread and returns when it has returned; on this thread, as it is, where there cannot be another. */
void sl_gently(void (*work)(void *ctx), void *ctx);

#endif
