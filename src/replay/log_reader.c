#include "replay/log_reader.h"

#include "base/err.h"
#include "replay/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define RAW_BYTES (128u << 10)
#define TEXT_BYTES (SL_REPLAY_LINE_MAX + (1u << 20))

struct sl_log_reader {
    struct sl_alloc alloc;
    const char *const *paths;
    size_t n_paths, path_idx; /* of the file that is open, or comes next */
    int input_fd;
    int fd; /* -1: none open */
    bool gzip, member_done, source_done;
    z_stream z;
    bool z_ready;
    uint64_t number;
    bool skipping;            /* inside a line that is too long */
    size_t text_at, text_end; /* what is not handed out yet, in `text` */
    uint64_t bytes;           /* atomic */
    uint64_t total;
    unsigned char raw[RAW_BYTES]; /* compressed bytes; a plain file is read straight into `text` */
    char text[TEXT_BYTES];
};

static int fail(char *why, size_t why_size, const char *path, const char *problem)
{
    snprintf(why, why_size, "%s: %s", strcmp(path, "-") == 0 ? "standard input" : path, problem);
    return SL_EIO;
}

/* Every path must be readable before the first line is decided; adds up their sizes. */
static int look_at_paths(struct sl_log_reader *r, char *why, size_t why_size)
{
    bool known = true;

    for (size_t i = 0; i < r->n_paths; i++) {
        bool input = strcmp(r->paths[i], "-") == 0;
        struct stat st;

        if (input ? fstat(r->input_fd, &st) : stat(r->paths[i], &st))
            return fail(why, why_size, r->paths[i], strerror(errno));
        if (S_ISDIR(st.st_mode))
            return fail(why, why_size, r->paths[i], "is a directory");
        if (!input && access(r->paths[i], R_OK))
            return fail(why, why_size, r->paths[i], strerror(errno));
        known = known && S_ISREG(st.st_mode);
        r->total += (uint64_t)st.st_size;
    }
    if (!known)
        r->total = 0;
    return 0;
}

int sl_log_reader_new(const struct sl_alloc *alloc, const char *const *paths, size_t n_paths, FILE *input,
                      struct sl_log_reader **ret_reader, char *ret_why, size_t why_size)
{
    struct sl_log_reader *r = sl_calloc(alloc, 1, sizeof *r);
    int error;

    if (!r)
        return SL_ENOMEM;
    r->alloc = *alloc;
    r->paths = paths;
    r->n_paths = n_paths;
    r->input_fd = fileno(input ? input : stdin);
    r->fd = -1;
    error = look_at_paths(r, ret_why, why_size);
    if (error) {
        sl_log_reader_free(r);
        return error;
    }
    *ret_reader = r;
    return 0;
}

static void close_file(struct sl_log_reader *r)
{
    if (r->fd >= 0 && r->fd != r->input_fd)
        close(r->fd);
    r->fd = -1;
}

void sl_log_reader_free(struct sl_log_reader *reader)
{
    struct sl_alloc alloc;

    if (!reader)
        return;
    alloc = reader->alloc;
    close_file(reader);
    if (reader->z_ready)
        inflateEnd(&reader->z);
    sl_free(&alloc, reader);
}

/* Fills up to size bytes unless the file ends before; returns how many, or -1. */
static ssize_t read_some(struct sl_log_reader *r, void *buf, size_t size)
{
    ssize_t n;

    do {
        n = read(r->fd, buf, size);
    } while (n < 0 && errno == EINTR);
    if (n > 0)
        __atomic_fetch_add(&r->bytes, (uint64_t)n, __ATOMIC_RELAXED);
    return n;
}

static bool start_inflate(struct sl_log_reader *r)
{
    if (!r->z_ready)
        r->z_ready = inflateInit2(&r->z, 15 + 16) == Z_OK;
    else if (inflateReset(&r->z) != Z_OK)
        return false;
    return r->z_ready;
}

/* Opens the next file and reads its first bytes, to see whether it is gzip. */
static int open_file(struct sl_log_reader *r, char *why, size_t why_size)
{
    const char *path = r->paths[r->path_idx];
    size_t n = 0;

    r->fd = strcmp(path, "-") == 0 ? r->input_fd : open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return fail(why, why_size, path, strerror(errno));
    r->number = 0;
    r->skipping = r->source_done = r->member_done = false;
    r->text_at = r->text_end = 0;
    while (n < 2) {
        ssize_t got = read_some(r, r->raw + n, RAW_BYTES - n);

        if (got < 0)
            return fail(why, why_size, path, strerror(errno));
        if (got == 0)
            break;
        n += (size_t)got;
    }
    r->gzip = n >= 2 && r->raw[0] == 0x1f && r->raw[1] == 0x8b;
    r->z.next_in = r->raw;
    r->z.avail_in = (unsigned)n;
    if (r->gzip)
        return start_inflate(r) ? 0 : SL_ENOMEM;
    memcpy(r->text, r->raw, n);
    r->text_end = n;
    return 0;
}

/* Behind a member: another one begins, or the file ends, perhaps padded with zeros as tapes and some tools do. Anything
 * else is damage. */
static int next_member(struct sl_log_reader *r, char *why, size_t why_size)
{
    while (r->z.avail_in > 0 && *r->z.next_in == 0)
        r->z.next_in++, r->z.avail_in--;
    if (r->z.avail_in == 0)
        return 0;
    if (*r->z.next_in != 0x1f)
        return fail(why, why_size, r->paths[r->path_idx], "something that is not gzip follows the gzip data");
    r->member_done = false;
    return start_inflate(r) ? 0 : SL_ENOMEM;
}

/* Inflates into the free part of `text` until there is something. */
static int fill_gzip(struct sl_log_reader *r, char *why, size_t why_size)
{
    size_t before = r->text_end;

    while (r->text_end == before && !r->source_done) {
        const char *path = r->paths[r->path_idx];
        int result;

        if (r->z.avail_in == 0) {
            ssize_t n = read_some(r, r->raw, RAW_BYTES);

            if (n < 0)
                return fail(why, why_size, path, strerror(errno));
            r->z.next_in = r->raw;
            r->z.avail_in = (unsigned)n;
            if (n == 0 && !r->member_done)
                return fail(why, why_size, path, "the gzip data end in the middle");
            r->source_done = n == 0;
        }
        if (r->member_done) {
            int error = next_member(r, why, why_size);

            if (error)
                return error;
            continue;
        }
        r->z.next_out = (unsigned char *)r->text + r->text_end;
        r->z.avail_out = (unsigned)(TEXT_BYTES - r->text_end);
        result = inflate(&r->z, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return SL_ENOMEM;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return fail(why, why_size, path, "the gzip data are damaged");
        r->text_end = TEXT_BYTES - r->z.avail_out;
        r->member_done = result == Z_STREAM_END;
    }
    return 0;
}

/* Makes room at the end of `text` and brings more bytes of the file, or sets source_done. */
static int fill(struct sl_log_reader *r, char *why, size_t why_size)
{
    ssize_t n;

    memmove(r->text, r->text + r->text_at, r->text_end - r->text_at);
    r->text_end -= r->text_at;
    r->text_at = 0;
    if (r->gzip)
        return fill_gzip(r, why, why_size);
    n = read_some(r, r->text + r->text_end, TEXT_BYTES - r->text_end);
    if (n < 0)
        return fail(why, why_size, r->paths[r->path_idx], strerror(errno));
    r->source_done = n == 0;
    r->text_end += (size_t)n;
    return 0;
}

/* Takes the line that ends at `end` (its newline, or the file's end) out of the buffer. */
static void take_line(struct sl_log_reader *r, const char *end, struct sl_log_reader_line *ret_line)
{
    const char *start = r->text + r->text_at;
    size_t len = (size_t)(end - start);

    if (len > 0 && start[len - 1] == '\r')
        len--;
    ret_line->path = r->paths[r->path_idx];
    ret_line->number = ++r->number;
    ret_line->too_long = r->skipping || len > SL_REPLAY_LINE_MAX;
    ret_line->text = (struct sl_slice){start, ret_line->too_long ? 0 : len};
    r->skipping = false;
    r->text_at = (size_t)(end - r->text) + (end < r->text + r->text_end);
}

/* A line from what is buffered: true; false when more must be read. */
static bool find_line(struct sl_log_reader *r, struct sl_log_reader_line *ret_line)
{
    const char *start = r->text + r->text_at, *newline = memchr(start, '\n', r->text_end - r->text_at);

    if (newline) {
        take_line(r, newline, ret_line);
        return true;
    }
    if (r->source_done) {
        if (r->text_at == r->text_end && !r->skipping)
            return false;
        take_line(r, r->text + r->text_end, ret_line);
        return true;
    }
    if (r->text_end - r->text_at > SL_REPLAY_LINE_MAX + 1) { /* one more for a carriage return */
        r->skipping = true;
        r->text_at = r->text_end;
    }
    return false;
}

int sl_log_reader_next(struct sl_log_reader *reader, struct sl_log_reader_line *ret_line, char *ret_why,
                       size_t why_size)
{
    for (;;) {
        int error = 0;

        if (reader->fd < 0) {
            if (reader->path_idx == reader->n_paths)
                return 0;
            error = open_file(reader, ret_why, why_size);
            if (error)
                return error;
        }
        if (find_line(reader, ret_line))
            return 1;
        if (reader->source_done) {
            close_file(reader);
            reader->path_idx++;
        } else {
            error = fill(reader, ret_why, why_size);
        }
        if (error)
            return error;
    }
}

uint64_t sl_log_reader_bytes(const struct sl_log_reader *reader)
{
    return __atomic_load_n(&reader->bytes, __ATOMIC_RELAXED);
}

uint64_t sl_log_reader_total(const struct sl_log_reader *reader)
{
    return reader->total;
}
