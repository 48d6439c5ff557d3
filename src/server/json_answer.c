#include "server/json_answer.h"

#include "server/problem.h"

#include <jansson.h>
#include <stdlib.h>

void sl_answer_text(struct sl_http_response *response, int status, const char *text, const char *why, const char *field)
{
    if (!text) {
        sl_problem(response, status, why, field);
        return;
    }
    response->status = status;
    response->content_type = "application/json";
    sl_buf_text(&response->body, text);
    sl_buf_text(&response->body, "\n");
}

void sl_answer_json(struct sl_http_response *response, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

    sl_answer_text(response, text ? response->status : 500, text, "Out of memory.", NULL); /* which may be 201 */
    free(text);
    json_decref(value);
}

void sl_answer_etag(struct sl_http_response *response, const char *hash)
{
    sl_http_header_begin(response, "ETag");
    sl_buf_printf(&response->values, "\"%s\"", hash);
    sl_http_header_end(response);
}
