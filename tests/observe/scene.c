#include "scene.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define S UINT64_C(1000000)
#define TICKS 10u /* a second has */

/* ---- what is said */

static void on_news(void *ctx, const struct sl_alarm_news *news)
{
    struct scene *s = ctx;

    if (!news->raised) {
        s->ended_us[news->alarm] = s->kit.now_us;
        return;
    }
    s->n_raised[news->alarm]++;
    s->raised_us[news->alarm] = s->kit.now_us;
    assert_string_equal(news->kind, sl_alarm_name(news->alarm));
}

static void keep_line(struct scene *s, const char *line)
{
    assert_true(s->n_lines < SCENE_LINES_MAX);
    snprintf(s->lines[s->n_lines++], sizeof s->lines[0], "%s", line);
}

static void on_say(void *ctx, bool serious, const char *line)
{
    (void)serious;
    keep_line(ctx, line);
}

static void on_store_say(void *ctx, enum sl_store_say severity, const char *line)
{
    (void)severity;
    keep_line(ctx, line);
}

/* ---- life */

static void open_watches(struct scene *s)
{
    struct sl_teller teller = {.alarms = &s->alarms, .say = on_say, .ctx = s};
    struct sl_store_watch_config store = {
        .alloc = &s->alloc, .alarms = &s->alarms, .say = on_store_say, .ctx = s, .now_us = s->kit.now_us};
    struct sl_health begin = {.calls = 0};

    sl_alarms_init(&s->alarms);
    sl_alarms_set_sink(&s->alarms, on_news, s);
    assert_int_equal(sl_ratio_watch_new(&s->alloc, &teller, s->kit.now_us, &s->ratios), 0);
    sl_table_stats(sl_limiter_table(s->kit.limiter), &begin.table);
    sl_health_watch_init(&s->health, &teller, &begin, s->kit.now_us);
    assert_int_equal(sl_store_watch_new(&store, &s->store), 0);
    scene_look(s);
}

static void close_watches(struct scene *s)
{
    sl_store_watch_free(s->store);
    sl_ratio_watch_free(s->ratios);
    sl_alarms_fini(&s->alarms);
}

void scene_open(struct scene *s, const char *policy)
{
    memset(s, 0, sizeof *s);
    s->alloc = sl_alloc_system();
    s->random = 88172645463325252u;
    s->hottest = -1;
    s->reached = true;
    kit_open(&s->kit, policy);
    s->begun_us = s->marked_us = s->kit.now_us;
    open_watches(s);
}

void scene_close(struct scene *s)
{
    close_watches(s);
    kit_close(&s->kit);
}

void scene_restart_watches(struct scene *s)
{
    close_watches(s);
    open_watches(s);
}

/* ---- traffic */

double scene_chance(struct scene *s)
{
    s->random ^= s->random << 13, s->random ^= s->random >> 7, s->random ^= s->random << 17;
    return (double)(s->random >> 11) / (double)(UINT64_C(1) << 53);
}

/* How many of a stream of this mean come (Knuth): a tick's mean is small. */
static unsigned poisson(struct scene *s, double mean)
{
    double least = exp(-mean), product = scene_chance(s);
    unsigned n = 0;

    for (; product > least; n++)
        product *= scene_chance(s);
    return n;
}

bool scene_decide(struct scene *s, const char *key, bool anonymous)
{
    struct sluice_request request = kit_request(key, NULL, 1);

    if (anonymous) {
        request.key_type = "address";
        request.key_type_len = strlen("address");
    }
    return kit_decide(&s->kit, &request).allowed;
}

static void one_request(struct scene *s, const struct flow *flow)
{
    unsigned i = flow->first + (unsigned)(scene_chance(s) * flow->n_keys);
    char key[64];

    assert_true(i < SCENE_FLOW_KEYS_MAX);
    if (flow->anonymous) {
        snprintf(key, sizeof key, "192.0.%u.%u", i / 250, i % 250 + 1);
        s->addresses[i]++;
        s->n_anonymous++;
    } else {
        snprintf(key, sizeof key, "%s%u", flow->name, i);
    }
    scene_decide(s, key, flow->anonymous);
}

static void second(struct scene *s, const struct flow *flows, const struct flow *to, size_t n, double f)
{
    for (unsigned tick = 0; tick < TICKS; tick++) {
        for (size_t i = 0; i < n; i++) {
            double rate = flows[i].per_second + (to[i].per_second - flows[i].per_second) * f;

            for (unsigned k = poisson(s, rate / TICKS); k > 0; k--)
                one_request(s, &flows[i]);
        }
        s->kit.now_us += S / TICKS;
    }
    scene_look(s);
}

void scene_ramp(struct scene *s, unsigned seconds, const struct flow *flows, const struct flow *to, size_t n)
{
    for (unsigned i = 0; i < seconds; i++)
        second(s, flows, to, n, (double)i / seconds);
}

void scene_run(struct scene *s, unsigned seconds, const struct flow *flows, size_t n)
{
    scene_ramp(s, seconds, flows, flows, n);
}

/* ---- the look of each second */

/* As the hottest keys are followed: falling off within some seconds. */
static double hottest_address(struct scene *s)
{
    unsigned most = 0;

    for (unsigned i = 0; i < SCENE_FLOW_KEYS_MAX; i++)
        most = s->addresses[i] > most ? s->addresses[i] : most;
    if (s->n_anonymous >= 20) {
        double share = (double)most / s->n_anonymous;

        s->hottest = s->hottest < 0 ? share : s->hottest + (share - s->hottest) * 0.5;
    }
    memset(s->addresses, 0, sizeof s->addresses);
    s->n_anonymous = 0;
    return s->hottest;
}

static void look_at_traffic(struct scene *s)
{
    static struct sl_limiter_count rows[SL_COUNT_ROWS_MAX];
    struct sl_ratio_traffic traffic = {.rows = rows, .hottest_address = hottest_address(s)};

    traffic.n_rows = sl_limiter_counts(s->kit.limiter, rows, SL_COUNT_ROWS_MAX);
    for (size_t i = 0; s->shared && i < traffic.n_rows; i++) {
        rows[i].shared_allowed = rows[i].decided_allowed;
        rows[i].shared_rejected = rows[i].decided_rejected;
    }
    sl_limiter_stats(s->kit.limiter, &traffic.stats);
    sl_ratio_watch_look(s->ratios, &traffic, s->kit.now_us);
}

void scene_look(struct scene *s)
{
    struct sl_store_health store = {
        .reached = s->reached, .secret_known = true, .breaker = s->breaker_open ? SL_BREAKER_OPEN : SL_BREAKER_CLOSED};
    struct sl_health health = {.calls = 0};

    sl_table_stats(sl_limiter_table(s->kit.limiter), &health.table);
    sl_store_watch_look(s->store, &store, s->kit.now_us);
    look_at_traffic(s);
    sl_health_watch_look(&s->health, &health, s->kit.now_us);
}

/* ---- what is expected */

void scene_mark(struct scene *s)
{
    s->marked_us = s->kit.now_us;
    memset(s->n_raised, 0, sizeof s->n_raised);
    s->n_lines = 0;
}

static unsigned since_mark_s(const struct scene *s, uint64_t at_us)
{
    return (unsigned)((at_us - s->marked_us) / S);
}

void scene_expect(struct scene *s, enum sl_alarm alarm, unsigned earliest_s, unsigned latest_s)
{
    unsigned at_s = since_mark_s(s, s->raised_us[alarm]);

    if (s->n_raised[alarm] != 1)
        fail_msg("%s was raised %u times, not once", sl_alarm_name(alarm), s->n_raised[alarm]);
    if (at_s < earliest_s || at_s > latest_s)
        fail_msg("%s was raised after %u s, not after %u to %u", sl_alarm_name(alarm), at_s, earliest_s, latest_s);
}

void scene_expect_only(struct scene *s, unsigned alarms)
{
    for (unsigned i = 0; i < SL_ALARMS; i++)
        if (s->n_raised[i] && !(alarms >> i & 1))
            fail_msg("%s was raised after %u s: %s", sl_alarm_name((enum sl_alarm)i), since_mark_s(s, s->raised_us[i]),
                     sl_alarm_read(&s->alarms, (enum sl_alarm)i).began);
}

bool scene_is_raised(struct scene *s, enum sl_alarm alarm)
{
    return sl_alarm_read(&s->alarms, alarm).raised;
}
