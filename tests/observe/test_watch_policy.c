/* A policy that was refused is an alarm until one is taken. */
#include "observe/watch_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

struct scene {
    struct sl_alarms alarms;
    struct sl_policy_watch watch;
    unsigned n_lines;
    char line[1024];
};

static void on_say(void *ctx, bool serious, const char *line)
{
    struct scene *s = ctx;

    s->n_lines++;
    snprintf(s->line, sizeof s->line, "%c %s", serious ? '!' : '.', line);
}

static void begin(struct scene *s)
{
    struct sl_teller teller = {.alarms = &s->alarms, .say = on_say, .ctx = s};

    memset(s, 0, sizeof *s);
    sl_alarms_init(&s->alarms);
    sl_policy_watch_init(&s->watch, &teller);
}

static void end(struct scene *s)
{
    sl_policy_watch_fini(&s->watch);
    sl_alarms_fini(&s->alarms);
}

static bool is_raised(struct scene *s)
{
    return sl_alarm_read(&s->alarms, SL_ALARM_POLICY_REJECTED).raised;
}

static void b97_it_lasts_until_one_is_taken(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    sl_policy_watch_taken(&s.watch, SL_POLICY_OF_FILE, 9 * S);
    sl_policy_watch_look(&s.watch, 10 * S);
    assert_int_equal(s.n_lines, 0);
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_FILE, "p.yaml:3:5: unknown key `burts`", 20 * S);
    assert_true(is_raised(&s));
    assert_non_null(strstr(s.line, "! alarm policy_rejected: "));
    assert_non_null(strstr(s.line, ": p.yaml:3:5: unknown key `burts`; docs/runbook.md"));
    for (unsigned t = 21; t < 100000; t += 100)
        sl_policy_watch_look(&s.watch, t * S);
    assert_true(is_raised(&s));
    sl_policy_watch_taken(&s.watch, SL_POLICY_OF_FILE, 100000 * S);
    sl_policy_watch_look(&s.watch, 100001 * S);
    sl_policy_watch_look(&s.watch, 100005 * S);
    assert_false(is_raised(&s));
    assert_int_equal(s.n_lines, 2);
    end(&s);
}

/* Somebody tries again and again: one alarm, that says what is wrong with the last try. */
static void another_finding_is_the_same_alarm(void **state)
{
    char longest[2000];
    struct scene s;

    (void)state;
    begin(&s);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_FILE, "first", 20 * S);
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_FILE, "second", 30 * S);
    assert_int_equal(s.n_lines, 1);
    assert_string_equal(sl_alarm_read(&s.alarms, SL_ALARM_POLICY_REJECTED).began, "first");
    assert_string_equal(sl_alarm_read(&s.alarms, SL_ALARM_POLICY_REJECTED).latest, "second");
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_FILE, longest, 40 * S);
    assert_int_equal(strlen(sl_alarm_read(&s.alarms, SL_ALARM_POLICY_REJECTED).latest), SL_TELLER_DETAIL_MAX - 1);
    end(&s);
}

/* The file that is good again says nothing about a version that was refused. */
static void a_version_and_the_file_are_two_things(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_STORE, "version 3:2:1: no", 20 * S);
    sl_policy_watch_taken(&s.watch, SL_POLICY_OF_FILE, 30 * S);
    sl_policy_watch_look(&s.watch, 100 * S);
    assert_true(is_raised(&s));
    sl_policy_watch_refused(&s.watch, SL_POLICY_OF_FILE, "p.yaml: no", 110 * S);
    assert_string_equal(sl_alarm_read(&s.alarms, SL_ALARM_POLICY_REJECTED).latest, "version 3:2:1: no");
    sl_policy_watch_taken(&s.watch, SL_POLICY_OF_STORE, 120 * S); /* the file does not count any more */
    sl_policy_watch_look(&s.watch, 125 * S);
    assert_false(is_raised(&s));
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b97_it_lasts_until_one_is_taken),
        cmocka_unit_test(another_finding_is_the_same_alarm),
        cmocka_unit_test(a_version_and_the_file_are_two_things),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
