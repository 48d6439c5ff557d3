/* One table of routes: path, methods, listener, who may call it, and the handler.
 *
 * Handlers see a request and fill a response; they know neither protocol nor connection. docs/openapi.yaml describes
 * the same routes (a test compares the two). */
#ifndef SL_SERVER_ROUTE_H
#define SL_SERVER_ROUTE_H

#include "server/http.h"
#include "server/service.h"

enum sl_listener_kind { SL_PUBLIC = 1, SL_ADMIN = 2 };

/* What a handler is given besides the request. */
struct sl_call {
    struct sl_service *service;
    struct sl_slice path;  /* of the target, as sent */
    struct sl_slice query; /* without `?`; NULL text when absent */
};

typedef void sl_handler(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response);

enum sl_access {
    SL_OPEN,        /* anybody */
    SL_CHECK_TOKEN, /* bearer check_token, when one is set */
    SL_ADMIN_TOKEN, /* bearer admin_token, when one is set */
};

struct sl_route {
    const char *path;
    bool subtree;      /* also every path below it */
    unsigned methods;  /* enum sl_http_method, or-ed; HEAD goes with GET */
    unsigned listener; /* enum sl_listener_kind, or-ed */
    enum sl_access access;
    sl_handler *handler;
};

extern const struct sl_route sl_routes[];
extern const unsigned sl_n_routes; /* at most SL_ROUTES_COUNTED */

/* Finds the route and answers: 404, 405 with Allow, 401, or what the handler says. Counts the answer. `response` must
 * be cleared. */
void sl_route(struct sl_service *service, enum sl_listener_kind listener, const struct sl_http_request *request,
              struct sl_http_response *response);

/* Counts an answer that no route gave (malformed requests, timeouts). */
void sl_route_count_refusal(struct sl_service *service, int status);

/* True when the Authorization header is `Bearer TOKEN`; the comparison takes the same time wherever the first
 * difference is. */
bool sl_bearer_matches(const struct sl_http_request *request, const char *token);

/* The handlers. */
sl_handler sl_handle_check, sl_handle_auth, sl_handle_healthz, sl_handle_readyz;     /* public */
sl_handler sl_handle_metrics, sl_handle_policy, sl_handle_buckets, sl_handle_reload; /* admin */

#endif
