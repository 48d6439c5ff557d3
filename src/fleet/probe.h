/* What kind of store it is: asked once when it is reached, for warnings and for people.
 *
 * Four questions (TIME, INFO server, CONFIG GET maxmemory*, COMMAND INFO) to whichever server answers; each may be
 * refused to us by name or by right, and then that one thing is not known, which is no fault. The loop's thread. */
#ifndef SL_FLEET_PROBE_H
#define SL_FLEET_PROBE_H

#include "store/client.h"

#define SL_PROBE_WORD_MAX 32u

struct sl_probe_result {
    bool answered;         /* it has said anything at all */
    enum sl_result result; /* of the first question that was not answered, else SL_RESULT_OK */
    bool version_known, valkey;
    unsigned major, minor;            /* of the server's own version */
    char version[SL_PROBE_WORD_MAX];  /* the same as it says it */
    bool eviction_known, evicts;      /* evicts: it has a limit of memory, and drops keys when it is reached */
    char eviction[SL_PROBE_WORD_MAX]; /* maxmemory-policy */
    bool module_known, module;        /* it has the module's command */
    bool time_known;
    uint64_t store_us;              /* its time (Unix), which was read between these two of ours: */
    uint64_t asked_us, answered_us; /* by the net's clock */
};

/* Asks. `found` is called once, never from inside this; the result is borrowed for the call. When the client is freed
 * meanwhile, it is called from there. timeout_us: of each question, 0 for the client's. Returns 0; SL_ENOMEM; or
 * SL_EBUSY when nothing could be asked. */
int sl_probe_start(struct sl_client *client, const struct sl_net *net, const struct sl_alloc *alloc,
                   const char *module_command, uint64_t timeout_us,
                   void (*found)(void *owner, const struct sl_probe_result *result), void *owner);

/* What an operator should know of it: the i-th sentence, from 0. Returns false when there are no more. `serious`:
 * sluice does not work on it as it should. */
bool sl_probe_finding(const struct sl_probe_result *result, unsigned i, char *buf, size_t size, bool *ret_serious);

#endif
