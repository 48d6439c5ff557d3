#include "cli/bench_see.h"

#include "cli/bench.h"

#include "base/clock.h"
#include "observe/rejections.h"
#include "observe/top.h"

#include <stdlib.h>
#include <string.h>

#define TURN_KEYS 512u
#define KEY_LEN 16

bool bench_memory_open(struct bench_memory *memory, enum bench_keys keys)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_clock clock = sl_clock_system();
    char *text = bench_policy_text(1, "1/d");

    memory->keys = keys;
    memory->limiter = text ? bench_open_limiter(text, 1000) : NULL;
    free(text);
    return memory->limiter && sl_top_new(&alloc, memory->limiter, &memory->top) == 0 &&
           sl_top_follow_rejections(memory->top, 1) == 0 &&
           sl_rejections_new(&alloc, 1, clock.wall_us(clock.ctx), &memory->rejections) == 0;
}

/* "acct_00000000017" of the number. */
static void make_key(char key[static KEY_LEN], uint64_t number)
{
    static const char template[] = "acct_00000000000";

    for (unsigned i = 0; i < KEY_LEN; i++)
        key[i] = template[i];
    for (unsigned at = KEY_LEN; number; number /= 10)
        key[--at] = (char)('0' + number % 10);
}

static uint64_t number_of(const struct bench_memory *memory)
{
    return memory->keys == BENCH_ONE_KEY ? 1 : memory->keys == BENCH_NEW_KEYS ? memory->next : memory->next % TURN_KEYS;
}

void bench_memory_run(void *ctx, uint64_t n)
{
    struct sluice_verdict verdict = {.reason = SLUICE_REASON_RATE_LIMITED, .limit = 100, .retry_after_ms = 600};
    struct bench_memory *memory = ctx;
    struct sluice_request request = SLUICE_REQUEST_INIT;
    struct sl_clock clock = sl_clock_system();
    char key[KEY_LEN];
    struct sl_who who;
    struct sl_rejected rejected = {.who = &who,
                                   .scope = "GET /v1/orders/17",
                                   .scope_len = 17,
                                   .verdict = &verdict,
                                   .policy_hash = "0123456789abcdef0123456789abcdef"};

    memcpy(verdict.policy, "limit-of-all", sizeof "limit-of-all");
    request.key = key;
    request.key_len = KEY_LEN;
    for (uint64_t i = 0; i < n; i++, memory->next++) {
        make_key(key, number_of(memory));
        sl_who_of(&who, &request, 64);
        sl_rejections_tell(memory->rejections, 0, &rejected, clock.wall_us(clock.ctx));
        sl_top_rejected(memory->top, 0, &request);
    }
}

void bench_memory_close(struct bench_memory *memory)
{
    sl_rejections_free(memory->rejections);
    sl_top_free(memory->top);
    sl_limiter_free(memory->limiter);
}
