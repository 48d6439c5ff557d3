/* GET /v1/top: the hottest keys and the most rejected ones, as clients sent them. */
#include "server/problem.h"
#include "server/route.h"

#include <jansson.h>
#include <stdlib.h>

#define KEYS 20u /* of each kind */

/* NULL: out of memory. */
static json_t *keys_json(struct sl_top *top, enum sl_top_kind kind)
{
    struct sl_top_key keys[KEYS];
    unsigned n = sl_top_read(top, kind, keys, KEYS);
    json_t *array = json_array();

    for (unsigned i = 0; array && i < n; i++)
        if (json_array_append_new(array, json_pack("{s:s, s:s, s:f}", "key", keys[i].key, "keyType", keys[i].key_type,
                                                   "opsPerSecond", keys[i].per_second))) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

void sl_handle_top(struct sl_call *call, const struct sl_http_request *request, struct sl_http_response *response)
{
    struct sl_top *top = call->service->shared->top;
    json_t *value;
    char *text;

    (void)request;
    if (!top) {
        sl_problem(response, 501, "This server does not follow its hottest keys.", NULL);
        return;
    }
    value = json_pack("{s:o, s:o}", "hot", keys_json(top, SL_TOP_HOT), "rejected", keys_json(top, SL_TOP_REJECTED));
    text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
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
