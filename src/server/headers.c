#include "server/headers.h"

#include "server/problem.h"

#include <string.h>

#define MICROS INT64_C(1000000)

static void add_triple(struct sl_http_response *response, const struct sluice_verdict *v, const char *limit,
                       const char *remaining, const char *reset)
{
    if (v->limit < 0)
        return;
    sl_http_header_int(response, limit, v->limit);
    if (v->remaining >= 0)
        sl_http_header_int(response, remaining, v->remaining);
    if (v->reset_at_ms >= 0)
        sl_http_header_int(response, reset, sl_seconds_up(v->reset_after_ms));
}

/* One item of a structured list: `, "name"`. Names of limits need no escaping. */
static void begin_item(struct sl_buf *out, bool *first, const char *name)
{
    sl_buf_text(out, *first ? "\"" : ", \"");
    *first = false;
    sl_buf_text(out, name);
    sl_buf_add(out, "\"", 1);
}

static void add_parameter(struct sl_buf *out, const char *name, int64_t value)
{
    sl_buf_text(out, name);
    sl_buf_int(out, value);
}

static bool is_shown(const struct sl_report_item *item)
{
    return !item->dry_run && item->quota >= 0;
}

static void add_draft_policy(struct sl_http_response *response, const struct sl_report *report)
{
    bool first = true;

    sl_http_header_begin(response, "RateLimit-Policy");
    for (unsigned i = 0; i < report->n; i++) {
        const struct sl_report_item *item = &report->items[i];

        if (!is_shown(item))
            continue;
        begin_item(&response->values, &first, item->name);
        add_parameter(&response->values, ";q=", item->quota);
        if (item->period_us && item->period_us % MICROS == 0)
            add_parameter(&response->values, ";w=", (int64_t)(item->period_us / MICROS));
    }
    if (!first)
        sl_http_header_end(response);
}

static void add_draft_state(struct sl_http_response *response, const struct sl_report *report)
{
    bool first = true;

    sl_http_header_begin(response, "RateLimit");
    for (unsigned i = 0; i < report->n; i++) {
        const struct sl_report_item *item = &report->items[i];

        if (!is_shown(item) || item->remaining < 0)
            continue;
        begin_item(&response->values, &first, item->name);
        add_parameter(&response->values, ";r=", item->remaining);
        if (item->next_ms > 0)
            add_parameter(&response->values, ";t=", sl_seconds_up(item->next_ms));
    }
    if (!first)
        sl_http_header_end(response);
}

static void add_warning(struct sl_http_response *response, const struct sluice_verdict *v)
{
    bool first = true;

    sl_http_header_begin(response, "RateLimit-Warning");
    begin_item(&response->values, &first, v->warning_policy);
    add_parameter(&response->values, ";at=", v->warn_at_percent);
    sl_http_header_end(response);
}

void sl_rate_headers(struct sl_http_response *response, enum sl_header_style style,
                     const struct sluice_verdict *verdict, const struct sl_report *report)
{
    if (style == SL_HEADERS_DRAFT) {
        add_draft_policy(response, report);
        add_draft_state(response, report);
    } else {
        add_triple(response, verdict, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset");
        if (style == SL_HEADERS_X)
            add_triple(response, verdict, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset");
    }
    if (verdict->warning)
        add_warning(response, verdict);
    if (!verdict->allowed && verdict->retry_after_ms >= 0) {
        int64_t seconds = sl_seconds_up(verdict->retry_after_ms);

        sl_http_header_int(response, "Retry-After", seconds < 1 ? 1 : seconds);
    }
}

static const char *message_of(int reason)
{
    switch (reason) {
    case SLUICE_REASON_COST_EXCEEDS_LIMIT:
        return "The request costs more than its limit can ever hold.";
    case SLUICE_REASON_STORE_UNAVAILABLE:
        return "The limit cannot be checked at the moment.";
    case SLUICE_REASON_BLOCKED:
        return "Requests of this kind are blocked.";
    case SLUICE_REASON_UNMATCHED:
        return "No limit allows this request.";
    default:
        return "Rate limit exceeded.";
    }
}

static void add_message(struct sl_buf *body, const struct sluice_verdict *v)
{
    int64_t seconds = sl_seconds_up(v->retry_after_ms);

    sl_buf_text(body, message_of(v->reason));
    if (v->retry_after_ms < 0)
        return;
    sl_buf_text(body, " Retry in about ");
    sl_buf_int(body, seconds < 1 ? 1 : seconds);
    sl_buf_text(body, seconds > 1 ? " seconds." : " second.");
}

static void write_problem(struct sl_http_response *response, const struct sluice_verdict *v,
                          const struct sl_report *report, const char *request_id)
{
    struct sl_buf *body = &response->body;
    bool outage = v->reason == SLUICE_REASON_STORE_UNAVAILABLE, first = true;

    response->content_type = SL_PROBLEM_TYPE;
    sl_buf_text(body, outage
                          ? "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
                            "\"title\":\"Request cannot be satisfied due to temporary server capacity constraints\""
                          : "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                            "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\"");
    sl_buf_text(body, ",\"status\":");
    sl_buf_int(body, response->status);
    sl_buf_text(body, ",\"detail\":\"");
    add_message(body, v);
    sl_buf_text(body, "\",\"code\":\"");
    sl_buf_text(body, sluice_reason_name(v->reason));
    sl_buf_text(body, "\",\"requestId\":\"");
    sl_buf_text(body, request_id);
    sl_buf_text(body, "\",\"violated-policies\":[");
    for (unsigned i = 0; report && i < report->n; i++) {
        if (report->items[i].allowed || report->items[i].dry_run)
            continue;
        sl_buf_text(body, first ? "\"" : ",\"");
        sl_buf_text(body, report->items[i].name);
        sl_buf_text(body, "\"");
        first = false;
    }
    if (first && *v->policy) { /* blocked: there is no bucket to report */
        sl_buf_text(body, "\"");
        sl_buf_text(body, v->policy);
        sl_buf_text(body, "\"");
    }
    sl_buf_text(body, "]}\n");
}

void sl_rejection_body(struct sl_http_response *response, bool problem, const struct sluice_verdict *verdict,
                       const struct sl_report *report, const char *request_id)
{
    struct sl_buf *body = &response->body;

    if (problem) {
        write_problem(response, verdict, report, request_id);
        return;
    }
    response->content_type = "application/json";
    sl_buf_text(body, "{\"error\":{\"code\":\"");
    sl_buf_text(body, sluice_reason_name(verdict->reason));
    sl_buf_text(body, "\",\"message\":\"");
    add_message(body, verdict);
    sl_buf_text(body, "\",\"requestId\":\"");
    sl_buf_text(body, request_id);
    sl_buf_text(body, "\"}}\n");
}
