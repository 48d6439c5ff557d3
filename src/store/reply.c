#include "store/reply.h"

#include "base/err.h"

#include <hiredis/read.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One reply's memory: a chain of chunks, of which the first is kept for the next reply. */
#define CHUNK_FIRST 4096u
#define CHUNK_LARGE 65536u

struct chunk {
    struct chunk *next;
    size_t size, used;
    alignas(max_align_t) char bytes[];
};

struct sl_reply_reader {
    struct sl_alloc alloc;
    redisReader *hiredis;
    struct chunk *chunks; /* the newest first, the kept one last */
    size_t kept, bytes_max;
    size_t unread; /* bytes fed since the last whole reply */
    bool too_large, failed;
    char why[160];
};

static void *keep(struct sl_reply_reader *reader, size_t size)
{
    struct chunk *chunk = reader->chunks;
    void *p;

    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (size > reader->bytes_max || reader->kept + size > reader->bytes_max) {
        reader->too_large = true;
        return NULL;
    }
    if (size > chunk->size - chunk->used) {
        size_t want = size > CHUNK_LARGE ? size : CHUNK_LARGE;

        chunk = reader->alloc.realloc(reader->alloc.ctx, NULL, sizeof *chunk + want);
        if (!chunk)
            return NULL;
        *chunk = (struct chunk){.next = reader->chunks, .size = want};
        reader->chunks = chunk;
    }
    p = chunk->bytes + chunk->used;
    chunk->used += size;
    reader->kept += size;
    return p;
}

static void forget_reply(struct sl_reply_reader *reader)
{
    while (reader->chunks->next) {
        struct chunk *chunk = reader->chunks;

        reader->chunks = chunk->next;
        sl_free(&reader->alloc, chunk);
    }
    reader->chunks->used = 0;
    reader->kept = 0;
}

static struct sl_reply *make(const redisReadTask *task, enum sl_reply_type type, size_t n)
{
    struct sl_reply *reply = keep(task->privdata, sizeof *reply);

    if (!reply)
        return NULL;
    *reply = (struct sl_reply){.type = type, .n = n};
    if (task->parent)
        ((struct sl_reply *)task->parent->obj)->elements[task->idx] = reply;
    return reply;
}

static void *make_string(const redisReadTask *task, char *text, size_t len)
{
    enum sl_reply_type type = task->type == REDIS_REPLY_ERROR    ? SL_REPLY_ERROR
                              : task->type == REDIS_REPLY_STATUS ? SL_REPLY_STATUS
                                                                 : SL_REPLY_STRING;
    char *copy = keep(task->privdata, len + 1);
    struct sl_reply *reply = copy ? make(task, type, len) : NULL;

    if (!reply)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    reply->text = copy;
    return reply;
}

static void *make_array(const redisReadTask *task, int n)
{
    size_t size = (size_t)(n > 0 ? n : 0) * sizeof(struct sl_reply *);
    struct sl_reply **elements = keep(task->privdata, size);
    struct sl_reply *reply = elements ? make(task, SL_REPLY_ARRAY, (size_t)(n > 0 ? n : 0)) : NULL;

    if (!reply)
        return NULL;
    memset(elements, 0, size);
    reply->elements = elements;
    return reply;
}

static void *make_integer(const redisReadTask *task, long long integer)
{
    struct sl_reply *reply = make(task, SL_REPLY_INTEGER, 0);

    if (reply)
        reply->integer = integer;
    return reply;
}

static void *make_nil(const redisReadTask *task)
{
    return make(task, SL_REPLY_NIL, 0);
}

static void free_nothing(void *reply)
{
    (void)reply; /* the chunks are freed as a whole */
}

static redisReplyObjectFunctions functions = {make_string, make_array, make_integer, make_nil, free_nothing};

struct sl_reply_reader *sl_reply_reader_new(const struct sl_alloc *alloc, size_t bytes_max)
{
    struct sl_reply_reader *reader = sl_calloc(alloc, 1, sizeof *reader);

    if (!reader)
        return NULL;
    reader->alloc = *alloc;
    reader->bytes_max = bytes_max ? bytes_max : SL_REPLY_BYTES_MAX;
    reader->chunks = sl_calloc(alloc, 1, sizeof(struct chunk) + CHUNK_FIRST);
    reader->hiredis = redisReaderCreateWithFunctions(&functions);
    if (!reader->chunks || !reader->hiredis) {
        sl_reply_reader_free(reader);
        return NULL;
    }
    reader->chunks->size = CHUNK_FIRST;
    reader->hiredis->privdata = reader;
    return reader;
}

void sl_reply_reader_free(struct sl_reply_reader *reader)
{
    struct sl_alloc alloc;

    if (!reader)
        return;
    alloc = reader->alloc;
    if (reader->hiredis)
        redisReaderFree(reader->hiredis);
    if (reader->chunks)
        forget_reply(reader);
    sl_free(&alloc, reader->chunks);
    sl_free(&alloc, reader);
}

int sl_reply_feed(struct sl_reply_reader *reader, const char *bytes, size_t len)
{
    reader->unread += len;
    return redisReaderFeed(reader->hiredis, bytes, len) == REDIS_OK ? 0 : SL_ENOMEM;
}

static int refuse(struct sl_reply_reader *reader, const char *why, const char **ret_why)
{
    reader->failed = true;
    snprintf(reader->why, sizeof reader->why, "%s", why);
    *ret_why = reader->why;
    return SL_EFORMAT;
}

/* hiredis waits for whatever length is announced; what cannot end within the bounds is refused at once. The part that
 * is not read yet begins at buf + pos, after its type byte when the current task has a type. */
static bool announces_too_much(const struct sl_reply_reader *reader)
{
    const redisReader *h = reader->hiredis;
    const char *rest = h->buf + h->pos;
    size_t len = h->len - h->pos;
    const char *line_end = memmem(rest, len, "\r\n", 2);
    int type = h->ridx >= 0 ? h->rstack[h->ridx].type : -1;

    if (!line_end)
        return len > SL_REPLY_LINE_MAX;
    return type == REDIS_REPLY_STRING && strtoll(rest, NULL, 10) > (long long)reader->bytes_max;
}

int sl_reply_next(struct sl_reply_reader *reader, const struct sl_reply **ret_reply, const char **ret_why)
{
    void *reply = NULL;

    if (reader->failed)
        return refuse(reader, "an earlier reply was broken", ret_why);
    if (!reader->hiredis->reply)
        forget_reply(reader);
    if (redisReaderGetReply(reader->hiredis, &reply) != REDIS_OK)
        return refuse(reader, reader->too_large ? "a reply is too large" : reader->hiredis->errstr, ret_why);
    if (reply) {
        reader->unread = reader->hiredis->len - reader->hiredis->pos;
        *ret_reply = reply;
        return 1;
    }
    if (reader->unread > 2 * reader->bytes_max || (reader->hiredis->len && announces_too_much(reader)))
        return refuse(reader, "a reply is too large", ret_why);
    return 0;
}

bool sl_reply_is(const struct sl_reply *reply, const char *text)
{
    return reply && (reply->type == SL_REPLY_STATUS || reply->type == SL_REPLY_STRING) && reply->n == strlen(text) &&
           memcmp(reply->text, text, reply->n) == 0;
}

bool sl_reply_copy(const struct sl_reply *reply, char *buf, size_t size)
{
    if (!reply || (reply->type != SL_REPLY_STATUS && reply->type != SL_REPLY_STRING) || reply->n >= size ||
        memchr(reply->text, '\0', reply->n))
        return false;
    memcpy(buf, reply->text, reply->n + 1);
    return true;
}

bool sl_reply_is_array(const struct sl_reply *reply, size_t n)
{
    return reply && reply->type == SL_REPLY_ARRAY && reply->n >= n;
}
