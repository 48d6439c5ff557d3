#include "server/inquiry.h"

#include "base/err.h"
#include "fleet/fleet.h"
#include "server/problem.h"
#include "server/witness.h"

#include <assert.h>
#include <stdlib.h>

#define SPARE_MAX 256u /* single ones are kept for the next request, up to so many */

/* Single, and without a report: what most requests need. */
static bool is_plain(const struct sl_inquiry *inquiry)
{
    return inquiry->max == 1 && !inquiry->report;
}

static struct sl_inquiry *allocate(size_t max, bool report)
{
    size_t size = sizeof(struct sl_inquiry) + max * sizeof(struct sluice_verdict);
    struct sl_inquiry *inquiry = malloc(size + (report ? sizeof(struct sl_report) : 0));

    if (inquiry)
        inquiry->report = report ? (struct sl_report *)((char *)inquiry + size) : NULL;
    return inquiry;
}

struct sl_inquiry *sl_inquiry_new(struct sl_service *service, size_t max, bool report)
{
    struct sl_inquiry *inquiry = max == 1 && !report ? service->spare : NULL;

    if (max > 1 && service->n_batched + max > SL_INQUIRY_VERDICTS_MAX)
        return NULL;
    if (inquiry) {
        service->spare = inquiry->next;
        service->n_spare--;
    } else if (!(inquiry = allocate(max, report))) {
        return NULL;
    }
    if (max > 1)
        service->n_batched += max;
    inquiry->service = service;
    inquiry->later = NULL;
    inquiry->answer = NULL;
    inquiry->own = NULL;
    inquiry->drop = NULL;
    inquiry->copies = NULL;
    inquiry->last_copy = &inquiry->copies;
    inquiry->n_open = 1;
    inquiry->n = 0;
    inquiry->max = max;
    if (report)
        inquiry->report->n = 0;
    return inquiry;
}

/* What had to wait, in the order in which it was asked. */
static void tell_witnesses(struct sl_inquiry *inquiry)
{
    for (struct sl_request_copy *copy; (copy = inquiry->copies);) {
        inquiry->copies = copy->next;
        sl_witness_tell(inquiry->service, &copy->request, &inquiry->verdicts[copy->at],
                        copy->report ? copy->report : inquiry->report);
        sl_request_copy_free(copy);
    }
}

static void inquiry_free(struct sl_inquiry *inquiry)
{
    struct sl_service *service = inquiry->service;

    tell_witnesses(inquiry);
    if (inquiry->drop)
        inquiry->drop(inquiry->own);
    if (inquiry->max > 1)
        service->n_batched -= inquiry->max;
    if (is_plain(inquiry) && service->n_spare < SPARE_MAX) {
        inquiry->next = service->spare;
        service->spare = inquiry;
        service->n_spare++;
    } else {
        free(inquiry);
    }
}

void sl_inquiry_free_spare(struct sl_service *service)
{
    for (struct sl_inquiry *inquiry; (inquiry = service->spare);) {
        service->spare = inquiry->next;
        free(inquiry);
    }
    service->n_spare = 0;
}

void sl_inquiry_expect(struct sl_inquiry *inquiry)
{
    inquiry->n_open++;
}

void sl_inquiry_came(void *ctx)
{
    struct sl_inquiry *inquiry = ctx;
    struct sl_service *service = inquiry->service;

    if (--inquiry->n_open > 0)
        return;
    inquiry->next = NULL;
    *service->last_decided = inquiry;
    service->last_decided = &inquiry->next;
}

/* Without memory nobody is told of it: the decision stands all the same. copy: NULL, or one that was made before. */
static void keep_for_witnesses(struct sl_inquiry *inquiry, const struct sluice_request *request,
                               struct sl_request_copy *copy)
{
    if (!copy && inquiry->service->shared->witnesses)
        copy = sl_request_copy(request);
    if (!copy)
        return;
    copy->at = inquiry->n;
    *inquiry->last_copy = copy;
    inquiry->last_copy = &copy->next;
}

/* An element of a batch whose report a witness wants: with a report of its own, which must stay while the decision waits.
 * NULL: none is wanted, or memory is out. */
static struct sl_request_copy *copy_with_report(struct sl_inquiry *inquiry, const struct sluice_request *request)
{
    struct sl_request_copy *copy = NULL;

    if (inquiry->max > 1 && sl_witness_wants_report(inquiry->service, request))
        copy = sl_request_copy(request);
    if (copy)
        copy->report = calloc(1, sizeof *copy->report);
    return copy;
}

int sl_inquiry_begin(struct sl_inquiry *inquiry, const struct sluice_request *request, const char **ret_field,
                     const char **ret_why)
{
    struct sl_request_copy *copy = copy_with_report(inquiry, request);
    struct sl_report *report = copy ? copy->report : inquiry->report;
    int result;

    assert(inquiry->n < inquiry->max);
    sl_inquiry_expect(inquiry); /* before: what is pending may end at any time */
    result = sl_lane_check(inquiry->service->lane, request, &inquiry->verdicts[inquiry->n], report, ret_field, ret_why,
                           sl_inquiry_came, inquiry);
    if (result == SL_PENDING) {
        keep_for_witnesses(inquiry, request, copy);
        inquiry->n++;
        return 0;
    }
    inquiry->n_open--;
    if (result == SL_DECIDED)
        sl_witness_tell(inquiry->service, request, &inquiry->verdicts[inquiry->n++], report);
    sl_request_copy_free(copy);
    return result == SL_DECIDED ? 0 : SL_EINVALID;
}

void sl_inquiry_abandon(struct sl_inquiry *inquiry)
{
    if (--inquiry->n_open == 0)
        inquiry_free(inquiry);
}

void sl_inquiry_refuse(struct sl_http_response *response)
{
    sl_problem(response, 503, "No memory for a decision that has to wait.", NULL);
}

void sl_inquiry_answer(struct sl_inquiry *inquiry, struct sl_call *call, size_t answer_bytes,
                       struct sl_http_response *response)
{
    if (inquiry->n_open == 1) {
        tell_witnesses(inquiry);
        inquiry->answer(inquiry, response);
    } else {
        inquiry->later = sl_call_later(call, answer_bytes);
        if (!inquiry->later)
            sl_inquiry_refuse(response);
    }
    sl_inquiry_abandon(inquiry); /* no more of them from here; it goes if it is decided */
}

void sl_inquiry_answer_decided(struct sl_service *service)
{
    /* Answers let requests go on that waited behind them, and these may end others. */
    for (struct sl_inquiry *inquiry; (inquiry = service->decided);) {
        service->decided = inquiry->next;
        if (!service->decided)
            service->last_decided = &service->decided;
        tell_witnesses(inquiry); /* before whoever asked has the answer, and asks who was told */
        if (inquiry->later) {
            inquiry->answer(inquiry, sl_http_later_begin(inquiry->later));
            sl_http_later_send(inquiry->later);
        }
        inquiry_free(inquiry);
    }
}
