#include "sluiced/log.h"

#include "base/utf8.h"
#include "base/write.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {
    [SL_LOG_ERROR] = "error", [SL_LOG_WARNING] = "warning", [SL_LOG_INFO] = "info"};

void sl_log_init(struct sl_log *log, enum sl_log_format format, int fd)
{
    *log = (struct sl_log){.format = format, .fd = fd};
    pthread_mutex_init(&log->lock, NULL);
}

void sl_log_fini(struct sl_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

void sl_log_quote(const char *message, char *buf, size_t size)
{
    size_t left = strlen(message), used = 0, len;

    buf[used++] = '"';
    /* The longest escape is six bytes; one more for the quote and one for the NUL. */
    for (; left && used + 8 < size; message += len, left -= len) {
        unsigned char c = (unsigned char)*message;

        len = sl_utf8_len(message, left);

        if (c == '"' || c == '\\') {
            buf[used++] = '\\';
            buf[used++] = (char)c;
        } else if (c == '\n') {
            buf[used++] = '\\';
            buf[used++] = 'n';
        } else if (c < 0x20 || c == 0x7f) {
            used += (size_t)snprintf(buf + used, size - used, "\\u%04x", c);
        } else if (len) {
            memcpy(buf + used, message, len);
            used += len;
        } else {
            memcpy(buf + used, "\xef\xbf\xbd", 3); /* U+FFFD: no reader of the log stumbles over a client's bytes */
            used += 3;
            len = 1;
        }
    }
    buf[used++] = '"';
    buf[used] = '\0';
}

static void write_line(const struct sl_log *log, enum sl_log_level level, const struct timespec *now,
                       const char *message)
{
    char line[SL_LOG_LINE_MAX + 128], quoted[SL_LOG_LINE_MAX], date[SL_RFC3339_LEN + 1];
    struct sl_date_cache cache = {0};
    int len;

    *sl_write_rfc3339(date, (int64_t)now->tv_sec * 1000 + now->tv_nsec / 1000000, &cache) = '\0';
    sl_log_quote(message, quoted, sizeof quoted);
    len = snprintf(line, sizeof line,
                   log->format == SL_LOG_JSON ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":%s}\n"
                                              : "time=%s level=%s msg=%s\n",
                   date, level_names[level], quoted);
    /* A log that cannot be written has nobody to tell. */
    if (len > 0 && write(log->fd, line, (size_t)len) < 0)
        return;
}

/* How many lines were dropped before this one may be written; -1: this one is dropped too. */
static int admit(struct sl_log *log, uint64_t second)
{
    int dropped = 0;

    pthread_mutex_lock(&log->lock);
    if (second != log->second) {
        log->second = second;
        log->lines = 0;
    }
    if (log->lines++ >= SL_LOG_LINES_PER_SEC) {
        log->dropped++;
        dropped = -1;
    } else if (log->dropped) {
        dropped = (int)log->dropped;
        log->dropped = 0;
    }
    pthread_mutex_unlock(&log->lock);
    return dropped;
}

void sl_log(struct sl_log *log, enum sl_log_level level, const char *format, ...)
{
    char message[SL_LOG_LINE_MAX];
    struct timespec now;
    va_list args;
    int dropped;

    clock_gettime(CLOCK_REALTIME, &now);
    dropped = admit(log, (uint64_t)now.tv_sec);
    if (dropped < 0)
        return;
    if (dropped > 0) {
        snprintf(message, sizeof message, "%d lines were not written: more than %d a second", dropped,
                 SL_LOG_LINES_PER_SEC);
        write_line(log, SL_LOG_WARNING, &now, message);
    }
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_line(log, level, &now, message);
}
