/* Overrides in a real store: changes whole or not at all, their log, and following them. */
#include "kit.h"

#include "control/overrides.h"
#include "policy/override_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST "test:{fleet}:overrides"
#define ENDS "test:{fleet}:overrides:ends"
#define REVISION "test:{fleet}:overrides:revision"
#define LOG "test:{fleet}:overrides:log"
#define FAR UINT64_C(4000000000000000)

static int set_up(void **state)
{
    (void)state;
    kit_set_up(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit_tear_down();
    return 0;
}

/* ---- calls that are waited for */

static void wait_for(const bool *flag)
{
    assert_true(rig_wait(&rig, flag));
}

struct changed {
    bool done;
    enum sl_control outcome;
    json_t *entry; /* NULL unless SL_CONTROL_OK */
    char why[SL_CONTROL_WHY_MAX];
};

static void on_changed(void *ctx, enum sl_control outcome, const json_t *entry, const char *why)
{
    struct changed *changed = ctx;

    changed->done = true;
    changed->outcome = outcome;
    changed->entry = json_deep_copy(entry);
    snprintf(changed->why, sizeof changed->why, "%s", why);
}

static struct sl_override override(const char *key, const char *limit, uint32_t count)
{
    return (struct sl_override){.key = key,
                                .key_len = strlen(key),
                                .key_type = "api_key",
                                .limit = limit,
                                .rate = {SL_RATE_LIMITED, count, 60000000},
                                .author = "ann",
                                .comment = "because \"they\" pay"};
}

static struct changed change(const struct sl_override *o, bool remove)
{
    struct sl_override_change what = {.override = o, .remove = remove, .author = "ann", .comment = "so"};
    struct changed changed = {.done = false};
    const char *why = "";

    changed.outcome = sl_overrides_change(&place, &what, on_changed, &changed, &why);
    if (changed.outcome == SL_CONTROL_OK)
        wait_for(&changed.done);
    else
        snprintf(changed.why, sizeof changed.why, "%s", why);
    return changed;
}

static uint64_t must_change(const struct sl_override *o, bool remove)
{
    struct changed changed = change(o, remove);
    uint64_t revision;

    if (changed.outcome != SL_CONTROL_OK)
        fail_msg("%d: %s", (int)changed.outcome, changed.why);
    revision = (uint64_t)json_integer_value(json_object_get(changed.entry, "revision"));
    json_decref(changed.entry);
    return revision;
}

struct got {
    bool done;
    enum sl_control outcome;
    struct sl_overrides *overrides;
    struct sl_revision revision;
    char why[SL_CONTROL_WHY_MAX];
};

static void on_got(void *ctx, enum sl_control outcome, struct sl_overrides *overrides,
                   const struct sl_revision *revision, const char *why)
{
    struct got *got = ctx;

    got->done = true;
    got->outcome = outcome;
    got->overrides = overrides;
    got->revision = *revision;
    snprintf(got->why, sizeof got->why, "%s", why);
}

static struct got fetch_all(void)
{
    struct got got = {.done = false};

    got.outcome = sl_overrides_fetch(&place, on_got, &got);
    assert_int_equal(got.outcome, SL_CONTROL_OK);
    wait_for(&got.done);
    return got;
}

static size_t count_all(void)
{
    struct got got = fetch_all();
    size_t n;

    assert_int_equal(got.outcome, SL_CONTROL_OK);
    assert_string_equal(got.why, "");
    n = got.overrides->n;
    sl_overrides_unref(got.overrides);
    return n;
}

struct logged {
    bool done;
    enum sl_control outcome;
    json_t *entries;
};

static void on_logged(void *ctx, enum sl_control outcome, json_t *entries, const char *why)
{
    struct logged *logged = ctx;

    (void)why;
    logged->done = true;
    logged->outcome = outcome;
    logged->entries = json_incref(entries);
}

static json_t *log_of(unsigned max)
{
    struct logged logged = {.done = false};

    assert_int_equal(sl_overrides_log(&place, max, on_logged, &logged), SL_CONTROL_OK);
    wait_for(&logged.done);
    assert_int_equal(logged.outcome, SL_CONTROL_OK);
    return logged.entries;
}

/* ---- tests */

static void what_is_set_is_found_again_whole(void **state)
{
    struct sl_override o = override("acct \"8812\" \xc3\xa9", "search", 9000), other = override("b", NULL, 5);
    const struct sl_override *found;
    struct got got;

    (void)state;
    got = fetch_all();
    assert_string_equal(got.revision.text, "");
    assert_int_equal(got.overrides->n, 0);
    sl_overrides_unref(got.overrides);
    o.burst = 12345;
    o.until_us = FAR;
    assert_int_equal(must_change(&o, false), 1);
    assert_int_equal(must_change(&other, false), 2);
    got = fetch_all();
    assert_int_equal(got.revision.number, 2);
    assert_int_equal(got.overrides->revision, 2);
    assert_int_equal(got.overrides->n, 2);
    found = sl_overrides_find(got.overrides, &o);
    assert_non_null(found);
    assert_int_equal(found->rate.count, 9000);
    assert_int_equal(found->burst, 12345);
    assert_true(found->until_us == FAR);
    assert_true(found->set_us > UINT64_C(1600000000000000));
    assert_string_equal(found->author, "ann");
    assert_string_equal(found->comment, "because \"they\" pay");
    sl_overrides_unref(got.overrides);
}

static void setting_again_replaces_and_removing_takes_away(void **state)
{
    struct sl_override o = override("k", NULL, 5), again = override("k", NULL, 6), named = override("k", "a", 7);
    struct changed changed;

    (void)state;
    must_change(&o, false);
    must_change(&named, false);
    changed = change(&again, false);
    assert_int_equal(changed.outcome, SL_CONTROL_OK);
    assert_string_equal(json_string_value(json_object_get(json_object_get(changed.entry, "old"), "rate")), "5/m");
    assert_string_equal(json_string_value(json_object_get(json_object_get(changed.entry, "new"), "rate")), "6/m");
    json_decref(changed.entry);
    assert_int_equal(count_all(), 2);
    assert_int_equal(must_change(&o, true), 4);
    assert_int_equal(count_all(), 1);
    changed = change(&o, true);
    assert_int_equal(changed.outcome, SL_CONTROL_NONE);
    assert_int_equal(count_all(), 1);
    assert_int_equal(must_change(&o, false), 5); /* nothing had been changed */
}

static void what_is_over_goes_with_the_next_change(void **state)
{
    struct sl_override o = override("k", NULL, 5), other = override("j", NULL, 6);
    struct answer answer;
    struct changed changed;
    json_t *entries;

    (void)state;
    o.until_us = 1000000;
    changed = change(&o, false);
    assert_int_equal(changed.outcome, SL_CONTROL_INVALID);
    assert_non_null(strstr(changed.why, "has passed"));
    o.until_us = FAR;
    must_change(&o, false);
    answer = ask(WORDS("ZADD", ENDS, "1000", "api_key\n\nk")); /* as time would have it */
    assert_int_equal(answer.integer, 0);
    changed = change(&o, true);
    assert_int_equal(changed.outcome, SL_CONTROL_NONE);
    must_change(&other, false);
    assert_int_equal(count_all(), 1);
    entries = log_of(10);
    assert_int_equal(json_array_size(entries), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(entries, 0), "op")), "set");
    assert_string_equal(json_string_value(json_object_get(json_array_get(entries, 1), "op")), "expire");
    json_decref(entries);
    assert_int_equal(ask(WORDS("ZCARD", ENDS)).integer, 0);
}

static void the_log_keeps_the_newest_changes(void **state)
{
    struct sl_override o = override("k", NULL, 5);
    json_t *entries, *shown;

    (void)state;
    for (unsigned i = 0; i < 45; i++) {
        o.rate.count = 1 + i;
        must_change(&o, false);
    }
    entries = log_of(1000); /* more than a page */
    assert_int_equal(json_array_size(entries), 45);
    for (size_t i = 0; i < 45; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(entries, i), "revision")), 45 - i);
    shown = sl_override_entry_shown(json_array_get(entries, 0));
    assert_non_null(json_string_value(json_object_get(json_object_get(shown, "new"), "set")));
    assert_string_equal(json_string_value(json_object_get(shown, "author")), "ann");
    json_decref(shown);
    json_decref(entries);
    entries = log_of(7);
    assert_int_equal(json_array_size(entries), 7);
    json_decref(entries);
}

static void what_is_not_ours_is_left_alone(void **state)
{
    static const char *const keys[] = {LIST, ENDS, LOG};
    struct sl_override o = override("k", NULL, 5);
    struct changed changed;
    struct got got;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ask(WORDS("SET", keys[i], "theirs"));
        changed = change(&o, false);
        assert_int_equal(changed.outcome, SL_CONTROL_FOREIGN);
        assert_non_null(strstr(changed.why, keys[i]));
        assert_int_equal(ask(WORDS("EXISTS", REVISION)).integer, 0); /* nothing was written */
        ask(WORDS("DEL", keys[i]));
    }
    ask(WORDS("SET", REVISION, "theirs"));
    changed = change(&o, false);
    assert_int_equal(changed.outcome, SL_CONTROL_FOREIGN);
    got = fetch_all();
    assert_int_equal(got.outcome, SL_CONTROL_FOREIGN);
    assert_null(got.overrides);
    ask(WORDS("DEL", REVISION));
    must_change(&o, false);
    ask(WORDS("HSET", LIST, "api_key\n\nx", "{\"rate\":1}"));
    got = fetch_all();
    assert_int_equal(got.outcome, SL_CONTROL_OK);
    assert_int_equal(got.overrides->n, 1); /* the others are taken */
    assert_non_null(strstr(got.why, "1 records"));
    sl_overrides_unref(got.overrides);
}

static void a_list_of_many_pages_is_fetched_whole(void **state)
{
    enum { N = 1200 };
    char key[16];

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        struct sl_override o = override(key, i % 2 ? "a" : NULL, 5);

        snprintf(key, sizeof key, "key-%u", i);
        o.key_len = strlen(key);
        must_change(&o, false);
    }
    assert_int_equal(count_all(), N);
}

/* A value that no reply has room for, in any page. */
static void a_huge_record_keeps_no_other_away(void **state)
{
    static char huge[600001];
    struct sl_override o = override("k", NULL, 5);
    struct got got;

    (void)state;
    memset(huge, 'x', sizeof huge - 1);
    must_change(&o, false);
    ask(WORDS("HSET", LIST, "api_key\n\nx", huge));
    got = fetch_all();
    assert_int_equal(got.outcome, SL_CONTROL_OK);
    assert_int_equal(got.overrides->n, 1);
    assert_non_null(strstr(got.why, "1 records"));
    sl_overrides_unref(got.overrides);
}

/* Who sets one override after the other keeps nobody from those that are there. */
static void a_list_that_never_rests_is_fetched(void **state)
{
    struct sl_override o = override("k", NULL, 5);
    struct got got = {.done = false};
    uint64_t revision = 0;
    char key[16];

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        struct sl_override other = override(key, NULL, 5);

        snprintf(key, sizeof key, "key-%u", i);
        other.key_len = strlen(key);
        revision = must_change(&other, false);
    }
    assert_int_equal(sl_overrides_fetch(&place, on_got, &got), SL_CONTROL_OK);
    while (!got.done)
        must_change(&o, false); /* fewer round trips than the pages of the list */
    assert_int_equal(got.outcome, SL_CONTROL_OK);
    assert_true(got.overrides->n >= 400);
    assert_true(got.revision.number >= revision);
    assert_true(got.revision.number < must_change(&o, false)); /* so the next look fetches again */
    sl_overrides_unref(got.overrides);
}

static void what_is_out_of_range_is_not_sent(void **state)
{
    struct sl_override o = override("", NULL, 5);
    struct changed changed = change(&o, false);

    (void)state;
    assert_int_equal(changed.outcome, SL_CONTROL_INVALID);
    assert_non_null(strstr(changed.why, "key"));
    o = override("k", NULL, 5);
    o.burst = 2000000000;
    assert_int_equal(change(&o, false).outcome, SL_CONTROL_INVALID);
    assert_int_equal(ask(WORDS("EXISTS", REVISION)).integer, 0);
}

/* ---- following */

struct heard {
    size_t n_taken, n;
    uint64_t revision;
    bool looked, changed;
    char odd[SL_CONTROL_WHY_MAX];
};

static bool on_take(void *owner, struct sl_overrides *overrides, const struct sl_revision *revision)
{
    struct heard *heard = owner;

    heard->n_taken++;
    heard->n = overrides->n;
    heard->revision = revision->number;
    heard->changed = true;
    sl_overrides_unref(overrides);
    return true;
}

static void on_odd(void *owner, const char *text)
{
    struct heard *heard = owner;

    snprintf(heard->odd, sizeof heard->odd, "%s", text);
    heard->changed = true;
}

static void on_first_look(void *owner)
{
    ((struct heard *)owner)->looked = true;
}

static struct sl_overrides_follow *follow_new(struct heard *heard)
{
    struct sl_overrides_follow_config config = {
        .place = place, .take = on_take, .odd = on_odd, .looked = on_first_look, .owner = heard};
    struct sl_revision nothing = {.number = 0};
    struct sl_overrides_follow *follow;

    assert_int_equal(sl_overrides_follow_new(&config, &nothing, &follow), 0);
    return follow;
}

static void wait_for_change(struct heard *heard)
{
    wait_for(&heard->changed);
    heard->changed = false;
}

static void a_change_is_heard_of_and_a_lost_list_is_kept(void **state)
{
    struct sl_override o = override("k", NULL, 5), other = override("j", NULL, 5);
    struct heard heard = {.n_taken = 0};
    struct sl_overrides_follow *follow = follow_new(&heard);

    (void)state;
    wait_for(&heard.looked);
    assert_int_equal(heard.n_taken, 0); /* there is nothing to take */
    must_change(&o, false);
    wait_for_change(&heard);
    assert_int_equal(heard.revision, 1);
    assert_int_equal(heard.n, 1);
    must_change(&o, true);
    wait_for_change(&heard);
    assert_int_equal(heard.n, 0);
    must_change(&o, false);
    wait_for_change(&heard);
    ask(WORDS("DEL", LIST, ENDS, REVISION, LOG));
    wait_for_change(&heard);
    assert_int_equal(heard.n, 1);
    assert_non_null(strstr(heard.odd, "revision 3"));
    must_change(&other, false); /* number 1 again, and another mark */
    wait_for_change(&heard);
    assert_int_equal(heard.revision, 1);
    assert_int_equal(heard.n_taken, 4);
    sl_client_free(rig.client); /* before what waits for its answers */
    rig.client = NULL;
    sl_overrides_follow_free(follow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_set_is_found_again_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(setting_again_replaces_and_removing_takes_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_over_goes_with_the_next_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_log_keeps_the_newest_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_ours_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_of_many_pages_is_fetched_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_huge_record_keeps_no_other_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_list_that_never_rests_is_fetched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_out_of_range_is_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_is_heard_of_and_a_lost_list_is_kept, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
