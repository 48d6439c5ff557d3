/* Jobs about versions and candidates of the policy: read from requests, handed over, answered. */
#include "server/policy_job.h"

#include "server/json_answer.h"
#include "server/problem.h"

#include "identity/address.h"
#include "policy/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_PRESET 20u

/* ---- jobs */

void sl_policy_job_free(struct sl_policy_job *job)
{
    free(job->body);
    free(job->keys);
    free(job->text);
    free(job);
}

static void on_arrived(struct sl_post *post)
{
    struct sl_policy_job *job = (struct sl_policy_job *)post;
    struct sl_http_response *response = sl_http_later_begin(job->later);

    if (job->etag[0])
        sl_answer_etag(response, job->etag);
    sl_answer_text(response, job->status, job->text, job->why, job->field);
    sl_http_later_send(job->later);
    sl_policy_job_free(job);
}

void sl_policy_job_done(struct sl_policy_job *job)
{
    sl_post_send(&job->service->post, &job->post);
}

/* Who does such jobs; NULL: nobody. */
static sl_policy_job_taker *taker(const struct sl_call *call, enum sl_policy_verb verb)
{
    const struct sl_server_hooks *hooks = &call->service->shared->hooks;

    return verb < SL_SHADOW_REPORT ? hooks->policy : hooks->shadow;
}

struct sl_policy_job *sl_policy_job_new(struct sl_call *call, const struct sl_http_request *request,
                                        enum sl_policy_verb verb, struct sl_http_response *response)
{
    struct sl_policy_job *job;

    if (!taker(call, verb)) {
        sl_problem(response, 501,
                   verb < SL_SHADOW_REPORT
                       ? "This server keeps no versions of its policy: it has no store that instances share."
                       : "This server rehearses no policies.",
                   NULL);
        return NULL;
    }
    job = calloc(1, sizeof *job);
    if (!job) {
        sl_problem(response, 500, "Out of memory.", NULL);
        return NULL;
    }
    job->post.arrived = on_arrived;
    job->service = call->service;
    job->verb = verb;
    job->limit = LIMIT_PRESET;
    if (request->trusted_channel)
        snprintf(job->peer, sizeof job->peer, "a unix socket");
    else
        sl_address_key(&request->peer, 128, job->peer);
    return job;
}

void sl_policy_job_hand_over(struct sl_call *call, struct sl_policy_job *job, size_t answer_bytes,
                             struct sl_http_response *response)
{
    struct sl_server_hooks *hooks = &call->service->shared->hooks;

    job->later = sl_call_later(call, answer_bytes);
    if (!job->later) {
        sl_policy_job_free(job);
        sl_problem(response, 500, "Out of memory.", NULL);
        return;
    }
    sl_post_begin(&call->service->post);
    taker(call, job->verb)(job->verb < SL_SHADOW_REPORT ? hooks->policy_ctx : hooks->shadow_ctx, job);
}

/* ---- reading requests; each returns false after it has answered */

static bool is_text(struct sl_slice slice, const char *text)
{
    return slice.len == strlen(text) && !memcmp(slice.text, text, slice.len);
}

static bool refuse(struct sl_http_response *response, int status, const char *detail, const char *field)
{
    sl_problem(response, status, detail, field);
    return false;
}

static bool set_text(char *to, size_t max, const char *text, size_t len, const char *field,
                     struct sl_http_response *response)
{
    char detail[96];

    if (len <= max && sl_text_printable(text, len) && sl_text_utf8_prefix(text, len) == len) {
        memcpy(to, text, len);
        to[len] = '\0';
        return true;
    }
    snprintf(detail, sizeof detail, "`%s` must be at most %zu bytes of UTF-8 without control characters.", field, max);
    return refuse(response, 400, detail, field);
}

static bool set_number(uint64_t *to, const char *text, size_t len, uint64_t min, uint64_t max, const char *field,
                       struct sl_http_response *response)
{
    uint64_t number = 0;
    bool good = len >= 1 && len <= 15;
    char detail[96];

    for (size_t i = 0; good && i < len; i++) {
        good = text[i] >= '0' && text[i] <= '9';
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    *to = number;
    if (good && number >= min && number <= max)
        return true;
    snprintf(detail, sizeof detail, "`%s` must be a whole number from %llu to %llu.", field, (unsigned long long)min,
             (unsigned long long)max);
    return refuse(response, 400, detail, field);
}

static bool set_report_parameter(struct sl_policy_job *job, struct sl_slice name, const char *value, size_t len,
                                 struct sl_http_response *response)
{
    uint64_t text;

    if (job->verb != SL_SHADOW_REPORT || !is_text(name, "text"))
        return refuse(response, 400,
                      job->verb == SL_SHADOW_REPORT ? "Unknown parameter; known is text." : "Unknown parameter.", NULL);
    if (!set_number(&text, value, len, 0, 1, "text", response))
        return false;
    job->with_text = text == 1;
    return true;
}

/* Which warnings of a push are refused. */
static bool set_refused(struct sl_policy_job *job, const char *value, size_t len, struct sl_http_response *response)
{
    struct sl_slice slice = {value, len};

    job->refused = is_text(slice, "allow") ? SL_WARNINGS_NONE : SL_WARNINGS_ALL;
    return job->refused == SL_WARNINGS_NONE || is_text(slice, "refuse") ||
           refuse(response, 400, "`warnings` must be allow or refuse.", "warnings");
}

static bool set_version(struct sl_policy_job *job, struct sl_slice name, const char *value, size_t len,
                        struct sl_http_response *response)
{
    return is_text(name, "number") ? set_number(&job->number, value, len, 1, 999999999999999, "number", response)
                                   : refuse(response, 400, "Unknown parameter; known is number.", NULL);
}

/* author and comment of any verb that changes something; before and limit of the history. */
static bool set_parameter(struct sl_policy_job *job, struct sl_slice name, const char *value, size_t len,
                          struct sl_http_response *response)
{
    bool history = job->verb == SL_POLICY_HISTORY, report = job->verb == SL_SHADOW_REPORT || job->verb == SL_DRY_REPORT;
    uint64_t limit;

    if (report)
        return set_report_parameter(job, name, value, len, response);
    if (job->verb == SL_POLICY_TEXTS)
        return set_version(job, name, value, len, response);
    if (!history && is_text(name, "author"))
        return set_text(job->author, SL_JOB_AUTHOR_MAX, value, len, "author", response);
    if (!history && is_text(name, "comment"))
        return set_text(job->comment, SL_JOB_COMMENT_MAX, value, len, "comment", response);
    if (history && is_text(name, "before"))
        return set_number(&job->number, value, len, 2, 999999999999999, "before", response);
    if (history && is_text(name, "limit")) {
        if (!set_number(&limit, value, len, 1, SL_JOB_HISTORY_MAX, "limit", response))
            return false;
        job->limit = (unsigned)limit;
        return true;
    }
    if (job->verb == SL_POLICY_PUSH && is_text(name, "warnings"))
        return set_refused(job, value, len, response);
    return refuse(response, 400,
                  history                       ? "Unknown parameter; known are before and limit."
                  : job->verb == SL_POLICY_PUSH ? "Unknown parameter; known are author, comment and warnings."
                                                : "Unknown parameter; known are author and comment.",
                  NULL);
}

bool sl_policy_job_read_query(struct sl_policy_job *job, struct sl_slice query, struct sl_http_response *response)
{
    struct sl_slice name, raw;
    char value[SL_JOB_COMMENT_MAX + 64];
    size_t len;

    while (sl_http_next_parameter(&query, &name, &raw)) {
        if (!sl_http_decode(raw, value, sizeof value, &len))
            return refuse(response, 400, "A parameter is malformed or too long.", NULL);
        if (!set_parameter(job, name, value, len, response))
            return false;
    }
    return true;
}

/* If-Match: "HASH" or *; an absent one is the caller's to judge. */
bool sl_policy_job_read_match(struct sl_policy_job *job, const struct sl_http_request *request, bool *ret_given,
                              struct sl_http_response *response)
{
    unsigned n;
    struct sl_slice value = sl_http_find(request, "if-match", &n);

    *ret_given = n > 0;
    job->match_any = n == 1 && is_text(value, "*");
    if (n == 0 || job->match_any)
        return true;
    if (n != 1 || value.len != 66 || value.text[0] != '"' || value.text[65] != '"')
        return refuse(response, 400, "If-Match must be `*`, or the one ETag that /v1/policy was answered with.",
                      "If-Match");
    memcpy(job->match, value.text + 1, 64);
    job->match[64] = '\0';
    return true;
}

static bool copy_bytes(char **to, size_t *to_len, const char *bytes, size_t len, struct sl_http_response *response)
{
    *to = malloc(len + 1);
    if (!*to)
        return refuse(response, 500, "Out of memory.", NULL);
    memcpy(*to, bytes, len);
    (*to)[len] = '\0';
    *to_len = len;
    return true;
}

static bool is_json(const struct sl_http_request *request)
{
    struct sl_slice type = sl_http_find(request, "content-type", NULL);

    return type.text && type.len >= 16 && sl_http_same_name(type.text, 16, "application/json", 16);
}

static bool is_push(const struct sl_policy_job *job)
{
    return job->verb == SL_POLICY_PUSH || job->verb == SL_SHADOW_START;
}

/* One member of a JSON body, a string; what may be in it depends on the verb. */
static bool take_member(struct sl_policy_job *job, const char *name, const json_t *value,
                        struct sl_http_response *response)
{
    struct sl_slice slice = {name, strlen(name)};
    bool push = is_push(job), number = job->verb == SL_POLICY_ROLLBACK && !strcmp(name, "version");
    char text[24];

    if (number && json_is_integer(value)) {
        int len = snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));

        return set_number(&job->number, text, (size_t)len, 1, 999999999999999, "version", response);
    }
    if (!json_is_string(value))
        return refuse(response, 400, number ? "`version` must be a number." : "A member is unknown, or not a text.",
                      NULL);
    if (push && !strcmp(name, "policy"))
        return copy_bytes(&job->body, &job->body_len, json_string_value(value), json_string_length(value), response);
    if (push && !strcmp(name, "keys"))
        return copy_bytes(&job->keys, &job->keys_len, json_string_value(value), json_string_length(value), response);
    if (strcmp(name, "author") != 0 && strcmp(name, "comment") != 0)
        return refuse(response, 400,
                      push                              ? "Unknown member; known are policy, keys, author and comment."
                      : job->verb == SL_POLICY_ROLLBACK ? "Unknown member; known are version, author and comment."
                                                        : "Unknown member; known are author and comment.",
                      NULL);
    return set_parameter(job, slice, json_string_value(value), json_string_length(value), response);
}

static bool read_json(struct sl_policy_job *job, const struct sl_http_request *request,
                      struct sl_http_response *response)
{
    json_error_t error;
    json_t *root = json_loadb(request->body, request->body_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    const char *name;
    json_t *value;
    bool good = true;

    if (!json_is_object(root)) {
        json_decref(root);
        return refuse(response, 400, "The body must be one JSON object.", NULL);
    }
    json_object_foreach(root, name, value)
    {
        good = good && take_member(job, name, value, response);
    }
    json_decref(root);
    return good;
}

bool sl_policy_job_read_push(struct sl_policy_job *job, struct sl_call *call, const struct sl_http_request *request,
                             struct sl_http_response *response)
{
    bool given, conditional = job->verb == SL_POLICY_PUSH;

    if (!sl_policy_job_read_query(job, call->query, response))
        return false;
    if (conditional && !sl_policy_job_read_match(job, request, &given, response))
        return false;
    if (conditional && !given)
        return refuse(response, 428,
                      "If-Match is required: the ETag of the policy that this one is to replace, or `*`.", "If-Match");
    if (is_json(request)) {
        if (!read_json(job, request, response))
            return false;
    } else if (!copy_bytes(&job->body, &job->body_len, request->body ? request->body : "", request->body_len,
                           response)) {
        return false;
    }
    return job->body_len ? true : refuse(response, 400, "There is no policy in the body.", "policy");
}

bool sl_policy_job_read_change(struct sl_policy_job *job, struct sl_call *call, const struct sl_http_request *request,
                               struct sl_http_response *response)
{
    bool given;

    return sl_policy_job_read_query(job, call->query, response) &&
           sl_policy_job_read_match(job, request, &given, response) &&
           (!request->body_len || read_json(job, request, response));
}
