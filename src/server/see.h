/* What the daemon remembers of decisions for people: recent rejections (GET /v1/rejections), traces (/v1/traces), and the
 * most rejected keys (/v1/top). Witnesses (server/witness.h) bring it what they see:
 *
 *     sl_witness_add(&witnesses, sl_see_rejection, NULL, &see);          to see SL_SEE_REJECTED, always
 *     sl_witness_add(&witnesses, sl_see_traced, sl_see_wants, &see);     to see SL_SEE_ALL, while a trace is armed
 */
#ifndef SL_SERVER_SEE_H
#define SL_SERVER_SEE_H

#include "observe/rejections.h"
#include "observe/top.h"
#include "observe/traces.h"
#include "server/witness.h"

/* Borrowed, and as long as the server lives. */
struct sl_see {
    struct sl_rejections *rejections; /* with as many loops as the server has */
    struct sl_traces *traces;
    struct sl_top *top; /* likewise (sl_top_follow_rejections); NULL: none */
};

struct sl_exposition;

/* Its metrics (docs/metrics.md). */
void sl_see_metrics(struct sl_exposition *x, struct sl_see *see);

sl_witness_saw sl_see_rejection, sl_see_traced;
sl_witness_wants sl_see_wants;

#endif
