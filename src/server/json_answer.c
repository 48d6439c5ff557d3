#include "server/json_answer.h"

#include "server/problem.h"

#include <jansson.h>
#include <stdlib.h>

void sl_answer_json(struct sl_http_response *response, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

    if (text) {
        response->content_type = "application/json";
        sl_buf_text(&response->body, text);
        sl_buf_text(&response->body, "\n");
    } else {
        sl_problem(response, 500, "Out of memory.", NULL);
    }
    free(text);
    json_decref(value);
}

void sl_answer_etag(struct sl_http_response *response, const char *hash)
{
    sl_http_header_begin(response, "ETag");
    sl_buf_printf(&response->values, "\"%s\"", hash);
    sl_http_header_end(response);
}
