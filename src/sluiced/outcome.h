/* How the admin listener tells that something was not done: the store's outcomes as statuses, and sentences. Pure; any
 * thread. */
#ifndef SL_SLUICED_OUTCOME_H
#define SL_SLUICED_OUTCOME_H

#include "control/versions.h"

#include <stddef.h>

/* The HTTP status for an outcome that is not SL_CONTROL_OK. */
int sl_outcome_status(enum sl_control outcome);

/* `why`, or what the outcome means where it is NULL or empty. */
const char *sl_outcome_why(enum sl_control outcome, const char *why);

/* Writes `why` as a sentence: a capital first, a full stop last. */
void sl_outcome_sentence(const char *why, char *buf, size_t size);

#endif
