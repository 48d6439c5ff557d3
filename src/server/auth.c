/* /auth: forward-auth for Traefik, Caddy, HAProxy, nginx auth_request and Envoy ext_authz (HTTP).
 *
 * Who asks (SPEC section 7): the first identity header of the policy that is present, else the client's address. What
 * for: the original request as a trusted proxy tells it, else this request's own method and the path after /auth. A
 * header that may decide about the key and comes twice is refused: the proxy and we could take different ones. Headers
 * of peers that are not trusted never matter. */
#include "server/headers.h"
#include "server/inquiry.h"
#include "server/problem.h"
#include "server/route.h"
#include "server/witness.h"

#include "base/err.h"
#include "identity/scope.h"

#include <stdio.h>
#include <string.h>

#define PREFIX_LEN 5       /* of "/auth" */
#define ANSWER_BYTES 1024u /* about: the body of a rejection */

struct caller {
    struct sluice_request request;
    char address[SL_ADDRESS_TEXT_MAX];
    char scope[SLUICE_SCOPE_MAX];
    int denied_status; /* 0: as the verdict says */
};

static int refuse(struct sl_http_response *response, const char *detail, const char *field)
{
    sl_problem(response, 400, detail, field);
    return SL_EINVALID;
}

/* One header that may be there once. Returns 0 and its value (NULL text when absent). */
static int find_once(const struct sl_http_request *request, const char *name, struct sl_slice *ret_value,
                     struct sl_http_response *response)
{
    unsigned n;

    *ret_value = sl_http_find(request, name, &n);
    return n > 1 ? refuse(response, "This header is given more than once.", name) : 0;
}

static bool find_address(struct sl_service *service, const struct sl_door *door, const struct sl_http_request *request,
                         struct caller *caller)
{
    struct sl_slice lines[SL_HTTP_FIELDS_MAX];
    bool trusted = sl_cidrs_contain(door->trusted, door->n_trusted, &request->peer);
    size_t n = trusted ? sl_http_find_all(request, door->forwarded_header, lines, SL_HTTP_FIELDS_MAX) : 0;
    struct sl_forwarded_result who =
        sl_forwarded_client(door->forwarded_kind, &request->peer, door->trusted, door->n_trusted, lines, n);

    if (who.malformed)
        sl_count(&service->counters.bad_forwarded, 1);
    caller->request.address = caller->address;
    caller->request.address_len = sl_address_key(&who.client, door->ipv6_prefix, caller->address);
    return trusted;
}

static void take_key(struct caller *caller, const char *key, size_t len, const char *type)
{
    caller->request.key = key;
    caller->request.key_len = len;
    caller->request.key_type = type;
    caller->request.key_type_len = strlen(type);
}

static int find_key(const struct sl_door *door, const struct sl_http_request *request, bool trusted,
                    struct caller *caller, struct sl_http_response *response)
{
    for (unsigned i = 0; i < door->n_order; i++) {
        const struct sl_identity_rule *rule = &door->order[i];
        struct sl_slice value;

        if (!rule->header)
            break; /* the address is always present */
        if (rule->trusted_only && !trusted)
            continue;
        if (find_once(request, rule->header, &value, response))
            return SL_EINVALID;
        if (value.len) {
            take_key(caller, value.text, value.len, rule->key_type);
            return 0;
        }
    }
    take_key(caller, caller->address, caller->request.address_len, "address");
    return 0;
}

/* The first of two headers that is present, if the peer may say so. */
static int find_original(const struct sl_http_request *request, const char *forwarded, const char *original,
                         struct sl_slice *value, struct sl_http_response *response)
{
    struct sl_slice found;

    if (find_once(request, forwarded, &found, response))
        return SL_EINVALID;
    if (!found.len && find_once(request, original, &found, response))
        return SL_EINVALID;
    if (found.len)
        *value = found;
    return 0;
}

static int find_scope(const struct sl_call *call, const struct sl_http_request *request, bool trusted,
                      struct caller *caller, struct sl_http_response *response)
{
    struct sl_slice method = request->method_text;
    struct sl_slice target = {call->path.text + PREFIX_LEN, call->path.len - PREFIX_LEN};
    int e;

    if (trusted && (find_original(request, "x-forwarded-method", "x-original-method", &method, response) ||
                    find_original(request, "x-forwarded-uri", "x-original-uri", &target, response)))
        return SL_EINVALID;
    if (!target.len)
        target = (struct sl_slice){"/", 1};
    e = sl_scope_from_http(method.text, method.len, target.text, target.len, caller->scope, sizeof caller->scope,
                           &caller->request.scope_len);
    if (e)
        return refuse(response,
                      e == SL_ENOMEM ? "The path is longer than a scope may be."
                                     : "The method or path of the original request is malformed.",
                      "scope");
    caller->request.scope = caller->scope;
    return 0;
}

/* /auth?deny=403. Only on /auth itself: below it the query is the original request's. */
static int find_denied_status(const struct sl_call *call, struct caller *caller, struct sl_http_response *response)
{
    struct sl_slice query = call->query, name, value;

    caller->denied_status = 0;
    while (call->path.len == PREFIX_LEN && sl_http_next_parameter(&query, &name, &value)) {
        if (name.len != 4 || memcmp(name.text, "deny", 4) != 0)
            continue;
        if (value.len != 3 || (memcmp(value.text, "403", 3) != 0 && memcmp(value.text, "429", 3) != 0))
            return refuse(response, "`deny` is 403 or 429.", "deny");
        caller->denied_status = value.text[0] == '4' && value.text[1] == '0' ? 403 : 429;
    }
    return 0;
}

static void answer(struct sl_service *service, const struct sl_door_style *style, const struct sluice_verdict *verdict,
                   const struct sl_report *report, struct sl_http_response *response)
{
    char id[SL_REQUEST_ID_MAX];

    sl_rate_headers(response, style->headers, verdict, report);
    if (verdict->allowed)
        return;
    response->status = style->denied_status                                 ? style->denied_status
                       : verdict->reason == SLUICE_REASON_STORE_UNAVAILABLE ? style->closed_status
                                                                            : 429;
    sl_request_id(service, id);
    sl_rejection_body(response, style->problem_errors, verdict, report, id);
}

static void refuse_caller(struct sl_http_response *response, const char *field, const char *why)
{
    char detail[256];

    snprintf(detail, sizeof detail, "`%s`: %s.", field, why);
    refuse(response, detail, field);
}

static void decide_here(struct sl_service *service, const struct caller *caller, const struct sl_door_style *style,
                        bool report, struct sl_http_response *response)
{
    struct sluice_verdict *verdict = &service->verdicts[0];
    const char *field = "", *why = "";

    service->report->n = 0;
    if (sl_limiter_check(service->shared->limiter, &caller->request, verdict, report ? service->report : NULL, &field,
                         &why))
        refuse_caller(response, field, why);
    else {
        sl_witness_tell(service, &caller->request, verdict, report ? service->report : NULL);
        answer(service, style, verdict, service->report, response);
    }
}

static void answer_inquiry(struct sl_inquiry *inquiry, struct sl_http_response *response)
{
    answer(inquiry->service, &inquiry->style, inquiry->verdicts, inquiry->report, response);
}

static void ask(struct sl_call *call, const struct caller *caller, const struct sl_door_style *style, bool report,
                struct sl_http_response *response)
{
    struct sl_inquiry *inquiry = sl_inquiry_new(call->service, 1, report);
    const char *field = "", *why = "";

    if (!inquiry) {
        sl_inquiry_refuse(response);
        return;
    }
    inquiry->style = *style;
    inquiry->answer = answer_inquiry;
    if (sl_inquiry_begin(inquiry, &caller->request, &field, &why)) {
        refuse_caller(response, field, why);
        sl_inquiry_abandon(inquiry);
        return;
    }
    sl_inquiry_answer(inquiry, call, ANSWER_BYTES, response);
}

void sl_handle_auth(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_service *service = call->service;
    const struct sl_door *door = sl_policy_door(sl_service_policy(service));
    bool report = sl_headers_need_report(door), trusted;
    struct sl_door_style style;
    struct caller caller;

    caller.request = (struct sluice_request)SLUICE_REQUEST_INIT;
    trusted = find_address(service, door, request, &caller);
    if (find_denied_status(call, &caller, response) || find_key(door, request, trusted, &caller, response) ||
        find_scope(call, request, trusted, &caller, response))
        return;
    report = report || sl_witness_wants_report(service, &caller.request);
    style = (struct sl_door_style){.headers = door->headers,
                                   .problem_errors = door->problem_errors,
                                   .closed_status = door->closed_status,
                                   .denied_status = caller.denied_status};
    if (service->lane)
        ask(call, &caller, &style, report, response);
    else
        decide_here(service, &caller, &style, report, response);
}
