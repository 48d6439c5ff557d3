/* /v1/shadow, /v1/shadow/promote, /v1/dry-run. */
#include "server/policy_job.h"

#define ANSWER_BYTES 1024u
#define REPORT_BYTES 32768u

static void report(struct sl_call *call, const struct sl_http_request *request, enum sl_policy_verb verb,
                   struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, verb, response);

    if (job && sl_policy_job_read_query(job, call->query, response))
        sl_policy_job_hand_over(call, job, REPORT_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

static void start(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, SL_SHADOW_START, response);

    if (job && sl_policy_job_read_push(job, call, request, response))
        sl_policy_job_hand_over(call, job, ANSWER_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

static void change(struct sl_call *call, const struct sl_http_request *request, enum sl_policy_verb verb,
                   struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, verb, response);

    if (job && sl_policy_job_read_change(job, call, request, response))
        sl_policy_job_hand_over(call, job, ANSWER_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

void sl_handle_shadow(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    if (request->method == SL_HTTP_PUT)
        start(call, request, response);
    else if (request->method == SL_HTTP_DELETE)
        change(call, request, SL_SHADOW_STOP, response);
    else
        report(call, request, SL_SHADOW_REPORT, response);
}

void sl_handle_promote(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    change(call, request, SL_SHADOW_PROMOTE, response);
}

void sl_handle_dry_run(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    if (request->method == SL_HTTP_DELETE)
        change(call, request, SL_DRY_CLEAR, response);
    else
        report(call, request, SL_DRY_REPORT, response);
}
