/* Limiters on a real store, seen through the public header only. */
#ifndef TESTS_LIB_STORE_H
#define TESTS_LIB_STORE_H

#include "../store/redis.h"
#include "kit.h"

#include <stdatomic.h>

#define PATIENT_US 5000000 /* a machine that is busy with other tests is no reason to degrade */

/* A server at an address that another may take over: a symbolic link to its socket. */
struct store {
    struct redis server;
    bool runs;
    char link[96], url[128];
};

void store_open(struct store *store);   /* with a server */
void store_stop(struct store *store);   /* kills the server; the address stays, refused */
void store_start(struct store *store);  /* another server at the address: empty */
void store_freeze(struct store *store); /* it does not answer any more; thaw: it does again, also what was asked */
void store_thaw(struct store *store);
void store_close(struct store *store);

/* Options for a policy in memory on that store, patient, in a namespace of its own for each test. */
struct sluice_options shared_options(const struct store *store, const char *yaml);
void next_namespace(void);

/* Opens; fails the test when the store was not reached unless it is said not to wait. */
struct sluice *open_shared(const struct store *store, const char *yaml);
struct sluice *open_with(const struct sluice_options *options);

struct sluice_stats stats_of(struct sluice *limiter);

/* Waits until store_reached is that. */
void wait_reached(struct sluice *limiter, bool reached);

/* A decision that comes later. */
struct later {
    atomic_uint done;
    struct sluice_verdict verdict;
    int result;
};
void later_done(void *ctx);
void begin_later(struct sluice *limiter, const char *key, struct later *later);
/* Waits until those that were pending are done, each once. */
void wait_later(struct later *list, size_t n);

#endif
