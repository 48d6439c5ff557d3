#include "cli/screen.h"

#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* Alternate screen, no cursor; and back, with colours as they were. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[2J\033[H";
static const char leave_text[] = "\033[0m\033[?25h\033[?1049l";

/* One terminal a process: what a signal's handler needs to give it back. */
static struct termios usual;
static volatile sig_atomic_t entered, raw, resized;

static void write_text(const char *text, size_t len)
{
    if (write(STDOUT_FILENO, text, len) < 0)
        return; /* a terminal that has gone needs nothing */
}

/* These two: async-signal-safe. */
static void give_back(void)
{
    if (!entered)
        return;
    entered = 0;
    write_text(leave_text, sizeof leave_text - 1);
    if (raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &usual);
}

static void take(void)
{
    struct termios quiet = usual;

    write_text(enter_text, sizeof enter_text - 1);
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    entered = 1;
}

static void on_end(int number)
{
    struct sigaction usual_action = {.sa_handler = SIG_DFL};

    give_back();
    if (number == SIGINT)
        _exit(0);
    sigaction(number, &usual_action, NULL);
    kill(getpid(), number);
}

static void on_suspend(int number)
{
    int saved = errno;

    (void)number;
    give_back();
    kill(getpid(), SIGSTOP); /* and on from here, some day */
    take();
    resized = 1;
    errno = saved;
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static void watch(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(number, &action, NULL);
}

void screen_enter(void)
{
    raw = tcgetattr(STDIN_FILENO, &usual) == 0;
    take();
    watch(SIGINT, on_end);
    watch(SIGTERM, on_end);
    watch(SIGHUP, on_end);
    watch(SIGQUIT, on_end);
    watch(SIGTSTP, on_suspend);
    watch(SIGWINCH, on_resize);
}

void screen_leave(void)
{
    give_back();
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads the keys that were pressed; true for a `q` among them. The end of the input is no key, and is not waited for again. */
static bool read_keys(bool *open)
{
    char keys[64];
    ssize_t n = read(STDIN_FILENO, keys, sizeof keys);

    if (n <= 0) {
        *open = n < 0 && errno == EINTR;
        return false;
    }
    return memchr(keys, 'q', (size_t)n) || memchr(keys, 'Q', (size_t)n);
}

enum screen_event screen_wait(unsigned ms)
{
    static bool open = true;
    int64_t end = now_ms() + ms, left;

    while ((left = end - now_ms()) > 0) {
        struct pollfd input = {.fd = open && raw ? STDIN_FILENO : -1, .events = POLLIN};
        /* A signal that comes just before poll is seen a moment later. */
        int n = poll(&input, 1, left > 100 ? 100 : (int)left);

        if (resized) {
            resized = 0;
            return SCREEN_REDRAW;
        }
        if (n > 0 && read_keys(&open))
            return SCREEN_QUIT;
    }
    return SCREEN_TIME;
}

void screen_size(unsigned *ret_columns, unsigned *ret_rows)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;

    *ret_columns = known ? size.ws_col : 80;
    *ret_rows = known ? size.ws_row : 24;
    if (*ret_columns < 20)
        *ret_columns = 20;
    if (*ret_rows < 5)
        *ret_rows = 5;
}

/* Of one well-formed character of n bytes. */
static unsigned width_of(const unsigned char *bytes, size_t n)
{
    wchar_t c = n == 1 ? bytes[0] : bytes[0] & (0xff >> (n + 1));
    int width;

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (bytes[i] & 0x3f);
    width = wcwidth(c);
    return width < 0 ? 1 : (unsigned)width;
}

/* The bytes and columns of as much as fits. */
static size_t measure(const char *text, size_t len, unsigned columns, size_t size, unsigned *ret_width)
{
    size_t used = 0;

    *ret_width = 0;
    while (used < len) {
        size_t n = sl_utf8_len(text + used, len - used);
        unsigned width = n ? width_of((const unsigned char *)text + used, n) : 1;

        n += n == 0;
        if (*ret_width + width > columns || used + n > size)
            break;
        used += n;
        *ret_width += width;
    }
    return used;
}

void screen_fit(const char *text, unsigned columns, char *buf, size_t size)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    size_t len = strlen(text), room = size > columns + sizeof ellipsis ? size - columns - sizeof ellipsis : 0;
    unsigned width;
    size_t used = measure(text, len, columns, room, &width);

    if (used < len && columns > 0) {
        used = measure(text, len, columns - 1, room, &width);
        memcpy(buf, text, used);
        memcpy(buf + used, ellipsis, 3);
        used += 3;
        width++;
    } else {
        memcpy(buf, text, used);
    }
    while (width < columns && used + 1 < size) {
        buf[used++] = ' ';
        width++;
    }
    buf[used] = '\0';
}
