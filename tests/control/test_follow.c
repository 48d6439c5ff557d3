/* Instances that follow the store's current version: one that is pushed, one that does not compile, one that is damaged; a
 * store that is away, set back, begun anew, or holds something else. */
#include "kit.h"

#include "control/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct party {
    struct sl_follow *follow;
    enum sl_offer answer;
    uint64_t offers, odds;
    struct sl_version version; /* the last one offered */
    char body[64], odd[SL_CONTROL_WHY_MAX];
    bool looked, no_text;
    uint64_t want;
};

static struct party party;

static enum sl_offer on_offer(void *owner, const struct sl_version *version, struct sl_version_text *text, char *why,
                              size_t why_size)
{
    struct party *p = owner;

    p->offers++;
    p->version = *version;
    p->no_text = text == NULL;
    snprintf(p->body, sizeof p->body, "%s", text ? text->body : "");
    snprintf(why, why_size, "no rate");
    return p->answer;
}

static void on_odd(void *owner, const char *text)
{
    struct party *p = owner;

    p->odds++;
    snprintf(p->odd, sizeof p->odd, "%s", text);
}

static void on_looked(void *owner)
{
    struct party *p = owner;

    assert_false(p->looked);
    p->looked = true;
}

static void begin(uint64_t number, bool from_file)
{
    struct sl_follow_config config = {.place = place,
                                      .id = 0xab,
                                      .host = "here",
                                      .from_file = from_file,
                                      .offer = on_offer,
                                      .odd = on_odd,
                                      .looked = on_looked,
                                      .owner = &party};
    struct sl_pointer runs = {.number = number};

    memset(runs.hash, 'f', SL_HASH_HEX);
    party = (struct party){.answer = SL_OFFER_TAKEN};
    ask(WORDS("ZADD", "test:{fleet}:instances", "1", "00000000000000ab"));
    assert_int_equal(sl_follow_new(&config, &runs, &party.follow), 0);
}

static int set_up(void **state)
{
    (void)state;
    kit_set_up(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sl_client_free(rig.client);
    rig.client = NULL;
    sl_follow_free(party.follow);
    party.follow = NULL;
    kit_tear_down();
    return 0;
}

static struct sl_follow_stats stats(void)
{
    struct sl_follow_stats now;

    sl_follow_stats(party.follow, &now);
    return now;
}

static bool has_offers(void *ctx)
{
    return ((struct party *)ctx)->offers >= party.want;
}

static void wait_offers(uint64_t n)
{
    party.want = n;
    if (!rig_wait_until(&rig, has_offers, &party))
        fail_msg("%d offers instead of %d; %s", (int)party.offers, (int)n, party.odd);
}

static bool has_odds(void *ctx)
{
    return ((struct party *)ctx)->odds >= party.want;
}

static void wait_odds(uint64_t n)
{
    party.want = n;
    assert_true(rig_wait_until(&rig, has_odds, &party));
}

static bool has_looks(void *ctx)
{
    (void)ctx;
    return stats().looks + stats().failed >= party.want;
}

/* Whole looks begun from now on. */
static void wait_looks(uint64_t n)
{
    party.want = stats().looks + stats().failed + n + 1;
    assert_true(rig_wait_until(&rig, has_looks, &party));
}

static struct told wanted;

/* What the history says of this instance. */
static bool tells(void *ctx)
{
    wanted = history(0, 8);
    return wanted.n_running == 1 && wanted.running[0].version.number == ((const uint64_t *)ctx)[0] &&
           wanted.running[0].refused == ((const uint64_t *)ctx)[1];
}

static void wait_told(uint64_t version, uint64_t refused)
{
    uint64_t both[] = {version, refused};

    for (unsigned i = 0; !tells(both); i++) {
        if (i > 2000)
            fail_msg("the history does not tell of %d and %d", (int)version, (int)refused);
        rig_run_ms(&rig, 5);
    }
}

static void test_what_is_pushed_is_taken(void **state)
{
    (void)state;
    begin(0, false);
    assert_true(rig_wait(&rig, &party.looked));
    assert_int_equal(party.offers, 0);
    wait_told(0, 0);
    push_text("first", 0);
    wait_offers(1);
    assert_string_equal(party.body, "first");
    assert_int_equal(party.version.number, 1);
    wait_told(1, 0);
    assert_string_equal(wanted.running[0].host, "here");
    push_text("second", 1);
    wait_offers(2);
    assert_string_equal(party.body, "second");
    wait_looks(3);
    assert_int_equal(party.offers, 2); /* once each */
    assert_int_equal(party.odds, 0);
}

static void test_what_runs_already_is_not_offered(void **state)
{
    struct sl_pointer runs;

    (void)state;
    push_text("first", 0);
    begin(0, false);
    assert_true(rig_wait(&rig, &party.looked));
    assert_int_equal(party.offers, 1); /* before it is said that the store was looked at */
    push_text("second", 1);
    runs = history(0, 1).current;
    sl_follow_runs(party.follow, &runs); /* as one that pushed it itself */
    wait_looks(3);
    assert_true(party.offers <= 2);
}

static void test_a_version_that_is_refused_is_not_offered_again(void **state)
{
    (void)state;
    begin(0, false);
    party.answer = SL_OFFER_REFUSED;
    push_text("bad", 0);
    wait_offers(1);
    wait_told(0, 1);
    assert_string_equal(wanted.running[0].why, "no rate");
    wait_looks(3);
    assert_int_equal(party.offers, 1);
    sl_follow_hurry(party.follow);
    wait_offers(2);
    party.answer = SL_OFFER_TAKEN;
    push_text("good", 1);
    wait_offers(3);
    wait_told(2, 0);
    assert_int_equal(stats().refused, 2);
}

/* Compiled elsewhere: nothing else is offered, nor has the store been looked at, before it is said what became of it. */
static void test_an_answer_that_comes_later(void **state)
{
    (void)state;
    push_text("slow", 0);
    begin(0, false);
    party.answer = SL_OFFER_PENDING;
    wait_offers(1);
    push_text("next", 1);
    wait_looks(3);
    assert_int_equal(party.offers, 1);
    assert_false(party.looked);
    sl_follow_conclude(party.follow, SL_OFFER_TAKEN, "");
    assert_true(party.looked);
    wait_offers(2);
    assert_string_equal(party.body, "next");
    sl_follow_conclude(party.follow, SL_OFFER_REFUSED, "no rate");
    wait_told(1, 2);
    assert_string_equal(wanted.running[0].why, "no rate");
    assert_int_equal(party.offers, 2);
    assert_int_equal(stats().taken, 1);
}

static void test_one_that_follows_its_file_only_tells(void **state)
{
    (void)state;
    begin(0, true);
    party.answer = SL_OFFER_IGNORED;
    push_text("first", 0);
    wait_offers(1);
    assert_true(party.no_text);
    wait_told(0, 0);
    assert_true(wanted.running[0].from_file);
    wait_looks(3);
    assert_int_equal(party.offers, 1);
    assert_int_equal(stats().ignored, 1);
    push_text("second", 1);
    wait_offers(2);
}

static void test_an_instance_that_was_cut_off_catches_up(void **state)
{
    struct sl_client *other;
    struct sl_client_config config = rig.config;
    char why[256];

    (void)state;
    push_text("first", 0);
    begin(0, false);
    wait_offers(1);
    server_signal(&server, SIGSTOP);
    place.timeout_us = 20000;
    rig_run_ms(&rig, 300);
    assert_int_equal(party.offers, 1);
    server_signal(&server, SIGCONT);
    place.timeout_us = 0;
    assert_int_equal(sl_client_new(&config, &other, why, sizeof why), 0);
    place.client = other;
    push_text("second", 1);
    push_text("third", 2);
    wait_offers(2);
    while (party.version.number != 3)
        wait_offers(party.offers + 1);
    assert_string_equal(party.body, "third");
    place.client = rig.client;
    sl_client_free(other);
}

static void test_a_store_that_is_killed_and_back(void **state)
{
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};

    (void)state;
    kit_tear_down();
    kit_set_up(options);
    push_text("first", 0);
    begin(0, false);
    wait_offers(1);
    server_kill(&server);
    rig_run_ms(&rig, 300);
    server_launch(&server);
    server_wait(&server);
    rig_until_ok(&rig, "k");
    assert_int_equal(push_text("second", 1), 2);
    wait_offers(2);
    assert_string_equal(party.body, "second");
}

/* It is the pointer that counts: a store that has lost everything is begun anew, and followed there. */
static void test_a_store_that_has_lost_its_versions(void **state)
{
    (void)state;
    push_text("first", 0);
    push_text("second", 1);
    begin(0, false);
    wait_offers(1);
    ask(WORDS("FLUSHALL", "SYNC"));
    wait_odds(1);
    assert_non_null(strstr(party.odd, "version 2 stays"));
    assert_int_equal(party.offers, 1);
    assert_int_equal(push_text("other", 0), 1);
    wait_offers(2);
    assert_int_equal(push_text("another", 1), 2); /* the number that ran before, and not the same */
    wait_offers(3);
    assert_string_equal(party.body, "another");
    assert_int_equal(party.odds, 1);
}

static void test_foreign_and_damaged_things_change_nothing(void **state)
{
    (void)state;
    push_text("first", 0);
    begin(0, false);
    wait_offers(1);
    ask(WORDS("SET", CURRENT, "nonsense"));
    wait_odds(1);
    assert_non_null(strstr(party.odd, CURRENT));
    wait_looks(3);
    assert_int_equal(party.odds, 1);
    ask(WORDS("SET", CURRENT, "2 ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00"));
    wait_odds(2);
    assert_non_null(strstr(party.odd, "version 2 is current, but"));
    wait_looks(3);
    assert_int_equal(party.odds, 2);
    assert_int_equal(party.offers, 1);
    wait_told(1, 2);
    ask(WORDS("DEL", CURRENT));
    push_text("good", 0);
    wait_offers(2);
    assert_string_equal(party.body, "good");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_pushed_is_taken),
        TEST(test_what_runs_already_is_not_offered),
        TEST(test_a_version_that_is_refused_is_not_offered_again),
        TEST(test_an_answer_that_comes_later),
        TEST(test_one_that_follows_its_file_only_tells),
        TEST(test_an_instance_that_was_cut_off_catches_up),
        TEST(test_a_store_that_is_killed_and_back),
        TEST(test_a_store_that_has_lost_its_versions),
        TEST(test_foreign_and_damaged_things_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
