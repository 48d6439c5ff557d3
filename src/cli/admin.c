#include "cli/admin.h"

#include "cli/http_client.h"
#include "observe/show.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void admin_path_begin(struct admin_path *path, const char *text)
{
    path->failed = false;
    snprintf(path->text, sizeof path->text, "%s", text);
}

void admin_path_add(struct admin_path *path, const char *name, const char *value)
{
    char encoded[ADMIN_PATH_MAX];
    size_t used = strlen(path->text);
    int n;

    if (!value)
        return;
    if (http_escape(value, encoded, sizeof encoded)) {
        path->failed = true;
        return;
    }
    n = snprintf(path->text + used, sizeof path->text - used, "%c%s=%s", strchr(path->text, '?') ? '&' : '?', name,
                 encoded);
    path->failed |= n < 0 || (size_t)n >= sizeof path->text - used;
}

void admin_path_add_number(struct admin_path *path, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    admin_path_add(path, name, text);
}

json_t *admin_send(const struct cli_connect *connect, const char *method, const struct admin_path *path,
                   const char *body, long *ret_status, char *why, size_t why_size)
{
    struct http_request http = {.server = connect->admin,
                                .method = method,
                                .path = path->text,
                                .body = body,
                                .token = connect->token,
                                .ca_file = connect->ca_file,
                                .timeout_ms = connect->timeout_us / 1000,
                                .to_admin = true};

    if (path->failed) {
        *ret_status = 414;
        snprintf(why, why_size, "the request is too long");
        return NULL;
    }
    return http_call_json(&http, ret_status, why, why_size);
}

json_t *admin_ask(const struct cli_connect *connect, const char *method, const struct admin_path *path,
                  long *ret_status, char *why, size_t why_size)
{
    return admin_send(connect, method, path, NULL, ret_status, why, why_size);
}

enum cli_status admin_failure(long status)
{
    return status == 404 ? CLI_UNREACHABLE : http_failure(status);
}

const char *admin_shown(const json_t *value, char buf[static ADMIN_TEXT_MAX])
{
    size_t len = json_string_length(value), kept = (ADMIN_TEXT_MAX - 4) / 3;

    buf[0] = '\0';
    if (json_is_string(value))
        sl_show(buf, json_string_value(value), len, len < kept ? len : kept);
    return buf;
}

const char *admin_text(const json_t *object, const char *name, char buf[static ADMIN_TEXT_MAX])
{
    return admin_shown(json_object_get(object, name), buf);
}

static long long within(json_int_t number)
{
    return number > ADMIN_NUMBER_MAX ? ADMIN_NUMBER_MAX : number < -ADMIN_NUMBER_MAX ? -ADMIN_NUMBER_MAX : number;
}

long long admin_number(const json_t *object, const char *name)
{
    return within(json_integer_value(json_object_get(object, name)));
}

static json_t *fit_text(const json_t *value)
{
    size_t len = json_string_length(value);
    char *shown = malloc(SL_SHOWN_MAX(len));
    json_t *fit;

    if (!shown)
        return json_null();
    sl_show(shown, json_string_value(value), len, len);
    fit = json_string(shown);
    free(shown);
    return fit;
}

/* What stands in the place of a member: a new reference. */
static json_t *fitted(json_t *value)
{
    if (json_is_string(value))
        return fit_text(value);
    if (json_is_integer(value))
        return json_integer(within(json_integer_value(value)));
    admin_fit(value);
    return json_incref(value);
}

void admin_fit(json_t *answer)
{
    if (json_is_object(answer))
        for (void *member = json_object_iter(answer); member; member = json_object_iter_next(answer, member))
            json_object_iter_set_new(answer, member, fitted(json_object_iter_value(member)));
    for (size_t i = 0; i < json_array_size(answer); i++)
        json_array_set_new(answer, i, fitted(json_array_get(answer, i)));
}

int64_t admin_time(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    struct tm tm = {0};
    int64_t ms = 0;
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

    if (!rest)
        return 0;
    for (int64_t unit = *rest == '.' ? 100 : 0; unit && *++rest >= '0' && *rest <= '9'; unit /= 10)
        ms += (*rest - '0') * unit;
    return (int64_t)timegm(&tm) * 1000 + ms;
}

const char *admin_clock(int64_t unix_ms, char buf[static ADMIN_CLOCK_MAX])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm = {0};
    size_t used;

    gmtime_r(&seconds, &tm);
    used = strftime(buf, ADMIN_CLOCK_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + used, ADMIN_CLOCK_MAX - used, ".%03dZ", (int)(unix_ms % 1000));
    return buf;
}

const char *admin_override(const json_t *override, char buf[static ADMIN_OVERRIDE_MAX])
{
    char author[ADMIN_TEXT_MAX], until[ADMIN_TEXT_MAX], comment[ADMIN_TEXT_MAX];

    admin_text(override, "until", until);
    admin_text(override, "comment", comment);
    snprintf(buf, ADMIN_OVERRIDE_MAX, "%s, until %s%s%s", admin_text(override, "author", author),
             until[0] ? until : "it is removed", comment[0] ? ": " : "", comment);
    return buf;
}

const char *admin_rate(const json_t *override, char buf[static ADMIN_RATE_MAX])
{
    char rate[ADMIN_TEXT_MAX];
    long long burst = admin_number(override, "burst");

    admin_text(override, "rate", rate);
    if (burst)
        snprintf(buf, ADMIN_RATE_MAX, "%s burst %lld", rate, burst);
    else
        snprintf(buf, ADMIN_RATE_MAX, "%s", rate);
    return buf;
}

int64_t admin_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
