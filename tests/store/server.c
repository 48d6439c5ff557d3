#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 64

int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int port;

    /* A Cluster's server also listens 10,000 above its port. */
    do {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        a.sin_port = 0;
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
        close(fd);
        port = ntohs(a.sin_port);
    } while (port > 55000);
    return port;
}

static void become(const char *const *argv, const char *folder)
{
    int out = open("/dev/null", O_WRONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (folder && chdir(folder))
        _exit(126);
    dup2(out, 1);
    dup2(out, 2);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

void server_launch(struct server *server)
{
    char port[16], socket_path[96];
    const char *argv[WORDS_MAX] = {
        "redis-server", "--port", port,    "--bind",       "127.0.0.1", "-::1", "--unixsocket",           socket_path,
        "--save",       "",       "--dir", server->folder, "--logfile", "log",  "--enable-debug-command", "yes"};
    size_t n = 16;

    snprintf(port, sizeof port, "%d", server->port);
    snprintf(socket_path, sizeof socket_path, "%s/socket", server->folder);
    for (size_t i = 0; server->options && server->options[i]; i++) {
        assert_true(n < WORDS_MAX - 1);
        argv[n++] = server->options[i];
    }
    unlink(socket_path);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        become(argv, server->folder);
}

/* True when something listens on its socket and says anything at all. */
static bool answers(const struct server *server)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = 5};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char c;
    bool ok;

    snprintf(a.sun_path, sizeof a.sun_path, "%.90s/socket", server->folder);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    ok = connect(fd, (struct sockaddr *)&a, sizeof a) == 0 && write(fd, "PING\r\n", 6) == 6 && read(fd, &c, 1) == 1;
    close(fd);
    return ok;
}

void server_wait(struct server *server)
{
    for (int i = 0; i < 4000; i++) {
        if (answers(server))
            return;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    fail_msg("redis-server does not start: see %s/log (is it installed?)", server->folder);
}

void server_start(struct server *server, const char *const *options)
{
    *server = (struct server){.folder = "/tmp/sluice-client-XXXXXX", .options = options, .port = free_port()};
    assert_non_null(mkdtemp(server->folder));
    server_launch(server);
    server_wait(server);
}

void server_signal(struct server *server, int number)
{
    assert_true(server->pid > 0);
    assert_int_equal(kill(server->pid, number), 0);
}

void server_kill(struct server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    server->pid = 0;
}

void server_remove(struct server *server)
{
    DIR *dir;
    struct dirent *entry;

    server_kill(server);
    dir = opendir(server->folder);
    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(server->folder);
}

void run_program(const char *const *argv)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        become(argv, NULL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %s failed", argv[0], argv[1]);
}

void server_cli(const struct server *server, const char *const *words)
{
    char path[96];
    const char *argv[WORDS_MAX] = {"redis-cli", "-e", "-s", path};
    size_t n = 4;

    snprintf(path, sizeof path, "%s/socket", server->folder);
    for (size_t i = 0; words[i]; i++) {
        assert_true(n < WORDS_MAX - 1);
        argv[n++] = words[i];
    }
    run_program(argv);
}
