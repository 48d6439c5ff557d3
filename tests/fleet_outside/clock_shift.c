/* Preloaded into a program, moves its wall clock by as many seconds as the file $CLOCK_SHIFT_FILE says (a 64-bit integer in
 * the machine's own bytes), from the instant the file is written. Other clocks are left alone. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

static const volatile int64_t *shift_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_shift(void)
{
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map;

    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (fd < 0)
        return;
    map = mmap(NULL, sizeof *shift_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        shift_s = map;
}

SEEN int clock_gettime(clockid_t clock, struct timespec *t)
{
    int result;

    if (!real_clock_gettime) /* another library's constructor came first */
        open_shift();
    result = real_clock_gettime(clock, t);
    if (result == 0 && shift_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += *shift_s;
    return result;
}

SEEN int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec t;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &t) == 0)
        *tv = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    return 0;
}

SEEN time_t time(time_t *ret)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_REALTIME, &t);
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}
