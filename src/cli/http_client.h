/* One HTTP request to a daemon, over libcurl: http://, https:// and unix:/path. Proxies of the environment are not
 * used. */
#ifndef SL_CLI_HTTP_CLIENT_H
#define SL_CLI_HTTP_CLIENT_H

#include "cli/cli.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

#define HTTP_BODY_MAX (64u << 20)
#define HTTP_URL_MAX 65536u

struct http_request {
    const char *server; /* "http://host:port", "https://...", "host:port" or "unix:/path" */
    const char *method, *path;
    const char *body;     /* JSON; NULL: none */
    const char *if_match; /* If-Match; NULL: none */
    const char *token;    /* bearer token; NULL: none */
    const char *ca_file;  /* PEM: whom to trust for https; NULL: the system's */
    uint64_t timeout_ms;
    bool
        to_admin; /* the server is --admin, the token --admin-token; else --server and --check-token: sentences name them */
};

struct http_answer {
    long status;
    char *body; /* NUL-terminated; owned */
    size_t len;
};

/* Returns 0, or -1 with a sentence in `why` when no answer came. Free the answer with http_answer_fini in both
 * cases. */
int http_call(const struct http_request *request, struct http_answer *ret_answer, char *why, size_t why_size);
void http_answer_fini(struct http_answer *answer);

/* The same with the body parsed as JSON. A status of 400 or more is a failure whose sentence is the answer's `detail`.
 * Returns the value (a new reference), or NULL with the sentence and the status (0 when no answer came) in
 * *ret_status. */
struct json_t *http_call_json(const struct http_request *request, long *ret_status, char *why, size_t why_size);

/* The exit status for an answer of 400 or more, or for none (0). That the answer is no is one thing, that there is none
 * another: a 404 is a no only where the route is known to be there. */
enum cli_status http_failure(long status);

/* Percent-encodes `text` for a query; returns 0, or -1 when it does not fit. */
int http_escape(const char *text, char *buf, size_t size);

#endif
