/* A shared limit in an event loop that never waits: reads keys from its input, a line each, and answers each when it is
 * decided. The loop is poll(2); any other watches the same descriptor.
 *
 *     cc shared_async.c $(pkg-config --cflags --libs sluice)
 *     yes acct_1 | head -n 150 | ./a.out redis://127.0.0.1 policy.yaml
 *
 * Ends at the end of its input, when all is answered; then tells how many were allowed, rejected and degraded. */
#include <sluice/sluice.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One request: from the line to its answer. */
struct job {
    struct sluice_verdict verdict;
    char key[SLUICE_KEY_MAX + 1];
};

struct program {
    struct sluice *limiter;
    unsigned pending;
    unsigned long allowed, rejected, degraded;
    char line[SLUICE_KEY_MAX + 1]; /* what was read of the next one */
    size_t line_len;
    int input_ended;
};

static void log_line(void *ctx, int level, const char *message)
{
    static const char *const names[] = {"error", "warning", "info"};

    (void)ctx;
    fprintf(stderr, "%s: %s\n", names[level], message);
}

/* The end of every job, whether it was decided at once or later. */
static void answer(struct program *p, struct job *job)
{
    const struct sluice_verdict *v = &job->verdict;

    *(v->allowed ? &p->allowed : &p->rejected) += 1;
    p->degraded += v->source == SLUICE_DEGRADED;
    printf("%s %s %s %lld\n", job->key, v->allowed ? "allowed" : "rejected", sluice_source_name(v->source),
           (long long)(v->allowed ? v->remaining : v->retry_after_ms));
    free(job);
}

static void begin(struct program *p)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct job *job = calloc(1, sizeof *job);

    if (!job) {
        fprintf(stderr, "out of memory\n");
        return;
    }
    memcpy(job->key, p->line, p->line_len);
    request.key = job->key;
    request.key_len = p->line_len;
    switch (sluice_check_queued(p->limiter, &request, &job->verdict, job)) {
    case SLUICE_OK:
        answer(p, job);
        break;
    case SLUICE_PENDING:
        p->pending++;
        break;
    default: /* a line that is no key */
        fprintf(stderr, "bad key: %s\n", job->key);
        free(job);
    }
}

static void take_completions(struct program *p)
{
    struct sluice_completion list[64];
    size_t n = sluice_completions_take(p->limiter, list, 64); /* more of them keep the descriptor readable */

    for (size_t i = 0; i < n; i++)
        answer(p, list[i].ctx);
    p->pending -= (unsigned)n;
}

static void take_bytes(struct program *p, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            begin(p);
            p->line_len = 0;
        } else if (p->line_len < SLUICE_KEY_MAX) {
            p->line[p->line_len++] = bytes[i];
        }
    }
}

static void read_input(struct program *p)
{
    char bytes[4096];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

    if (n > 0)
        take_bytes(p, bytes, (size_t)n);
    else if (n == 0 || errno != EINTR)
        p->input_ended = 1;
}

/* Reads no further while many are pending: a queue that has no end would only be later. */
static int run(struct program *p)
{
    struct pollfd fds[2] = {{.fd = sluice_completions_fd(p->limiter), .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};

    if (fds[0].fd < 0)
        return fds[0].fd;
    while (!p->input_ended || p->pending > 0) {
        fds[1].fd = p->input_ended || p->pending > SLUICE_PENDING_MAX / 2 ? -1 : STDIN_FILENO;
        if (poll(fds, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return SLUICE_EIO;
        }
        if (fds[0].revents)
            take_completions(p);
        if (fds[1].revents)
            read_input(p);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct sluice_options options = sluice_options_default();
    struct program p = {.pending = 0};
    char why[SLUICE_WHY_MAX];
    int err;

    if (argc != 3) {
        fprintf(stderr, "usage: %s STORE POLICY\n", argv[0]);
        return 2;
    }
    options.store = argv[1];
    options.timeout_us = 200000; /* the default, 10 ms, is for a store nearby that has a machine of its own */
    options.policy_file = argv[2];
    options.log = log_line;
    if (sluice_open(&options, &p.limiter, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    err = run(&p);
    if (err != 0)
        fprintf(stderr, "%s\n", sluice_error_text(err));
    fflush(stdout);
    fprintf(stderr, "%lu allowed, %lu rejected, %lu degraded\n", p.allowed, p.rejected, p.degraded);
    sluice_close(&p.limiter);
    return err != 0;
}
