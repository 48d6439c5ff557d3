#include "store/url.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text under the parser; `at` moves on, so that an error knows its place. */
struct reader {
    const char *text, *at;
    struct sl_store_url *url;
    char *why;
    size_t why_size;
};

struct form {
    const char *scheme;
    enum sl_store_kind kind;
    bool tls, is_unix;
    uint16_t port;
};

static const struct form forms[] = {
    {"redis://", SL_STORE_SINGLE, false, false, 6379},
    {"rediss://", SL_STORE_SINGLE, true, false, 6379},
    {"redis+unix://", SL_STORE_SINGLE, false, true, 0},
    {"redis+sentinel://", SL_STORE_SENTINEL, false, false, 26379},
    {"rediss+sentinel://", SL_STORE_SENTINEL, true, false, 26379},
    {"redis+cluster://", SL_STORE_CLUSTER, false, false, 6379},
    {"rediss+cluster://", SL_STORE_CLUSTER, true, false, 6379},
};

static int __attribute__((format(printf, 3, 4)))
wrong(const struct reader *r, const char *part, const char *format, ...)
{
    char reason[256];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    snprintf(r->why, r->why_size, "store address, %s, character %zu: %s", part, (size_t)(r->at - r->text) + 1, reason);
    return SL_EINVALID;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes [r->at, end) once into buf and a NUL; the length goes to *ret_len, or NUL bytes are refused when
 * that is NULL. Leaves r->at at `end`. */
static int decode(struct reader *r, const char *part, const char *end, char *buf, size_t size, size_t *ret_len)
{
    size_t len = 0;

    while (r->at < end) {
        char c = *r->at;
        int high, low;

        if (len + 1 >= size)
            return wrong(r, part, "longer than %zu bytes", size - 1);
        if (c == '%') {
            high = end - r->at > 2 ? hex_digit(r->at[1]) : -1;
            low = end - r->at > 2 ? hex_digit(r->at[2]) : -1;
            if (high < 0 || low < 0)
                return wrong(r, part, "a %% must be followed by two hex digits; a %% itself is written %%25");
            c = (char)(high << 4 | low);
            if (!c && !ret_len)
                return wrong(r, part, "a zero byte cannot be in it");
            r->at += 2;
        } else if ((unsigned char)c <= ' ' || c == 127) {
            return wrong(r, part, "spaces and control characters are written as %%XX");
        }
        buf[len++] = c;
        r->at++;
    }
    buf[len] = '\0';
    if (ret_len)
        *ret_len = len;
    return 0;
}

static int read_db(struct reader *r, const char *end)
{
    unsigned db = 0;

    if (r->at == end)
        return wrong(r, "database", "a number is missing");
    for (; r->at < end; r->at++) {
        if (*r->at < '0' || *r->at > '9')
            return wrong(r, "database", "not a number");
        db = db * 10 + (unsigned)(*r->at - '0');
        if (db > SL_URL_DB_MAX)
            return wrong(r, "database", "larger than %u", SL_URL_DB_MAX);
    }
    if (db && r->url->kind == SL_STORE_CLUSTER)
        return wrong(r, "database", "a Cluster has only database 0");
    r->url->db = db;
    return 0;
}

static int read_port(struct reader *r, const char *end, uint16_t *ret_port)
{
    unsigned port = 0;

    if (r->at == end)
        return wrong(r, "port", "a number is missing after the colon");
    for (; r->at < end; r->at++) {
        if (*r->at < '0' || *r->at > '9')
            return wrong(r, "port", "not a number (an IPv6 address stands in brackets)");
        port = port * 10 + (unsigned)(*r->at - '0');
        if (port > 65535)
            return wrong(r, "port", "larger than 65535");
    }
    if (!port)
        return wrong(r, "port", "0 is no port to connect to");
    *ret_port = (uint16_t)port;
    return 0;
}

static bool host_byte(char c, bool bracketed)
{
    if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '.')
        return true;
    return bracketed ? c == ':' || c == '%' : c == '-' || c == '_';
}

/* One host[:port] in [r->at, end). */
static int read_host(struct reader *r, const char *end, uint16_t port, struct sl_endpoint *ret_endpoint)
{
    bool bracketed = r->at < end && *r->at == '[';
    const char *from, *stop;

    if (bracketed)
        r->at++;
    from = r->at;
    stop = from < end ? memchr(from, bracketed ? ']' : ':', (size_t)(end - from)) : NULL;
    if (bracketed && !stop)
        return wrong(r, "host", "the closing ] is missing");
    if (!stop)
        stop = end;
    for (; r->at < stop; r->at++) {
        if (!host_byte(*r->at, bracketed))
            return wrong(r, "host", "a byte that no host name or address has");
    }
    if (stop == from)
        return wrong(r, "host", "it is empty");
    if (stop - from > SL_HOST_MAX)
        return wrong(r, "host", "longer than %d bytes", SL_HOST_MAX);
    *ret_endpoint = (struct sl_endpoint){.port = port};
    memcpy(ret_endpoint->host, from, (size_t)(stop - from));
    if (bracketed)
        r->at++;
    if (r->at == end)
        return 0;
    if (*r->at != ':')
        return wrong(r, "host", "only :port may follow the ]");
    r->at++;
    return read_port(r, end, &ret_endpoint->port);
}

static int read_hosts(struct reader *r, const char *end, const struct form *form)
{
    struct sl_store_url *url = r->url;

    for (;;) {
        const char *comma = memchr(r->at, ',', (size_t)(end - r->at));
        int err;

        if (comma && form->kind == SL_STORE_SINGLE) {
            r->at = comma;
            return wrong(r, "host", "several hosts are for redis+sentinel:// and redis+cluster://");
        }
        if (url->n_endpoints == SL_URL_ENDPOINTS_MAX)
            return wrong(r, "host", "more than %d hosts", SL_URL_ENDPOINTS_MAX);
        err = read_host(r, comma ? comma : end, form->port, &url->endpoints[url->n_endpoints]);
        if (err)
            return err;
        url->n_endpoints++;
        if (!comma)
            return 0;
        r->at = comma + 1;
    }
}

/* [user][:password] in [r->at, end), where an @ stands. */
static int read_userinfo(struct reader *r, const char *end)
{
    struct sl_login *login = &r->url->login;
    const char *colon = memchr(r->at, ':', (size_t)(end - r->at));
    int err;

    err = decode(r, "user", colon ? colon : end, login->user, sizeof login->user, NULL);
    if (err)
        return err;
    login->has_user = login->user[0] != '\0';
    if (colon) {
        r->at++;
        err = decode(r, "password", end, login->password, sizeof login->password, &login->password_len);
        login->has_password = login->password_len > 0;
    }
    r->at = end + 1;
    return err;
}

static int read_authority(struct reader *r, const char *end, const struct form *form)
{
    const char *last = memrchr(r->at, '@', (size_t)(end - r->at));
    const char *first = memchr(r->at, '@', (size_t)(end - r->at));
    int err = 0;

    if (first != last) {
        r->at = first;
        return wrong(r, "password", "an @ in user or password is written %%40");
    }
    if (first)
        err = read_userinfo(r, first);
    if (err)
        return err;
    if (!form->is_unix)
        return read_hosts(r, end, form);
    return r->at == end ? 0 : wrong(r, "path", "redis+unix:// is followed by an absolute path: redis+unix:///path");
}

/* What stands between the authority and the options. */
static int read_path(struct reader *r, const char *end, const struct form *form)
{
    struct sl_store_url *url = r->url;
    const char *slash;
    int err;

    if (form->is_unix) {
        struct sl_endpoint *endpoint = &url->endpoints[0];

        *endpoint = (struct sl_endpoint){.is_unix = true};
        url->n_endpoints = 1;
        if (end - r->at < 2)
            return wrong(r, "path", "the path of the socket is missing");
        return decode(r, "path", end, endpoint->host, SL_UNIX_PATH_MAX + 1, NULL);
    }
    if (r->at < end)
        r->at++; /* the slash */
    if (form->kind == SL_STORE_SENTINEL) {
        slash = memchr(r->at, '/', (size_t)(end - r->at));
        err = decode(r, "master", slash ? slash : end, url->master, sizeof url->master, NULL);
        if (err)
            return err;
        if (!url->master[0])
            return wrong(r, "master", "the master's name is missing: redis+sentinel://h1,h2,h3/master");
        if (!slash)
            return 0;
        r->at++;
    }
    return r->at < end ? read_db(r, end) : 0;
}

struct place {
    const char *name;
    size_t offset, size;
    bool tls, sentinel;
};

#define PLACE(name, field, tls, sentinel)                                                                    \
    {                                                                                                        \
        name, offsetof(struct sl_store_url, field), sizeof(((struct sl_store_url *)0)->field), tls, sentinel \
    }

static const struct place places[] = {
    PLACE("ca", ca, true, false),
    PLACE("cert", cert, true, false),
    PLACE("key", key, true, false),
    PLACE("password_file", password_file, false, false),
    PLACE("sentinel_user", sentinel_login.user, false, true),
    PLACE("sentinel_password_file", sentinel_password_file, false, true),
};

static bool is_word(const char *from, const char *end, const char *word)
{
    return (size_t)(end - from) == strlen(word) && memcmp(from, word, (size_t)(end - from)) == 0;
}

static int read_verify(struct reader *r, const char *end)
{
    if (!r->url->tls)
        return wrong(r, "option verify", "it needs rediss://");
    if (!is_word(r->at, end, "no") && !is_word(r->at, end, "yes"))
        return wrong(r, "option verify", "yes or no");
    r->url->insecure = *r->at == 'n';
    r->at = end;
    return 0;
}

static int read_option(struct reader *r, const char *end)
{
    const char *name = r->at, *equals = memchr(r->at, '=', (size_t)(end - r->at));

    if (!equals)
        return wrong(r, "options", "name=value is expected");
    if (is_word(name, equals, "db")) {
        r->at = equals + 1;
        return read_db(r, end);
    }
    if (is_word(name, equals, "verify")) {
        r->at = equals + 1;
        return read_verify(r, end);
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct place *place = &places[i];
        char part[48];

        if (!is_word(name, equals, place->name))
            continue;
        snprintf(part, sizeof part, "option %s", place->name);
        if (place->tls && !r->url->tls)
            return wrong(r, part, "it needs rediss://");
        if (place->sentinel && r->url->kind != SL_STORE_SENTINEL)
            return wrong(r, part, "it needs redis+sentinel://");
        r->at = equals + 1;
        if (r->at == end)
            return wrong(r, part, "its value is empty");
        return decode(r, part, end, (char *)r->url + place->offset, place->size, NULL);
    }
    return wrong(r, "options",
                 "no such option; there are db, password_file, ca, cert, key, verify, sentinel_user, "
                 "sentinel_password_file");
}

static int read_options(struct reader *r, const char *end)
{
    while (r->at < end) {
        const char *amp = memchr(r->at, '&', (size_t)(end - r->at));
        int err = read_option(r, amp ? amp : end);

        if (err)
            return err;
        if (amp)
            r->at++;
    }
    r->url->sentinel_login.has_user = r->url->sentinel_login.user[0] != '\0';
    if (!r->url->cert[0] != !r->url->key[0])
        return wrong(r, "options", "cert and key belong together");
    if (r->url->password_file[0] && r->url->login.has_password)
        return wrong(r, "options", "a password and a password_file are given");
    return 0;
}

static int read_form(struct reader *r, const struct form *form)
{
    const char *start = r->at, *end = r->text + strlen(r->text);
    const char *hash = strchr(r->at, '#'), *query, *path;
    int err;

    if (hash) {
        r->at = hash;
        return wrong(r, "address", "a # is written %%23");
    }
    r->url->kind = form->kind;
    r->url->tls = form->tls;
    query = strchr(start, '?');
    path = start + strcspn(start, "/?");
    err = read_authority(r, path, form);
    if (err)
        return err;
    r->at = path;
    err = read_path(r, query ? query : end, form);
    if (err || !query)
        return err;
    r->at = query + 1;
    return read_options(r, end);
}

int sl_store_url_parse(const char *text, struct sl_store_url *ret_url, char *why, size_t why_size)
{
    struct reader r = {.text = text, .at = text, .url = ret_url, .why = why, .why_size = why_size};
    int err;

    memset(ret_url, 0, sizeof *ret_url);
    if (strnlen(text, SL_URL_MAX + 1) > SL_URL_MAX)
        return wrong(&r, "address", "longer than %d bytes", SL_URL_MAX);
    if (strncmp(text, "memory:", 7) == 0) {
        r.at += 7;
        return *r.at ? wrong(&r, "address", "nothing may follow memory:") : 0;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t len = strlen(forms[i].scheme);

        if (strncmp(text, forms[i].scheme, len) != 0)
            continue;
        r.at += len;
        err = read_form(&r, &forms[i]);
        if (err)
            sl_store_url_fini(ret_url);
        return err;
    }
    return wrong(&r, "scheme",
                 "it begins with memory:, redis://, rediss://, redis+unix://, redis+sentinel:// or redis+cluster://");
}

int sl_store_url_check(const char *text, char *why, size_t why_size)
{
    struct sl_store_url url;
    int err = sl_store_url_parse(text, &url, why, why_size);

    if (err)
        return err;
    if (url.kind == SL_STORE_MEMORY) {
        snprintf(why, why_size, "memory: is no store of its own");
        err = SL_EINVALID;
    }
    sl_store_url_fini(&url);
    return err;
}

int sl_login_read_file(struct sl_login *login, const char *path, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");
    size_t len;
    bool failed;

    if (!file) {
        snprintf(why, why_size, "password file %s: %s", path, strerror(errno));
        return SL_EIO;
    }
    setvbuf(file, NULL, _IONBF, 0); /* the secret in one place only */
    len = fread(login->password, 1, sizeof login->password, file);
    failed = ferror(file) != 0;
    fclose(file);
    if (failed) {
        snprintf(why, why_size, "password file %s cannot be read", path);
        return SL_EIO;
    }
    if (len == sizeof login->password) {
        explicit_bzero(login->password, sizeof login->password);
        snprintf(why, why_size, "password file %s is longer than %zu bytes", path, sizeof login->password - 1);
        return SL_EINVALID;
    }
    if (len && login->password[len - 1] == '\n')
        len -= len > 1 && login->password[len - 2] == '\r' ? 2 : 1;
    login->password[len] = '\0';
    login->password_len = len;
    login->has_password = len > 0;
    if (len)
        return 0;
    snprintf(why, why_size, "password file %s is empty", path);
    return SL_EINVALID;
}

int sl_store_url_read_files(struct sl_store_url *url, char *why, size_t why_size)
{
    int err = 0;

    if (url->password_file[0])
        err = sl_login_read_file(&url->login, url->password_file, why, why_size);
    if (!err && url->sentinel_password_file[0])
        err = sl_login_read_file(&url->sentinel_login, url->sentinel_password_file, why, why_size);
    return err;
}

static const char *scheme_of(const struct sl_store_url *url)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].kind == url->kind && forms[i].tls == url->tls && forms[i].is_unix == url->endpoints[0].is_unix)
            return forms[i].scheme;
    }
    return "memory:";
}

const char *sl_store_url_text(const struct sl_store_url *url, char *buf, size_t size)
{
    FILE *out = fmemopen(buf, size, "w");
    char text[SL_ENDPOINT_TEXT_MAX];

    assert(size > 0);
    buf[0] = '\0';
    if (!out)
        return buf;
    fputs(scheme_of(url), out);
    for (unsigned i = 0; i < url->n_endpoints; i++)
        fprintf(out, "%s%s", i ? "," : "", sl_endpoint_text(&url->endpoints[i], text));
    if (url->master[0])
        fprintf(out, "/%s", url->master);
    if (url->db)
        fprintf(out, url->endpoints[0].is_unix ? "?db=%u" : "/%u", url->db);
    fclose(out);
    buf[size - 1] = '\0';
    return buf;
}

void sl_store_url_fini(struct sl_store_url *url)
{
    explicit_bzero(&url->login, sizeof url->login);
    explicit_bzero(&url->sentinel_login, sizeof url->sentinel_login);
}
