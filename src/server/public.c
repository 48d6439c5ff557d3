/* The public routes but /auth: /check, /healthz, /readyz. */
#include "server/problem.h"
#include "server/route.h"

#include "base/err.h"

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

static void check_one(struct sl_service *service, struct sl_http_response *response)
{
    const char *field = "", *why = "";
    struct sluice_verdict *verdict = &service->verdicts[0];
    int e = sl_limiter_check(service->shared->limiter, &service->input->requests[0], verdict, NULL, &field, &why);
    char *at;

    if (e) {
        refuse_request(response, field, why);
        return;
    }
    response->content_type = JSON;
    at = sl_buf_reserve(&response->body, SL_VERDICT_JSON_MAX);
    if (at)
        response->body.len = (size_t)(sl_write_verdict(at, verdict, &service->dates) - response->body.data);
}

static void write_verdicts(struct sl_service *service, size_t n, struct sl_buf *body)
{
    char *at = sl_buf_reserve(body, n * (SL_VERDICT_JSON_MAX + 1) + 2);

    if (!at)
        return;
    for (size_t i = 0; i < n; i++) {
        *at++ = i ? ',' : '[';
        at = sl_write_verdict(at, &service->verdicts[i], &service->dates);
    }
    *at++ = ']';
    body->len = (size_t)(at - body->data);
}

static void check_many(struct sl_service *service, struct sl_http_response *response)
{
    const char *field = "", *why = "";
    size_t n = service->input->n, bad = 0;
    char place[96];

    if (sl_limiter_check_batch(service->shared->limiter, service->input->requests, n, service->verdicts, NULL, &bad,
                               &field, &why)) {
        snprintf(place, sizeof place, "[%zu].%s", bad, field);
        refuse_request(response, place, why);
        return;
    }
    response->content_type = JSON;
    write_verdicts(service, n, &response->body);
}

void sl_handle_check(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_service *service = call->service;
    struct sl_check_error error;

    if (sl_check_parse(request->body, request->body_len, service->input, &error))
        sl_problem(response, 400, error.detail, error.field);
    else if (service->input->batch)
        check_many(service, response);
    else
        check_one(service, response);
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

void sl_handle_readyz(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_shared *shared = call->service->shared;

    (void)request;
    if (atomic_load(&shared->draining))
        sl_problem(response, 503, "The daemon is stopping.", NULL);
    else if (!atomic_load(&shared->ready))
        sl_problem(response, 503, "The daemon is not ready yet.", NULL);
    else
        say(response, "ready\n");
}
