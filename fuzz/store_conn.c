/* A connection of the store's client against a server that answers rightly, until bytes of the input come in between:
 * whatever they are, and wherever the stream breaks, each call is answered exactly once, and as long as the server has said
 * nothing wrong, with its own reply. The input is a list of operations. */
#include "base/err.h"
#include "store/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_CALLS 24u
#define QUEUE_MAX 16u
#define REPLY_MAX 4096u
#define SAID_MAX (64u << 10)
#define GARBAGE_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sl_stream {
    const struct sl_stream_events *events;
    void *owner;
    bool opened;
};

struct sl_timer {
    void (*fire)(void *owner);
    void *owner;
    uint64_t at_us;
    struct sl_timer *next;
};

struct caller {
    struct sl_conn_call call;
    unsigned id, extra;
    bool open, again; /* again: sends itself once more when it is answered */
};

/* The world of one input. */
static struct {
    const uint8_t *data;
    size_t left;
    uint64_t now_us, random;
    struct sl_timer *timers;
    struct sl_stream *stream;
    char said[SAID_MAX]; /* by the server, not delivered yet */
    size_t n_said;
    bool wrong;   /* the server said something wrong on this stream */
    bool refuses; /* takes no bytes any more */
    struct sl_conn conn;
    struct caller callers[N_CALLS];
    unsigned n_ids;
} w;

static void require(int holds)
{
    if (!holds)
        abort();
}

static unsigned next_byte(void)
{
    if (!w.left)
        return 0;
    w.left--;
    return *w.data++;
}

/* ---- the server */

static void say(const void *bytes, size_t len)
{
    if (len > SAID_MAX - w.n_said) {
        w.refuses = true; /* what was asked for is not answered any more */
        return;
    }
    memcpy(w.said + w.n_said, bytes, len);
    w.n_said += len;
}

static void answer(const char *word, size_t len, const char *last, size_t last_len)
{
    char head[32];

    if (len == 4 && !memcmp(word, "ECHO", 4)) {
        int n = snprintf(head, sizeof head, "$%zu\r\n", last_len);

        say(head, (size_t)n);
        say(last, last_len);
        say("\r\n", 2);
    } else if (len == 7 && !memcmp(word, "COMMAND", 7)) {
        say("*1\r\n*-1\r\n", 9);
    } else if (len == 4 && !memcmp(word, "ROLE", 4)) {
        say("*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n", 25);
    } else {
        say("+OK\r\n", 5);
    }
}

static size_t read_number(const char **at, char kind)
{
    char *end;
    size_t n;

    require(**at == kind);
    n = strtoul(*at + 1, &end, 10);
    require(end[0] == '\r' && end[1] == '\n');
    *at = end + 2;
    return n;
}

/* What the client writes are whole, well-formed commands. */
static void hear(const char *at, const char *end)
{
    while (at < end) {
        size_t n = read_number(&at, '*'), len = 0, first_len = 0;
        const char *first = NULL, *last = NULL;

        require(n > 0);
        for (size_t i = 0; i < n; i++) {
            len = read_number(&at, '$');
            last = at;
            if (i == 0) {
                first = at;
                first_len = len;
            }
            at += len + 2;
        }
        require(at <= end);
        answer(first, first_len, last, len);
    }
}

/* ---- the net */

static uint64_t net_now(void *ctx)
{
    (void)ctx;
    return w.now_us;
}

static uint64_t net_random(void *ctx)
{
    (void)ctx;
    return w.random = w.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
}

static struct sl_stream *net_dial(void *ctx, const struct sl_endpoint *to, const struct sl_tls_options *tls,
                                  const struct sl_stream_events *events, void *owner)
{
    (void)ctx, (void)to, (void)tls;
    require(!w.stream); /* one at a time */
    w.stream = calloc(1, sizeof *w.stream);
    require(w.stream != NULL);
    *w.stream = (struct sl_stream){.events = events, .owner = owner};
    w.n_said = 0;
    w.wrong = w.refuses = false;
    return w.stream;
}

static int net_write(struct sl_stream *stream, const void *bytes, size_t len)
{
    char *text = malloc(len + 1);

    require(stream == w.stream && stream->opened && text);
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (!w.refuses)
        hear(text, text + len);
    free(text);
    return w.refuses ? SL_EBUSY : 0;
}

static void net_close(struct sl_stream *stream)
{
    require(stream == w.stream);
    free(stream);
    w.stream = NULL;
}

static struct sl_timer *net_timer_new(void *ctx, void (*fire)(void *owner), void *owner)
{
    struct sl_timer *timer = malloc(sizeof *timer);

    (void)ctx;
    require(timer != NULL);
    *timer = (struct sl_timer){.fire = fire, .owner = owner, .at_us = UINT64_MAX, .next = w.timers};
    w.timers = timer;
    return timer;
}

static void net_timer_set(struct sl_timer *timer, uint64_t at_us)
{
    timer->at_us = at_us;
}

static void net_timer_free(struct sl_timer *timer)
{
    struct sl_timer **at = &w.timers;

    while (*at && *at != timer)
        at = &(*at)->next;
    if (*at)
        *at = timer->next;
    free(timer);
}

static const struct sl_net net = {.now_us = net_now,
                                  .random = net_random,
                                  .dial = net_dial,
                                  .write = net_write,
                                  .close = net_close,
                                  .timer_new = net_timer_new,
                                  .timer_set = net_timer_set,
                                  .timer_free = net_timer_free};

/* Fires what is due, each once: a turn of the loop. */
static void turn(void)
{
    for (struct sl_timer *timer = w.timers; timer; timer = timer->next) {
        if (timer->at_us > w.now_us)
            continue;
        timer->at_us = UINT64_MAX;
        timer->fire(timer->owner);
    }
}

/* ---- calls */

static unsigned write_call(struct sl_conn_call *call, struct sl_conn *conn, struct sl_out *out)
{
    struct caller *caller = SL_CONTAINER(call, struct caller, call);
    char id[16];
    int len = snprintf(id, sizeof id, "%u", caller->id);

    (void)conn;
    for (unsigned i = 0; i < caller->extra; i++)
        sl_out_command(out, &SL_WORD("PING"), 1);
    sl_out_command(out, (struct sl_word[]){SL_WORD("ECHO"), {id, (size_t)len}}, 2);
    return caller->extra;
}

static void send_call(struct caller *caller)
{
    caller->id = w.n_ids++;
    caller->open = true;
    if (sl_conn_send(&w.conn, &caller->call) != SL_RESULT_OK)
        caller->open = false;
}

static void call_done(struct sl_conn_call *call, enum sl_result result, const struct sl_reply *reply)
{
    struct caller *caller = SL_CONTAINER(call, struct caller, call);
    char id[16];

    require(caller->open && result < SL_RESULTS);
    caller->open = false;
    snprintf(id, sizeof id, "%u", caller->id);
    if (reply && !w.wrong)
        require(result == SL_RESULT_OK && sl_reply_is(reply, id));
    if (result == SL_RESULT_OK)
        require(reply != NULL);
    if (caller->again && result != SL_RESULT_CLOSED) {
        caller->again = false;
        send_call(caller);
    }
}

/* ---- operations */

static void deliver(size_t len)
{
    char *bytes;

    if (!w.stream || !w.stream->opened)
        return;
    if (len > w.n_said)
        len = w.n_said;
    bytes = malloc(len + !len);
    require(bytes != NULL);
    memcpy(bytes, w.said, len);
    memmove(w.said, w.said + len, w.n_said - len);
    w.n_said -= len;
    if (len)
        w.stream->events->data(w.stream->owner, bytes, len);
    free(bytes);
}

static void say_garbage(unsigned n)
{
    uint8_t bytes[GARBAGE_MAX];

    for (unsigned i = 0; i < n; i++)
        bytes[i] = (uint8_t)next_byte();
    if (n && w.stream && w.stream->opened) {
        w.wrong = true;
        say(bytes, n);
    }
}

static void open_or_close(bool open)
{
    struct sl_stream *stream = w.stream;

    if (!stream || (open && stream->opened))
        return;
    if (open) {
        stream->opened = true;
        stream->events->opened(stream->owner);
        return;
    }
    w.stream = NULL;
    stream->events->closed(stream->owner, "gone");
    free(stream);
}

static void start_call(unsigned which, unsigned how)
{
    struct caller *caller = &w.callers[which % N_CALLS];

    if (caller->open)
        return;
    caller->extra = how % (SL_CONN_EXTRA_MAX + 1);
    caller->again = how & 4;
    send_call(caller);
}

static void forget_call(unsigned which)
{
    struct caller *caller = &w.callers[which % N_CALLS];

    if (caller->open)
        sl_conn_forget(&w.conn, &caller->call);
    caller->open = false;
}

static void do_one(void)
{
    static const struct sl_endpoint other = {.port = 2, .host = "other"};
    unsigned op = next_byte(), argument = op >> 4;

    switch (op & 15) {
    case 0:
    case 1:
    case 2:
        start_call(next_byte(), argument);
        break;
    case 3:
        forget_call(next_byte());
        break;
    case 4:
    case 5:
        deliver(argument + 1);
        break;
    case 6:
        deliver(SAID_MAX);
        break;
    case 7:
    case 8:
        say_garbage(argument * 4 + 1 > GARBAGE_MAX ? GARBAGE_MAX : argument * 4 + 1);
        break;
    case 9:
    case 10:
        open_or_close(true);
        break;
    case 11:
        open_or_close(false);
        break;
    case 12:
        w.now_us += UINT64_C(1) << argument << 5;
        break;
    case 13:
        sl_conn_check(&w.conn);
        break;
    case 14:
        sl_conn_hurry(&w.conn);
        break;
    default:
        if (argument == 0)
            w.refuses = true;
        else if (argument == 1)
            sl_conn_move(&w.conn, &other, SL_RESULT_LOST);
        else
            sl_conn_start(&w.conn);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sl_endpoint endpoint = {.port = 1, .host = "h"};
    struct sl_alloc alloc = sl_alloc_system();
    unsigned kind = size ? data[0] : 0;
    struct sl_conn_config config = {.net = &net,
                                    .alloc = &alloc,
                                    .db = kind & 1 ? 3 : 0,
                                    .want_master = kind & 2,
                                    .module_command = kind & 4 ? "MODULE" : NULL,
                                    .redial = !(kind & 8),
                                    .connect_timeout_us = 1000000,
                                    .stall_us = 1000000,
                                    .backoff_base_us = 1000,
                                    .backoff_cap_us = 100000,
                                    .queue_max = QUEUE_MAX,
                                    .reply_max = REPLY_MAX};

    memset(&w, 0, sizeof w);
    w.data = data + (size > 0);
    w.left = size - (size > 0);
    require(sl_conn_init(&w.conn, &config, &endpoint) == 0);
    for (unsigned i = 0; i < N_CALLS; i++)
        w.callers[i].call = (struct sl_conn_call){.write = write_call, .done = call_done};
    sl_conn_start(&w.conn);
    while (w.left) {
        do_one();
        turn();
        require(w.conn.n_waiting <= QUEUE_MAX);
    }
    sl_conn_fini(&w.conn);
    for (unsigned i = 0; i < N_CALLS; i++)
        require(!w.callers[i].open);
    require(!w.stream && !w.timers);
    return 0;
}
