/* A load generator for HTTP/1.1: one thread, epoll, N keep-alive connections with one request under way each.
 *
 * Closed loop: a connection sends its next request when it has the answer to the last. Open loop: arrivals follow a
 * fixed schedule, whether or not the server keeps up; an arrival with no connection free waits, and its latency counts
 * from the instant it was due, so that a stall shows in every request it delayed. */
#ifndef SL_CLI_LOAD_H
#define SL_CLI_LOAD_H

#include "cli/hdr.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LOAD_CONNECTIONS_MAX 4096
#define LOAD_REQUESTS_MAX 65536

struct load_options {
    const char *host, *port; /* resolved with getaddrinfo */
    char *const *requests;   /* complete HTTP requests, sent in turn */
    const size_t *request_lens;
    unsigned n_requests;
    unsigned n_connections;
    double rate;                      /* arrivals a second; 0: closed loop */
    uint64_t warm_up_ms, duration_ms; /* the first is not counted */
    pid_t server_pid;                 /* whose CPU time is taken over the counted part; 0: nobody's */
};

#define LOAD_STATUSES 600u

struct load_result {
    struct hdr latency_ns;
    uint64_t answers, ok, limited, other; /* 200, 429 and everything else, counted part */
    uint64_t others[LOAD_STATUSES];       /* of those, by status; 0: beyond the last */
    uint64_t late;                        /* open loop: arrivals that found no connection free */
    uint64_t unsent;                      /* open loop: arrivals still waiting or under way at the end */
    double seconds;                       /* the counted part, as it really was */
    uint64_t server_cpu_ns, client_cpu_ns;
};

/* Runs the load. Returns 0, or -1 with a sentence: no connection, a connection lost, an answer that is no HTTP. */
int load_run(const struct load_options *options, struct load_result *ret_result, char *why, size_t why_size);

#endif
