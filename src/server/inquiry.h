/* One HTTP request's decisions, when the store may have to be asked for them.
 *
 *     inquiry = sl_inquiry_new(service, n, false);
 *     sl_inquiry_begin(inquiry, &request, &field, &why);       n times; SL_EINVALID: sl_inquiry_abandon
 *     inquiry->answer = write_answer;
 *     sl_inquiry_answer(inquiry, call, bytes, response);       now, or later: when all are decided
 *
 * Most decisions end here and now, and then this costs next to nothing. What is decided from a callback of the loop is
 * answered at the end of that turn (sl_inquiry_answer_decided), never from inside the callback: a decision may end
 * while another request is being handled. Belongs to the loop's thread. */
#ifndef SL_SERVER_INQUIRY_H
#define SL_SERVER_INQUIRY_H

#include "server/route.h"

/* How /auth tells it, copied from the policy that was in force then. */
struct sl_door_style {
    enum sl_header_style headers;
    bool problem_errors;
    int closed_status, denied_status; /* denied_status 0: as the verdict says */
};

struct sl_inquiry {
    struct sl_inquiry *next; /* among the decided, or the spare ones */
    struct sl_service *service;
    struct sl_http_later *later; /* NULL: nobody waits for it */
    /* Writes the answer, from what follows. */
    void (*answer)(struct sl_inquiry *inquiry, struct sl_http_response *response);
    unsigned n_open; /* decisions that are to come, and 1 while there may be more */
    size_t n, max;   /* verdicts, begun and room for */
    struct sl_door_style style;
    void *own;                      /* whatever else the answer needs */
    void (*drop)(void *own);        /* frees it; NULL: nothing to free */
    struct sl_report *report;       /* NULL: not asked for */
    struct sl_request_copy *copies; /* of requests that wait, for witnesses; told when all are decided */
    struct sl_request_copy **last_copy;
    struct sluice_verdict verdicts[];
};

/* Verdicts of batches that may wait on one loop; a batch beyond is refused. What waits in single requests is bounded by
 * SL_FLEET_FLIGHTS_MAX. */
#define SL_INQUIRY_VERDICTS_MAX 65536u

/* For up to max decisions (0: something else is asked, see sl_inquiry_expect); `report`: for one, with its report. NULL:
 * out of memory, or too many wait. */
struct sl_inquiry *sl_inquiry_new(struct sl_service *service, size_t max, bool report);

/* Begins the next decision (service->lane must be there). The request is not needed any more afterwards. Returns 0, or
 * SL_EINVALID as sl_lane_check. */
int sl_inquiry_begin(struct sl_inquiry *inquiry, const struct sluice_request *request, const char **ret_field,
                     const char **ret_why);

/* One more thing is to come: then sl_inquiry_came(inquiry) says that it has. */
void sl_inquiry_expect(struct sl_inquiry *inquiry);
void sl_inquiry_came(void *inquiry);

/* Answers when all that was begun is decided: in `response` if it is now, else later; 503 when memory is out. Takes the
 * inquiry. answer_bytes: as sl_call_later. */
void sl_inquiry_answer(struct sl_inquiry *inquiry, struct sl_call *call, size_t answer_bytes,
                       struct sl_http_response *response);

/* Nobody wants the answer. Takes the inquiry; it goes when its decisions have ended. */
void sl_inquiry_abandon(struct sl_inquiry *inquiry);

/* Sends what was decided since it was last called. Not from inside a handler. */
void sl_inquiry_answer_decided(struct sl_service *service);

/* Frees the spare ones. */
void sl_inquiry_free_spare(struct sl_service *service);

/* 503: there is no memory, or no room, for an inquiry. */
void sl_inquiry_refuse(struct sl_http_response *response);

#endif
