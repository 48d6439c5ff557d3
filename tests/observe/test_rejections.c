/* The memory of recent rejections, against one that is written the simple way; floods, clocks, threads, hostile keys. */
#include "observe/rejections.h"

#include "base/err.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)
#define MINUTE (60 * S)
#define T0 (UINT64_C(1754000000) * S)
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct sl_rejections *open_memory(unsigned n_loops)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_rejections *rejections;

    assert_int_equal(sl_rejections_new(&alloc, n_loops, T0, &rejections), 0);
    return rejections;
}

static struct sl_who who_of(struct sl_who *who, const char *key, size_t len, const char *type)
{
    struct sluice_request request = SLUICE_REQUEST_INIT;

    request.key = key, request.key_len = len;
    request.key_type = type, request.key_type_len = type ? strlen(type) : 0;
    sl_who_of(who, &request, 64);
    return *who;
}

struct event {
    const char *key, *type, *limit, *scope;
    enum sluice_reason reason;
};

static void tell_bytes(struct sl_rejections *rejections, unsigned loop, const char *key, size_t len,
                       const struct event *event, uint64_t now_us)
{
    struct sluice_verdict verdict = {
        .reason = (uint8_t)event->reason, .source = SLUICE_SHARED, .limit = 100, .retry_after_ms = 600};
    struct sl_who who;
    struct sl_rejected rejected = {.who = &who,
                                   .scope = event->scope,
                                   .scope_len = event->scope ? strlen(event->scope) : 0,
                                   .cost = 7,
                                   .verdict = &verdict,
                                   .policy_hash = HASH,
                                   .policy_version = 12};

    who_of(&who, key, len, event->type);
    snprintf(verdict.policy, sizeof verdict.policy, "%s", event->limit);
    sl_rejections_tell(rejections, loop, &rejected, now_us);
}

static void tell(struct sl_rejections *rejections, unsigned loop, const struct event *event, uint64_t now_us)
{
    tell_bytes(rejections, loop, event->key, strlen(event->key), event, now_us);
}

static struct sl_rejection list[20000];

static size_t read_within(struct sl_rejections *rejections, const char *key, const char *type, uint64_t since_us,
                          uint64_t until_us, struct sl_rejections_reach *ret_reach)
{
    struct sl_who who = {.key = NULL};
    struct sl_rejections_query query = {
        .who = key ? &who : NULL, .any_type = !type, .since_us = since_us, .until_us = until_us};
    struct sl_rejections_reach reach;
    size_t n = 0;

    if (key)
        who_of(&who, key, strlen(key), type);
    assert_int_equal(sl_rejections_read(rejections, &query, list, sizeof list / sizeof *list, &n, &reach), 0);
    if (ret_reach)
        *ret_reach = reach;
    assert_int_equal(reach.matching, n);
    return n;
}

static size_t read_all(struct sl_rejections *rejections, const char *key, const char *type)
{
    return read_within(rejections, key, type, 0, UINT64_MAX, NULL);
}

/* ---- one entry */

static void an_entry_says_what_happened(void **state)
{
    struct sl_rejections *r = open_memory(1);
    struct sl_rejections_reach reach;

    (void)state;
    tell(r, 0, &(struct event){"acct_8812", NULL, "free", "api:search", SLUICE_REASON_RATE_LIMITED}, T0 + 1);
    assert_int_equal(read_within(r, "acct_8812", NULL, 0, UINT64_MAX, &reach), 1);
    assert_string_equal(list[0].key, "acct_8812");
    assert_string_equal(list[0].key_type, "api_key");
    assert_string_equal(list[0].scope, "api:search");
    assert_string_equal(list[0].policy, "free");
    assert_string_equal(list[0].policy_hash, "0123456789ab");
    assert_int_equal(list[0].policy_version, 12);
    assert_int_equal(list[0].reason, SLUICE_REASON_RATE_LIMITED);
    assert_int_equal(list[0].source, SLUICE_SHARED);
    assert_int_equal(list[0].limit, 100);
    assert_int_equal(list[0].retry_after_ms, 600);
    assert_int_equal(list[0].cost, 7);
    assert_int_equal(list[0].first_us, T0 + 1);
    assert_int_equal(list[0].last_us, T0 + 1);
    assert_int_equal(list[0].count, 1);
    assert_true(list[0].certain);
    assert_int_equal(reach.since_us, T0);
    assert_int_equal(reach.dropped, 0);
    assert_int_equal(reach.kept, 1);
    assert_int_equal(read_all(r, "acct_8812", "api_key"), 1);
    assert_int_equal(read_all(r, "acct_8812", "user"), 0);
    assert_int_equal(read_all(r, "acct_881", NULL), 0);
    sl_rejections_free(r);
}

static void key_limit_and_reason_make_entries_and_scopes_do_not(void **state)
{
    struct sl_rejections *r = open_memory(2);

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        tell(r, i % 2, &(struct event){"k", NULL, "free", i % 3 ? "a" : "b", SLUICE_REASON_RATE_LIMITED},
             T0 + i * S); /* on two loops, joined */
        tell(r, 0, &(struct event){"k", "user", "free", "a", SLUICE_REASON_RATE_LIMITED}, T0 + i * S);
        tell(r, 0, &(struct event){"k", NULL, "other", "a", SLUICE_REASON_RATE_LIMITED}, T0 + i * S);
        tell(r, 0, &(struct event){"k", NULL, "free", "a", SLUICE_REASON_STORE_UNAVAILABLE}, T0 + i * S);
        tell(r, 0, &(struct event){"k", NULL, "", NULL, SLUICE_REASON_UNMATCHED}, T0 + i * S);
    }
    assert_int_equal(read_all(r, "k", NULL), 5);
    assert_int_equal(read_all(r, "k", "user"), 1);
    assert_int_equal(list[0].count, 10);
    assert_int_equal(read_all(r, "k", "api_key"), 4);
    for (size_t i = 0; i < 4; i++)
        if (!strcmp(list[i].policy, "free") && list[i].reason == SLUICE_REASON_RATE_LIMITED) {
            assert_int_equal(list[i].count, 10);
            assert_int_equal(list[i].first_us, T0);
            assert_int_equal(list[i].last_us, T0 + 9 * S);
            assert_string_equal(list[i].scope, "b"); /* of the last, which the other loop saw */
        }
    sl_rejections_free(r);
}

static void an_address_is_found_in_any_spelling(void **state)
{
    struct sl_rejections *r = open_memory(1);

    (void)state;
    tell(r, 0, &(struct event){"::ffff:192.0.2.7", "address", "a", NULL, SLUICE_REASON_RATE_LIMITED}, T0);
    tell(r, 0, &(struct event){"2001:0DB8:0:1::9", "address", "a", NULL, SLUICE_REASON_RATE_LIMITED}, T0);
    assert_int_equal(read_all(r, "192.0.2.7", "address"), 1);
    assert_int_equal(read_all(r, "2001:db8:0:1::/64", "address"), 1);
    assert_string_equal(list[0].key, "2001:db8:0:1::/64");
    assert_int_equal(read_all(r, "2001:db8:0:1:5::", "address"), 1); /* the same bucket */
    assert_int_equal(read_all(r, "2001:db8:0:2::", "address"), 0);
    sl_rejections_free(r);
}

/* ---- when */

static void minutes_tell_when_it_happened(void **state)
{
    static const struct event event = {"k", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED};
    const uint64_t base = T0 - T0 % MINUTE;
    struct sl_rejections *r = open_memory(2);

    (void)state;
    tell(r, 0, &event, base + 3 * MINUTE + 4 * S); /* 12:03:04, as it were */
    tell(r, 1, &event, base + 5 * MINUTE + 30 * S);
    tell(r, 0, &event, base + 40 * MINUTE);
    assert_int_equal(read_within(r, "k", NULL, base + 3 * MINUTE, base + 4 * MINUTE - 1, NULL), 1);
    assert_true(list[0].certain);
    assert_int_equal(read_within(r, "k", NULL, base + 4 * MINUTE, base + 5 * MINUTE - 1, NULL), 0);
    assert_int_equal(read_within(r, "k", NULL, base + 5 * MINUTE, base + 6 * MINUTE - 1, NULL), 1);
    assert_int_equal(read_within(r, "k", NULL, base + 6 * MINUTE, base + 40 * MINUTE - 1, NULL), 0);
    assert_int_equal(read_within(r, "k", NULL, base + 39 * MINUTE, base + 41 * MINUTE, NULL), 1);
    assert_int_equal(read_within(r, "k", NULL, base + 41 * MINUTE, UINT64_MAX, NULL), 0);
    assert_int_equal(read_within(r, "k", NULL, 0, base + 3 * MINUTE + 3 * S, NULL), 0);
    /* Then it goes on: of 12:05 only that it lies between first and last is known. */
    tell(r, 0, &event, base + 100 * MINUTE);
    assert_int_equal(read_within(r, "k", NULL, base + 5 * MINUTE, base + 6 * MINUTE - 1, NULL), 1);
    assert_false(list[0].certain);
    assert_int_equal(read_within(r, "k", NULL, base + 40 * MINUTE, base + 41 * MINUTE - 1, NULL), 1);
    assert_true(list[0].certain);
    assert_int_equal(read_within(r, "k", NULL, base + 41 * MINUTE, base + 42 * MINUTE - 1, NULL), 0);
    assert_int_equal(read_within(r, "k", NULL, 2, 1, NULL), 0);
    sl_rejections_free(r);
}

static void a_clock_that_is_set_back_loses_the_minutes_only(void **state)
{
    static const struct event event = {"k", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED};
    struct sl_rejections *r = open_memory(1);

    (void)state;
    tell(r, 0, &event, T0 + 100 * MINUTE);
    tell(r, 0, &event, T0 + 10 * MINUTE);
    tell(r, 0, &event, T0 + 11 * MINUTE);
    tell(r, 0, &event, UINT64_C(0)); /* 1970 */
    tell(r, 0, &event, UINT64_MAX);
    assert_int_equal(read_all(r, "k", NULL), 1);
    assert_int_equal(list[0].count, 5);
    assert_int_equal(list[0].first_us, 0);
    assert_int_equal(list[0].last_us, UINT64_MAX);
    assert_int_equal(list[0].minutes, 1);
    sl_rejections_free(r);
}

/* ---- bounds */

static void one_keys_flood_takes_one_place(void **state)
{
    struct sl_rejections *r = open_memory(1);
    struct sl_rejections_reach reach;

    (void)state;
    tell(r, 0, &(struct event){"quiet", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0);
    for (unsigned i = 0; i < 200000; i++)
        tell(r, 0, &(struct event){"flood", NULL, "free", "x", SLUICE_REASON_RATE_LIMITED}, T0 + i);
    assert_int_equal(read_within(r, "quiet", NULL, 0, UINT64_MAX, &reach), 1);
    assert_int_equal(reach.kept, 2);
    assert_int_equal(reach.dropped, 0);
    assert_int_equal(read_all(r, "flood", NULL), 1);
    assert_int_equal(list[0].count, 200000);
    sl_rejections_free(r);
}

/* What is seen last is kept, and how far back it all reaches is told. */
static void many_keys_push_out_the_least_recently_seen(void **state)
{
    struct sl_rejections *r = open_memory(1);
    struct sl_rejections_reach reach;
    char key[16];

    (void)state;
    tell(r, 0, &(struct event){"old", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0 + 1);
    tell(r, 0, &(struct event){"kept", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0 + 2);
    for (unsigned i = 0; i < 5 * SL_REJECTIONS_KEPT; i++) {
        snprintf(key, sizeof key, "k%u", i);
        tell(r, 0, &(struct event){key, NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0 + 10 + i);
        if (i % 1000 == 0)
            tell(r, 0, &(struct event){"kept", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0 + 10 + i);
    }
    assert_int_equal(read_within(r, "old", NULL, 0, UINT64_MAX, &reach), 0);
    assert_int_equal(reach.kept, SL_REJECTIONS_KEPT);
    assert_int_equal(reach.dropped, 5 * SL_REJECTIONS_KEPT + 2 - SL_REJECTIONS_KEPT);
    assert_int_equal(read_all(r, "kept", NULL), 1);
    /* Everything after what it says it reaches is there. */
    for (unsigned i = 0; i < 5 * SL_REJECTIONS_KEPT; i++) {
        snprintf(key, sizeof key, "k%u", i);
        if (T0 + 10 + i > reach.since_us)
            assert_int_equal(read_all(r, key, NULL), 1);
    }
    assert_int_equal(read_all(r, NULL, NULL), SL_REJECTIONS_KEPT);
    for (size_t i = 1; i < SL_REJECTIONS_KEPT; i++)
        assert_true(list[i - 1].last_us >= list[i].last_us);
    sl_rejections_free(r);
}

static void many_loops_share_the_whole(void **state)
{
    struct sl_rejections *r = open_memory(257);
    struct sl_rejections_reach reach;
    char key[16];

    (void)state;
    for (unsigned i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "k%u", i);
        tell(r, 256, &(struct event){key, NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED}, T0 + i);
    }
    assert_int_equal(read_within(r, NULL, NULL, 0, UINT64_MAX, &reach), SL_REJECTIONS_LEAST);
    assert_int_equal(reach.since_us, T0 + 600 - SL_REJECTIONS_LEAST - 1);
    sl_rejections_free(r);
}

/* ---- the simple way */

#define MODEL_KEYS 1500u

struct model_entry {
    bool there;
    uint64_t first_us, last_us, count, order;
    unsigned moved; /* entries that had come to its loop when it got its order */
};

struct model {
    struct model_entry entries[2][MODEL_KEYS][2]; /* loop, key, limit */
    unsigned n[2], added[2];
    uint64_t orders;
};

static void model_tell(struct model *m, unsigned loop, unsigned key, unsigned limit, unsigned max, uint64_t now_us)
{
    struct model_entry *e = &m->entries[loop][key][limit], *oldest = NULL;

    if (!e->there && m->n[loop] == max) {
        for (unsigned i = 0; i < 2 * MODEL_KEYS; i++) {
            struct model_entry *other = &m->entries[loop][i / 2][i % 2];

            if (other->there && (!oldest || other->order < oldest->order))
                oldest = other;
        }
        oldest->there = false;
        m->n[loop]--;
    }
    if (!e->there) {
        *e = (struct model_entry){.there = true, .first_us = now_us};
        m->n[loop]++;
        m->added[loop]++;
    }
    e->last_us = now_us;
    if (!e->count++ || m->added[loop] - e->moved > max / SL_REJECTIONS_ROUGHLY) {
        e->order = ++m->orders;
        e->moved = m->added[loop];
    }
}

static void model_compare(struct sl_rejections *r, struct model *m, unsigned key)
{
    static const char *const limits[] = {"free", "edge"};
    char text[16];
    size_t n, wanted = 0;

    snprintf(text, sizeof text, "key-%u", key);
    n = read_all(r, text, NULL);
    for (unsigned limit = 0; limit < 2; limit++) {
        const struct model_entry *a = &m->entries[0][key][limit], *b = &m->entries[1][key][limit];
        uint64_t first = a->there && (!b->there || a->first_us < b->first_us) ? a->first_us : b->first_us;
        uint64_t last = a->there && (!b->there || a->last_us > b->last_us) ? a->last_us : b->last_us;

        if (!a->there && !b->there)
            continue;
        wanted++;
        for (size_t i = 0; i < n; i++)
            if (!strcmp(list[i].policy, limits[limit])) {
                assert_int_equal(list[i].count, (a->there ? a->count : 0) + (b->there ? b->count : 0));
                assert_int_equal(list[i].first_us, first);
                assert_int_equal(list[i].last_us, last);
            }
    }
    assert_int_equal(n, wanted);
}

static void it_keeps_what_the_simple_way_keeps(void **state)
{
    static const char *const limits[] = {"free", "edge"};
    const unsigned n_loops = SL_REJECTIONS_TOTAL / 400; /* 400 entries a loop; two loops are used */
    struct sl_rejections *r = open_memory(n_loops);
    struct model *m = calloc(1, sizeof *m);
    uint64_t random = 88172645463325252u, now_us = T0;
    char text[16];

    (void)state;
    for (unsigned i = 0; i < 12000; i++) {
        unsigned loop, key, limit;

        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        loop = random & 1;
        limit = random >> 1 & 1;
        key = (unsigned)(random >> 8) % (random >> 2 & 3 ? 150 : MODEL_KEYS);
        now_us += random >> 40 & 0xfffff;
        snprintf(text, sizeof text, "key-%u", key);
        tell(r, loop, &(struct event){text, NULL, limits[limit], NULL, SLUICE_REASON_RATE_LIMITED}, now_us);
        model_tell(m, loop, key, limit, SL_REJECTIONS_TOTAL / n_loops, now_us);
        if (i % 100 == 0)
            model_compare(r, m, key);
    }
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        model_compare(r, m, key);
    free(m);
    sl_rejections_free(r);
}

/* ---- hostile keys */

static void long_keys_are_told_apart_and_shown_safely(void **state)
{
    static const struct event event = {NULL, NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED};
    struct sl_rejections *r = open_memory(1);
    char key[512];

    (void)state;
    memset(key, 0xff, sizeof key);
    tell_bytes(r, 0, key, sizeof key, &event, T0);
    key[511] = 'x';
    tell_bytes(r, 0, key, sizeof key, &event, T0 + 1);
    assert_int_equal(read_all(r, NULL, NULL), 2);
    assert_string_equal(list[0].key, list[1].key);
    assert_int_equal(strlen(list[0].key), 3 * SL_REJECTIONS_KEY_MAX + 3);
    assert_true(list[0].key_id != list[1].key_id);
    tell_bytes(r, 0,
               "a\xc2\x9b"
               "31mb\xe2\x80\xae",
               10, &event, T0 + 2); /* a C1 control, and one that turns the text around */
    read_all(r, NULL, NULL);
    assert_string_equal(list[0].key, "a\xef\xbf\xbd"
                                     "31mb\xef\xbf\xbd");
    sl_rejections_free(r);
}

/* ---- threads, memory */

#define THREADS 4u

struct thread {
    struct sl_rejections *rejections;
    unsigned loop;
    pthread_t id;
};

static atomic_uint n_running;

static void *reject(void *ctx)
{
    struct thread *t = ctx;
    char key[16];

    for (unsigned i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "k%u", i % 3000);
        tell(t->rejections, t->loop, &(struct event){key, NULL, "free", "s", SLUICE_REASON_RATE_LIMITED}, T0 + i);
        tell(t->rejections, t->loop, &(struct event){"all", NULL, "free", "s", SLUICE_REASON_RATE_LIMITED}, T0 + i);
    }
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

static void threads_tell_while_somebody_reads(void **state)
{
    struct sl_rejections *r = open_memory(THREADS);
    struct thread threads[THREADS];
    uint64_t before = 0;

    (void)state;
    atomic_store(&n_running, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.rejections = r, .loop = i};
        assert_int_equal(pthread_create(&threads[i].id, NULL, reject, &threads[i]), 0);
    }
    while (atomic_load(&n_running) > 0) {
        if (read_all(r, "all", NULL) == 1) {
            assert_true(list[0].count >= before);
            before = list[0].count;
        }
        read_all(r, NULL, NULL);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    assert_int_equal(read_all(r, "all", NULL), 1);
    assert_int_equal(list[0].count, THREADS * 20000);
    sl_rejections_free(r);
}

static void *refuse(void *ctx, void *p, size_t size)
{
    unsigned *left = ctx;
    struct sl_alloc system = sl_alloc_system();

    if (size > 0 && *left == 0)
        return NULL;
    *left -= size > 0;
    return system.realloc(system.ctx, p, size);
}

static void without_memory_it_says_so(void **state)
{
    static const struct event event = {"k", NULL, "free", NULL, SLUICE_REASON_RATE_LIMITED};
    struct sl_rejections_query query = {.until_us = UINT64_MAX};
    struct sl_rejections_reach reach;
    unsigned left;
    struct sl_alloc failing = {.realloc = refuse, .ctx = &left};
    struct sl_rejections *r = NULL;
    size_t n = 7;

    (void)state;
    for (unsigned allowed = 0; allowed < 5; allowed++) {
        left = allowed;
        assert_int_equal(sl_rejections_new(&failing, 2, T0, &r), SL_ENOMEM);
        assert_null(r);
    }
    left = 5;
    assert_int_equal(sl_rejections_new(&failing, 2, T0, &r), 0);
    tell(r, 1, &event, T0); /* needs none */
    assert_int_equal(sl_rejections_read(r, &query, list, 1, &n, &reach), SL_ENOMEM);
    assert_int_equal(n, 7);
    left = 1;
    assert_int_equal(sl_rejections_read(r, &query, list, 0, &n, &reach), 0);
    assert_int_equal(n, 0);
    assert_int_equal(reach.matching, 1);
    sl_rejections_free(r);
    sl_rejections_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_says_what_happened),
        cmocka_unit_test(key_limit_and_reason_make_entries_and_scopes_do_not),
        cmocka_unit_test(an_address_is_found_in_any_spelling),
        cmocka_unit_test(minutes_tell_when_it_happened),
        cmocka_unit_test(a_clock_that_is_set_back_loses_the_minutes_only),
        cmocka_unit_test(one_keys_flood_takes_one_place),
        cmocka_unit_test(many_keys_push_out_the_least_recently_seen),
        cmocka_unit_test(many_loops_share_the_whole),
        cmocka_unit_test(it_keeps_what_the_simple_way_keeps),
        cmocka_unit_test(long_keys_are_told_apart_and_shown_safely),
        cmocka_unit_test(threads_tell_while_somebody_reads),
        cmocka_unit_test(without_memory_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
