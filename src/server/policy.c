/* /v1/policy, /v1/policy/history, /v1/policy/version, /v1/policy/rollback. */
#include "server/json_answer.h"
#include "server/policy_job.h"
#include "server/route.h"

#include "policy/report.h"
#include "policy/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_BYTES 65536u
#define ANSWER_BYTES 1024u

/* ---- the policy in force */

static json_t *refused_json(struct sl_shared *shared)
{
    char refused[SL_REFUSED_MAX];

    pthread_mutex_lock(&shared->refused_lock);
    memcpy(refused, shared->refused, sizeof refused);
    pthread_mutex_unlock(&shared->refused_lock);
    return refused[0] ? json_stringn(refused, sl_text_utf8_prefix(refused, strlen(refused))) : json_null();
}

static void answer_policy(struct sl_service *service, struct sl_http_response *response)
{
    struct sl_shared *shared = service->shared;
    const struct sl_policy *policy = sl_service_policy(service);
    bool from_store = atomic_load(&shared->policy_from_store);
    uint64_t version = atomic_load(&shared->policy_version);
    const char *region = sl_policy_region(policy);
    struct sl_limiter_stats stats;

    sl_limiter_stats(shared->limiter, &stats);
    sl_answer_etag(response, sl_policy_hash(policy));
    sl_answer_json(response,
                   json_pack("{s:I, s:s, s:b, s:s, s:b, s:o, s:o, s:I, s:o}", "version",
                             (json_int_t)(from_store ? version : stats.reloads + 1), "source",
                             from_store && version ? "store" : "file", "keptCopy", atomic_load(&shared->kept_copy),
                             "hash", sl_policy_hash(policy), "lastReloadFailed",
                             atomic_load(&shared->last_reload_failed), "refused", refused_json(shared), "region",
                             region ? json_string(region) : json_null(), "limits",
                             (json_int_t)sl_policy_n_limits(policy), "policy", sl_policy_show_json(policy)));
}

/* ---- the routes */

void sl_handle_policy(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_policy_job *job;

    if (request->method != SL_HTTP_PUT) {
        answer_policy(call->service, response);
        return;
    }
    job = sl_policy_job_new(call, request, SL_POLICY_PUSH, response);
    if (job && sl_policy_job_read_push(job, call, request, response))
        sl_policy_job_hand_over(call, job, ANSWER_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

void sl_handle_history(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, SL_POLICY_HISTORY, response);

    if (job && sl_policy_job_read_query(job, call->query, response))
        sl_policy_job_hand_over(call, job, HISTORY_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

void sl_handle_version(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, SL_POLICY_TEXTS, response);

    if (job && sl_policy_job_read_query(job, call->query, response))
        sl_policy_job_hand_over(call, job, HISTORY_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}

void sl_handle_rollback(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_policy_job *job = sl_policy_job_new(call, request, SL_POLICY_ROLLBACK, response);

    if (job && sl_policy_job_read_change(job, call, request, response))
        sl_policy_job_hand_over(call, job, ANSWER_BYTES, response);
    else if (job)
        sl_policy_job_free(job);
}
