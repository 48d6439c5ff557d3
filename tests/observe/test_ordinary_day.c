/* Four days of a web site's access log, limited sensibly (seven in a hundred rejected, most of them one crawler's): nothing to
 * wake anybody for. As it was, with its few requests a minute; and as that of a site with sixty times as many visitors,
 * at fifty times the speed, so that each ten seconds have enough requests to be judged. */
#include "scene.h"

#include "replay/log_line.h"
#include "replay/log_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000)
#define LINES 6000u
#define COPIES 60u
#define SPEED 50u

struct visit {
    uint64_t at_us;
    unsigned octets[3]; /* the last ones */
    unsigned copy;
};

static struct visit lines[LINES];
static struct visit visits[LINES * COPIES];

static void read_octets(struct visit *v, const char *address)
{
    char *end = NULL;

    strtoul(address, &end, 10); /* the first is the copy's to choose */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(*end, '.');
        v->octets[i] = (unsigned)strtoul(end + 1, &end, 10);
    }
    assert_int_equal(*end, '\0');
}

static void read_log(void)
{
    const char *paths[] = {SLUICE_SOURCE_DIR "/tests/data/access-combined.log"}, *wrong;
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_log_reader *reader;
    struct sl_log_reader_line text;
    char why[256], address[64];
    unsigned n = 0;

    assert_int_equal(sl_log_reader_new(&alloc, paths, 1, NULL, &reader, why, sizeof why), 0);
    for (; sl_log_reader_next(reader, &text, why, sizeof why) == 1; n++) {
        struct sl_log_line line;
        struct visit *v = &lines[n];

        assert_true(n < LINES);
        assert_int_equal(sl_log_line_parse(text.text.text, text.text.len, &line, &wrong), 0);
        v->at_us = line.t_us;
        snprintf(address, sizeof address, "%.*s", (int)line.first.len, line.first.text);
        read_octets(v, address);
    }
    assert_int_equal(n, LINES);
    sl_log_reader_free(reader);
}

static int by_time(const void *x, const void *y)
{
    const struct visit *a = x, *b = y;

    return (a->at_us > b->at_us) - (a->at_us < b->at_us);
}

/* The copies' visitors come some minutes apart: no two of their crawlers at one time. */
static unsigned make_visits(unsigned copies, unsigned speed)
{
    unsigned n = 0;

    for (unsigned copy = 0; copy < copies; copy++)
        for (unsigned i = 0; i < LINES; i++) {
            visits[n] = lines[i];
            visits[n].copy = copy;
            visits[n++].at_us = (lines[i].at_us + copy * 1440 * S) / speed;
        }
    qsort(visits, n, sizeof *visits, by_time);
    return n;
}

static unsigned replay(struct scene *s, unsigned n)
{
    uint64_t offset_us = s->kit.now_us - visits[0].at_us, look_us = s->kit.now_us + S;
    unsigned rejected = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct visit *v = &visits[i];
        char key[32];

        for (; look_us <= v->at_us + offset_us; look_us += S) {
            s->kit.now_us = look_us;
            scene_look(s);
        }
        s->kit.now_us = v->at_us + offset_us;
        snprintf(key, sizeof key, "%u.%u.%u.%u", v->copy + 1, v->octets[0], v->octets[1], v->octets[2]);
        rejected += !scene_decide(s, key, true);
    }
    return rejected;
}

static void as_it_was(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s, "limits: [{name: anonymous, key_type: address, rate: 12/m, burst: 12}]\n");
    assert_int_equal(replay(&s, make_visits(1, 1)), 420);
    scene_expect_only(&s, 0);
    scene_close(&s);
}

static void with_many_visitors(void **state)
{
    struct scene s;
    unsigned rejected;

    (void)state;
    scene_open(&s, "limits: [{name: anonymous, key_type: address, rate: 12/1200ms, burst: 12}]\n");
    rejected = replay(&s, make_visits(COPIES, SPEED));
    assert_true(rejected > 20000 && rejected < 30000);
    scene_expect_only(&s, 0);
    scene_close(&s);
}

static int set_up(void **state)
{
    (void)state;
    read_log();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_was),
        cmocka_unit_test(with_many_visitors),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
