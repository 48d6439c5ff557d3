/* The atomic decision in a store, as bytes: what a value holds, what is asked, what comes back. No socket, no clock.
 *
 * An ask is a list of groups, and travels as one EVALSHA of the script (store/script.h) or one SLUICE.DECIDE of the
 * module, which take the same words:
 *
 *     EVALSHA sha1 N key1 ... keyN ask           SLUICE.DECIDE N key1 ... keyN ask
 *
 * A group is a set of buckets in one slot and a list of requests on them. Each request is charged on all buckets of the
 * group or on none, one request after another; groups are independent of each other. So one ask holds one request, or
 * the same-key requests of a loop turn merged into one group, or everything of that turn for one node. The store
 * refills, decides, spends and sets the time to live in one step, by its own clock, and answers with the states as they
 * were and its time. From these core computes the verdicts here; the store multiplies nothing.
 *
 *     uint8_t buf[256];
 *     struct sl_ask ask;
 *     sl_ask_start(&ask, buf, sizeof buf);
 *     sl_ask_group(&ask, shapes, n);                       shapes of the buckets, keys in the same order
 *     sl_ask_request(&ask, costs);                         one cost a bucket
 *     ... send N keys and ask.len bytes of buf, get the reply ...
 *     struct sl_answer answer;
 *     struct sl_answer_group group;
 *     sl_answer_open(&answer, reply, reply_len);
 *     sl_answer_next(&answer, shapes, n, &group);
 *     allowed = sl_answer_decide(&group, costs, decisions) == 1;
 *     sl_answer_end(&answer, &group);
 *
 * The layout of all three is in store/sluice.lua. Nothing here allocates. Any thread; an object belongs to one. */
#ifndef SL_STORE_CODEC_H
#define SL_STORE_CODEC_H

#include "base/hash.h"
#include "core/limits.h"
#include "core/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SL_WIRE_VERSION 1
/* The store's clock may read up to here (the year 2153): with a debt of 100 years on top all its numbers stay below
 * 2^53, which is what a script's numbers hold exactly. Later readings are an error of the call. */
#define SL_STORE_TIME_MAX_US UINT64_C(5800000000000000)

/* ---- keys */

#define SL_NAMESPACE_MAX 32
#define SL_STORE_KEY_MAX (SL_NAMESPACE_MAX + 37)

/* Writes NAMESPACE:{who}:id, not NUL-terminated, and returns its length. `who` is the keyed hash of what identifies the
 * caller and chooses the slot; `id` tells that caller's buckets apart (limit, algorithm, rate, other dimensions). Both
 * are written in base64url, so that no byte of a client is ever in a key. The namespace: 1 ... SL_NAMESPACE_MAX bytes,
 * no braces. With at most 23 bytes of it a token bucket takes at most 120 bytes of the store. */
size_t sl_store_key(char buf[static SL_STORE_KEY_MAX], const char *ns, size_t ns_len, struct sl_hash128 who,
                    uint64_t id);

/* ---- values */

#define SL_VALUE_TAG UINT8_C(0x80) /* + algorithm: version 1 of the format */
#define SL_VALUE_TAG_FAR UINT8_C(8)
#define SL_VALUE_MAX 16
#define SL_LOG_MEMBER_LEN 12

/* The bytes of a state; returns their number: 16 for the sliding counter, else 12. Not for the log. The state's time
 * must be below 2^53, its counts below 2^30. */
size_t sl_value_write(enum sl_algorithm algorithm, struct sl_state state, uint8_t buf[static SL_VALUE_MAX]);

/* Returns 0 and the state, or SL_EFORMAT when the bytes are not ours, of another version or another algorithm. */
int sl_value_read(enum sl_algorithm algorithm, const void *bytes, size_t len, struct sl_state *ret_state);

/* When the bucket will be whole, in ms of the store's clock, rounded up: the instant its key expires. */
uint64_t sl_value_expires_ms(enum sl_algorithm algorithm, struct sl_state state);

/* ---- asking */

#define SL_GROUP_BUCKETS_MAX 64
#define SL_GROUP_RUNS_MAX 1000
#define SL_GROUP_REQUESTS_MAX 10000

/* The most bytes a group takes: buckets, runs (requests in a row with equal costs). */
#define SL_ASK_HEADER_MAX 10
#define SL_GROUP_SIZE(n, runs) (4 + 34 * (size_t)(n) + (size_t)(runs) * (2 + 16 * (size_t)(n)))
#define SL_REFUND_SIZE(n) (4 + (34 + 24 + SL_VALUE_MAX + 24) * (size_t)(n))

struct sl_ask {
    uint8_t *buf; /* borrowed until the ask is sent */
    size_t size, len;
    /* the group that is open */
    uint8_t *group, *run; /* run: the last one, NULL before the first */
    const struct sl_shape *shapes[SL_GROUP_BUCKETS_MAX];
    unsigned n, requests;
};

/* Starts an ask in `buf`; size at least SL_ASK_HEADER_MAX. */
void sl_ask_start(struct sl_ask *ask, void *buf, size_t size);

/* The same with the time to decide at. For tests: the caller never goes back. now_us <= SL_STORE_TIME_MAX_US. */
void sl_ask_start_at(struct sl_ask *ask, void *buf, size_t size, uint64_t now_us);

/* Opens a group of n buckets with distinct keys, 1 ... SL_GROUP_BUCKETS_MAX. Borrows the shapes until the group's
 * last request. Any shape that core has: that a log in the store has at most SL_LOG_COUNT_MAX_STORE entries is for
 * who loads the policy to see to. Returns 0, SL_EINVALID (n), or SL_EBUSY when the buffer is full; the ask is then as
 * it was. */
int sl_ask_group(struct sl_ask *ask, const struct sl_shape *const *shapes, unsigned n);

/* Adds a request to the open group: one cost a bucket. Equal ones in a row take no further room. Returns 0,
 * or SL_EBUSY when the buffer or the group is full; the ask is then as it was. */
int sl_ask_request(struct sl_ask *ask, const uint32_t *costs);

/* Adds a group that gives back one charge on each of n buckets (core/state.h, sl_refund; for the log, out of the
 * entry of that instant). `charges` are the decisions that sl_answer_decide gave for one allowed request, or some of
 * them. No request may be added to it. Returns as sl_ask_group. */
int sl_ask_refund(struct sl_ask *ask, const struct sl_shape *const *shapes, const struct sl_decision *charges,
                  unsigned n);

/* ---- reading an ask: the module's side */

enum sl_ask_op { SL_OP_DECIDE, SL_OP_PEEK, SL_OP_REFUND };

struct sl_ask_reader {
    const uint8_t *p, *end;
    bool virtual_clock, has_log;
    uint64_t now_us; /* when virtual_clock */
};

struct sl_ask_part {
    enum sl_ask_op op;
    unsigned n, runs;
    struct sl_shape shapes[SL_GROUP_BUCKETS_MAX];     /* the first n; only what deciding reads is set */
    struct sl_decision charges[SL_GROUP_BUCKETS_MAX]; /* the first n; for SL_OP_REFUND */
};

/* All return 0 (or 1 where said), or SL_EFORMAT for anything that the writer above would not have written. */
int sl_ask_open(struct sl_ask_reader *reader, const void *bytes, size_t len);
/* Returns 1 and the group, or 0 at the end. After it read exactly `runs` runs. */
int sl_ask_next(struct sl_ask_reader *reader, struct sl_ask_part *ret_part);
int sl_ask_run(struct sl_ask_reader *reader, const struct sl_ask_part *part, unsigned *ret_repeat, uint32_t *ret_costs);

/* ---- the answer */

#define SL_ANSWER_FAILED 0xffffu /* in place of the number of allowed requests */

struct sl_answer {
    const uint8_t *p, *end; /* borrows the reply */
    uint64_t now_us;        /* the store's */
};

struct sl_answer_group {
    struct sl_answer *answer;
    bool failed; /* a foreign value under one of the keys, see `foreign`: nothing was charged, there is no verdict */
    unsigned n, allowed, claimed; /* counted here; by the store */
    bool decided, last_allowed;
    struct {
        const struct sl_shape *shape;
        bool foreign;
        struct sl_state state;
        uint64_t log_sum, log_newest_us;
        struct sl_decision last;
        uint32_t last_cost;
    } buckets[SL_GROUP_BUCKETS_MAX];
};

/* Returns 0, or SL_EFORMAT when this is no answer. */
int sl_answer_open(struct sl_answer *answer, const void *bytes, size_t len);

/* The next group, which was asked with these shapes. Returns 0, or SL_EFORMAT; look at ret_group->failed. */
int sl_answer_next(struct sl_answer *answer, const struct sl_shape *const *shapes, unsigned n,
                   struct sl_answer_group *ret_group);

/* The next request of the group, in the order asked and with the costs asked. Returns 1 allowed, 0 rejected, or
 * SL_EFORMAT. The n decisions are what the store did: for each bucket whether it had room itself, and when the
 * request is rejected none of them spends (those that had room read like a peek: cost 0, `after` is `before`). Any
 * figure of a verdict comes from sl_decision_numbers. */
int sl_answer_decide(struct sl_answer_group *group, const uint32_t *costs, struct sl_decision *ret_decisions);

/* Closes the group, when all its requests are decided. Returns 0, or SL_EFORMAT when the store has allowed another
 * number of them than core: then script or module and this library do not belong together, and the verdicts must not
 * be used. */
int sl_answer_end(const struct sl_answer_group *group);

/* The answer to sl_ask_refund: in how many buckets something was given back. */
int sl_answer_refund(struct sl_answer *answer, unsigned *ret_given);

#endif
