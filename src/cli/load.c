#include "cli/load.h"

#include "cli/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <http_parser.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 128
#define ANSWER_MAX 65536

struct connection {
    int fd;
    bool busy;
    http_parser parser;
    uint64_t due_ns;
    size_t sent;
    unsigned request;
    struct load *load;
};

struct load {
    const struct load_options *options;
    struct load_result *result;
    struct connection *connections;
    unsigned *idle; /* stack of connections without a request */
    unsigned n_idle;
    unsigned next_request;
    int epoll;
    uint64_t started_ns, counted_ns, end_ns; /* the counted part is [counted_ns, end_ns) */
    uint64_t arrivals, taken;                /* open loop: how many are due; how many were sent */
    bool failed;
    char *why;
    size_t why_size;
};

static void fail(struct load *load, const char *text, int error)
{
    if (!load->failed)
        snprintf(load->why, load->why_size, "%s%s%s", text, error ? ": " : "", error ? strerror(error) : "");
    load->failed = true;
}

static bool is_open_loop(const struct load *load)
{
    return load->options->rate > 0;
}

static uint64_t due_at(const struct load *load, uint64_t arrival)
{
    return load->started_ns + (uint64_t)((double)arrival * 1e9 / load->options->rate);
}

static void send_rest(struct connection *c)
{
    struct load *load = c->load;
    const char *request = load->options->requests[c->request];
    size_t len = load->options->request_lens[c->request];

    while (c->sent < len) {
        ssize_t n = send(c->fd, request + c->sent, len - c->sent, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return; /* the events ask for room to write too */
        if (n < 0) {
            fail(load, "sending a request", errno);
            return;
        }
        c->sent += (size_t)n;
    }
}

static void start_request(struct connection *c, uint64_t due_ns)
{
    struct load *load = c->load;

    c->busy = true;
    c->due_ns = due_ns;
    c->sent = 0;
    c->request = load->next_request;
    load->next_request = (load->next_request + 1) % load->options->n_requests;
    send_rest(c);
}

static void count_answer(struct load *load, const struct connection *c, uint64_t now_ns)
{
    struct load_result *result = load->result;

    if (now_ns < load->counted_ns || now_ns >= load->end_ns)
        return;
    result->answers++;
    if (c->parser.status_code == 200) {
        result->ok++;
    } else if (c->parser.status_code == 429) {
        result->limited++;
    } else {
        result->other++;
        result->others[c->parser.status_code < LOAD_STATUSES ? c->parser.status_code : 0]++;
    }
    hdr_record(&result->latency_ns, now_ns - c->due_ns);
}

/* One answer has come in whole. */
static int on_complete(http_parser *parser)
{
    struct connection *c = parser->data;
    struct load *load = c->load;
    uint64_t now_ns = bench_now_ns();

    count_answer(load, c, now_ns);
    if (!http_should_keep_alive(parser))
        fail(load, "the server closes its connections after an answer", 0);
    c->busy = false;
    if (now_ns >= load->end_ns)
        return 0;
    if (!is_open_loop(load))
        start_request(c, now_ns);
    else if (load->taken < load->arrivals)
        start_request(c, due_at(load, load->taken++));
    else
        load->idle[load->n_idle++] = (unsigned)(c - load->connections);
    return 0;
}

static void receive(struct connection *c)
{
    static const http_parser_settings settings = {.on_message_complete = on_complete};
    char buf[ANSWER_MAX];
    ssize_t n;

    do { /* edge-triggered: until there is nothing left */
        n = recv(c->fd, buf, sizeof buf, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            fail(c->load, "the server closed a connection", n < 0 ? errno : 0);
        else if (http_parser_execute(&c->parser, &settings, buf, (size_t)n) != (size_t)n)
            fail(c->load, "the answer is no HTTP", 0);
    } while (n == (ssize_t)sizeof buf && !c->load->failed);
}

/* Sends every arrival that is due, as far as connections are free. */
static void send_due(struct load *load, uint64_t now_ns)
{
    while (due_at(load, load->arrivals) <= now_ns && due_at(load, load->arrivals) < load->end_ns) {
        load->arrivals++;
        if (!load->n_idle && due_at(load, load->arrivals - 1) >= load->counted_ns)
            load->result->late++;
    }
    while (load->n_idle && load->taken < load->arrivals)
        start_request(&load->connections[load->idle[--load->n_idle]], due_at(load, load->taken++));
}

static void wait_for_events(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t now_ns = bench_now_ns(), until_ns = load->end_ns;
    struct timespec timeout;
    int n;

    if (is_open_loop(load)) {
        send_due(load, now_ns);
        if (due_at(load, load->arrivals) < until_ns)
            until_ns = due_at(load, load->arrivals);
        now_ns = bench_now_ns();
    }
    until_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    timeout = (struct timespec){.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    n = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);
    if (n < 0 && errno != EINTR)
        fail(load, "epoll", errno);
    for (int i = 0; i < n && !load->failed; i++) {
        struct connection *c = events[i].data.ptr;

        if (events[i].events & EPOLLOUT && c->busy)
            send_rest(c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            receive(c);
    }
}

static int connect_to(const struct addrinfo *address, struct load *load)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0 || connect(fd, address->ai_addr, address->ai_addrlen)) {
        fail(load, "cannot connect", errno);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static void open_connections(struct load *load)
{
    const struct load_options *options = load->options;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *address = NULL;
    int err = getaddrinfo(options->host, options->port, &hints, &address);

    if (err) {
        fail(load, gai_strerror(err), 0);
        return;
    }
    for (unsigned i = 0; i < options->n_connections && !load->failed; i++) {
        struct connection *c = &load->connections[i];
        /* Edge-triggered: room to write is told of once, not on every wait. */
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};

        http_parser_init(&c->parser, HTTP_RESPONSE);
        c->parser.data = c;
        c->load = load;
        c->fd = connect_to(address, load);
        if (c->fd >= 0 && epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->fd, &event))
            fail(load, "epoll", errno);
        load->idle[load->n_idle++] = i;
    }
    freeaddrinfo(address);
}

static void run_phases(struct load *load)
{
    const struct load_options *options = load->options;
    struct load_result *result = load->result;
    uint64_t server_cpu = 0, client_cpu = 0, counting_since = 0;

    load->started_ns = bench_now_ns();
    load->counted_ns = load->started_ns + options->warm_up_ms * 1000000;
    load->end_ns = load->counted_ns + options->duration_ms * 1000000;
    while (!is_open_loop(load) && load->n_idle)
        start_request(&load->connections[load->idle[--load->n_idle]], bench_now_ns());
    while (!load->failed) {
        uint64_t now_ns = bench_now_ns();

        if (!counting_since && now_ns >= load->counted_ns) {
            counting_since = now_ns;
            server_cpu = options->server_pid ? bench_process_cpu_ns(options->server_pid) : 0;
            client_cpu = bench_thread_cpu_ns();
        }
        if (now_ns >= load->end_ns)
            break;
        wait_for_events(load);
    }
    result->seconds = (double)(bench_now_ns() - counting_since) / 1e9;
    result->client_cpu_ns = bench_thread_cpu_ns() - client_cpu;
    if (options->server_pid)
        result->server_cpu_ns = bench_process_cpu_ns(options->server_pid) - server_cpu;
    for (unsigned i = 0; i < options->n_connections; i++)
        result->unsent += load->connections[i].busy;
    result->unsent += load->arrivals - load->taken;
}

int load_run(const struct load_options *options, struct load_result *ret_result, char *why, size_t why_size)
{
    struct load load = {.options = options, .result = ret_result, .why = why, .why_size = why_size};

    memset(ret_result, 0, sizeof *ret_result);
    hdr_init(&ret_result->latency_ns);
    load.connections = calloc(options->n_connections, sizeof *load.connections);
    load.idle = calloc(options->n_connections, sizeof *load.idle);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    prctl(PR_SET_TIMERSLACK, 1000); /* 1 us: arrivals on time */
    if (!load.connections || !load.idle || load.epoll < 0)
        fail(&load, "cannot set up", errno);
    for (unsigned i = 0; load.connections && i < options->n_connections; i++)
        load.connections[i].fd = -1;
    if (!load.failed)
        open_connections(&load);
    if (!load.failed)
        run_phases(&load);
    for (unsigned i = 0; load.connections && i < options->n_connections; i++) {
        if (load.connections[i].fd >= 0)
            close(load.connections[i].fd);
    }
    if (load.epoll >= 0)
        close(load.epoll);
    free(load.connections);
    free(load.idle);
    return load.failed ? -1 : 0;
}
