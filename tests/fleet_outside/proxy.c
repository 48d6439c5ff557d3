/* A TCP proxy that misbehaves on demand, between a daemon and its store.
 *
 *     fleet_proxy HOST:PORT        prints "port N": where it listens on 127.0.0.1, a free port
 *
 * and takes a command a line on its standard input, each answered by "ok ..." once it is in force:
 *
 *     pass          forwards (the beginning)
 *     delay US      and holds every byte of a reply back for so long; what is on its way keeps its time
 *     drop          a dropped route: accepts, but forwards nothing in either direction; what was sent meanwhile arrives late
 *     mute          forwards requests, throws replies away
 *     refuse        connections are refused, and those that are open are reset; until `pass`
 *     reset         open connections are reset, new ones welcome
 *     cut N         each open connection is reset after N more bytes of replies
 *     to HOST:PORT  new connections lead there; open ones stay
 *     count         "ok CONNECTIONS ACCEPTED", open now and ever
 *
 * One thread. Ends when its input ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX 512u
#define CHUNK_MAX 16384u
#define HELD_MAX (8u << 20) /* bytes held back in one direction; beyond, nothing is read */

enum mode { PASS, DROP, MUTE, REFUSE };

struct chunk {
    struct chunk *next;
    uint64_t due_us;
    size_t len, sent;
    char bytes[];
};

/* One end of a pair: what waits to be written to it, and whether it can be read. */
struct end {
    int fd;
    struct pair *pair;
    bool is_client;
    struct chunk *first, **last;
    size_t held;
    uint32_t events;
};

struct pair {
    bool used;
    struct end client, server;
    int64_t reply_left; /* until it is cut; -1: never */
};

static struct {
    struct sockaddr_in listen_address, to;
    int listener, epoll;
    enum mode mode;
    uint64_t delay_us;
    struct pair pairs[PAIRS_MAX];
    unsigned long accepted;
} proxy = {.listener = -1};

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static bool read_address(const char *text, struct sockaddr_in *ret)
{
    const char *colon = strrchr(text, ':');
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    char host[64];

    if (!colon || (size_t)(colon - text) >= sizeof host || port == 0 || port > 65535)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    ret->sin_family = AF_INET;
    ret->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &ret->sin_addr) == 1;
}

/* ---- what is watched */

static void watch(struct end *e, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = e};

    if (e->events != events && epoll_ctl(proxy.epoll, EPOLL_CTL_MOD, e->fd, &event))
        die("epoll_ctl");
    e->events = events;
}

static void update(struct end *e)
{
    const struct end *other = e->is_client ? &e->pair->server : &e->pair->client;
    bool read = proxy.mode != DROP && other->held < HELD_MAX;
    bool write = proxy.mode != DROP && e->first && e->first->due_us <= now_us();

    watch(e, (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u));
}

static void update_all(void)
{
    for (unsigned i = 0; i < PAIRS_MAX; i++)
        if (proxy.pairs[i].used) {
            update(&proxy.pairs[i].client);
            update(&proxy.pairs[i].server);
        }
}

/* ---- pairs */

static void begin_end(struct end *e, struct pair *pair, int fd, bool is_client)
{
    struct epoll_event event = {.events = 0, .data.ptr = e};
    int one = 1;

    *e = (struct end){.fd = fd, .pair = pair, .is_client = is_client};
    e->last = &e->first;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (epoll_ctl(proxy.epoll, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void close_end(struct end *e, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    while (e->first) {
        struct chunk *next = e->first->next;

        free(e->first);
        e->first = next;
    }
    if (reset)
        setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(e->fd);
}

static void end_pair(struct pair *p, bool reset)
{
    close_end(&p->client, reset);
    close_end(&p->server, reset);
    p->used = false;
}

static void end_pairs(void)
{
    for (unsigned i = 0; i < PAIRS_MAX; i++)
        if (proxy.pairs[i].used)
            end_pair(&proxy.pairs[i], true);
}

static void welcome(void)
{
    int client = accept4(proxy.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), server;
    struct pair *p = proxy.pairs;

    if (client < 0)
        return;
    proxy.accepted++;
    while (p < proxy.pairs + PAIRS_MAX && p->used)
        p++;
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* on loopback to connect never waits */
    if (p == proxy.pairs + PAIRS_MAX || server < 0 || connect(server, (struct sockaddr *)&proxy.to, sizeof proxy.to)) {
        close(client);
        if (server >= 0)
            close(server);
        return;
    }
    fcntl(server, F_SETFL, O_NONBLOCK);
    p->used = true;
    p->reply_left = -1;
    begin_end(&p->client, p, client, true);
    begin_end(&p->server, p, server, false);
    update(&p->client);
    update(&p->server);
}

/* ---- bytes */

/* False when the pair has ended. */
static bool write_due(struct end *e)
{
    uint64_t now = now_us();

    while (e->first && e->first->due_us <= now) {
        struct chunk *c = e->first;
        ssize_t n = send(e->fd, c->bytes + c->sent, c->len - c->sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n < 0) {
            end_pair(e->pair, true);
            return false;
        }
        c->sent += (size_t)n;
        e->held -= (size_t)n;
        if (c->sent < c->len)
            break;
        e->first = c->next;
        if (!e->first)
            e->last = &e->first;
        free(c);
    }
    return true;
}

static void hold(struct end *to, const char *bytes, size_t len)
{
    struct chunk *c = malloc(sizeof *c + len);

    if (!c)
        die("malloc");
    *c = (struct chunk){.due_us = to->is_client ? now_us() + proxy.delay_us : 0, .len = len};
    memcpy(c->bytes, bytes, len);
    *to->last = c;
    to->last = &c->next;
    to->held += len;
}

static void forward(struct end *from)
{
    struct pair *pair = from->pair;
    struct end *to = from->is_client ? &pair->server : &pair->client;
    char bytes[CHUNK_MAX];
    ssize_t n = recv(from->fd, bytes, sizeof bytes, 0);
    bool cut = false;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_pair(pair, n < 0);
        return;
    }
    if (!from->is_client && proxy.mode == MUTE)
        return;
    if (!from->is_client && pair->reply_left >= 0) {
        if (n >= pair->reply_left) {
            n = (ssize_t)pair->reply_left;
            cut = true;
        }
        pair->reply_left -= n;
    }
    if (n > 0)
        hold(to, bytes, (size_t)n);
    if (!write_due(to))
        return;
    if (cut) {
        shutdown(to->fd, SHUT_WR); /* so that what was sent arrives */
        end_pair(pair, false);
    } else {
        update(to);
        update(from);
    }
}

/* ---- commands */

static void start_listening(bool listening)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int one = 1;
    socklen_t len = sizeof proxy.listen_address;

    if (proxy.listener >= 0)
        close(proxy.listener);
    proxy.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(proxy.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(proxy.listener, (struct sockaddr *)&proxy.listen_address, len))
        die("bind");
    getsockname(proxy.listener, (struct sockaddr *)&proxy.listen_address, &len);
    if (!listening) /* bound, so that nobody takes the port, and whoever connects is refused */
        return;
    if (listen(proxy.listener, 256) || epoll_ctl(proxy.epoll, EPOLL_CTL_ADD, proxy.listener, &event))
        die("listen");
}

static void set_mode(enum mode mode)
{
    if ((proxy.mode == REFUSE) != (mode == REFUSE))
        start_listening(mode != REFUSE);
    proxy.mode = mode;
    if (mode == REFUSE)
        end_pairs();
    update_all();
}

static unsigned count_pairs(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PAIRS_MAX; i++)
        n += proxy.pairs[i].used;
    return n;
}

static bool obey(const char *line)
{
    if (!strcmp(line, "pass")) {
        proxy.delay_us = 0;
        set_mode(PASS);
    } else if (!strncmp(line, "delay ", 6)) {
        proxy.delay_us = strtoul(line + 6, NULL, 10);
        set_mode(PASS);
    } else if (!strcmp(line, "drop")) {
        set_mode(DROP);
    } else if (!strcmp(line, "mute")) {
        set_mode(MUTE);
    } else if (!strcmp(line, "refuse")) {
        set_mode(REFUSE);
    } else if (!strcmp(line, "reset")) {
        end_pairs();
    } else if (!strncmp(line, "cut ", 4)) {
        for (unsigned i = 0; i < PAIRS_MAX; i++)
            proxy.pairs[i].reply_left = strtol(line + 4, NULL, 10);
    } else if (!strncmp(line, "to ", 3)) {
        return read_address(line + 3, &proxy.to);
    } else {
        return !strcmp(line, "count");
    }
    return true;
}

/* False at the end of the input. */
static bool read_commands(void)
{
    static char buf[256];
    static size_t len;
    ssize_t n = read(0, buf + len, sizeof buf - 1 - len);
    char *end;

    if (n <= 0)
        return n < 0 && errno == EINTR;
    len += (size_t)n;
    buf[len] = '\0';
    while ((end = strchr(buf, '\n'))) {
        *end = '\0';
        printf(obey(buf) ? "ok %u %lu\n" : "what? %u %lu\n", count_pairs(), proxy.accepted);
        fflush(stdout);
        len -= (size_t)(end + 1 - buf);
        memmove(buf, end + 1, len + 1);
    }
    return len < sizeof buf - 1;
}

/* ---- the loop */

/* Writes what is due, and says when the next is: the beginnings of the queues are all there is to look at. */
static uint64_t release(void)
{
    uint64_t next = UINT64_MAX, now = now_us();

    if (proxy.mode == DROP)
        return next;
    for (unsigned i = 0; i < PAIRS_MAX; i++) {
        struct pair *p = &proxy.pairs[i];

        if (!p->used || !p->client.first)
            continue;
        if (p->client.first->due_us <= now) {
            if (!write_due(&p->client))
                continue;
            update(&p->client);
            update(&p->server);
        }
        if (p->client.first && p->client.first->due_us > now && p->client.first->due_us < next)
            next = p->client.first->due_us;
    }
    return next;
}

static void serve(struct epoll_event *event)
{
    struct end *e = event->data.ptr;

    if (!e->pair->used || e->fd < 0)
        return;
    if (proxy.mode == DROP && event->events & (EPOLLHUP | EPOLLERR)) {
        end_pair(e->pair, true);
        return;
    }
    if (event->events & EPOLLOUT && !write_due(e))
        return;
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        forward(e);
    else
        update(e);
}

int main(int argc, char **argv)
{
    struct epoll_event input = {.events = EPOLLIN, .data.ptr = &proxy};

    if (argc != 2 || !read_address(argv[1], &proxy.to)) {
        fprintf(stderr, "usage: fleet_proxy HOST:PORT\n");
        return 2;
    }
    proxy.epoll = epoll_create1(EPOLL_CLOEXEC);
    proxy.listen_address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    start_listening(true);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns: what is held back leaves on time */
    if (epoll_ctl(proxy.epoll, EPOLL_CTL_ADD, 0, &input))
        die("epoll_ctl");
    printf("port %u\n", ntohs(proxy.listen_address.sin_port));
    fflush(stdout);
    for (;;) {
        struct epoll_event events[64];
        uint64_t next = release(), now = now_us(), wait_us = next > now ? next - now : 0;
        struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000), .tv_nsec = (long)(wait_us % 1000000 * 1000)};
        int n = epoll_pwait2(proxy.epoll, events, 64, next == UINT64_MAX ? NULL : &wait, NULL);

        for (int i = 0; i < n; i++)
            if (!events[i].data.ptr)
                welcome();
            else if (events[i].data.ptr != &proxy)
                serve(&events[i]);
            else if (!read_commands())
                return 0;
    }
}
