#include "redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 40

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void exec_server(const struct redis *r, const char *const *options, bool with_module)
{
    char port[16];
    const char *argv[WORDS_MAX] = {"redis-server", "--port",       port,      "--bind",
                                   "127.0.0.1",    "--unixsocket", r->socket, "--dir",
                                   r->folder,      "--save",       "",        "--appendonly",
                                   "no",           "--logfile",    "log",     "--enable-debug-command",
                                   "yes"};
    size_t n = 17;
    int out = open("/dev/null", O_WRONLY);

    snprintf(port, sizeof port, "%d", r->port);
    if (with_module) {
        argv[n++] = "--loadmodule";
        argv[n++] = SLUICE_REDIS_MODULE;
    }
    for (; options && *options && n < WORDS_MAX - 1; options++)
        argv[n++] = *options;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, 1);
    dup2(out, 2);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

redisContext *redis_connect(const struct redis *r)
{
    return redisConnectUnixWithTimeout(r->socket, (struct timeval){.tv_sec = 20});
}

/* True when it answers; it may still be starting. */
static bool answers(struct redis *r)
{
    redisReply *reply;
    bool ok;

    r->c = redis_connect(r);
    if (!r->c || r->c->err) {
        redisFree(r->c);
        r->c = NULL;
        return false;
    }
    redisSetTimeout(r->c, (struct timeval){.tv_sec = 20});
    reply = redisCommand(r->c, "PING");
    ok = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply)
        freeReplyObject(reply);
    return ok;
}

/* False when the port was taken from under it. */
static bool start(struct redis *r, const char *const *options, bool with_module)
{
    r->port = free_port();
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (r->pid == 0)
        exec_server(r, options, with_module);
    for (int i = 0; i < 2000; i++) {
        if (answers(r))
            return true;
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

static struct redis start_any(const char *const *options, bool with_module)
{
    struct redis r = {.folder = "/tmp/sluice-store-XXXXXX"};

    assert_non_null(mkdtemp(r.folder));
    snprintf(r.socket, sizeof r.socket, "%s/socket", r.folder);
    for (int i = 0; i < 3; i++) {
        if (start(&r, options, with_module))
            return r;
    }
    fail_msg("redis-server does not start: see %s/log (is it installed?)", r.folder);
    return r;
}

struct redis redis_start(const char *const *options)
{
    return start_any(options, true);
}

struct redis redis_start_bare(const char *const *options)
{
    return start_any(options, false);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void redis_stop(struct redis *r)
{
    redisFree(r->c);
    kill(r->pid, SIGKILL);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    nftw(r->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static redisReply *checked(redisContext *c, redisReply *reply, const char *format)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", format, reply ? reply->str : c->errstr);
        abort(); /* not reached */
    }
    return reply;
}

redisReply *redis_do(redisContext *c, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = checked(c, redisvCommand(c, format, args), format);
    va_end(args);
    return reply;
}

long long redis_integer(redisContext *c, const char *format, ...)
{
    redisReply *reply;
    long long x;
    va_list args;

    va_start(args, format);
    reply = checked(c, redisvCommand(c, format, args), format);
    va_end(args);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    x = reply->integer;
    freeReplyObject(reply);
    return x;
}

void redis_run(redisContext *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    freeReplyObject(checked(c, redisvCommand(c, format, args), format));
    va_end(args);
}
