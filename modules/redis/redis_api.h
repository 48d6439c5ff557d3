/* What this module uses of Redis's module interface, version 1, declared from its documentation. Redis hands a module
 * one function, GetApi, in the first word of the context of RedisModule_OnLoad; everything else is looked up by name.
 * A server that lacks one of these (Redis before 6.2.2) is told so in its log, and the module does not load. */
#ifndef SLUICE_REDIS_API_H
#define SLUICE_REDIS_API_H

#include <stdbool.h>
#include <stddef.h>

#define REDIS_OK 0
#define REDIS_ERR 1
#define REDIS_API_VERSION 1

#define REDIS_READ 1  /* OpenKey */
#define REDIS_WRITE 2 /* OpenKey, StringDMA */

#define REDIS_KEY_EMPTY 0 /* KeyType */
#define REDIS_KEY_STRING 1
#define REDIS_KEY_ZSET 5

#define REDIS_NO_EXPIRE (-1) /* GetAbsExpire */

#define REDIS_REPLY_STRING 0 /* CallReplyType */
#define REDIS_REPLY_INTEGER 2
#define REDIS_REPLY_ARRAY 3

struct redis_ctx;
struct redis_string;
struct redis_key;
struct redis_reply;
typedef int (*redis_command)(struct redis_ctx *ctx, struct redis_string **argv, int argc);

/* result, name, arguments */
#define REDIS_API_MAP(X)                                                                                  \
    X(void, Log, (struct redis_ctx * ctx, const char *level, const char *format, ...))                    \
    X(int, IsModuleNameBusy, (const char *name))                                                          \
    X(void, SetModuleAttribs, (struct redis_ctx * ctx, const char *name, int version, int api_version))   \
    X(int, CreateCommand,                                                                                 \
      (struct redis_ctx * ctx, const char *name, redis_command command, const char *flags, int first_key, \
       int last_key, int key_step))                                                                       \
    X(void *, Alloc, (size_t size))                                                                       \
    X(void, Free, (void *p))                                                                              \
    X(int, WrongArity, (struct redis_ctx * ctx))                                                          \
    X(int, ReplyWithError, (struct redis_ctx * ctx, const char *error))                                   \
    X(int, ReplyWithLongLong, (struct redis_ctx * ctx, long long number))                                 \
    X(int, ReplyWithStringBuffer, (struct redis_ctx * ctx, const char *bytes, size_t len))                \
    X(const char *, StringPtrLen, (const struct redis_string *string, size_t *ret_len))                   \
    X(int, StringToLongLong, (const struct redis_string *string, long long *ret_number))                  \
    X(struct redis_key *, OpenKey, (struct redis_ctx * ctx, struct redis_string * name, int mode))        \
    X(void, CloseKey, (struct redis_key * key))                                                           \
    X(int, KeyType, (struct redis_key * key))                                                             \
    X(int, DeleteKey, (struct redis_key * key))                                                           \
    X(char *, StringDMA, (struct redis_key * key, size_t * ret_len, int mode))                            \
    X(int, StringTruncate, (struct redis_key * key, size_t len))                                          \
    X(long long, GetAbsExpire, (struct redis_key * key))                                                  \
    X(int, SetAbsExpire, (struct redis_key * key, long long unix_ms))                                     \
    X(int, Replicate, (struct redis_ctx * ctx, const char *command, const char *format, ...))             \
    X(struct redis_reply *, Call, (struct redis_ctx * ctx, const char *command, const char *format, ...)) \
    X(int, CallReplyType, (struct redis_reply * reply))                                                   \
    X(size_t, CallReplyLength, (struct redis_reply * reply))                                              \
    X(struct redis_reply *, CallReplyArrayElement, (struct redis_reply * reply, size_t index))            \
    X(const char *, CallReplyStringPtr, (struct redis_reply * reply, size_t * ret_len))                   \
    X(long long, CallReplyInteger, (struct redis_reply * reply))                                          \
    X(void, FreeCallReply, (struct redis_reply * reply))

/* Each by its own name behind `redis_`: redis_OpenKey(ctx, name, mode). */
#define X(result, name, arguments) extern result(*redis_##name) arguments;
REDIS_API_MAP(X)
#undef X

/* Looks everything up. False when the server lacks something, which is then in its log. */
bool redis_api_load(struct redis_ctx *ctx);

#endif
