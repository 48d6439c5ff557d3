/* One table of routes: path, methods, listener, who may call it, and the handler.
 *
 * Handlers see a request and fill a response; they know neither protocol nor connection. docs/openapi.yaml describes
 * the same routes (a test compares the two). */
#ifndef SL_SERVER_ROUTE_H
#define SL_SERVER_ROUTE_H

#include "server/http.h"
#include "server/service.h"

enum sl_listener_kind { SL_PUBLIC = 1, SL_ADMIN = 2 };

struct sl_http_asker;
struct sl_http_later;

/* What a handler is given besides the request. */
struct sl_call {
    struct sl_service *service;
    struct sl_slice path;  /* of the target, as sent */
    struct sl_slice query; /* without `?`; NULL text when absent */
    unsigned route;        /* index in sl_routes */
    struct sl_http_asker *asker;
    struct sl_http_later *later; /* set by sl_call_later */
};

typedef void sl_handler(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response);

enum sl_access {
    SL_OPEN,        /* anybody */
    SL_CHECK_TOKEN, /* bearer check_token, when one is set */
    SL_ADMIN_TOKEN, /* bearer admin_token or, for GET and HEAD, admin_read_token, when one of the two is set */
};

struct sl_route {
    const char *path;  /* may end with one segment in braces, which stands for any */
    bool subtree;      /* also every path below it */
    unsigned methods;  /* enum sl_http_method, or-ed; HEAD goes with GET */
    unsigned listener; /* enum sl_listener_kind, or-ed */
    enum sl_access access;
    sl_handler *handler;
};

extern const struct sl_route sl_routes[];
extern const unsigned sl_n_routes; /* at most SL_ROUTES_COUNTED */

/* Finds the route and answers: 404, 405 with Allow, 401, 403, or what the handler says. Counts the answer. `response` must
 * be cleared. Returns true; or false when the handler answers later: then the response says nothing, and what the
 * asker has lent is the answer's way. asker: NULL when nothing can be answered later. */
bool sl_route(struct sl_service *service, enum sl_listener_kind listener, const struct sl_http_request *request,
              struct sl_http_asker *asker, struct sl_http_response *response);

/* Counts an answer that no route gave (malformed requests, timeouts). */
void sl_route_count_refusal(struct sl_service *service, int status);

/* ---- answers that come later
 *
 *     later = sl_call_later(call, 640);       in the handler, which then returns without a response
 *     ...                                     later, on the same loop, never from inside a handler:
 *     response = sl_http_later_begin(later);
 *     ... fill it ...
 *     sl_http_later_send(later);
 *
 * Each must be sent, once, before the loop ends, also when the client has gone meanwhile: then nothing is sent. Nothing
 * of the request is there any more. In HTTP/1 what follows on the connection waits, in HTTP/2 other streams go on. */

/* Takes the answer of this call upon the handler. answer_bytes: about how long its body will be; HTTP/2 counts it
 * among the answers that wait. Returns NULL when memory is out, or when this asker cannot wait: the handler answers
 * then. Once a call. */
struct sl_http_later *sl_call_later(struct sl_call *call, size_t answer_bytes);

/* The response to fill: cleared, the loop's scratch, so fill and send it in one go. */
struct sl_http_response *sl_http_later_begin(struct sl_http_later *later);

/* Sends and counts it, and frees `later`. */
void sl_http_later_send(struct sl_http_later *later);

/* What a connection lends for one request: the way of a later answer. NULL: out of memory. */
struct sl_http_asker {
    struct sl_http_later *(*later)(struct sl_http_asker *asker, size_t answer_bytes);
};

/* The connection's part of it; `send` frees it and returns false when the client has gone. */
struct sl_http_later_ops {
    struct sl_http_response *(*begin)(struct sl_http_later *later);
    bool (*send)(struct sl_http_later *later);
};

/* First member of the connection's own. */
struct sl_http_later {
    const struct sl_http_later_ops *ops; /* set by the asker */
    struct sl_service *service;
    unsigned route;
};

/* True when the Authorization header is `Bearer TOKEN`; the comparison takes the same time wherever the first
 * difference is. */
bool sl_bearer_matches(const struct sl_http_request *request, const char *token);

/* The handlers. */
sl_handler sl_handle_history, sl_handle_version, sl_handle_rollback; /* admin, server/policy.c, with sl_handle_policy */
sl_handler sl_handle_check, sl_handle_auth, sl_handle_healthz, sl_handle_readyz;                    /* public */
sl_handler sl_handle_metrics, sl_handle_policy, sl_handle_buckets, sl_handle_reload, sl_handle_top; /* admin */
sl_handler sl_handle_alarms;                                                                        /* admin */
sl_handler sl_handle_overrides;                                     /* admin, server/overrides.c */
sl_handler sl_handle_shadow, sl_handle_promote, sl_handle_dry_run;  /* admin, server/shadow.c */
sl_handler sl_handle_rejections, sl_handle_traces, sl_handle_trace; /* admin */

#endif
