/* Lines on standard error: logfmt (`time=... level=info msg="..."`) or JSON, one a line, always UTF-8, with fields after
 * the message where a line is for programs too. At most SL_LOG_LINES_PER_SEC of them: what is more is counted and told of in one line when there is room again, so that nobody can fill a disk
 * through us. Any thread; one logger a process. */
#ifndef SL_SLUICED_LOG_H
#define SL_SLUICED_LOG_H

#include "sluiced/config.h"

#include <pthread.h>

#define SL_LOG_LINES_PER_SEC 200
#define SL_LOG_LINE_MAX 2048   /* longer messages are cut */
#define SL_LOG_FIELDS_MAX 4096 /* a line with fields: what a pipe takes as one */

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARNING, SL_LOG_INFO };

struct sl_log {
    enum sl_log_format format;
    int fd;
    pthread_mutex_t lock; /* guards the rest */
    uint64_t second;
    unsigned lines, dropped;
};

void sl_log_init(struct sl_log *log, enum sl_log_format format, int fd);
void sl_log_fini(struct sl_log *log);

/* Writes one line; control characters are escaped. */
void sl_log(struct sl_log *log, enum sl_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One field: a text, a number or a truth. */
struct sl_log_field {
    const char *name; /* a plain word */
    enum { SL_LOG_TEXT, SL_LOG_NUMBER, SL_LOG_TRUTH } kind;
    const char *text;
    int64_t number; /* also the truth: 0 is false */
};

/* The same with fields, in their order. Those that a line of SL_LOG_FIELDS_MAX bytes has no room for are left out, and `cut` says so. */
void sl_log_fields(struct sl_log *log, enum sl_log_level level, const char *message, const struct sl_log_field *fields,
                   size_t n);

/* Writes message into buf as a logfmt value or a JSON string, in quotes, NUL-terminated and cut to size. Control characters are
 * escaped, also those of C1; what is no UTF-8 becomes U+FFFD, byte by byte. */
void sl_log_quote(const char *message, char *buf, size_t size);

#endif
