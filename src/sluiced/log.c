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
        } else if (len == 2 && c == 0xc2 && (unsigned char)message[1] < 0xa0) {
            used += (size_t)snprintf(buf + used, size - used, "\\u%04x", (unsigned char)message[1]);
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

/* Everything but the end of the line; returns its length. */
static size_t begin_line(const struct sl_log *log, enum sl_log_level level, const struct timespec *now,
                         const char *message, char *line, size_t size)
{
    char quoted[SL_LOG_LINE_MAX], date[SL_RFC3339_LEN + 1];
    struct sl_date_cache cache = {0};
    int len;

    *sl_write_rfc3339(date, (int64_t)now->tv_sec * 1000 + now->tv_nsec / 1000000, &cache) = '\0';
    sl_log_quote(message, quoted, sizeof quoted);
    len = snprintf(line, size,
                   log->format == SL_LOG_JSON ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":%s"
                                              : "time=%s level=%s msg=%s",
                   date, level_names[level], quoted);
    return len > 0 ? (size_t)len : 0;
}

/* Room for the end must be there. */
static void end_line(const struct sl_log *log, char *line, size_t len)
{
    if (log->format == SL_LOG_JSON)
        line[len++] = '}';
    line[len++] = '\n';
    /* A log that cannot be written has nobody to tell. */
    if (write(log->fd, line, len) < 0)
        return;
}

static void write_line(const struct sl_log *log, enum sl_log_level level, const struct timespec *now,
                       const char *message)
{
    char line[SL_LOG_LINE_MAX + 128];

    end_line(log, line, begin_line(log, level, now, message, line, sizeof line - 2));
}

/* Returns false, with nothing added, when it does not fit. */
static bool add_field(const struct sl_log *log, const struct sl_log_field *field, char *line, size_t *len, size_t size)
{
    char value[SL_LOG_LINE_MAX];
    int n;

    if (field->kind == SL_LOG_TEXT)
        sl_log_quote(field->text, value, sizeof value);
    else if (field->kind == SL_LOG_NUMBER)
        snprintf(value, sizeof value, "%lld", (long long)field->number);
    else
        snprintf(value, sizeof value, "%s", field->number ? "true" : "false");
    n = snprintf(line + *len, size - *len, log->format == SL_LOG_JSON ? ",\"%s\":%s" : " %s=%s", field->name, value);
    if (n < 0 || (size_t)n >= size - *len)
        return false;
    *len += (size_t)n;
    return true;
}

static void write_fields(const struct sl_log *log, enum sl_log_level level, const struct timespec *now,
                         const char *message, const struct sl_log_field *fields, size_t n)
{
    static const struct sl_log_field cut = {.name = "cut", .kind = SL_LOG_TRUTH, .number = 1};
    char line[SL_LOG_FIELDS_MAX];
    size_t len = begin_line(log, level, now, message, line, sizeof line - 32); /* what `cut` and the end take */
    bool all = true;

    for (size_t i = 0; i < n; i++)
        all = add_field(log, &fields[i], line, &len, sizeof line - 32) && all;
    if (!all)
        add_field(log, &cut, line, &len, sizeof line - 2);
    end_line(log, line, len);
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

/* Whether a line may be written now; tells first of those that were not. */
static bool begin(struct sl_log *log, struct timespec *ret_now)
{
    char message[128];
    int dropped;

    clock_gettime(CLOCK_REALTIME, ret_now);
    dropped = admit(log, (uint64_t)ret_now->tv_sec);
    if (dropped > 0) {
        snprintf(message, sizeof message, "%d lines were not written: more than %d a second", dropped,
                 SL_LOG_LINES_PER_SEC);
        write_line(log, SL_LOG_WARNING, ret_now, message);
    }
    return dropped >= 0;
}

void sl_log_fields(struct sl_log *log, enum sl_log_level level, const char *message, const struct sl_log_field *fields,
                   size_t n)
{
    struct timespec now;

    if (begin(log, &now))
        write_fields(log, level, &now, message, fields, n);
}

void sl_log(struct sl_log *log, enum sl_log_level level, const char *format, ...)
{
    char message[SL_LOG_LINE_MAX];
    struct timespec now;
    va_list args;

    if (!begin(log, &now))
        return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_line(log, level, &now, message);
}
