/* A batch decides as single requests at one instant would, or not at all. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

#define POLICY                                                                 \
    "endpoints:\n  dear: {match: [\"GET /dear*\"], cost: 3}\n"                 \
    "limits:\n"                                                                \
    "  - {name: two, rates: [20/m, 50/h]}\n"                                   \
    "  - {name: window, endpoint: dear, algorithm: fixed_window, rate: 9/m}\n" \
    "  - {name: log, layer: log, algorithm: sliding_window_log, rate: 15/m}\n" \
    "  - {name: all, layer: backend, per: [], rate: 300/m}\n"                  \
    "  - {name: shut, layer: gate, key: k7, rate: blocked}\n"                  \
    "  - {name: tried, layer: trial, rate: 5/m, mode: dry_run}\n"

#define N 1000

struct material {
    char keys[N][8];
    struct sluice_request requests[N];
    struct sluice_verdict batch[N], single[N];
};

static void make_requests(struct material *m, unsigned seed)
{
    for (unsigned i = 0; i < N; i++) {
        seed = seed * 1103515245 + 12345;
        snprintf(m->keys[i], sizeof m->keys[i], "k%u", (seed >> 16) % 40);
        m->requests[i] =
            kit_request(m->keys[i], (seed >> 10) % 3 ? NULL : "GET /dear/x", (seed >> 8) % 4 ? SLUICE_COST_DEFAULT : 0);
    }
}

static void assert_same(const struct sluice_verdict *x, const struct sluice_verdict *y)
{
    assert_int_equal(x->allowed, y->allowed);
    assert_int_equal(x->warning, y->warning);
    assert_int_equal(x->dry_run, y->dry_run);
    assert_int_equal(x->reason, y->reason);
    assert_int_equal(x->limit, y->limit);
    assert_int_equal(x->remaining, y->remaining);
    assert_int_equal(x->retry_after_ms, y->retry_after_ms);
    assert_int_equal(x->reset_after_ms, y->reset_after_ms);
    assert_int_equal(x->reset_at_ms, y->reset_at_ms);
    assert_int_equal(x->delay_ms, y->delay_ms);
    assert_int_equal(x->dry_run_retry_after_ms, y->dry_run_retry_after_ms);
    assert_string_equal(x->policy, y->policy);
    assert_string_equal(x->dry_run_policy, y->dry_run_policy);
}

static void a_batch_of_any_size_equals_singles(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 33, 1000};
    static struct material m;

    (void)state;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct kit batch, single;
        size_t n = sizes[s], bad = 77, admitted = 0;

        kit_open(&batch, POLICY);
        kit_open(&single, POLICY);
        make_requests(&m, s + 1);
        assert_int_equal(sl_limiter_check_batch(batch.limiter, m.requests, n, m.batch, NULL, &bad, NULL, NULL), 0);
        assert_int_equal(bad, 77);
        for (size_t i = 0; i < n; i++) {
            m.single[i] = kit_decide(&single, &m.requests[i]);
            assert_same(&m.batch[i], &m.single[i]);
            admitted += m.single[i].allowed;
        }
        if (n == N)
            assert_in_range(admitted, 100, 900); /* the material meets both answers */
        kit_close(&batch);
        kit_close(&single);
    }
}

static void reports_of_a_batch_equal_those_of_singles(void **state)
{
    static struct material m;
    static struct sl_report reports[40], report;
    struct kit batch, single;

    (void)state;
    kit_open(&batch, POLICY);
    kit_open(&single, POLICY);
    make_requests(&m, 5);
    assert_int_equal(sl_limiter_check_batch(batch.limiter, m.requests, 40, m.batch, reports, NULL, NULL, NULL), 0);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(sl_limiter_check(single.limiter, &m.requests[i], &m.single[i], &report, NULL, NULL), 0);
        assert_int_equal(report.n, reports[i].n);
        assert_in_range(report.n, 4, 6);
        for (unsigned j = 0; j < report.n; j++) {
            assert_string_equal(report.items[j].name, reports[i].items[j].name);
            assert_int_equal(report.items[j].remaining, reports[i].items[j].remaining);
            assert_int_equal(report.items[j].allowed, reports[i].items[j].allowed);
        }
    }
    kit_close(&batch);
    kit_close(&single);
}

static void one_bad_request_and_nothing_is_charged(void **state)
{
    static const size_t places[] = {0, 3, 15, 16, 500, 999};
    static struct material m;
    struct kit k;

    (void)state;
    kit_open(&k, POLICY);
    for (unsigned p = 0; p < sizeof places / sizeof *places; p++) {
        const char *field = "", *why = "";
        size_t bad = 0;

        make_requests(&m, 9);
        m.requests[places[p]].cost = -5;
        assert_int_equal(sl_limiter_check_batch(k.limiter, m.requests, N, m.batch, NULL, &bad, &field, &why),
                         SLUICE_EINVALID);
        assert_int_equal(bad, places[p]);
        assert_string_equal(field, "cost");
        assert_int_equal(kit_live(&k), 0);
    }
    assert_int_equal(kit_count(&k, "two").decided_allowed, 0);
    kit_close(&k);
}

/* Requests that differ in their keys alone share one resolution; those whose keys mean more to the policy must not. */
static void keys_that_share_a_resolution_decide_as_singles(void **state)
{
    static const char *const types[] = {NULL, "address", "user", "stranger"};
    static const char policy[] = "tiers: {keys: {k3: gold}}\n"
                                 "limits:\n"
                                 "  - {name: both, rates: [3/m, 9/h]}\n"
                                 "  - {name: rich, tier: gold, rate: 30/m}\n"
                                 "  - {name: shut, layer: gate, key: k7, rate: blocked}\n"
                                 "  - {name: by-address, layer: net, per: [address], rate: 40/m}\n"
                                 "  - {name: all, layer: backend, per: [], rate: 300/m}\n"
                                 "  - {name: tried, layer: trial, rate: 2/m, mode: dry_run}\n";
    static struct material m;
    static char keys[N][24];

    (void)state;
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
        struct kit batch, single;
        size_t bad;

        kit_open(&batch, policy);
        kit_open(&single, policy);
        for (unsigned i = 0; i < N; i++) {
            snprintf(keys[i], sizeof keys[i], t == 1 ? "10.0.0.%u" : "k%u", i * 7919 % 150);
            m.requests[i] = kit_request(keys[i], "GET /x", SLUICE_COST_DEFAULT);
            m.requests[i].key_type = types[t], m.requests[i].key_type_len = types[t] ? strlen(types[t]) : 0;
        }
        assert_int_equal(sl_limiter_check_batch(batch.limiter, m.requests, N, m.batch, NULL, &bad, NULL, NULL), 0);
        for (unsigned i = 0; i < N; i++) {
            m.single[i] = kit_decide(&single, &m.requests[i]);
            assert_same(&m.batch[i], &m.single[i]);
        }
        assert_int_equal(kit_live(&batch), kit_live(&single));
        m.requests[5].key = "k\n", m.requests[5].key_len = 2;
        assert_int_equal(sl_limiter_check_batch(batch.limiter, m.requests, N, m.batch, NULL, &bad, NULL, NULL),
                         SLUICE_EINVALID);
        assert_int_equal(bad, 5);
        kit_close(&batch);
        kit_close(&single);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_of_any_size_equals_singles),
        cmocka_unit_test(keys_that_share_a_resolution_decide_as_singles),
        cmocka_unit_test(reports_of_a_batch_equal_those_of_singles),
        cmocka_unit_test(one_bad_request_and_nothing_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
