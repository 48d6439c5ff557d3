/* What a client is told about its limit: the three header styles of SPEC section 6, and the bodies of rejections.
 *
 *   classic  RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset: numbers; reset is delta seconds, rounded up
 *   x        the same three, and again as X-RateLimit-...
 *   draft    RateLimit-Policy: "name";q=100;w=60 and RateLimit: "name";r=50;t=30
 *            (draft-ietf-httpapi-ratelimit-headers-10)
 *
 * Unknown values send no header, never -1; zero is a value. All texts come from the policy, none from the client. */
#ifndef SL_SERVER_HEADERS_H
#define SL_SERVER_HEADERS_H

#include "limiter/limiter.h"
#include "policy/policy.h"
#include "server/http.h"
#include "sluice/sluice.h"

/* True when a style or an error body needs to know each bucket consulted, so that the decision must fill a report. */
static inline bool sl_headers_need_report(const struct sl_door *door)
{
    return door->headers == SL_HEADERS_DRAFT || door->problem_errors;
}

/* Adds the rate headers, RateLimit-Warning and, on a rejection that can succeed later, Retry-After. `report` is read in
 * draft style only. */
void sl_rate_headers(struct sl_http_response *response, enum sl_header_style style,
                     const struct sluice_verdict *verdict, const struct sl_report *report);

/* Writes the body of a rejection: the default JSON, with `request_id`, or with `errors: problem` the draft's
 * quota-exceeded problem with violated-policies (temporary-reduced-capacity when the store did not answer). Sets the
 * content type; the status is the caller's and must be set before. */
void sl_rejection_body(struct sl_http_response *response, bool problem, const struct sluice_verdict *verdict,
                       const struct sl_report *report, const char *request_id);

/* Whole seconds of a wait, rounded up. */
static inline int64_t sl_seconds_up(int64_t ms)
{
    return ms / 1000 + (ms % 1000 > 0);
}

#endif
