/* A line of a log, judged: an event for the batch, or the reason why it is none. Pure but for memory; one thread. */
#ifndef SL_REPLAY_INTAKE_H
#define SL_REPLAY_INTAKE_H

#include "replay/event.h"
#include "replay/jsonl_line.h"
#include "replay/log_line.h"
#include "replay/replay.h"

/* A policy whose eyes the request is seen with: its ipv6_prefix and its trusted proxies hold. */
struct sl_intake_view {
    const struct sl_policy *policy;
    struct sluice_request request;
    struct sl_request_buffer buffer;
    char client[SL_ADDRESS_TEXT_MAX];
};

struct sl_intake {
    enum sl_replay_format format;
    struct sl_intake_view views[2];
    unsigned n_views; /* 2 when a second policy sees requests otherwise */
    /* what the event borrows from, until the next line */
    struct sl_log_line line;
    struct sl_jsonl_line json;
    char scope[SLUICE_SCOPE_MAX];
    char why[SL_JSONL_WHY_MAX];
};

/* `second` may be NULL. Borrows the policies. */
void sl_intake_init(struct sl_intake *intake, enum sl_replay_format format, const struct sl_policy *policy,
                    const struct sl_policy *second);

/* Returns 0 and n_views event sources that borrow from the line and the intake, to be given back with sl_intake_done;
 * SL_EINVALID with the reason in intake->why; SL_ENOMEM. */
int sl_intake_line(struct sl_intake *intake, struct sl_slice text, struct sl_event_source ret_sources[static 2]);

void sl_intake_done(struct sl_intake *intake);

#endif
