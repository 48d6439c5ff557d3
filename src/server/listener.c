#include "server/listener.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 4096

static int cannot(const struct sl_listener *e, const char *what, char *ret_why, size_t why_size)
{
    snprintf(ret_why, why_size, "cannot listen on %s: %s", e->text, what);
    return SL_EIO;
}

static const char *reason(int error)
{
    return error == EADDRINUSE      ? "the address is in use"
           : error == EADDRNOTAVAIL ? "this machine has no such address"
           : error == EACCES        ? "permission denied"
                                    : strerror(error);
}

static int bad_address(const char *text, const char *what, char *ret_why, size_t why_size)
{
    snprintf(ret_why, why_size, "`%.120s` is no address to listen on: %s", text, what);
    return SL_EINVALID;
}

static int parse_unix(const char *text, struct sl_listener *e, char *ret_why, size_t why_size)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&e->addr;
    const char *path = text + 5;
    size_t len = strlen(path);

    if (*path != '/')
        return bad_address(text, "a unix socket needs an absolute path, unix:/path", ret_why, why_size);
    if (len >= sizeof un->sun_path)
        return bad_address(text, "the path is longer than 107 bytes", ret_why, why_size);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len + 1);
    e->addr_len = sizeof *un;
    e->is_unix = true;
    snprintf(e->text, sizeof e->text, "%s", text);
    return 0;
}

/* Splits "host:port" and "[v6]:port". */
static bool split(const char *text, char host[256], char port[8])
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    const char *from = text;

    if (!colon || !colon[1] || strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strtol(colon + 1, NULL, 10) > 65535 || len > 255)
        return false;
    if (*from == '[') {
        if (len < 3 || from[len - 1] != ']')
            return false;
        from++, len -= 2;
    } else if (memchr(from, ':', len)) {
        return false; /* an IPv6 address without brackets */
    }
    memcpy(host, from, len);
    host[len] = '\0';
    snprintf(port, 8, "%.5s", colon + 1);
    return true;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static int resolve(const char *text, const char *host, const char *port, struct sl_listener *e, char *ret_why,
                   size_t why_size)
{
    bool any = !*host || !strcmp(host, "*");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    int error, probe;

    if (any) {
        /* Every address: an IPv6 socket takes IPv4 too, where the machine has IPv6. */
        probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        hints.ai_family = probe >= 0 ? AF_INET6 : AF_INET;
        if (probe >= 0)
            close(probe);
    }
    error = getaddrinfo(any ? NULL : host, port, &hints, &list);
    if (error)
        return bad_address(text, gai_strerror(error), ret_why, why_size);
    memcpy(&e->addr, list->ai_addr, list->ai_addrlen);
    e->addr_len = list->ai_addrlen;
    freeaddrinfo(list);
    e->loopback = is_loopback(&e->addr);
    snprintf(e->text, sizeof e->text, "%s", text);
    return 0;
}

int sl_listener_parse(const char *text, struct sl_listener *ret_listener, char *ret_why, size_t why_size)
{
    char host[256], port[8];

    memset(ret_listener, 0, sizeof *ret_listener);
    ret_listener->first_fd = ret_listener->unix_fd = -1;
    if (!strncmp(text, "unix:", 5))
        return parse_unix(text, ret_listener, ret_why, why_size);
    if (strlen(text) >= sizeof ret_listener->text || !split(text, host, port))
        return bad_address(text, "write host:port, [v6]:port, :port or unix:/path", ret_why, why_size);
    return resolve(text, host, port, ret_listener, ret_why, why_size);
}

static int new_socket(const struct sl_listener *e)
{
    return socket(e->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void set_text(struct sl_listener *e)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v4 = e->addr.ss_family == AF_INET;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&e->addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&e->addr;

    inet_ntop(e->addr.ss_family, v4 ? (const void *)&in->sin_addr : (const void *)&in6->sin6_addr, host, sizeof host);
    snprintf(e->text, sizeof e->text, v4 ? "%s:%u" : "[%s]:%u", host, ntohs(v4 ? in->sin_port : in6->sin6_port));
}

/* A socket that shares its port with the sockets of our other loops. */
static int listen_shared(struct sl_listener *e, char *ret_why, size_t why_size)
{
    const int on = 1;
    int fd = new_socket(e);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&e->addr, e->addr_len) || listen(fd, BACKLOG)) {
        cannot(e, reason(errno), ret_why, why_size);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* Sharing would let a second daemon split our traffic silently, so first see whether the address is free without it. */
static int probe(const struct sl_listener *e, char *ret_why, size_t why_size)
{
    const int on = 1;
    int fd = new_socket(e), error = 0;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (const struct sockaddr *)&e->addr, e->addr_len))
        error = errno;
    if (fd >= 0)
        close(fd);
    return error ? cannot(e, reason(error), ret_why, why_size) : 0;
}

static int bind_tcp(struct sl_listener *e, char *ret_why, size_t why_size)
{
    int err = probe(e, ret_why, why_size);

    if (err)
        return err;
    e->first_fd = listen_shared(e, ret_why, why_size);
    if (e->first_fd < 0)
        return SL_EIO;
    getsockname(e->first_fd, (struct sockaddr *)&e->addr, &e->addr_len);
    set_text(e);
    return 0;
}

/* True when the path is a socket that nobody listens on: left over from a process that was killed. */
static bool is_stale(const struct sl_listener *e, const char **ret_why)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&e->addr;
    struct stat st;
    int fd, error;

    *ret_why = "the path exists and is no socket";
    if (lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode))
        return false;
    fd = new_socket(e);
    if (fd < 0) {
        *ret_why = reason(errno);
        return false;
    }
    error = connect(fd, (const struct sockaddr *)un, e->addr_len) ? errno : 0;
    close(fd);
    *ret_why = error == 0 || error == EAGAIN ? "another process listens there" : reason(error);
    return error == ECONNREFUSED;
}

static int bind_unix(struct sl_listener *e, unsigned mode, char *ret_why, size_t why_size)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&e->addr;
    const char *why;
    struct stat st = {0};
    int fd = new_socket(e), error;

    if (fd < 0)
        return cannot(e, reason(errno), ret_why, why_size);
    e->unix_fd = fd;
    fchmod(fd, mode); /* the path is never open wider than this, not even between bind and chmod */
    error = bind(fd, (const struct sockaddr *)un, e->addr_len) ? errno : 0;
    if (error == EADDRINUSE) {
        if (!is_stale(e, &why))
            return cannot(e, why, ret_why, why_size);
        unlink(un->sun_path);
        error = bind(fd, (const struct sockaddr *)un, e->addr_len) ? errno : 0;
    }
    if (!error && (chmod(un->sun_path, mode) || listen(fd, BACKLOG) || stat(un->sun_path, &st)))
        error = errno;
    if (error)
        return cannot(e, reason(error), ret_why, why_size);
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    return 0;
}

int sl_listener_bind(struct sl_listener *listener, unsigned unix_mode, char *ret_why, size_t why_size)
{
    return listener->is_unix ? bind_unix(listener, unix_mode, ret_why, why_size)
                             : bind_tcp(listener, ret_why, why_size);
}

int sl_listener_socket(struct sl_listener *listener, char *ret_why, size_t why_size)
{
    int fd;

    if (!listener->is_unix) {
        fd = listener->first_fd;
        listener->first_fd = -1;
        return fd >= 0 ? fd : listen_shared(listener, ret_why, why_size);
    }
    fd = fcntl(listener->unix_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        cannot(listener, reason(errno), ret_why, why_size);
    return fd;
}

void sl_listener_fini(struct sl_listener *listener)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&listener->addr;
    struct stat st;

    if (listener->first_fd >= 0)
        close(listener->first_fd);
    if (listener->unix_fd >= 0)
        close(listener->unix_fd);
    if (listener->ino && !stat(un->sun_path, &st) && st.st_dev == listener->dev && st.st_ino == listener->ino)
        unlink(un->sun_path);
    listener->first_fd = listener->unix_fd = -1;
    listener->ino = 0;
}
