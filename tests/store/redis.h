/* A real redis-server of a test's own: in a folder of its own under /tmp, on a UNIX socket (and a free port, for a
 * replica's sake), stopped by its process id at the end, and by the kernel when the test dies. */
#ifndef TESTS_STORE_REDIS_H
#define TESTS_STORE_REDIS_H

#include <hiredis/hiredis.h>
#include <sys/types.h>

struct redis {
    pid_t pid;
    int port;
    char folder[64], socket[96];
    redisContext *c;
};

/* Starts one with the module loaded; `options` are further words of the command line, NULL-terminated, or NULL. Fails
 * the test when it does not answer within 20 s. */
struct redis redis_start(const char *const *options);
/* One without the module. */
struct redis redis_start_bare(const char *const *options);
void redis_stop(struct redis *r);

/* One more connection. */
redisContext *redis_connect(const struct redis *r);

/* A command that must succeed; the reply is the caller's (freeReplyObject). */
redisReply *redis_do(redisContext *c, const char *format, ...);
/* The same for its integer, and for its effect only. */
long long redis_integer(redisContext *c, const char *format, ...);
void redis_run(redisContext *c, const char *format, ...);

#endif
