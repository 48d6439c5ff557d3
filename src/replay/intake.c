#include "replay/intake.h"

#include "base/err.h"

#include <string.h>

#define ADDRESS_TYPE "address"

/* True when both policies make the same key of every address and every forwarded list. */
static bool see_alike(const struct sl_policy *first, const struct sl_policy *second)
{
    const struct sl_door *x = sl_policy_door(first), *y = sl_policy_door(second);

    if (x->ipv6_prefix != y->ipv6_prefix || x->n_trusted != y->n_trusted)
        return false;
    for (size_t i = 0; i < x->n_trusted; i++) {
        if (x->trusted[i].prefix_len != y->trusted[i].prefix_len ||
            x->trusted[i].address.v4 != y->trusted[i].address.v4 ||
            memcmp(x->trusted[i].address.bytes, y->trusted[i].address.bytes, 16) != 0)
            return false;
    }
    return true;
}

void sl_intake_init(struct sl_intake *intake, enum sl_replay_format format, const struct sl_policy *policy,
                    const struct sl_policy *second)
{
    intake->format = format;
    intake->views[0].policy = policy;
    intake->views[1].policy = second;
    intake->n_views = second && !see_alike(policy, second) ? 2 : 1;
}

static int refuse(struct sl_intake *intake, const char *why)
{
    snprintf(intake->why, sizeof intake->why, "%s", why);
    return SL_EINVALID;
}

/* An opaque key of type address is held to the rules of any key, and then stands for itself: it has no address. */
static int check_opaque(struct sl_intake_view *view, const struct sluice_request *raw, const char **field,
                        const char **why)
{
    struct sluice_request any = *raw;
    int error;

    any.key_type = NULL;
    any.key_type_len = 0;
    error = sl_request_check(view->policy, &any, &view->request, &view->buffer, field, why);
    view->request.key_type = raw->key_type;
    view->request.key_type_len = raw->key_type_len;
    return error;
}

/* A request may not ask for more than 10^9; an event that did ask for more did happen, and is judged: no limit can ever
 * hold it, and the smallest such cost stands for all of them. */
#define COST_BEYOND_ALL (SLUICE_COST_MAX + INT64_C(1))

/* Checks and normalises a request as one policy sees it. */
static int take_request(struct sl_intake *intake, struct sl_intake_view *view, const struct sluice_request *raw,
                        bool opaque, struct sl_event_source *source)
{
    const char *field = "", *why = "";
    struct sluice_request given = *raw;
    int error;

    if (raw->cost > SLUICE_COST_MAX)
        given.cost = SLUICE_COST_MAX;
    error = opaque ? check_opaque(view, &given, &field, &why)
                   : sl_request_check(view->policy, &given, &view->request, &view->buffer, &field, &why);
    if (error) {
        snprintf(intake->why, sizeof intake->why, "%s: %s", field, why);
        return SL_EINVALID;
    }
    if (raw->cost > SLUICE_COST_MAX)
        view->request.cost = COST_BEYOND_ALL;
    source->request = &view->request;
    if (view->request.key_len != raw->key_len || memcmp(view->request.key, raw->key, raw->key_len) != 0)
        source->shown = (struct sl_slice){raw->key, raw->key_len};
    return 0;
}

static int take_jsonl(struct sl_intake *intake, struct sl_slice text, struct sl_event_source *sources)
{
    int error = sl_jsonl_line_parse(text.text, text.len, &intake->json, intake->why);

    if (error)
        return error;
    for (unsigned i = 0; i < intake->n_views && !error; i++) {
        sources[i].t_us = intake->json.t_us;
        error = take_request(intake, &intake->views[i], &intake->json.request, false, &sources[i]);
    }
    if (error)
        sl_intake_done(intake);
    return error;
}

/* "METHOD /path": as it lies in the line when one space is between them, else put together. */
static bool join_scope(struct sl_intake *intake, struct sluice_request *raw)
{
    struct sl_slice method = intake->line.method, path = intake->line.path;

    raw->scope = method.text;
    raw->scope_len = method.len + 1 + path.len;
    if (path.text == method.text + method.len + 1)
        return true;
    if (raw->scope_len > sizeof intake->scope)
        return false;
    memcpy(intake->scope, method.text, method.len);
    intake->scope[method.len] = ' ';
    memcpy(intake->scope + method.len + 1, path.text, path.len);
    raw->scope = intake->scope;
    return true;
}

/* The client of a forwarded list, by the code that live traffic meets. */
static void pick_client(const struct sl_log_line *line, struct sl_intake_view *view, struct sluice_request *raw)
{
    const struct sl_door *door = sl_policy_door(view->policy);
    struct sl_forwarded_result result =
        sl_forwarded_client(SL_FORWARDED_XFF, &line->peer, door->trusted, door->n_trusted, &line->forwarded, 1);

    raw->key = view->client;
    raw->key_len = sl_address_key(&result.client, 128, view->client);
}

static int take_combined(struct sl_intake *intake, struct sl_slice text, struct sl_event_source *sources)
{
    struct sluice_request raw = SLUICE_REQUEST_INIT;
    struct sl_log_line *line = &intake->line;
    const char *why;
    int error = 0;

    if (sl_log_line_parse(text.text, text.len, line, &why))
        return refuse(intake, why);
    if (!join_scope(intake, &raw))
        return refuse(intake, "scope: longer than 2048 bytes");
    raw.key_type = ADDRESS_TYPE;
    raw.key_type_len = sizeof ADDRESS_TYPE - 1;
    raw.key = line->first.text;
    raw.key_len = line->first.len;
    for (unsigned i = 0; i < intake->n_views && !error; i++) {
        sources[i].t_us = line->t_us;
        if (line->client == SL_LOG_LIST)
            pick_client(line, &intake->views[i], &raw);
        error = take_request(intake, &intake->views[i], &raw, line->client == SL_LOG_OPAQUE, &sources[i]);
    }
    return error;
}

int sl_intake_line(struct sl_intake *intake, struct sl_slice text, struct sl_event_source ret_sources[static 2])
{
    ret_sources[0] = ret_sources[1] = (struct sl_event_source){.t_us = 0};
    return intake->format == SL_REPLAY_JSONL ? take_jsonl(intake, text, ret_sources)
                                             : take_combined(intake, text, ret_sources);
}

void sl_intake_done(struct sl_intake *intake)
{
    if (intake->format == SL_REPLAY_JSONL)
        sl_jsonl_line_fini(&intake->json);
}
