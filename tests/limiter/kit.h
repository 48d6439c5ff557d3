/* A limiter on a clock that stands where a test puts it. */
#ifndef TESTS_LIMITER_KIT_H
#define TESTS_LIMITER_KIT_H

#include "limiter/limiter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define T0_US UINT64_C(1754000000000000) /* a whole second; not the start of a minute */
#define MINUTE_US UINT64_C(60000000)
#define T0_MINUTE_US (T0_US - T0_US % (2 * MINUTE_US) + 2 * MINUTE_US) /* the start of the next even one */

struct kit {
    uint64_t now_us;
    struct sl_limiter *limiter;
};

/* Opens a limiter of 10,000 keys whose policy is "version: 1\n" and `yaml`, at T0_US. Fails the test with the
 * findings when the policy is wrong. */
void kit_open(struct kit *kit, const char *yaml);
void kit_close(struct kit *kit);

/* Puts another policy in force. */
void kit_reload(struct kit *kit, const char *yaml);

/* Compiles for this limiter. */
struct sl_policy *kit_policy(struct kit *kit, const char *yaml);

/* A request of an API key; the scope may be NULL. */
struct sluice_request kit_request(const char *key, const char *scope, int64_t cost);

/* Decides it; fails the test when there is no verdict. */
struct sluice_verdict kit_check(struct kit *kit, const char *key, const char *scope, int64_t cost);
struct sluice_verdict kit_decide(struct kit *kit, const struct sluice_request *request);

/* How many of n requests of cost 1 are allowed now. */
unsigned kit_admitted(struct kit *kit, const char *key, const char *scope, unsigned n);

/* The counters of one limit; all zero when it has none. */
struct sl_limiter_count kit_count(struct kit *kit, const char *limit);

/* Live buckets of the whole table. */
uint64_t kit_live(struct kit *kit);

#endif
