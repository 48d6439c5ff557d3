/* What the tests of the table share: shapes by their text, keys by number, tables in memory and in files, threads
 * and children. */
#ifndef TESTS_TABLE_KIT_H
#define TESTS_TABLE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "table/internal.h"

#define T0 UINT64_C(1760000000000000) /* where manual clocks start */

/* "100/s" of an algorithm; burst 0: COUNT. Fails the test when the rate is wrong. */
struct sl_shape kit_shape(enum sl_algorithm algorithm, const char *rate, uint32_t burst);

/* Fingerprints that lie anywhere, one for each (domain, number). */
struct sl_hash128 kit_key(uint64_t domain, uint64_t number);

/* Opens, failing the test with the reason when it cannot. `path` NULL: anonymous; `now_us` NULL: the system's clock. */
struct sl_table *kit_open(const char *path, uint64_t keys, uint64_t log_entries, const uint64_t *now_us);

/* A path in a new folder under TMPDIR; the folder goes when kit_forget is called with the path. */
const char *kit_path(void);
void kit_forget(const char *path);

/* Charges at sl_table_now; true when allowed. */
bool kit_charge(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape, uint32_t cost);
/* The same at a time. */
bool kit_charge_at(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape, uint64_t now_us,
                   uint32_t cost);
uint32_t kit_remaining(struct sl_table *t, struct sl_hash128 fp, const struct sl_shape *shape);

struct sl_table_stats kit_stats(struct sl_table *t);

/* Live slots (and claims, when asked) of a key, by looking at every slot of the table. */
unsigned kit_count_slots(const struct sl_table *t, struct sl_hash128 fp, bool claims);

/* Runs fn(ctx, i) in n threads that start together, and waits for all. */
void kit_threads(unsigned n, void (*fn)(void *ctx, unsigned i), void *ctx);

/* A child that runs fn and exits; the pid. */
pid_t kit_fork(void (*fn)(void *ctx), void *ctx);
/* Waits; true when it exited with 0. */
bool kit_reap(pid_t pid);

/* A pseudo-random number; *state is advanced. */
uint64_t kit_random(uint64_t *state);

/* How many threads the stress tests use: SLUICE_TEST_THREADS, or 64. */
unsigned kit_n_threads(void);

#endif
