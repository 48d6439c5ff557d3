/* Who has the region open, so that a log lock left by the dead can be told from one held by the slow.
 *
 * A process takes a place in the region's list and marks its locks with [incarnation of the place 20 | place 10].
 * It is alive while its pid has the start time it registered with; for a process of another pid namespace (a
 * container beside this one), while it holds the file lock of its place. A forked child inherits the handle but not
 * the place: its page `self` was cleared by the kernel, so that it registers anew at its first lock. A private
 * region has one process by definition; there an owner is alive when it is this very process. */
#include "table/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGISTERING 1u
#define REGISTER_WAIT_MS 5000u

/* Fields of /proc/PID/stat; false when there is no such process, or it is a zombie all of whose threads are gone. */
static bool read_start(uint32_t pid, uint64_t *ret_start)
{
    char path[40], text[1024], *at;
    unsigned field = 3;
    char state;
    int fd;
    ssize_t n;
    unsigned long threads = 0;

    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    at = strrchr(text, ')'); /* the command may hold anything, parentheses too */
    if (!at || !at[1] || !at[2])
        return false;
    at += 2;
    state = *at;
    for (; field < 22 && (at = strchr(at, ' ')); field++) {
        at++;
        if (field + 1 == 20)
            threads = strtoul(at, NULL, 10);
    }
    if (!at)
        return false;
    *ret_start = strtoull(at, NULL, 10);
    return state != 'X' && !(state == 'Z' && threads <= 1);
}

static uint64_t own_pid_ns(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

static uint32_t word_pid(uint64_t word)
{
    return (uint32_t)word;
}

static bool place_is_alive(struct sl_table *t, unsigned place)
{
    const struct sl_process *p = &t->processes[place];
    uint32_t pid = word_pid(sl_load(&p->word));
    uint64_t ns = sl_load(&p->pid_ns), start = 0;

    if (pid == 0)
        return false;
    if (ns != 0 && ns == t->pid_ns)
        return read_start(pid, &start) && start == sl_load(&p->start);
    return sl_file_is_locked(t->fd, SL_BYTE_PROCESS + place);
}

bool sl_owner_is_alive(struct sl_table *t, uint32_t owner)
{
    unsigned place = owner & (SL_PROCESSES - 1);
    uint64_t word;

    if (owner == __atomic_load_n(&t->self->owner, __ATOMIC_ACQUIRE))
        return true;
    if (t->fd < 0 || place == 0)
        return false;
    word = sl_load(&t->processes[place].word);
    if ((word >> 32 & SL_OWNER_INCARNATION_MASK) != owner >> SL_OWNER_SLOT_BITS)
        return false;
    return place_is_alive(t, place);
}

static uint32_t take_place(struct sl_table *t, unsigned place)
{
    struct sl_process *p = &t->processes[place];
    uint64_t incarnation = (sl_load(&p->word) >> 32) + 1, start = 0;

    if ((incarnation & SL_OWNER_INCARNATION_MASK) == 0)
        incarnation++; /* so that no owner is 0 */
    read_start((uint32_t)getpid(), &start);
    sl_store(&p->start, start);
    sl_store(&p->pid_ns, t->pid_ns);
    sl_store(&p->word, incarnation << 32 | (uint32_t)getpid());
    return (uint32_t)(incarnation & SL_OWNER_INCARNATION_MASK) << SL_OWNER_SLOT_BITS | place;
}

static uint32_t find_place(struct sl_table *t)
{
    unsigned from = (unsigned)getpid() % (SL_PROCESSES - 1);
    uint32_t owner = 0;

    if (!sl_file_lock_wait(t->fd, F_WRLCK, SL_BYTE_REGISTER, REGISTER_WAIT_MS))
        return 0;
    for (unsigned i = 0; i < SL_PROCESSES - 1 && owner == 0; i++) {
        unsigned place = 1 + (from + i) % (SL_PROCESSES - 1);

        if (!place_is_alive(t, place) && sl_file_lock(t->fd, F_WRLCK, SL_BYTE_PROCESS + place))
            owner = take_place(t, place);
    }
    sl_file_lock(t->fd, F_UNLCK, SL_BYTE_REGISTER);
    return owner;
}

/* A private region: a number that no ancestor had is enough, for a forked child has a copy of its own. */
static uint32_t next_private(struct sl_table *t)
{
    t->forks = (t->forks + 1) & (SL_OWNER_INCARNATION_MASK - 1);
    return (t->forks ? t->forks : ++t->forks) << SL_OWNER_SLOT_BITS | 1;
}

static uint32_t register_now(struct sl_table *t)
{
    if (t->fd < 0)
        return next_private(t);
    if (t->self_pid != 0 && t->self_pid != (uint32_t)getpid())
        sl_file_reopen(t);
    t->self_pid = (uint32_t)getpid();
    t->pid_ns = own_pid_ns();
    return find_place(t);
}

uint32_t sl_self_register(struct sl_table *t)
{
    struct sl_wait wait = {0};

    for (;;) {
        uint32_t seen = __atomic_load_n(&t->self->owner, __ATOMIC_ACQUIRE);

        if (seen > REGISTERING && (t->self_is_wiped || t->self->pid == (uint32_t)getpid()))
            return seen;
        if (seen == REGISTERING) {
            sl_wait_turn(&wait);
            continue;
        }
        if (!__atomic_compare_exchange_n(&t->self->owner, &seen, REGISTERING, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            continue;
        t->self->pid = (uint32_t)getpid();
        seen = register_now(t);
        __atomic_store_n(&t->self->owner, seen, __ATOMIC_RELEASE);
        return seen;
    }
}

int sl_self_init(struct sl_table *t)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return SL_ENOMEM;
    t->self = page;
    t->self_is_wiped = madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0;
    return 0;
}

void sl_self_fini(struct sl_table *t)
{
    uint32_t owner;

    if (!t->self)
        return;
    owner = __atomic_load_n(&t->self->owner, __ATOMIC_ACQUIRE);
    if (t->fd >= 0 && owner > REGISTERING && t->processes) {
        struct sl_process *p = &t->processes[owner & (SL_PROCESSES - 1)];

        sl_store(&p->word, sl_load(&p->word) & ~(uint64_t)UINT32_MAX);
    }
    munmap(t->self, (size_t)sysconf(_SC_PAGESIZE));
    t->self = NULL;
}

void sl_processes_clear(struct sl_table *t)
{
    for (unsigned i = 0; i < SL_PROCESSES; i++) {
        struct sl_process *p = &t->processes[i];

        sl_store(&p->word, sl_load(&p->word) & ~(uint64_t)UINT32_MAX);
    }
}
