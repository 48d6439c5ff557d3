/* What it costs to remember a rejection (observe/rejections.h), for `sluice bench core`: as the daemon does it, the clock,
 * the hash of the key and the count for `sluice top` included. */
#ifndef SL_CLI_BENCH_SEE_H
#define SL_CLI_BENCH_SEE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_limiter;

enum bench_keys { BENCH_ONE_KEY, BENCH_KEYS_IN_TURN, BENCH_NEW_KEYS };

struct bench_memory {
    enum bench_keys keys;
    struct sl_rejections *rejections;
    struct sl_top *top;
    struct sl_limiter *limiter; /* that `top` belongs to */
    uint64_t next;
};

bool bench_memory_open(struct bench_memory *memory, enum bench_keys keys);
void bench_memory_run(void *memory, uint64_t n);
void bench_memory_close(struct bench_memory *memory);

#endif
