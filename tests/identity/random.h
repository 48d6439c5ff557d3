/* Random input for the identity tests: a small generator whose seed is printed, so that a failure can be repeated with
 * SLUICE_SEED=n. */
#ifndef TESTS_IDENTITY_RANDOM_H
#define TESTS_IDENTITY_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state;

static inline uint64_t random_next(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline unsigned random_below(unsigned n)
{
    return (unsigned)(random_next() % n);
}

static inline void random_start(void)
{
    const char *given = getenv("SLUICE_SEED");

    random_state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("SLUICE_SEED=%llu\n", (unsigned long long)random_state);
}

#endif
