/* Decisions that wait for the store, without one: sl_lane_check is the test's (--wrap), and so is what a connection lends. */
#include "door.h"

#include "server/inquiry.h"
#include "server/witness.h"

#include "base/err.h"
#include "fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMITS "limits: [{name: all, rate: 10/m}]\n"
#define OPEN_MAX 70000u

/* ---- the lane: decides at once by the limiter, or keeps the decision open */

struct open_check {
    struct sluice_verdict *verdict;
    struct sl_report *report;
    sl_lane_done *done;
    void *ctx;
};

static struct {
    struct sl_limiter *limiter;
    bool pending;              /* what is begun now stays open */
    bool end_others;           /* beginning one ends all that are open */
    enum sluice_reason reason; /* of a rejection; 0: allowed */
    struct open_check open[OPEN_MAX];
    unsigned n_open, n_begun;
} lane;

int __wrap_sl_lane_check(struct sl_lane *self, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                         struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done,
                         void *ctx);

static void end_open(void)
{
    while (lane.n_open) {
        struct open_check check = lane.open[--lane.n_open];

        *check.verdict = (struct sluice_verdict){.allowed = !lane.reason,
                                                 .reason = (uint8_t)lane.reason,
                                                 .source = lane.reason ? SLUICE_DEGRADED : SLUICE_SHARED,
                                                 .limit = 10,
                                                 .remaining = -1,
                                                 .reset_at_ms = -1,
                                                 .retry_after_ms = lane.reason ? 1500 : 0,
                                                 .policy = "all"};
        if (check.report)
            check.report->n = 0;
        check.done(check.ctx);
    }
}

int __wrap_sl_lane_check(struct sl_lane *self, const struct sluice_request *request, struct sluice_verdict *ret_verdict,
                         struct sl_report *report, const char **ret_field, const char **ret_why, sl_lane_done *done,
                         void *ctx)
{
    (void)self;
    lane.n_begun++;
    if (lane.end_others)
        end_open();
    if (!lane.pending)
        return sl_limiter_check(lane.limiter, request, ret_verdict, report, ret_field, ret_why);
    assert_true(lane.n_open < OPEN_MAX);
    lane.open[lane.n_open++] = (struct open_check){ret_verdict, report, done, ctx};
    return SL_PENDING;
}

/* ---- the connection */

/* What the witness has seen. */
static struct {
    char keys[8][16];
    bool allowed[8], reported[8];
    unsigned n;
} seen;

static struct {
    struct sl_http_asker base;
    struct sl_http_response *response;
    unsigned n_seen; /* when the last answer was begun */
    bool out_of_memory;
    size_t answer_bytes;
    unsigned n_open, n_sent;
    char sent[8][4096]; /* status and body */
} asker;

static struct sl_http_response *begin(struct sl_http_later *later)
{
    (void)later;
    asker.n_seen = seen.n;
    return asker.response;
}

static bool deliver(struct sl_http_later *later)
{
    snprintf(asker.sent[asker.n_sent++ % 8], sizeof asker.sent[0], "%d %.*s", asker.response->status,
             (int)asker.response->body.len, asker.response->body.len ? asker.response->body.data : "");
    asker.n_open--;
    free(later);
    return true;
}

static struct sl_http_later *lend(struct sl_http_asker *self, size_t answer_bytes)
{
    static const struct sl_http_later_ops ops = {begin, deliver};
    struct sl_http_later *later = asker.out_of_memory ? NULL : calloc(1, sizeof *later);

    (void)self;
    asker.answer_bytes = answer_bytes;
    if (later) {
        later->ops = &ops;
        asker.n_open++;
    }
    return later;
}

static void open_waiting(struct door *d, const char *yaml)
{
    memset(&lane, 0, sizeof lane);
    memset(&asker, 0, sizeof asker);
    door_open(d, yaml);
    d->service.lane = (struct sl_lane *)(uintptr_t)64; /* never looked at */
    d->asker = &asker.base;
    asker.base.later = lend;
    asker.response = &d->response;
    lane.limiter = d->kit.limiter;
    lane.pending = true;
}

static void close_waiting(struct door *d)
{
    assert_int_equal(lane.n_open, 0);
    assert_int_equal(asker.n_open, 0);
    assert_null(d->service.decided);
    assert_int_equal(d->service.n_batched, 0);
    door_close(d);
}

static uint64_t counted(const struct door *d, unsigned class)
{
    return atomic_load(&d->service.counters.responses[0][class]); /* of /check */
}

/* ---- tests */

static void what_is_decided_at_once_is_answered_at_once(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    lane.pending = false;
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\",\"cost\":4}"), 200);
    assert_non_null(strstr(door_body(&d), "\"remaining\":6,"));
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"k\"},{\"key\":\"k\"}]"), 200);
    assert_non_null(strstr(door_body(&d), "\"remaining\":4,"));
    assert_int_equal(door_ask(&d, "GET /auth"), 200);
    assert_string_equal(door_header(&d, "RateLimit-Remaining"), "9");
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"\"}"), 400);
    assert_int_equal(asker.n_sent, 0);
    close_waiting(&d);
}

static void what_is_not_is_answered_and_counted_when_it_is_decided(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\"}"), 0);
    assert_int_equal(counted(&d, SL_CLASS_2XX), 0);
    end_open();
    assert_int_equal(asker.n_sent, 0); /* not from inside the lane's callback */
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(asker.n_sent, 1);
    assert_non_null(strstr(asker.sent[0], "200 {\"allowed\":true,\"limit\":10,\"remaining\":-1"));
    assert_int_equal(counted(&d, SL_CLASS_2XX), 1);
    close_waiting(&d);
}

static void a_batch_is_answered_when_its_last_is_decided(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b\"},{\"key\":\"c\"}]"), 0);
    assert_true(asker.answer_bytes >= 3 * 200);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(asker.n_sent, 1);
    assert_int_equal(asker.sent[0][4], '[');
    /* Its own may end while the rest is begun. */
    lane.end_others = true;
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b\"},{\"key\":\"c\"}]"), 0);
    assert_int_equal(lane.n_open, 1);
    /* And another request's while this one is handled. */
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"d\"}"), 0);
    assert_int_equal(asker.n_sent, 1);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(asker.n_sent, 3);
    assert_int_equal(asker.sent[1][4], '[');
    assert_int_equal(asker.sent[2][4], '{');
    close_waiting(&d);
}

static void one_bad_element_and_none_is_begun(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b\"},{\"key\":\"\"}]"), 400);
    assert_non_null(strstr(door_body(&d), "\"field\":\"[2].key\""));
    assert_int_equal(lane.n_begun, 0);
    close_waiting(&d);
}

static void without_memory_for_an_answer_it_is_refused_and_nothing_is_lost(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    asker.out_of_memory = true;
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"a\"}"), 503);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b\"}]"), 503);
    assert_int_equal(door_ask(&d, "GET /auth"), 503);
    d.asker = NULL; /* one that cannot wait */
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"a\"}"), 503);
    assert_int_equal(lane.n_open, 5);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(asker.n_sent, 0);
    assert_int_equal(counted(&d, SL_CLASS_5XX), 3);
    close_waiting(&d);
}

static void batches_that_wait_are_bounded(void **state)
{
    static char text[32000];
    struct door d;
    size_t n = (size_t)snprintf(text, sizeof text, "POST /check\n\n[{\"key\":\"k\"}");

    (void)state;
    for (unsigned i = 1; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",{\"key\":\"k\"}");
    snprintf(text + n, sizeof text - n, "]");
    open_waiting(&d, LIMITS);
    for (unsigned i = 0; i < SL_INQUIRY_VERDICTS_MAX / 1000; i++)
        assert_int_equal(door_ask(&d, text), 0);
    lane.n_begun = 0;
    assert_int_equal(door_ask(&d, text), 503);
    assert_int_equal(lane.n_begun, 0);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"k\"}"), 0); /* single ones go on */
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(door_ask(&d, text), 0);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    close_waiting(&d);
}

/* As the policy was when it was asked. */
static void auth_keeps_its_style_over_a_reload(void **state)
{
    struct door d;

    (void)state;
    open_waiting(&d, "http: {closed_status: 503, errors: problem}\n" LIMITS);
    lane.reason = SLUICE_REASON_STORE_UNAVAILABLE;
    assert_int_equal(door_ask(&d, "GET /auth"), 0);
    kit_reload(&d.kit, "http: {closed_status: 429}\n" LIMITS);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_non_null(strstr(asker.sent[0], "503 {\"type\":"));
    assert_non_null(strstr(asker.sent[0], "\"code\":\"store_unavailable\""));
    assert_string_equal(door_header(&d, "Retry-After"), "2");
    assert_string_equal(door_header(&d, "RateLimit-Limit"), "10");
    assert_null(door_header(&d, "RateLimit-Remaining"));
    assert_null(door_header(&d, "RateLimit-Reset"));
    assert_int_equal(door_ask(&d, "GET /auth?deny=403"), 0);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_non_null(strstr(asker.sent[1], "403 {\"error\":{\"code\":\"store_unavailable\""));
    close_waiting(&d);
}

/* ---- who is told of decisions */

static void saw(void *ctx, const struct sl_witnessed *decision)
{
    unsigned at = seen.n++ % 8;

    (void)ctx;
    snprintf(seen.keys[at], sizeof seen.keys[0], "%.*s/%.*s", (int)decision->request->key_len, decision->request->key,
             (int)decision->request->scope_len, decision->request->scope);
    seen.allowed[at] = decision->verdict->allowed;
    seen.reported[at] = decision->report != NULL;
}

static bool wants_b(void *ctx, const struct sluice_request *request)
{
    (void)ctx;
    return request->key[0] == 'b';
}

static struct sl_witness *watch(struct door *d, struct sl_witnesses *witnesses, unsigned sees)
{
    struct sl_witness *witness;

    *witnesses = (struct sl_witnesses){.n = 0};
    memset(&seen, 0, sizeof seen);
    witness = sl_witness_add(witnesses, saw, wants_b, NULL);
    d->shared.witnesses = witnesses;
    sl_witness_set(witness, sees);
    return witness;
}

static void witnesses_are_told_of_what_they_want_to_see(void **state)
{
    struct sl_witnesses witnesses;
    struct sl_witness *witness;
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    witness = watch(&d, &witnesses, SL_SEE_REJECTED);
    lane.pending = false;
    d.service.lane = NULL;
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"a\",\"cost\":8}"), 200);
    assert_int_equal(seen.n, 0);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\",\"cost\":2},{\"key\":\"a\",\"scope\":\"s\"}]"), 200);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.keys[0], "a/s");
    assert_false(seen.allowed[0]);
    sl_witness_set(witness, SL_SEE_ALL);
    assert_int_equal(door_ask(&d, "GET /auth"), 200);
    assert_string_equal(seen.keys[1], "127.0.0.1/GET /");
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"b\"}"), 200);
    assert_true(seen.reported[2]);
    sl_witness_set(witness, 0);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"b\"}"), 200);
    assert_int_equal(seen.n, 3);
    close_waiting(&d);
}

static void witnesses_are_told_of_what_had_to_wait(void **state)
{
    struct sl_witnesses witnesses;
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    watch(&d, &witnesses, SL_SEE_REJECTED | SL_SEE_ALL);
    lane.reason = SLUICE_REASON_RATE_LIMITED;
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"a\",\"scope\":\"1\"},{\"key\":\"c\",\"scope\":\"2\"}]"),
                     0);
    assert_int_equal(door_ask(&d, "POST /check\n\n{\"key\":\"b\",\"labels\":{\"x\":\"y\"}}"), 0);
    assert_int_equal(seen.n, 0);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    assert_int_equal(seen.n, 3);
    assert_string_equal(seen.keys[0], "b/"); /* the lane ended its last first */
    assert_true(seen.reported[0]);
    assert_string_equal(seen.keys[1], "a/1");
    assert_string_equal(seen.keys[2], "c/2");
    assert_false(seen.allowed[2]);
    assert_int_equal(asker.n_seen, 3); /* before the answer went out */
    close_waiting(&d);
}

/* Of a batch too, those that are asked for have reports, each its own; decided now or later, with a lane or without. */
static void elements_of_batches_have_reports(void **state)
{
    static const char batch[] = "POST /check\n\n[{\"key\":\"a\"},{\"key\":\"b1\"},{\"key\":\"c\"},{\"key\":\"b2\"}]";
    static const char *const keys[] = {"a/", "b1/", "c/", "b2/"};
    struct sl_witnesses witnesses;
    struct door d;

    (void)state;
    open_waiting(&d, LIMITS);
    watch(&d, &witnesses, SL_SEE_ALL);
    assert_int_equal(door_ask(&d, batch), 0);
    end_open();
    sl_inquiry_answer_decided(&d.service);
    lane.pending = false;
    assert_int_equal(door_ask(&d, batch), 200);
    assert_int_equal(seen.n, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_string_equal(seen.keys[i], keys[i % 4]);
        assert_int_equal(seen.reported[i], i % 2);
    }
    memset(&seen, 0, sizeof seen);
    d.service.lane = NULL;
    assert_int_equal(door_ask(&d, batch), 200);
    assert_int_equal(seen.n, 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(seen.reported[i], i % 2);
    assert_int_equal(door_ask(&d, "POST /check\n\n[{\"key\":\"b\"},{\"key\":\"\"}]"), 400);
    assert_int_equal(seen.n, 4); /* one bad element, and nothing is decided */
    close_waiting(&d);
}

static void there_are_only_so_many_witnesses(void **state)
{
    struct sl_witnesses witnesses = {.n = 0};

    (void)state;
    for (unsigned i = 0; i < SL_WITNESSES_MAX; i++)
        assert_non_null(sl_witness_add(&witnesses, saw, NULL, NULL));
    assert_null(sl_witness_add(&witnesses, saw, NULL, NULL));
    sl_witness_set(&witnesses.list[3], SL_SEE_DRY);
    sl_witness_set(&witnesses.list[5], SL_SEE_WARNED);
    assert_int_equal(witnesses.sees, SL_SEE_DRY | SL_SEE_WARNED);
    sl_witness_set(&witnesses.list[3], 0);
    assert_int_equal(witnesses.sees, SL_SEE_WARNED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_decided_at_once_is_answered_at_once),
        cmocka_unit_test(what_is_not_is_answered_and_counted_when_it_is_decided),
        cmocka_unit_test(a_batch_is_answered_when_its_last_is_decided),
        cmocka_unit_test(one_bad_element_and_none_is_begun),
        cmocka_unit_test(without_memory_for_an_answer_it_is_refused_and_nothing_is_lost),
        cmocka_unit_test(batches_that_wait_are_bounded),
        cmocka_unit_test(auth_keeps_its_style_over_a_reload),
        cmocka_unit_test(witnesses_are_told_of_what_they_want_to_see),
        cmocka_unit_test(witnesses_are_told_of_what_had_to_wait),
        cmocka_unit_test(elements_of_batches_have_reports),
        cmocka_unit_test(there_are_only_so_many_witnesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
