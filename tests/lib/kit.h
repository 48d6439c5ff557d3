/* What the tests of the public API share. They see the public header only. */
#ifndef TESTS_LIB_KIT_H
#define TESTS_LIB_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sluice/sluice.h>

#define T0_US UINT64_C(1754000000000000)

/* Options for a policy in memory, 1,000 keys, and a clock that reads *now_us. */
struct sluice_options options_for(const char *yaml, const uint64_t *now_us);

struct sluice *open_for(const char *yaml, const uint64_t *now_us);

struct sluice_request request_of(const char *key, int64_t cost);

/* The verdict on a request of that key; fails the test when there is none. */
struct sluice_verdict check_key(struct sluice *limiter, const char *key, int64_t cost);

/* A fresh path for a table file; frees and removes. */
char *temporary_path(void);
void remove_path(char *path);

/* An allocator that counts what is outstanding and fails the fail_at-th allocation from now (0: never), and all
 * after. */
struct allocator {
    int64_t outstanding;
    uint64_t calls;
    uint64_t fail_at;
};
void *counting_realloc(void *ctx, void *p, size_t size);

#endif
