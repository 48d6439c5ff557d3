#include "policy/file.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64u << 10)

static int fail(const char *message, char ret_why[SL_FILE_WHY_MAX])
{
    snprintf(ret_why, SL_FILE_WHY_MAX, "%s", message);
    return SL_EIO;
}

static int fail_errno(int error, char ret_why[SL_FILE_WHY_MAX])
{
    char text[64];

    return fail(strerror_r(error, text, sizeof text), ret_why);
}

/* The size at opening is a hint only: the file may be written to while it is read. */
static int read_all(int fd, size_t max, const struct sl_alloc *alloc, char **text, size_t *ret_len,
                    char ret_why[SL_FILE_WHY_MAX])
{
    size_t len = 0, room = 0;

    for (;;) {
        ssize_t n;

        if (room - len < CHUNK) {
            size_t more = room ? 2 * room : 2 * (size_t)CHUNK;
            char *grown = sl_reallocarray(alloc, *text, more, 1);

            if (!grown)
                return SL_ENOMEM;
            *text = grown;
            room = more;
        }
        n = read(fd, *text + len, CHUNK - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(errno, ret_why);
        len += (size_t)n;
        if (len > max)
            return fail("the file is too large", ret_why);
        if (n == 0)
            break;
    }
    (*text)[len] = '\0';
    *ret_len = len;
    return 0;
}

int sl_file_read(const char *path, size_t max, const struct sl_alloc *alloc, char **ret_text, size_t *ret_len,
                 char ret_why[SL_FILE_WHY_MAX])
{
    char *text = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;

    if (fd < 0)
        return fail_errno(errno, ret_why);
    if (fstat(fd, &st) != 0)
        rc = fail_errno(errno, ret_why);
    else if (!S_ISREG(st.st_mode))
        rc = fail("not a regular file", ret_why);
    else
        rc = read_all(fd, max, alloc, &text, ret_len, ret_why);
    close(fd);
    if (rc == 0)
        *ret_text = text;
    else
        sl_free(alloc, text);
    return rc;
}
