/* JSON bodies of admin answers. */
#ifndef SL_SERVER_JSON_ANSWER_H
#define SL_SERVER_JSON_ANSWER_H

#include "server/http.h"

struct json_t;

/* Writes `value` as the body and drops the reference; NULL: 500, out of memory. */
void sl_answer_json(struct sl_http_response *response, struct json_t *value);
/* The same of a body that is text already; without text, a problem: `why`, and the field at fault (NULL: none). */
void sl_answer_text(struct sl_http_response *response, int status, const char *text, const char *why,
                    const char *field);
/* ETag: "HASH" */
void sl_answer_etag(struct sl_http_response *response, const char *hash);

#endif
