/* What the daemon remembers of decisions for people: recent rejections, traces of keys, the most rejected keys
 * (server/see.h); and the log of traces that asked for it.
 *
 *     sl_seeing_start(&seeing, n_loops, top, &witnesses, &log);   before the server is made: its options take &seeing.see
 *     sl_seeing_look(&seeing);                                    once a second, on the daemon's loop
 *     sl_seeing_stop(&seeing);                                    after the server has gone, before `top` goes */
#ifndef SL_SLUICED_SEE_H
#define SL_SLUICED_SEE_H

#include "server/see.h"
#include "sluiced/log.h"

struct sl_seeing {
    struct sl_see see;
    struct sl_witness *traced; /* sees all while a trace is armed */
    struct sl_log *log;
};

/* n_loops: of the server, its admin listener's among them. Returns 0, SL_ENOMEM, SL_EIO (no randomness) or SL_EBUSY (no
 * room for two witnesses), with nothing left. */
int sl_seeing_start(struct sl_seeing *seeing, unsigned n_loops, struct sl_top *top, struct sl_witnesses *witnesses,
                    struct sl_log *log);
void sl_seeing_look(struct sl_seeing *seeing);
void sl_seeing_stop(struct sl_seeing *seeing); /* accepts one that was zeroed and never started */

#endif
