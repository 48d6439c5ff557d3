#include "server/problem.h"

#include <string.h>

static void add_text(struct sl_buf *body, const char *text)
{
    sl_buf_json(body, text, strlen(text));
}

void sl_problem(struct sl_http_response *response, int status, const char *detail, const char *field)
{
    struct sl_buf *body = &response->body;

    response->status = status;
    response->content_type = SL_PROBLEM_TYPE;
    sl_buf_clear(body);
    sl_buf_text(body, "{\"type\":\"about:blank\",\"title\":");
    add_text(body, sl_http_status_text(status));
    sl_buf_text(body, ",\"status\":");
    sl_buf_int(body, status);
    sl_buf_text(body, ",\"detail\":");
    add_text(body, detail);
    if (field && *field) {
        sl_buf_text(body, ",\"field\":");
        add_text(body, field);
    }
    sl_buf_text(body, "}\n");
}
