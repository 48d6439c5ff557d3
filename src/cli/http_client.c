#include "cli/http_client.h"
#include "observe/show.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t take_body(char *data, size_t size, size_t n, void *ctx)
{
    struct http_answer *answer = ctx;
    char *grown;

    if (size * n > HTTP_BODY_MAX - answer->len)
        return 0;
    grown = realloc(answer->body, answer->len + size * n + 1);
    if (!grown)
        return 0;
    answer->body = grown;
    memcpy(answer->body + answer->len, data, size * n);
    answer->len += size * n;
    answer->body[answer->len] = '\0';
    return size * n;
}

/* False: it is too long. A part of it would ask for something else. */
static bool set_address(CURL *curl, const struct http_request *request)
{
    char url[HTTP_URL_MAX];
    int n;

    if (!strncmp(request->server, "unix:", 5)) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, request->server + 5);
        n = snprintf(url, sizeof url, "http://localhost%s", request->path);
    } else {
        size_t len = strlen(request->server);

        while (len > 0 && request->server[len - 1] == '/')
            len--;
        n = snprintf(url, sizeof url, "%s%.*s%s", strstr(request->server, "://") ? "" : "http://", (int)len,
                     request->server, request->path);
    }
    if (n < 0 || (size_t)n >= sizeof url)
        return false;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    return true;
}

static struct curl_slist *set_headers(CURL *curl, const struct http_request *request)
{
    struct curl_slist *headers = NULL;
    char line[4096 + 32];

    if (request->token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", request->token);
        headers = curl_slist_append(headers, line);
    }
    if (request->if_match) {
        snprintf(line, sizeof line, "If-Match: %s", request->if_match);
        headers = curl_slist_append(headers, line);
    }
    if (request->body) {
        headers = curl_slist_append(headers, "Content-Type: application/json");
        headers = curl_slist_append(headers, "Expect:"); /* no waiting for a 100 */
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    return headers;
}

int http_call(const struct http_request *request, struct http_answer *ret_answer, char *why, size_t why_size)
{
    char error[CURL_ERROR_SIZE] = "";
    CURL *curl = curl_easy_init();
    struct curl_slist *headers;
    CURLcode code;

    *ret_answer = (struct http_answer){0};
    if (!curl) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    if (!set_address(curl, request)) {
        snprintf(why, why_size, "the request is too long");
        curl_easy_cleanup(curl);
        return -1;
    }
    headers = set_headers(curl, request);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret_answer);
    if (request->ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, request->ca_file);
    code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret_answer->status);
    else
        snprintf(why, why_size, "no answer from %s: %s%s", request->server, error[0] ? error : curl_easy_strerror(code),
                 request->to_admin ? " (--admin or SLUICE_ADMIN says where else the admin listener is)" : "");
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return code == CURLE_OK ? 0 : -1;
}

void http_answer_fini(struct http_answer *answer)
{
    free(answer->body);
    *answer = (struct http_answer){0};
}

/* Appends a text, line by line, without what could act on a terminal: who answers may be no sluiced. */
static void add_shown(char *to, size_t size, const char *text)
{
    char line[SL_SHOWN_MAX(1024)];

    for (bool more = true; more;) {
        size_t len = strcspn(text, "\n"), used = strlen(to);

        sl_show(line, text, len, len < 1024 ? len : 1024);
        more = text[len] == '\n';
        snprintf(to + used, size - used, "%s%s", line, more ? "\n" : "");
        text += len + more;
    }
}

/* The sentence of a problem document, with the field at fault. */
static void describe_problem(const struct http_request *request, const struct http_answer *answer, json_t *body,
                             char *why, size_t why_size)
{
    const char *detail = json_string_value(json_object_get(body, "detail"));
    const char *field = json_string_value(json_object_get(body, "field"));

    why[0] = '\0';
    if (detail && field) {
        add_shown(why, why_size, field);
        add_shown(why, why_size, ": ");
    }
    if (detail)
        add_shown(why, why_size, detail);
    else
        snprintf(why, why_size, "the answer has status %ld", answer->status);
    if (answer->status == 401)
        add_shown(why, why_size,
                  request->to_admin ? " (--admin-token or SLUICE_ADMIN_TOKEN gives it)"
                                    : " (--check-token or SLUICE_CHECK_TOKEN gives it)");
}

json_t *http_call_json(const struct http_request *request, long *ret_status, char *why, size_t why_size)
{
    struct http_answer answer;
    json_t *body = NULL;

    *ret_status = 0;
    if (http_call(request, &answer, why, why_size) == 0) {
        *ret_status = answer.status;
        body = json_loadb(answer.body ? answer.body : "", answer.len, JSON_REJECT_DUPLICATES, NULL);
        if (answer.status >= 400) {
            describe_problem(request, &answer, body, why, why_size);
            json_decref(body);
            body = NULL;
        } else if (!body) {
            snprintf(why, why_size, "%s gave no JSON; is it a sluiced?", request->server);
        }
    }
    http_answer_fini(&answer);
    return body;
}

enum cli_status http_failure(long status)
{
    switch (status) {
    case 404:
    case 409:
    case 412:
    case 422:
        return CLI_NO;
    case 400:
    case 413:
    case 414:
    case 431:
        return CLI_USAGE;
    default:
        return CLI_UNREACHABLE;
    }
}

int http_escape(const char *text, char *buf, size_t size)
{
    char *escaped = curl_easy_escape(NULL, text, (int)strlen(text));
    int len = escaped ? snprintf(buf, size, "%s", escaped) : -1;

    curl_free(escaped);
    return len < 0 || (size_t)len >= size ? -1 : 0;
}
