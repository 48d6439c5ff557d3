/* A region in a file.
 *
 * Locks are open-file-description locks on single bytes far behind the end of the file; the kernel drops them when
 * their holder dies:
 *
 *   setup      held while opening, so that of two who open an empty file one makes the table and the other finds it
 *   users      shared, as long as the file is open: whoever can have it alone may anchor the clock and repair
 *   register   held while taking a place among the processes
 *   process i  held by the owner of place i
 *
 * A set-up that was killed leaves a whole header whose `complete` is 0: the next one starts over. Anything else
 * that is not a whole table is refused and left alone. */
#include "table/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_AT ((off_t)1 << 60)
#define SETUP_WAIT_MS 10000u

static struct flock byte_lock(int type, unsigned byte)
{
    return (struct flock){.l_type = (short)type, .l_whence = SEEK_SET, .l_start = LOCK_AT + (off_t)byte, .l_len = 1};
}

bool sl_file_lock(int fd, int type, unsigned byte)
{
    struct flock lock = byte_lock(type, byte);

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool sl_file_lock_wait(int fd, int type, unsigned byte, unsigned wait_ms)
{
    struct sl_wait wait = {0};

    while (!sl_file_lock(fd, type, byte)) {
        /* Anything else than "somebody has it" does not pass by waiting: a file system without locks, most likely. */
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) ||
            sl_wait_turn(&wait) >= (uint64_t)wait_ms * SL_MS_US)
            return false;
    }
    return true;
}

bool sl_file_is_locked(int fd, unsigned byte)
{
    struct flock lock = byte_lock(F_WRLCK, byte);

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

struct opening {
    struct sl_region_header header;
    struct sl_table *t;
    const struct sl_table_options *o;
    char *why;
    size_t why_size;
    bool alone;  /* nobody else has the file open */
    bool is_new; /* the table was made just now */
};

static int refuse(struct opening *op, int code, const char *what)
{
    snprintf(op->why, op->why_size, "%s %s", op->o->path, what);
    return code;
}

static int refuse_errno(struct opening *op, const char *what)
{
    int error = errno;

    snprintf(op->why, op->why_size, "%s %s: %s", op->o->path, what, strerror(error));
    return error == ENOMEM ? SL_ENOMEM : SL_EIO;
}

/* Reads or writes all of it at offset 0. */
static bool read_header(int fd, struct sl_region_header *ret_header)
{
    return pread(fd, ret_header, sizeof *ret_header, 0) == (ssize_t)sizeof *ret_header;
}

static bool write_header(int fd, const struct sl_region_header *header)
{
    return pwrite(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header;
}

static int choose_secret(struct opening *op, struct sl_secret *ret_secret)
{
    if (op->o->secret) {
        *ret_secret = *op->o->secret;
        return 0;
    }
    if (sl_secret_random(ret_secret))
        return refuse(op, SL_EIO, "cannot be set up: no random numbers");
    return 0;
}

/* Makes a table in the file, which has nothing that must be kept. The space is reserved now, so that a full disk is an
 * error here and not a signal at some decision later. */
static int set_up(struct opening *op, const struct sl_secret *keep_secret, uint64_t resets)
{
    struct sl_region_plan plan;
    struct sl_secret secret;
    int fd = op->t->fd, err = 0;

    if (keep_secret)
        secret = *keep_secret;
    else
        err = choose_secret(op, &secret);
    if (err)
        return err;
    sl_plan_make(&plan, op->o->keys, op->o->log_entries, secret, op->t->clock.wall_us(op->t->clock.ctx));
    sl_plan_header(&plan, &op->header);
    op->header.resets = resets;
    if (ftruncate(fd, 0) || !write_header(fd, &op->header))
        return refuse_errno(op, "cannot be written");
    if (fallocate(fd, 0, 0, (off_t)plan.bytes)) {
        bool no_such_call = errno == EOPNOTSUPP || errno == ENOSYS;

        if (!no_such_call || ftruncate(fd, (off_t)plan.bytes)) {
            err = refuse_errno(op, "cannot be given its size");
            if (ftruncate(fd, 0)) /* leave it empty, as it was found */
                return refuse_errno(op, "cannot be emptied again");
            return err;
        }
    }
    op->header.complete = 1;
    if (!write_header(fd, &op->header))
        return refuse_errno(op, "cannot be written");
    op->is_new = true;
    return 0;
}

static int check_options(struct opening *op)
{
    const struct sl_region_plan *p = &op->header.plan;
    struct sl_secret secret = {p->k0, p->k1};

    if (op->o->secret && (op->o->secret->k0 != p->k0 || op->o->secret->k1 != p->k1))
        return refuse(op, SL_EINVALID, "was made under another secret");
    if (p->keys == op->o->keys && p->log_entries == op->o->log_entries)
        return 0;
    if (!op->o->resize)
        return refuse(op, SL_EBUSY, "has another size than asked for, and was not to be started anew");
    if (!op->alone)
        return refuse(op, SL_EBUSY, "has another size than asked for, and another process has it open");
    return set_up(op, &secret, op->header.resets + 1);
}

static int read_or_set_up(struct opening *op)
{
    struct stat st;
    const char *what;

    if (fstat(op->t->fd, &st))
        return refuse_errno(op, "cannot be examined");
    if (st.st_size == 0)
        return op->alone ? set_up(op, NULL, 0) : refuse(op, SL_EBUSY, "was emptied while another process has it open");
    if (!read_header(op->t->fd, &op->header))
        return refuse(op, SL_EFORMAT, "is not a table of sluice, or truncated: it is shorter than a header");
    what = sl_plan_refuse(&op->header, (uint64_t)st.st_size);
    if (what)
        return refuse(op, SL_EFORMAT, what);
    if (!op->header.complete) {
        if (!op->alone)
            return refuse(op, SL_EBUSY, "is being set up by another process");
        return set_up(op, NULL, 0);
    }
    return check_options(op);
}

static int map(struct opening *op)
{
    struct sl_table *t = op->t;
    size_t bytes = (size_t)op->header.plan.bytes;
    void *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);

    if (region == MAP_FAILED)
        return refuse_errno(op, "cannot be mapped");
    t->mapping = region;
    t->mapping_bytes = bytes;
    sl_plan_attach(t, region);
    return 0;
}

static int enter(struct opening *op)
{
    struct sl_table *t = op->t;
    int err = map(op);

    if (err)
        return err;
    sl_anchor_init(t, op->alone);
    if (op->alone) {
        sl_processes_clear(t);
        err = op->is_new ? 0 : sl_repair(t);
        if (err)
            return refuse(op, err, "cannot be checked: out of memory");
    }
    if (!sl_file_lock(t->fd, F_RDLCK, SL_BYTE_USERS))
        return refuse_errno(op, "cannot be locked");
    if (sl_self_register(t) == 0)
        return refuse(op, SL_EBUSY, "is open in as many processes as it has places for");
    return 0;
}

int sl_file_open(struct sl_table *t, const struct sl_table_options *o, char *why, size_t why_size)
{
    struct opening op = {.t = t, .o = o, .why = why, .why_size = why_size};
    struct stat st;
    int err;

    t->fd = open(o->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (t->fd < 0)
        return refuse_errno(&op, "cannot be opened");
    if (fstat(t->fd, &st) || !S_ISREG(st.st_mode))
        return refuse(&op, SL_EFORMAT, "is not a regular file");
    if (!sl_file_lock_wait(t->fd, F_WRLCK, SL_BYTE_SETUP, SETUP_WAIT_MS))
        return errno == EAGAIN || errno == EACCES || errno == EINTR
                   ? refuse(&op, SL_EBUSY, "is being opened by another process, which does not end")
                   : refuse_errno(&op, "cannot be locked");
    op.alone = sl_file_lock(t->fd, F_WRLCK, SL_BYTE_USERS);
    err = read_or_set_up(&op);
    if (!err)
        err = enter(&op);
    sl_file_lock(t->fd, F_UNLCK, SL_BYTE_SETUP);
    return err;
}

void sl_file_reopen(struct sl_table *t)
{
    char path[40];
    int fd;

    snprintf(path, sizeof path, "/proc/self/fd/%d", t->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return; /* no /proc: liveness then rests on what the parent's description says */
    sl_file_lock(fd, F_RDLCK, SL_BYTE_USERS);
    close(t->fd);
    t->fd = fd;
}

void sl_file_close(struct sl_table *t)
{
    if (t->fd >= 0)
        close(t->fd); /* and with it every lock of this description */
    t->fd = -1;
}
