/* What `sluice doctor` has found so far, one line a check; between the files that look at one thing each. */
#ifndef SL_CLI_DOCTOR_H
#define SL_CLI_DOCTOR_H

#include "store/url.h"

#include <stdint.h>

struct json_t;

enum doctor_state { DOCTOR_GOOD, DOCTOR_ODD, DOCTOR_BAD, DOCTOR_AWAY, DOCTOR_STATES };

struct doctor_findings {
    struct json_t *list;
    unsigned count[DOCTOR_STATES];
};

void doctor_add(struct doctor_findings *findings, const char *name, enum doctor_state state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* doctor_store.c: reaches the store (not memory:, its files read) and adds what it is and what a fleet has left there.
 * Waits at most timeout_us for the connection, and as long for each answer. */
void doctor_check_store(struct doctor_findings *findings, const struct sl_store_url *url, const char *ns,
                        uint64_t timeout_us);

#endif
