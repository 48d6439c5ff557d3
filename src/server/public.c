/* The public routes but /auth: /check, /healthz, /readyz. */
#include "server/inquiry.h"
#include "server/problem.h"
#include "server/route.h"
#include "server/witness.h"

#include "base/err.h"
#include "fleet/fleet.h"
#include "limiter/counters.h"

#include <stdio.h>
#include <string.h>

#define JSON "application/json"

/* `key`: must not be empty. */
static void refuse_request(struct sl_http_response *response, const char *field, const char *why)
{
    char detail[256];

    snprintf(detail, sizeof detail, "`%s`: %s.", field, why);
    sl_problem(response, 400, detail, field);
}

/* The same of an element of a batch: `[3].key`. */
static void refuse_element(struct sl_http_response *response, size_t i, const char *field, const char *why)
{
    char place[96];

    snprintf(place, sizeof place, "[%zu].%s", i, field);
    refuse_request(response, place, why);
}

static void write_one(struct sl_service *service, const struct sluice_verdict *verdict,
                      struct sl_http_response *response)
{
    char *at = sl_buf_reserve(&response->body, SL_VERDICT_JSON_MAX);

    response->content_type = JSON;
    if (at)
        response->body.len = (size_t)(sl_write_verdict(at, verdict, &service->dates) - response->body.data);
}

/* The most that write_many writes. */
static size_t many_max(size_t n)
{
    return n * (SL_VERDICT_JSON_MAX + 1) + 2;
}

static void write_many(struct sl_service *service, const struct sluice_verdict *verdicts, size_t n,
                       struct sl_http_response *response)
{
    char *at = sl_buf_reserve(&response->body, many_max(n));

    response->content_type = JSON;
    if (!at)
        return;
    for (size_t i = 0; i < n; i++) {
        *at++ = i ? ',' : '[';
        at = sl_write_verdict(at, &verdicts[i], &service->dates);
    }
    *at++ = ']';
    response->body.len = (size_t)(at - response->body.data);
}

static void check_one(struct sl_service *service, struct sl_http_response *response)
{
    const char *field = "", *why = "";
    struct sluice_verdict *verdict = &service->verdicts[0];
    const struct sluice_request *request = &service->input->requests[0];
    struct sl_report *report = sl_witness_wants_report(service, request) ? service->report : NULL;

    if (sl_limiter_check(service->shared->limiter, request, verdict, report, &field, &why)) {
        refuse_request(response, field, why);
        return;
    }
    sl_witness_tell(service, request, verdict, report);
    write_one(service, verdict, response);
}

/* One bad element, and none is decided. */
static int check_elements(struct sl_service *service, struct sl_http_response *response)
{
    const struct sl_policy *policy = sl_service_policy(service);
    const struct sl_check_input *input = service->input;

    for (size_t i = 0; i < input->n; i++) {
        struct sl_request_buffer buffer;
        struct sluice_request checked;
        const char *field = "", *why = "";

        if (sl_request_check(policy, &input->requests[i], &checked, &buffer, &field, &why)) {
            refuse_element(response, i, field, why);
            return SL_EINVALID;
        }
    }
    return 0;
}

static bool wants_any_report(struct sl_service *service)
{
    const struct sl_witnesses *witnesses = service->shared->witnesses;

    if (!witnesses || !(atomic_load_explicit(&witnesses->sees, memory_order_relaxed) & SL_SEE_ALL))
        return false;
    for (size_t i = 0; i < service->input->n; i++)
        if (sl_witness_wants_report(service, &service->input->requests[i]))
            return true;
    return false;
}

/* One by one, so that those that a witness asks for have their reports; nothing is decided when one is bad. */
static void check_each(struct sl_service *service, struct sl_http_response *response)
{
    size_t n = service->input->n;

    if (check_elements(service, response))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct sluice_request *request = &service->input->requests[i];
        struct sl_report *report = sl_witness_wants_report(service, request) ? service->report : NULL;
        const char *field = "", *why = "";

        if (sl_limiter_check(service->shared->limiter, request, &service->verdicts[i], report, &field, &why)) {
            refuse_element(response, i, field, why);
            return;
        }
        sl_witness_tell(service, request, &service->verdicts[i], report);
    }
    write_many(service, service->verdicts, n, response);
}

static void check_many(struct sl_service *service, struct sl_http_response *response)
{
    const char *field = "", *why = "";
    size_t n = service->input->n, bad = 0;

    if (wants_any_report(service)) {
        check_each(service, response);
        return;
    }
    if (sl_limiter_check_batch(service->shared->limiter, service->input->requests, n, service->verdicts, NULL, &bad,
                               &field, &why)) {
        refuse_element(response, bad, field, why);
        return;
    }
    for (size_t i = 0; i < n; i++)
        sl_witness_tell(service, &service->input->requests[i], &service->verdicts[i], NULL);
    write_many(service, service->verdicts, n, response);
}

/* ---- the same with a lane */

static void answer_one(struct sl_inquiry *inquiry, struct sl_http_response *response)
{
    write_one(inquiry->service, inquiry->verdicts, response);
}

static void ask_one(struct sl_call *call, struct sl_http_response *response)
{
    const struct sluice_request *request = &call->service->input->requests[0];
    struct sl_inquiry *inquiry = sl_inquiry_new(call->service, 1, sl_witness_wants_report(call->service, request));
    const char *field = "", *why = "";

    if (!inquiry) {
        sl_inquiry_refuse(response);
        return;
    }
    if (sl_inquiry_begin(inquiry, request, &field, &why)) {
        refuse_request(response, field, why);
        sl_inquiry_abandon(inquiry);
        return;
    }
    inquiry->answer = answer_one;
    sl_inquiry_answer(inquiry, call, SL_VERDICT_JSON_MAX, response);
}

static void answer_many(struct sl_inquiry *inquiry, struct sl_http_response *response)
{
    write_many(inquiry->service, inquiry->verdicts, inquiry->n, response);
}

static void ask_many(struct sl_call *call, struct sl_http_response *response)
{
    const struct sl_check_input *input = call->service->input;
    struct sl_inquiry *inquiry;
    const char *field = "", *why = "";

    if (check_elements(call->service, response))
        return;
    inquiry = sl_inquiry_new(call->service, input->n, false);
    if (!inquiry) {
        sl_inquiry_refuse(response);
        return;
    }
    for (size_t i = 0; i < input->n; i++) {
        if (!sl_inquiry_begin(inquiry, &input->requests[i], &field, &why))
            continue;
        refuse_element(response, i, field, why);
        sl_inquiry_abandon(inquiry);
        return;
    }
    inquiry->answer = answer_many;
    sl_inquiry_answer(inquiry, call, many_max(input->n), response);
}

void sl_handle_check(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_service *service = call->service;
    struct sl_check_error error;

    if (sl_check_parse(request->body, request->body_len, service->input, &error))
        sl_problem(response, 400, error.detail, error.field);
    else if (!service->lane)
        (service->input->batch ? check_many : check_one)(service, response);
    else
        (service->input->batch ? ask_many : ask_one)(call, response);
}

static void say(struct sl_http_response *response, const char *text)
{
    response->content_type = "text/plain; charset=utf-8";
    sl_buf_text(&response->body, text);
}

void sl_handle_healthz(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    (void)call;
    (void)request;
    say(response, "alive\n");
}

/* The store was reached, or has had its time: then the failure modes decide, and that is being ready too. */
static bool store_is_awaited(const struct sl_shared *shared)
{
    struct sl_fleet_stats stats;

    if (!shared->fleet || sl_stopwatch_ns() >= shared->store_awaited_ns)
        return false;
    sl_fleet_stats(shared->fleet, &stats);
    return !stats.reached;
}

void sl_handle_readyz(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_shared *shared = call->service->shared;

    (void)request;
    if (atomic_load(&shared->draining))
        sl_problem(response, 503, "The daemon is stopping.", NULL);
    else if (store_is_awaited(shared)) /* which is why it is not ready, if it is not */
        sl_problem(response, 503, "The store has not been reached yet.", NULL);
    else if (!atomic_load(&shared->ready))
        sl_problem(response, 503, "The daemon is not ready yet.", NULL);
    else if (atomic_load(&shared->last_reload_failed)) /* it serves, and somebody who looks should see it */
        say(response, "ready, on the last good policy: the latest one was refused\n");
    else
        say(response, "ready\n");
}
