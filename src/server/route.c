#include "server/route.h"

#include "server/problem.h"

#include <assert.h>
#include <string.h>

#define READ (SL_HTTP_GET | SL_HTTP_HEAD)
#define BOTH (SL_PUBLIC | SL_ADMIN)

/* path, subtree, methods, listener, access, handler; the hot ones first. */
const struct sl_route sl_routes[] = {
    {"/check", false, SL_HTTP_POST, SL_PUBLIC, SL_CHECK_TOKEN, sl_handle_check},
    {"/auth", true, SL_HTTP_ANY, SL_PUBLIC, SL_OPEN, sl_handle_auth},
    {"/healthz", false, READ, BOTH, SL_OPEN, sl_handle_healthz},
    {"/readyz", false, READ, BOTH, SL_OPEN, sl_handle_readyz},
    {"/metrics", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_metrics},
    {"/v1/policy", false, READ | SL_HTTP_PUT, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_policy},
    {"/v1/policy/history", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_history},
    {"/v1/policy/version", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_version},
    {"/v1/policy/rollback", false, SL_HTTP_POST, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_rollback},
    {"/v1/shadow", false, READ | SL_HTTP_PUT | SL_HTTP_DELETE, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_shadow},
    {"/v1/shadow/promote", false, SL_HTTP_POST, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_promote},
    {"/v1/dry-run", false, READ | SL_HTTP_DELETE, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_dry_run},
    {"/v1/overrides", false, READ | SL_HTTP_PUT | SL_HTTP_DELETE, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_overrides},
    {"/v1/buckets", false, READ | SL_HTTP_DELETE, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_buckets},
    {"/v1/alarms", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_alarms},
    {"/v1/top", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_top},
    {"/v1/rejections", false, READ, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_rejections},
    {"/v1/traces", false, READ | SL_HTTP_POST, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_traces},
    {"/v1/traces/{id}", false, READ | SL_HTTP_DELETE, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_trace},
    {"/v1/reload", false, SL_HTTP_POST, SL_ADMIN, SL_ADMIN_TOKEN, sl_handle_reload},
};
const unsigned sl_n_routes = sizeof sl_routes / sizeof *sl_routes;

static_assert(sizeof sl_routes / sizeof *sl_routes <= SL_ROUTES_COUNTED, "a row of counters for every route");

static bool route_matches(const struct sl_route *route, struct sl_slice path)
{
    const char *wanted = route->path;
    size_t len = 0;

    while (len < path.len && path.text[len] == *wanted && *wanted && *wanted != '{') /* mostly two characters */
        len++, wanted++;
    if (*wanted == '{')
        return path.len > len && !memchr(path.text + len, '/', path.len - len);
    return !*wanted && (path.len == len || (route->subtree && path.text[len] == '/'));
}

static const struct sl_route *find(enum sl_listener_kind listener, struct sl_slice path)
{
    for (unsigned i = 0; i < sl_n_routes; i++)
        if (sl_routes[i].listener & listener && route_matches(&sl_routes[i], path))
            return &sl_routes[i];
    return NULL;
}

static void refuse_method(const struct sl_route *route, struct sl_http_response *response)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{SL_HTTP_GET, "GET"},
                 {SL_HTTP_HEAD, "HEAD"},
                 {SL_HTTP_POST, "POST"},
                 {SL_HTTP_PUT, "PUT"},
                 {SL_HTTP_DELETE, "DELETE"}};
    bool first = true;

    sl_http_header_begin(response, "Allow");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(route->methods & names[i].method))
            continue;
        sl_buf_text(&response->values, first ? "" : ", ");
        sl_buf_text(&response->values, names[i].name);
        first = false;
    }
    sl_http_header_end(response);
    sl_problem(response, 405, "This path does not take that method; see the Allow header.", NULL);
}

bool sl_bearer_matches(const struct sl_http_request *request, const char *token)
{
    unsigned n;
    struct sl_slice value = sl_http_find(request, "authorization", &n);
    size_t len = strlen(token), given;
    unsigned char difference;

    if (n != 1 || value.len < 7 || !sl_http_same_name(value.text, 7, "Bearer ", 7))
        return false;
    given = value.len - 7;
    difference = given != len;
    for (size_t i = 0; i < given; i++)
        difference |= (unsigned char)((unsigned char)value.text[7 + i] ^ (unsigned char)token[len ? i % len : 0]);
    return difference == 0;
}

/* Returns 0, 401 or 403. Each admin token is compared whatever came of the other, so that the time tells nothing. */
static int refusal(const struct sl_route *route, const struct sl_shared *shared, const struct sl_http_request *request)
{
    bool may_all, may_read;

    if (request->trusted_channel || route->access == SL_OPEN)
        return 0;
    if (route->access == SL_CHECK_TOKEN)
        return !shared->check_token || sl_bearer_matches(request, shared->check_token) ? 0 : 401;
    if (!shared->admin_token && !shared->admin_read_token)
        return 0;
    may_all = shared->admin_token && sl_bearer_matches(request, shared->admin_token);
    may_read = shared->admin_read_token && sl_bearer_matches(request, shared->admin_read_token);
    if (may_all || (may_read && request->method & READ))
        return 0;
    return may_read ? 403 : 401;
}

static void refuse_caller(int status, struct sl_http_response *response)
{
    bool known = status == 403;

    sl_http_header_text(response, "WWW-Authenticate",
                        known ? "Bearer realm=\"sluice\", error=\"insufficient_scope\"" : "Bearer realm=\"sluice\"");
    sl_problem(response, status,
               known ? "This token may only read; what changes something needs the token of --admin-token."
                     : "This path needs `Authorization: Bearer` with the right token.",
               NULL);
}

static unsigned class_of(int status)
{
    return status < 400 ? SL_CLASS_2XX : status == 429 ? SL_CLASS_429 : status < 500 ? SL_CLASS_4XX : SL_CLASS_5XX;
}

void sl_route_count_refusal(struct sl_service *service, int status)
{
    sl_count(&service->counters.unrouted[class_of(status)], 1);
}

static void count_answer(struct sl_service *service, unsigned route, int status)
{
    sl_count(&service->counters.responses[route][class_of(status)], 1);
}

/* What did not fit becomes an answer that does. */
static void mend(struct sl_http_response *response)
{
    if (!response->body.failed && !response->values.failed)
        return;
    response->n_headers = 0;
    sl_buf_clear(&response->values);
    sl_problem(response, 500, "Out of memory.", NULL);
}

struct sl_http_later *sl_call_later(struct sl_call *call, size_t answer_bytes)
{
    assert(!call->later);
    call->later = call->asker ? call->asker->later(call->asker, answer_bytes) : NULL;
    if (call->later) {
        call->later->service = call->service;
        call->later->route = call->route;
    }
    return call->later;
}

struct sl_http_response *sl_http_later_begin(struct sl_http_later *later)
{
    struct sl_http_response *response = later->ops->begin(later);

    sl_http_response_clear(response);
    return response;
}

void sl_http_later_send(struct sl_http_later *later)
{
    struct sl_service *service = later->service;
    struct sl_http_response *response = later->ops->begin(later);
    unsigned route = later->route;
    int status;

    mend(response);
    status = response->status;
    if (later->ops->send(later))
        count_answer(service, route, status);
}

bool sl_route(struct sl_service *service, enum sl_listener_kind listener, const struct sl_http_request *request,
              struct sl_http_asker *asker, struct sl_http_response *response)
{
    struct sl_call call = {.service = service, .asker = asker};
    const struct sl_route *route;
    int refused;

    sl_http_split_target(request->target, &call.path, &call.query);
    route = find(listener, call.path);
    if (!route) {
        sl_problem(response, 404, "There is nothing at this path.", NULL);
        sl_route_count_refusal(service, 404);
        return true;
    }
    call.route = (unsigned)(route - sl_routes);
    if (!(route->methods & request->method))
        refuse_method(route, response);
    else if ((refused = refusal(route, service->shared, request)))
        refuse_caller(refused, response);
    else
        route->handler(&call, request, response);
    if (call.later)
        return false;
    mend(response);
    count_answer(service, call.route, response->status);
    return true;
}
