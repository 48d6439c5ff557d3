/* Which alarms traffic raises, second by second in virtual time. */
#include "observe/watch_ratio.h"

#include "observe/ratio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000)

struct scene {
    struct sl_alloc alloc;
    struct sl_alarms alarms;
    struct sl_ratio_watch *watch;
    uint64_t now_us;
    struct sl_limiter_count rows[SL_COUNT_ROWS_MAX];
    size_t n_rows;
    struct sl_limiter_stats stats;
    double hottest;
    unsigned n_lines;
    char lines[16][1024];
};

static void on_say(void *ctx, bool serious, const char *line)
{
    struct scene *s = ctx;

    assert_true(s->n_lines < 16);
    snprintf(s->lines[s->n_lines++], sizeof s->lines[0], "%c %s", serious ? '!' : '.', line);
}

static void name_rows(struct scene *s, size_t n, const char *const *names)
{
    memset(s->rows, 0, sizeof s->rows);
    for (size_t i = 0; i < n; i++)
        snprintf(s->rows[i].limit, sizeof s->rows[i].limit, "%s", names[i]);
    s->n_rows = n;
}

static struct scene *begin(void)
{
    static struct scene s;
    struct sl_teller teller = {.alarms = &s.alarms, .say = on_say, .ctx = &s};

    memset(&s, 0, sizeof s);
    s.alloc = sl_alloc_system();
    s.now_us = 5000 * S;
    s.hottest = -1;
    sl_alarms_init(&s.alarms);
    name_rows(&s, 3, (const char *const[]){"free", "pro", ""});
    assert_int_equal(sl_ratio_watch_new(&s.alloc, &teller, s.now_us, &s.watch), 0);
    return &s;
}

static void end(struct scene *s)
{
    sl_ratio_watch_free(s->watch);
    sl_alarms_fini(&s->alarms);
}

static void look(struct scene *s)
{
    struct sl_ratio_traffic traffic = {
        .rows = s->rows, .n_rows = s->n_rows, .stats = s->stats, .hottest_address = s->hottest};

    s->now_us += S;
    sl_ratio_watch_look(s->watch, &traffic, s->now_us);
}

/* Seconds of a limit's traffic: so many a second pass, so many are rejected. */
static void pass(struct scene *s, unsigned seconds, unsigned row, unsigned allowed, unsigned rejected)
{
    for (unsigned i = 0; i < seconds; i++) {
        s->rows[row].checks_allowed += allowed;
        s->rows[row].checks_rejected += rejected;
        look(s);
    }
}

/* Seconds of all traffic: keyed (all allowed), anonymous allowed and rejected. */
static void crowd(struct scene *s, unsigned seconds, unsigned keyed, unsigned allowed, unsigned rejected)
{
    for (unsigned i = 0; i < seconds; i++) {
        s->stats.allowed += keyed + allowed;
        s->stats.rejected += rejected;
        s->stats.anonymous_allowed += allowed;
        s->stats.anonymous_rejected += rejected;
        look(s);
    }
}

static bool is_raised(struct scene *s, enum sl_alarm alarm)
{
    return sl_alarm_read(&s->alarms, alarm).raised;
}

static void a_jump_raises_once_and_names_the_limit(void **state)
{
    struct scene *s = begin();

    (void)state;
    pass(s, 600, 1, 60, 40);
    assert_int_equal(s->n_lines, 0);
    pass(s, 60, 1, 20, 80);
    assert_true(is_raised(s, SL_ALARM_REJECTION_RATIO));
    assert_int_equal(s->n_lines, 1);
    assert_non_null(strstr(s->lines[0], "! alarm rejection_ratio: "));
    assert_non_null(strstr(s->lines[0], "`pro` rejects 80.0 %"));
    assert_non_null(strstr(s->lines[0], "usually 40.0 % to 40.0 %"));
    pass(s, 60, 1, 60, 40);
    assert_true(is_raised(s, SL_ALARM_REJECTION_RATIO)); /* for its hold */
    pass(s, 20, 1, 60, 40);
    assert_false(is_raised(s, SL_ALARM_REJECTION_RATIO));
    assert_int_equal(s->n_lines, 2);
    assert_string_equal(s->lines[1], ". alarm rejection_ratio is over");
    end(s);
}

static void a_limit_that_rejects_all_raises_another(void **state)
{
    struct scene *s = begin();

    (void)state;
    pass(s, 600, 0, 60, 1);
    pass(s, 5, 0, 0, 50);
    assert_true(is_raised(s, SL_ALARM_ALL_REJECTED));
    pass(s, 25, 0, 0, 50);
    assert_true(is_raised(s, SL_ALARM_REJECTION_RATIO));
    assert_false(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    end(s);
}

static void rejections_for_want_of_a_store_are_not_the_limits(void **state)
{
    struct scene *s = begin();

    (void)state;
    pass(s, 600, 0, 60, 1);
    for (unsigned i = 0; i < 120; i++) {
        s->rows[0].degraded_rejected += 60;
        pass(s, 1, 0, 0, 60);
    }
    assert_int_equal(s->n_lines, 0);
    end(s);
}

static void a_new_limit_that_lets_nothing_pass(void **state)
{
    struct scene *s = begin();

    (void)state;
    pass(s, 20, 0, 60, 1);
    name_rows(s, 4, (const char *const[]){"new", "shut", "free", ""});
    s->rows[1].blocked = true;
    pass(s, 20, 1, 0, 50); /* as it is written */
    assert_false(is_raised(s, SL_ALARM_ALL_REJECTED));
    pass(s, 1, 0, 0, 50);
    assert_false(is_raised(s, SL_ALARM_ALL_REJECTED)); /* too few */
    pass(s, 2, 0, 0, 50);
    assert_true(is_raised(s, SL_ALARM_ALL_REJECTED));
    assert_non_null(strstr(s->lines[0], "`new` rejects 100.0 %"));
    pass(s, 1000, 0, 0, 50);
    assert_false(is_raised(s, SL_ALARM_ALL_REJECTED)); /* it is not new any more */
    end(s);
}

static void what_rejects_all_from_the_start_is_quiet(void **state)
{
    struct scene *s = begin();

    (void)state;
    pass(s, 1200, 0, 0, 50);
    assert_int_equal(s->n_lines, 0);
    end(s);
}

/* What is usual for a limit stays with its name, wherever a reload puts it. */
static void a_reload_moves_rows(void **state)
{
    struct scene *s = begin();
    struct sl_limiter_count pro;

    (void)state;
    pass(s, 600, 1, 60, 40);
    pro = s->rows[1];
    name_rows(s, 4, (const char *const[]){"pro", "more", "free", ""});
    s->rows[0] = pro;
    pass(s, 30, 0, 60, 40);
    assert_int_equal(s->n_lines, 0);
    pass(s, 30, 0, 20, 80);
    assert_true(is_raised(s, SL_ALARM_REJECTION_RATIO));
    assert_non_null(strstr(s->lines[0], "`pro`"));
    end(s);
}

static void a_thousand_limits_and_the_rest(void **state)
{
    static char texts[SL_COUNT_ROWS_MAX][16];
    static const char *names[SL_COUNT_ROWS_MAX];
    struct scene *s = begin();

    (void)state;
    for (unsigned i = 0; i < SL_COUNT_ROWS_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "l%u", i);
        names[i] = i == SL_COUNT_ROWS_MAX - 2 ? "other" : i == SL_COUNT_ROWS_MAX - 1 ? "" : texts[i];
    }
    name_rows(s, SL_COUNT_ROWS_MAX, names);
    for (unsigned t = 0; t < 400; t++) {
        for (unsigned i = 0; i < SL_COUNT_ROWS_MAX; i++) {
            s->rows[i].checks_allowed += 20;
            s->rows[i].checks_rejected += i % 3;
        }
        look(s);
    }
    assert_int_equal(s->n_lines, 0);
    pass(s, 30, SL_COUNT_ROWS_MAX - 2, 0, 20);
    assert_true(is_raised(s, SL_ALARM_REJECTION_RATIO));
    assert_non_null(strstr(s->lines[0], "`other`"));
    end(s);
}

/* The proxy's own address has become everybody's. 50 a second each of some thousand addresses before. */
static void everyone_in_one_bucket(void **state)
{
    struct scene *s = begin();

    (void)state;
    s->hottest = 0.02;
    crowd(s, 45, 100, 50, 1);
    s->hottest = 1;
    crowd(s, 5, 100, 30, 20); /* a generous limit: not even all of them are rejected */
    assert_true(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    assert_non_null(strstr(s->lines[0], "about a single one, usually"));
    assert_false(is_raised(s, SL_ALARM_ANONYMOUS_NOBODY));
    end(s);
}

/* One address floods: the others are still there. */
static void a_flood_by_one_address_is_not_everyone(void **state)
{
    struct scene *s = begin();

    (void)state;
    s->hottest = 0.02;
    crowd(s, 600, 100, 50, 1);
    s->hottest = 0.975;
    crowd(s, 60, 100, 51, 2000);
    assert_false(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    end(s);
}

static void everyone_is_rejected(void **state)
{
    struct scene *s = begin();

    (void)state;
    crowd(s, 600, 100, 50, 2);
    crowd(s, 5, 100, 1, 51);
    assert_true(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    assert_non_null(strstr(s->lines[0], "are rejections"));
    end(s);
}

/* The header with the key is lost on the way. */
static void everyone_is_anonymous(void **state)
{
    struct scene *s = begin();

    (void)state;
    crowd(s, 45, 100, 30, 0);
    crowd(s, 5, 0, 120, 10);
    assert_true(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    assert_non_null(strstr(s->lines[0], "of all decisions are about addresses, usually 23.1 %"));
    end(s);
}

/* A header is trusted that clients write: each request has an address of its own, and nobody is limited. */
static void nobody_is_limited(void **state)
{
    struct scene *s = begin();

    (void)state;
    crowd(s, 600, 100, 40, 10);
    crowd(s, 15, 100, 50, 0);
    assert_true(is_raised(s, SL_ALARM_ANONYMOUS_NOBODY));
    assert_false(is_raised(s, SL_ALARM_ANONYMOUS_EVERYONE));
    end(s);
}

static void nobody_is_anonymous(void **state)
{
    struct scene *s = begin();

    (void)state;
    crowd(s, 60, 100, 40, 10);
    crowd(s, 15, 150, 0, 0);
    assert_true(is_raised(s, SL_ALARM_ANONYMOUS_NOBODY));
    end(s);
}

/* Crawlers that were limited all day have gone, and so has their traffic. */
static void crawlers_that_leave_are_quiet(void **state)
{
    struct scene *s = begin();

    (void)state;
    crowd(s, 1200, 100, 40, 60);
    crowd(s, 300, 100, 40, 0);
    crowd(s, 300, 100, 0, 0);
    assert_int_equal(s->n_lines, 0);
    end(s);
}

struct found {
    unsigned n;
    double free_share, pro_share;
};

static void on_share(void *ctx, const char *limit, double share)
{
    struct found *found = ctx;

    found->n++;
    *(strcmp(limit, "free") ? &found->pro_share : &found->free_share) = share;
}

/* Of this moment, not of the last look: what has come since counts, and what came before the first look does. */
static void shares_are_of_this_moment(void **state)
{
    struct scene *s = begin();
    struct found found = {0};

    (void)state;
    s->rows[0].checks_allowed = 40;
    s->stats.anonymous_allowed = 40;
    look(s);
    s->rows[0].checks_allowed = 50;
    s->rows[0].checks_rejected = 50;
    s->stats.anonymous_allowed = 50;
    s->stats.anonymous_rejected = 50;
    sl_ratio_watch_shares(s->watch, s->rows, s->n_rows, on_share, &found);
    assert_int_equal(found.n, 2);
    assert_true(found.free_share == 0.5);
    assert_true(found.pro_share == 0);
    assert_true(sl_ratio_watch_anonymous(s->watch, &s->stats) == 0.5);
    pass(s, 12, 0, 0, 0);
    sl_ratio_watch_shares(s->watch, s->rows, s->n_rows, on_share, &found);
    assert_true(found.free_share == 0);
    end(s);
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

static void without_memory_nothing_is_watched_and_nothing_breaks(void **state)
{
    struct scene *s = begin();
    struct sl_teller teller = {.alarms = &s->alarms, .say = on_say, .ctx = s};
    unsigned left = 0;
    struct sl_alloc failing = {.realloc = refuse, .ctx = &left};

    (void)state;
    for (unsigned n = 0; n < 5; n++) {
        sl_ratio_watch_free(s->watch);
        s->watch = NULL;
        left = n;
        assert_int_equal(sl_ratio_watch_new(&failing, &teller, s->now_us, &s->watch), n == 0 ? -1 : 0);
        if (!s->watch)
            continue;
        pass(s, 20, 0, 10, 10);
        left = 100;
        pass(s, 1, 1, 10, 10);
    }
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jump_raises_once_and_names_the_limit),
        cmocka_unit_test(a_limit_that_rejects_all_raises_another),
        cmocka_unit_test(rejections_for_want_of_a_store_are_not_the_limits),
        cmocka_unit_test(a_new_limit_that_lets_nothing_pass),
        cmocka_unit_test(what_rejects_all_from_the_start_is_quiet),
        cmocka_unit_test(a_reload_moves_rows),
        cmocka_unit_test(a_thousand_limits_and_the_rest),
        cmocka_unit_test(everyone_in_one_bucket),
        cmocka_unit_test(a_flood_by_one_address_is_not_everyone),
        cmocka_unit_test(everyone_is_rejected),
        cmocka_unit_test(everyone_is_anonymous),
        cmocka_unit_test(nobody_is_limited),
        cmocka_unit_test(nobody_is_anonymous),
        cmocka_unit_test(crawlers_that_leave_are_quiet),
        cmocka_unit_test(shares_are_of_this_moment),
        cmocka_unit_test(without_memory_nothing_is_watched_and_nothing_breaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
