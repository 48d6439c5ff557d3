/* application/problem+json (RFC 9457): what every 4xx and 5xx of ours carries.
 *
 *     {"type":"about:blank","title":"Bad Request","status":400,"detail":"`cost` must be a whole
 * number.","field":"[3].cost"} */
#ifndef SL_SERVER_PROBLEM_H
#define SL_SERVER_PROBLEM_H

#include "server/http.h"

#define SL_PROBLEM_TYPE "application/problem+json"

/* Makes `response` a problem: replaces its body, keeps headers already added (Allow, WWW-Authenticate, rate headers).
 * `detail` is a sentence; `field` names the member, parameter or header at fault, or is NULL or "". Both must be valid
 * UTF-8 and are escaped. */
void sl_problem(struct sl_http_response *response, int status, const char *detail, const char *field);

#endif
