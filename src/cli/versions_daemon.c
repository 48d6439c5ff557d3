/* Versions of the policy through a daemon's admin listener: it has the store, and whoever asks needs no way to that. */
#include "cli/admin.h"
#include "cli/http_client.h"
#include "cli/versions.h"
#include "control/text.h"
#include "policy/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void copy_shown(const json_t *object, const char *name, char *buf, size_t size)
{
    char shown[ADMIN_TEXT_MAX];

    admin_text(object, name, shown);
    snprintf(buf, size, "%.*s", (int)sl_text_utf8_prefix(shown, strnlen(shown, size - 1)), shown);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* A record as it is told, fit to be shown; "" for the hash when it cannot be read. */
static struct sl_version version_of(const json_t *object)
{
    struct sl_version version = {
        .number = (uint64_t)json_integer_value(json_object_get(object, "version")),
        .from = (uint64_t)json_integer_value(json_object_get(object, "rollbackOf")),
        .time_us = (uint64_t)admin_time(object, "time") * 1000,
    };

    copy_shown(object, "hash", version.hash, sizeof version.hash);
    copy_shown(object, "author", version.author, sizeof version.author);
    copy_shown(object, "comment", version.comment, sizeof version.comment);
    return version;
}

/* ---- fetching */

static json_t *get(const struct cli_connect *connect, const struct admin_path *path, int *ret_status)
{
    char why[2048];
    long status;
    json_t *answer = admin_ask(connect, "GET", path, &status, why, sizeof why);

    if (!answer)
        *ret_status = cli_fail(http_failure(status), "%s", why);
    return answer;
}

static int take_texts(const json_t *answer, struct sl_version *ret_version, struct sl_version_text *ret_text)
{
    const json_t *body = json_object_get(answer, "policy"), *keys = json_object_get(answer, "keysFile");
    size_t body_len = json_string_length(body), keys_len = json_string_length(keys);
    struct sl_alloc alloc = sl_alloc_system();

    if (!json_is_string(body))
        return cli_fail(CLI_UNREACHABLE, "the answer has no policy in it; is it a sluiced?");
    if (sl_version_text_make(&alloc, body_len, json_is_string(keys), keys_len, ret_text))
        return cli_fail(CLI_USAGE, "out of memory");
    memcpy(ret_text->bytes, json_string_value(body), body_len);
    if (json_is_string(keys))
        memcpy(ret_text->bytes + body_len + 1, json_string_value(keys), keys_len);
    *ret_version = version_of(json_object_get(answer, "version"));
    ret_version->body_len = body_len;
    ret_version->keys_len = keys_len;
    ret_version->has_keys = json_is_string(keys);
    return 0;
}

int cli_daemon_fetch(const struct cli_connect *connect, uint64_t number, bool *ret_found,
                     struct sl_version *ret_version, struct sl_version_text *ret_text)
{
    struct admin_path path;
    char why[2048];
    long http = 0;
    json_t *answer;
    int status;

    admin_path_begin(&path, "/v1/policy/version");
    if (number)
        admin_path_add_number(&path, "number", number);
    answer = admin_ask(connect, "GET", &path, &http, why, sizeof why);
    if (ret_found)
        *ret_found = answer != NULL;
    if (!answer)
        return ret_found && http == 404 ? 0 : cli_fail(http_failure(http), "%s", why);
    status = take_texts(answer, ret_version, ret_text);
    json_decref(answer);
    return status;
}

/* ---- the history */

json_t *cli_daemon_history(const struct cli_connect *connect, uint64_t before, unsigned count, int *ret_status)
{
    struct admin_path path;

    admin_path_begin(&path, "/v1/policy/history");
    if (before)
        admin_path_add_number(&path, "before", before);
    admin_path_add_number(&path, "limit", count);
    return get(connect, &path, ret_status);
}

/* As the store's own side of it (control/before.c): what brought K back stands for K. */
int cli_daemon_before(const struct cli_connect *connect, uint64_t number, uint64_t *ret_number)
{
    for (;;) {
        int status = 0;
        json_t *history = cli_daemon_history(connect, number + 1, 1, &status);
        struct sl_version version = version_of(json_array_get(json_object_get(history, "versions"), 0));

        json_decref(history);
        if (!history)
            return status;
        if (version.number != number || version.from == 0 || version.from >= number)
            break;
        number = version.from;
    }
    *ret_number = number - 1;
    return 0;
}

/* ---- pushing */

/* NULL: the texts are no UTF-8, or memory is short. */
static char *body_of(const struct sl_version_draft *draft)
{
    json_t *body = json_pack("{s:s, s:s}", "author", draft->author, "comment", draft->comment);
    int failed = 0;
    char *text;

    if (draft->from) {
        failed |= json_object_set_new(body, "version", json_integer((json_int_t)draft->from));
    } else {
        failed |= json_object_set_new(body, "policy", json_stringn(draft->body, draft->body_len));
        if (draft->keys)
            failed |= json_object_set_new(body, "keys", json_stringn(draft->keys, draft->keys_len));
    }
    text = failed ? NULL : json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* While there is no version, it is the file's policy that a push replaces. */
static int match_of(const struct cli_connect *connect, const struct sl_version *current, char *buf, size_t size)
{
    struct admin_path path;
    int status = 0;
    json_t *answer;

    if (current->number) {
        snprintf(buf, size, "\"%s\"", current->hash);
        return 0;
    }
    admin_path_begin(&path, "/v1/policy");
    answer = get(connect, &path, &status);
    snprintf(buf, size, "\"%.*s\"", SL_HASH_HEX, text_of(answer, "hash"));
    json_decref(answer);
    return status;
}

static int conflict(const struct cli_connect *connect, const char *why, struct cli_pushed *pushed)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_version_text text = {.bytes = NULL};
    struct sl_version version;
    bool found = false;
    int status = cli_daemon_fetch(connect, 0, &found, &version, &text);

    sl_version_text_free(&alloc, &text);
    pushed->conflict = true;
    snprintf(pushed->why, sizeof pushed->why, "%s", why);
    if (status || !found)
        return status;
    pushed->has_version = true;
    pushed->version = version;
    snprintf(pushed->why, sizeof pushed->why, "version %" PRIu64 " by %s is current; nothing was changed",
             pushed->version.number, pushed->version.author);
    return 0;
}

static const char *path_of(const struct sl_version_draft *draft, enum sl_warnings refused)
{
    if (draft->from)
        return "/v1/policy/rollback";
    return refused == SL_WARNINGS_ALL    ? "/v1/policy?warnings=refuse"
           : refused == SL_WARNINGS_NONE ? "/v1/policy?warnings=allow"
                                         : "/v1/policy";
}

static int send_draft(const struct cli_connect *connect, const struct sl_version_draft *draft, const char *match,
                      const char *path, struct cli_pushed *pushed)
{
    char *body = body_of(draft), why[2048];
    struct http_request http = {.server = connect->admin,
                                .method = draft->from ? "POST" : "PUT",
                                .path = path,
                                .body = body,
                                .if_match = match,
                                .token = connect->token,
                                .ca_file = connect->ca_file,
                                .timeout_ms = connect->timeout_us / 1000,
                                .to_admin = true};
    json_t *answer;
    long status;

    if (!body)
        return cli_fail(CLI_USAGE, "out of memory, or the policy is no UTF-8");
    answer = http_call_json(&http, &status, why, sizeof why);
    free(body);
    if (!answer)
        return status == 412 ? conflict(connect, why, pushed) : cli_fail(http_failure(status), "%s", why);
    pushed->has_version = true;
    pushed->version = version_of(json_object_get(answer, "version"));
    json_decref(answer);
    return 0;
}

int cli_daemon_push(const struct cli_connect *connect, const struct sl_version_draft *draft,
                    const struct sl_version *current, enum sl_warnings refused, struct cli_pushed *ret_pushed)
{
    char match[SL_HASH_HEX + 3];
    int status;

    if (draft->expected != current->number)
        return conflict(connect, "another version is current than was expected", ret_pushed);
    status = match_of(connect, current, match, sizeof match);
    return status ? status : send_draft(connect, draft, match, path_of(draft, refused), ret_pushed);
}
