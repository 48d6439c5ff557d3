/* Lines on standard error: logfmt (`time=... level=info msg="..."`) or JSON, one a line, at most SL_LOG_LINES_PER_SEC
 * of them: what is more is counted and told of in one line when there is room again, so that nobody can fill a disk
 * through us. Any thread; one logger a process. */
#ifndef SL_SLUICED_LOG_H
#define SL_SLUICED_LOG_H

#include "sluiced/config.h"

#include <pthread.h>

#define SL_LOG_LINES_PER_SEC 200
#define SL_LOG_LINE_MAX 2048 /* longer messages are cut */

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

/* Writes message into buf as a logfmt value or a JSON string, in quotes, NUL-terminated and cut to size. What is no
 * UTF-8 becomes U+FFFD, byte by byte. */
void sl_log_quote(const char *message, char *buf, size_t size);

#endif
