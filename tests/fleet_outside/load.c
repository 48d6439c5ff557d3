/* Keeps a given rate of POST /check against one daemon or several, and writes down what became of each request.
 *
 *     fleet_load --target HOST:PORT ... --rate N --seconds S --out FILE --mix "WEIGHT KEY N [SCOPE [COST]]" ...
 *
 * Open loop: request i is due at begin + i / rate, whatever the daemons do. It goes to the next target that is up, on a
 * keep-alive connection that has nothing under way; when there is none it waits, and how long it waited is written down apart
 * from how long its answer took. A target that goes away loses what was under way there and gets no more until it is back:
 * its connections are tried again every RETRY_US. A key of a mix with N > 1 is KEY and a number below N.
 *
 * Prints "begun US" (CLOCK_MONOTONIC) when the load begins, and a line of totals at its end. FILE holds a struct record for
 * each request, in the order due. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TARGETS_MAX 32u
#define MIXES_MAX 16u
#define CONNECTIONS_MAX 4096u
#define ANSWER_MAX 4096u
#define RETRY_US 20000u
#define PATIENCE_US 5000000u /* for what is under way at the end */
#define NOBODY UINT32_MAX

enum result { REJECTED, ALLOWED, LOST, BAD };

struct record {
    uint64_t due_us;
    uint32_t waited_us, took_us; /* for a connection; for the answer */
    int32_t retry_after_ms, remaining;
    uint8_t target, mix, result, source, reason; /* numbers of the lists below */
    uint8_t pad[3];
};
_Static_assert(sizeof(struct record) == 32, "the reader unpacks 32 bytes");

static const char *const sources[] = {"local", "shared", "degraded", NULL};
static const char *const reasons[] = {
    "", "rate_limited", "cost_exceeds_limit", "store_unavailable", "blocked", "unmatched", NULL};

enum state { CLOSED, CONNECTING, IDLE, BUSY };

struct connection {
    int fd;
    enum state state;
    unsigned target;
    uint32_t request; /* index of its record */
    uint64_t sent_us, retry_us;
    char out[1024], in[ANSWER_MAX];
    size_t out_len, out_sent, in_len;
};

struct mix {
    unsigned weight, n, cost;
    char key[128], scope[128];
};

static struct {
    struct sockaddr_in address[TARGETS_MAX];
    unsigned n_idle[TARGETS_MAX], *idle[TARGETS_MAX]; /* stacks of connections */
    unsigned n_targets, per_target, next_target;
    struct connection *connections;
    struct mix mixes[MIXES_MAX];
    unsigned n_mixes, weights;
    double rate, seconds;
    const char *out;
    int epoll;
    struct record *records;
    uint32_t n_records, arrived, begun, ended; /* due; sent; answered or lost */
    uint64_t begin_us, random;
} load = {.per_target = 32, .rate = 1000, .seconds = 1, .random = 88172645463325252u};

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t random_number(void)
{
    load.random ^= load.random << 13;
    load.random ^= load.random >> 7;
    load.random ^= load.random << 17;
    return load.random;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* ---- connections */

static void watch(struct connection *c, int op, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};

    if (epoll_ctl(load.epoll, op, c->fd, &event))
        die("epoll_ctl");
}

static void end_request(struct connection *c, enum result result)
{
    struct record *r = &load.records[c->request];

    r->took_us = (uint32_t)(now_us() - c->sent_us);
    r->result = (uint8_t)result;
    load.ended++;
}

/* Also takes it off its target's idle stack. */
static void drop(struct connection *c)
{
    unsigned me = (unsigned)(c - load.connections), *idle = load.idle[c->target];

    if (c->state == BUSY)
        end_request(c, LOST);
    for (unsigned i = 0; c->state == IDLE && i < load.n_idle[c->target]; i++)
        if (idle[i] == me) {
            idle[i] = idle[--load.n_idle[c->target]];
            break;
        }
    close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
    c->retry_us = now_us() + RETRY_US;
}

static void dial(struct connection *c)
{
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->state = CONNECTING;
    c->in_len = 0;
    watch(c, EPOLL_CTL_ADD, EPOLLOUT);
    if (connect(c->fd, (struct sockaddr *)&load.address[c->target], sizeof load.address[0]) && errno != EINPROGRESS)
        drop(c);
}

static void rest(struct connection *c)
{
    c->state = IDLE;
    load.idle[c->target][load.n_idle[c->target]++] = (unsigned)(c - load.connections);
}

static void connected(struct connection *c)
{
    int error = 0;
    socklen_t len = sizeof error;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) {
        drop(c);
        return;
    }
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    rest(c);
}

static void dial_again(uint64_t now)
{
    for (unsigned i = 0; i < load.n_targets * load.per_target; i++)
        if (load.connections[i].state == CLOSED && load.connections[i].retry_us <= now)
            dial(&load.connections[i]);
}

/* ---- requests */

static unsigned choose_mix(void)
{
    unsigned at = (unsigned)(random_number() % load.weights), i = 0;

    while (at >= load.mixes[i].weight)
        at -= load.mixes[i++].weight;
    return i;
}

static void write_request(struct connection *c, const struct mix *m)
{
    char body[512], number[24] = "", scope[160] = "";
    int len;

    if (m->n > 1)
        snprintf(number, sizeof number, "%" PRIu64, random_number() % m->n);
    if (m->scope[0])
        snprintf(scope, sizeof scope, ",\"scope\":\"%s\"", m->scope);
    len = snprintf(body, sizeof body, "{\"key\":\"%s%s\"%s,\"cost\":%u}", m->key, number, scope, m->cost);
    c->out_len = (size_t)snprintf(
        c->out, sizeof c->out,
        "POST /check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len, body);
    c->out_sent = 0;
}

static void send_rest(struct connection *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) { /* a request is far smaller than a socket's buffer: its end is stuck */
            drop(c);
            return;
        }
        if (n < 0 && errno != EINTR) {
            drop(c);
            return;
        }
        if (n > 0)
            c->out_sent += (size_t)n;
    }
}

static void start_request(struct connection *c)
{
    struct record *r = &load.records[load.begun];

    c->request = load.begun++;
    c->sent_us = now_us();
    c->state = BUSY;
    r->due_us = load.begin_us + (uint64_t)(c->request * 1e6 / load.rate);
    r->waited_us = (uint32_t)(c->sent_us > r->due_us ? c->sent_us - r->due_us : 0);
    r->target = (uint8_t)c->target;
    r->mix = (uint8_t)choose_mix();
    r->source = r->reason = 255;
    write_request(c, &load.mixes[r->mix]);
    send_rest(c);
}

/* The targets take turns; one that has no connection free is passed over. */
static uint32_t free_connection(void)
{
    for (unsigned i = 0; i < load.n_targets; i++) {
        unsigned t = load.next_target++ % load.n_targets;

        if (load.n_idle[t])
            return load.idle[t][--load.n_idle[t]];
    }
    return NOBODY;
}

static void start_due(void)
{
    while (load.begun < load.arrived) {
        uint32_t c = free_connection();

        if (c == NOBODY)
            return;
        start_request(&load.connections[c]);
    }
}

/* ---- answers */

static uint8_t find_word(const char *body, const char *member, const char *const *words)
{
    const char *at = strstr(body, member);

    for (unsigned i = 0; at && words[i]; i++) {
        size_t len = strlen(words[i]);

        if (len && !strncmp(at + strlen(member), words[i], len) && at[strlen(member) + len] == '"')
            return (uint8_t)i;
    }
    return at ? 254 : 255;
}

static int32_t find_number(const char *body, const char *member)
{
    const char *at = strstr(body, member);
    long long x = at ? strtoll(at + strlen(member), NULL, 10) : INT32_MIN;

    return x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

static void read_verdict(struct connection *c, const char *body)
{
    struct record *r = &load.records[c->request];
    const char *allowed = strstr(body, "\"allowed\":");
    enum result result = BAD;

    if (!strncmp(c->in, "HTTP/1.1 200 ", 13) && allowed)
        result = allowed[10] == 't' ? ALLOWED : REJECTED;
    r->source = find_word(body, "\"source\":\"", sources);
    r->reason = find_word(body, "\"reason\":\"", reasons);
    r->retry_after_ms = find_number(body, "\"retryAfterMs\":");
    r->remaining = find_number(body, "\"remaining\":");
    end_request(c, result);
}

static void receive(struct connection *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof c->in - 1 - c->in_len, 0);
    char *body, *length;
    size_t size;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || c->state != BUSY) {
        drop(c);
        return;
    }
    c->in_len += (size_t)n;
    c->in[c->in_len] = '\0';
    body = strstr(c->in, "\r\n\r\n");
    length = strcasestr(c->in, "content-length:");
    if (!body || !length || length > body)
        return;
    body += 4;
    size = strtoul(length + 15, NULL, 10);
    if ((size_t)(c->in + c->in_len - body) < size)
        return;
    read_verdict(c, body);
    c->in_len = 0;
    rest(c);
}

/* ---- the loop */

static void look(uint64_t until_us)
{
    struct epoll_event events[256];
    uint64_t now = now_us();
    uint64_t wait_us = until_us > now ? until_us - now : 0;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000), .tv_nsec = (long)(wait_us % 1000000 * 1000)};
    int n = epoll_pwait2(load.epoll, events, 256, &wait, NULL);

    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;

        if (c->state == CONNECTING)
            connected(c);
        else if (c->state != CLOSED)
            receive(c);
    }
}

static unsigned n_idle(void)
{
    unsigned n = 0;

    for (unsigned t = 0; t < load.n_targets; t++)
        n += load.n_idle[t];
    return n;
}

/* Until every connection is there, or half a second has passed and at least some are. */
static void warm_up(void)
{
    uint64_t begin = now_us();
    unsigned all = load.n_targets * load.per_target;

    while (n_idle() < all && now_us() - begin < (n_idle() ? 500000u : PATIENCE_US)) {
        dial_again(now_us());
        look(now_us() + 1000);
    }
    if (!n_idle()) {
        fprintf(stderr, "fleet_load: no target answers\n");
        exit(2);
    }
}

static void run(void)
{
    uint64_t end_us, retry_us = 0, now;

    load.begin_us = now_us();
    end_us = load.begin_us + (uint64_t)(load.seconds * 1e6) + PATIENCE_US;
    printf("begun %" PRIu64 "\n", load.begin_us);
    fflush(stdout);
    while (load.ended < load.n_records && (now = now_us()) < end_us) {
        uint64_t due = (uint64_t)((double)(now - load.begin_us) * load.rate / 1e6) + 1;
        uint64_t next = load.begin_us + (uint64_t)((double)due * 1e6 / load.rate);

        load.arrived = due < load.n_records ? (uint32_t)due : load.n_records;
        start_due();
        if (now >= retry_us) {
            dial_again(now);
            retry_us = now + RETRY_US;
        }
        if (load.arrived == load.n_records || next > retry_us)
            next = retry_us;
        look(next);
    }
}

/* What never got away, or never came back, is lost. */
static void close_books(void)
{
    for (unsigned i = 0; i < load.n_targets * load.per_target; i++)
        if (load.connections[i].state == BUSY)
            end_request(&load.connections[i], LOST);
    for (uint32_t i = load.begun; i < load.n_records; i++) {
        load.records[i] = (struct record){.due_us = load.begin_us + (uint64_t)(i * 1e6 / load.rate),
                                          .waited_us = UINT32_MAX,
                                          .result = LOST,
                                          .source = 255,
                                          .reason = 255};
    }
}

static void write_records(void)
{
    unsigned counts[4] = {0};
    struct timespec cpu;
    FILE *f = fopen(load.out, "wb");

    if (!f || fwrite(load.records, sizeof *load.records, load.n_records, f) != load.n_records || fclose(f))
        die(load.out);
    for (uint32_t i = 0; i < load.n_records; i++)
        counts[load.records[i].result]++;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("requests %u allowed %u rejected %u lost %u bad %u cpu_ms %lld\n", load.n_records, counts[ALLOWED],
           counts[REJECTED], counts[LOST], counts[BAD], (long long)cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000);
}

/* ---- the command line */

static void add_target(char *text)
{
    char *colon = strrchr(text, ':');
    struct sockaddr_in *a = &load.address[load.n_targets];

    if (!colon || load.n_targets == TARGETS_MAX) {
        fprintf(stderr, "fleet_load: bad target %s\n", text);
        exit(2);
    }
    *colon = '\0';
    a->sin_family = AF_INET;
    a->sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, text, &a->sin_addr) != 1)
        die(text);
    load.n_targets++;
}

static void add_mix(const char *text)
{
    struct mix *m = &load.mixes[load.n_mixes];
    char words[5][128] = {"", "", "", "", "1"};

    if (load.n_mixes == MIXES_MAX ||
        sscanf(text, "%127s %127s %127s %127s %127s", words[0], words[1], words[2], words[3], words[4]) < 3) {
        fprintf(stderr, "fleet_load: bad mix %s\n", text);
        exit(2);
    }
    m->weight = (unsigned)strtoul(words[0], NULL, 10);
    snprintf(m->key, sizeof m->key, "%s", words[1]);
    m->n = (unsigned)strtoul(words[2], NULL, 10);
    snprintf(m->scope, sizeof m->scope, "%s", words[3]);
    m->cost = (unsigned)strtoul(words[4], NULL, 10);
    if (!strcmp(m->scope, "-"))
        m->scope[0] = '\0';
    load.weights += m->weight;
    load.n_mixes++;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--target"))
            add_target(argv[i + 1]);
        else if (!strcmp(argv[i], "--mix"))
            add_mix(argv[i + 1]);
        else if (!strcmp(argv[i], "--rate"))
            load.rate = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--seconds"))
            load.seconds = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--connections"))
            load.per_target = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--out"))
            load.out = argv[i + 1];
    }
    if (!load.n_targets || !load.n_mixes || !load.weights || !load.out || load.rate < 1 || load.seconds <= 0 ||
        !load.per_target || load.n_targets * load.per_target > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: fleet_load --target HOST:PORT ... --rate N --seconds S --connections N --out FILE"
                        " --mix \"WEIGHT KEY N [SCOPE [COST]]\" ...\n");
        exit(2);
    }
}

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p)
        die("calloc");
    return p;
}

int main(int argc, char **argv)
{
    unsigned all;

    read_arguments(argc, argv);
    all = load.n_targets * load.per_target;
    load.n_records = (uint32_t)(load.rate * load.seconds);
    load.records = allocate(load.n_records ? load.n_records : 1, sizeof *load.records);
    load.connections = allocate(all, sizeof *load.connections);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned t = 0; t < load.n_targets; t++)
        load.idle[t] = allocate(load.per_target, sizeof **load.idle);
    for (unsigned i = 0; i < all; i++) {
        load.connections[i].target = i / load.per_target;
        dial(&load.connections[i]);
    }
    warm_up();
    run();
    close_books();
    write_records();
    for (unsigned t = 0; t < load.n_targets; t++)
        free(load.idle[t]);
    free(load.connections);
    free(load.records);
    return 0;
}
