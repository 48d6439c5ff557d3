/* Work that must not make decisions wait: compiling a policy, putting it in force, freeing the old one.
 *
 * A policy of 10,000 limits is 60 ms of work. A thread that works so long keeps its processor until the next tick of the
 * clock, 1 to 4 ms, even when a worker wakes up there; one of lower priority gives way at once. So the work is done by a
 * thread of its own with a nice value that is higher by SL_GENTLY_NICE, and the caller waits for it.
 *
 * Why not lower: work that only gets what is left over would never end on a machine that is busy throughout, and that is
 * when a new policy is wanted most. At 10 it has a tenth of a processor beside one busy thread. */
#ifndef SL_SLUICED_GENTLY_H
#define SL_SLUICED_GENTLY_H

#define SL_GENTLY_NICE 10

/* Calls work(ctx) on such a thread and returns when it has returned; on this thread, as it is, where there cannot be another. */
void sl_gently(void (*work)(void *ctx), void *ctx);

#endif
