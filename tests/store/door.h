/* The two ways into the store, script and module, behind one function; and what a test asks through them. */
#ifndef TESTS_STORE_DOOR_H
#define TESTS_STORE_DOOR_H

#include "store/codec.h"

#include <hiredis/hiredis.h>

enum door { DOOR_SCRIPT, DOOR_MODULE, DOORS };

extern const char *const door_names[DOORS];

/* Loads the script into the server. */
void door_open(redisContext *c);

/* Sends an ask about n keys; returns the reply, which may be an error. The caller frees it. */
redisReply *door_send(redisContext *c, enum door door, const char *const *keys, unsigned n, const struct sl_ask *ask);

/* A set of buckets under keys, NUL-terminated. */
struct subject {
    unsigned n;
    const char *keys[SL_GROUP_BUCKETS_MAX];
    const struct sl_shape *shapes[SL_GROUP_BUCKETS_MAX];
};

struct subject subject_of(const char *key, const struct sl_shape *shape);

/* One request, alone; fails the test on anything but a verdict. now_us 0: by the store's own clock. The decisions'
 * now_us says when it was decided. */
bool door_decide(redisContext *c, enum door door, const struct subject *s, uint64_t now_us, const uint32_t *costs,
                 struct sl_decision *ret_decisions);

/* The same for one bucket and with figures. */
struct sl_numbers door_check(redisContext *c, enum door door, const char *key, const struct sl_shape *shape,
                             uint64_t now_us, uint32_t cost, bool *ret_allowed);

/* True when the store refuses to decide because one of the values is foreign. */
bool door_is_foreign(redisContext *c, enum door door, const struct subject *s, uint64_t now_us, uint32_t cost);

/* Gives charges back; returns in how many buckets. */
unsigned door_refund(redisContext *c, enum door door, const struct subject *s, uint64_t now_us,
                     const struct sl_decision *charges);

#endif
