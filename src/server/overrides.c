/* /v1/overrides. */
#include "server/json_answer.h"
#include "server/override_job.h"
#include "server/problem.h"
#include "server/route.h"

#include "policy/override_json.h"
#include "policy/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MAX 1000u
#define LIST_BYTES 65536u
#define ANSWER_BYTES 1024u

/* ---- jobs */

static void free_job(struct sl_override_job *job)
{
    json_decref(job->value);
    free(job->text);
    free(job);
}

static void on_arrived(struct sl_post *post)
{
    struct sl_override_job *job = (struct sl_override_job *)post;
    struct sl_http_response *response = sl_http_later_begin(job->later);

    sl_answer_text(response, job->status, job->text, job->why, job->field);
    sl_http_later_send(job->later);
    free_job(job);
}

void sl_override_job_done(struct sl_override_job *job)
{
    sl_post_send(&job->service->post, &job->post);
}

static bool refuse(struct sl_http_response *response, int status, const char *detail, const char *field)
{
    sl_problem(response, status, detail, field);
    return false;
}

static struct sl_override_job *new_job(struct sl_call *call, const struct sl_http_request *request,
                                       struct sl_http_response *response)
{
    struct sl_override_job *job;

    if (!call->service->shared->hooks.overrides) {
        refuse(response, 501, "This server keeps no overrides.", NULL);
        return NULL;
    }
    job = calloc(1, sizeof *job);
    if (!job) {
        refuse(response, 500, "Out of memory.", NULL);
        return NULL;
    }
    job->post.arrived = on_arrived;
    job->service = call->service;
    job->verb = request->method == SL_HTTP_PUT      ? SL_OVERRIDE_SET
                : request->method == SL_HTTP_DELETE ? SL_OVERRIDE_REMOVE
                                                    : SL_OVERRIDE_LIST;
    sl_caller_text(call->service, request, job->caller);
    return job;
}

/* ---- reading requests; each returns false after it has answered */

/* A sentence that begins with a capital and ends with a full stop. */
static bool refuse_override(struct sl_http_response *response, const char *wrong, const char *field)
{
    char detail[512];

    snprintf(detail, sizeof detail, "%s.", wrong);
    if (detail[0] >= 'a' && detail[0] <= 'z')
        detail[0] = (char)(detail[0] - 'a' + 'A');
    return refuse(response, 400, detail, field);
}

/* Of a caller, without the token that it showed. */
static size_t address_len(const char *caller)
{
    const char *end = strstr(caller, " with");

    return end ? (size_t)(end - caller) : strlen(caller);
}

/* The caller's address where nobody is named. */
static void set_author(struct sl_override_job *job)
{
    if (job->override.author)
        snprintf(job->author, sizeof job->author, "%s", job->override.author);
    else
        snprintf(job->author, sizeof job->author, "admin at %.*s", (int)address_len(job->caller), job->caller);
    job->override.author = job->author;
    snprintf(job->comment, sizeof job->comment, "%s", job->override.comment);
}

static bool read_set(struct sl_override_job *job, struct sl_call *call, const struct sl_http_request *request,
                     struct sl_http_response *response)
{
    const char *wrong, *field = "";

    if (call->query.len)
        return refuse(response, 400, "There are no parameters here: the override is the body.", NULL);
    job->value = json_loadb(request->body ? request->body : "", request->body_len,
                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!json_is_object(job->value))
        return refuse(response, 400, "The body must be one JSON object.", NULL);
    wrong = sl_override_read(job->value, SL_OVERRIDE_ASKED, &job->override, &field);
    if (wrong)
        return refuse_override(response, wrong, field);
    set_author(job);
    return true;
}

/* Decodes the parameters into texts of job->value: they are known by their names. */
static bool read_query(struct sl_override_job *job, struct sl_slice query, const char *const *known,
                       const char *known_text, struct sl_http_response *response)
{
    struct sl_slice name, raw;
    char value[2048], text[16];
    size_t len, k;

    job->value = json_object();
    while (sl_http_next_parameter(&query, &name, &raw)) {
        for (k = 0; known[k] && (strlen(known[k]) != name.len || memcmp(known[k], name.text, name.len) != 0);)
            k++;
        snprintf(text, sizeof text, "%s", known[k] ? known[k] : "");
        if (!known[k])
            return refuse(response, 400, known_text, NULL);
        if (!sl_http_decode(raw, value, sizeof value, &len) || json_object_get(job->value, text) ||
            memchr(value, '\0', len) || json_object_set_new(job->value, text, json_stringn(value, len)))
            return refuse(response, 400, "A parameter is malformed, too long, not UTF-8, or given twice.", text);
    }
    return true;
}

static const char *parameter(const struct sl_override_job *job, const char *name)
{
    return json_string_value(json_object_get(job->value, name));
}

static bool read_remove(struct sl_override_job *job, struct sl_call *call, struct sl_http_response *response)
{
    static const char *const known[] = {"key", "keyType", "limit", "author", "comment", NULL};
    struct sl_override *o = &job->override, whole;
    const char *wrong, *field;

    if (!read_query(job, call->query, known, "Unknown parameter; known are key, keyType, limit, author and comment.",
                    response))
        return false;
    if (!parameter(job, "key"))
        return refuse(response, 400, "The parameter `key` is missing.", "key");
    *o = (struct sl_override){.key = parameter(job, "key"),
                              .key_type = parameter(job, "keyType"),
                              .limit = parameter(job, "limit"),
                              .author = parameter(job, "author"),
                              .comment = parameter(job, "comment"),
                              .rate = {.kind = SL_RATE_BLOCKED}};
    o->key_len = strlen(o->key);
    o->key_type = o->key_type ? o->key_type : "api_key";
    o->comment = o->comment ? o->comment : "";
    whole = *o;
    whole.author = o->author ? o->author : "-";
    wrong = sl_override_check(&whole, &field);
    if (wrong)
        return refuse_override(response, wrong, field);
    set_author(job);
    return true;
}

/* log=N: so many of the newest changes. */
static bool read_list(struct sl_override_job *job, struct sl_call *call, struct sl_http_response *response)
{
    static const char *const known[] = {"log", NULL};
    const char *text;
    unsigned long n = 0;
    char *end = NULL;

    if (!read_query(job, call->query, known, "Unknown parameter; known is log.", response))
        return false;
    text = parameter(job, "log");
    if (!text)
        return true;
    if (text[0] >= '0' && text[0] <= '9')
        n = strtoul(text, &end, 10);
    if (!end || *end || n > LOG_MAX)
        return refuse(response, 400, "`log` must be how many of the newest changes: 0 to 1000.", "log");
    job->log = (unsigned)n;
    return true;
}

static bool read_request(struct sl_override_job *job, struct sl_call *call, const struct sl_http_request *request,
                         struct sl_http_response *response)
{
    if (job->verb == SL_OVERRIDE_SET)
        return read_set(job, call, request, response);
    return job->verb == SL_OVERRIDE_REMOVE ? read_remove(job, call, response) : read_list(job, call, response);
}

void sl_handle_overrides(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_server_hooks *hooks = &call->service->shared->hooks;
    struct sl_override_job *job = new_job(call, request, response);

    if (!job)
        return;
    if (!read_request(job, call, request, response)) {
        free_job(job);
        return;
    }
    job->later = sl_call_later(call, job->verb == SL_OVERRIDE_LIST ? LIST_BYTES : ANSWER_BYTES);
    if (!job->later) {
        free_job(job);
        refuse(response, 500, "Out of memory.", NULL);
        return;
    }
    sl_post_begin(&call->service->post);
    hooks->overrides(hooks->overrides_ctx, job);
}
