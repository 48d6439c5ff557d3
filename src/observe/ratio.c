#include "observe/ratio.h"

#include <stdlib.h>
#include <string.h>

#define SIGMAS 4.0         /* what chance explains */
#define ALL_REST 0.10      /* `all`: of the usual rest at most this is left */
#define ALL_WHOLE 0.30     /* ... and of the usual traffic at least this */
#define ALL_REST_LEAST 1.0 /* a second: fewer than that cannot be told from none */
#define NONE_OF_LOW 0.10   /* `none`: at most this part of the usual share */
#define NONE_LEAST 1.0     /* a second, of the usual part */

void sl_ratio_init(struct sl_ratio *ratio, unsigned mature, double all_at, uint64_t now_us)
{
    memset(ratio, 0, sizeof *ratio);
    ratio->mature = mature;
    ratio->all_at = all_at;
    ratio->sample_at_us = now_us + SL_RATIO_SAMPLE_US;
}

/* ---- windows */

/* The reading of `seconds` feeds ago, or the oldest there is. */
static const struct sl_ratio_reading *reading_of(const struct sl_ratio *ratio, unsigned seconds)
{
    unsigned slots = SL_RATIO_WINDOW_S + 1, back = seconds < ratio->n_readings ? seconds : ratio->n_readings - 1;

    return &ratio->readings[(ratio->newest + slots - back) % slots];
}

static uint64_t grown(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static double share_of(const struct sl_ratio_reading *from, uint64_t part, uint64_t whole)
{
    uint64_t parts = grown(from->part, part), wholes = grown(from->whole, whole);

    if (wholes == 0)
        return 0;
    return parts < wholes ? (double)parts / (double)wholes : 1;
}

static struct sl_ratio_window window(const struct sl_ratio *ratio, unsigned seconds)
{
    const struct sl_ratio_reading *from = reading_of(ratio, seconds), *to = &ratio->readings[ratio->newest];
    double elapsed_s = (double)grown(from->at_us, to->at_us) / 1e6;
    struct sl_ratio_window w = {.share = share_of(from, to->part, to->whole), .n = grown(from->whole, to->whole)};

    if (elapsed_s > 0)
        w.whole = (double)w.n / elapsed_s;
    w.rest = w.whole * (1 - w.share);
    return w;
}

double sl_ratio_share(const struct sl_ratio *ratio, uint64_t part, uint64_t whole)
{
    static const struct sl_ratio_reading start;

    return share_of(ratio->n_readings ? reading_of(ratio, SL_RATIO_WINDOW_S) : &start, part, whole);
}

static void take_reading(struct sl_ratio *ratio, uint64_t part, uint64_t whole, uint64_t now_us)
{
    const struct sl_ratio_reading *last = &ratio->readings[ratio->newest];
    struct sl_ratio_reading reading = {now_us, part, whole};

    if (ratio->n_readings > 0) {
        reading.part = part > last->part ? part : last->part;
        reading.whole = whole > last->whole ? whole : last->whole;
        reading.at_us = now_us > last->at_us ? now_us : last->at_us;
        ratio->newest = (ratio->newest + 1) % (SL_RATIO_WINDOW_S + 1);
    }
    ratio->readings[ratio->newest] = reading;
    if (ratio->n_readings <= SL_RATIO_WINDOW_S)
        ratio->n_readings++;
}

/* ---- what is usual */

static int by_size(const void *x, const void *y)
{
    float a = *(const float *)x, b = *(const float *)y;

    return (a > b) - (a < b);
}

/* How many of n values lie in the tail that is not usual. */
static unsigned tail_of(unsigned n)
{
    return (n - 1) / 10;
}

static double share_at(const struct sl_ratio *ratio, unsigned i)
{
    return (double)ratio->shares[i] / UINT16_MAX;
}

static void learn(struct sl_ratio *ratio)
{
    struct sl_ratio_usual *usual = &ratio->usual;
    unsigned n = usual->n = ratio->n_samples;
    float values[SL_RATIO_SAMPLES] = {0};

    for (unsigned i = 0; i < n; i++)
        values[i] = (float)share_at(ratio, i);
    qsort(values, n, sizeof *values, by_size);
    usual->low = (double)values[tail_of(n)];
    usual->high = (double)values[n - 1 - tail_of(n)];
    for (unsigned i = 0; i < n; i++)
        values[i] = ratio->wholes[i] * (float)(1 - share_at(ratio, i));
    qsort(values, n, sizeof *values, by_size);
    usual->rest = (double)values[tail_of(n)];
    memcpy(values, ratio->wholes, n * sizeof *values);
    qsort(values, n, sizeof *values, by_size);
    usual->whole = (double)values[n / 2];
}

static void remember(struct sl_ratio *ratio)
{
    ratio->shares[ratio->next_sample] = (uint16_t)(ratio->now.share * UINT16_MAX + 0.5);
    ratio->wholes[ratio->next_sample] = (float)ratio->now.whole;
    ratio->next_sample = (ratio->next_sample + 1) % SL_RATIO_SAMPLES;
    if (ratio->n_samples < SL_RATIO_SAMPLES)
        ratio->n_samples++;
    learn(ratio);
}

static bool is_any(const struct sl_ratio_state *s)
{
    return s->risen || s->fallen || s->all || s->none;
}

static void sample(struct sl_ratio *ratio, uint64_t now_us)
{
    bool excused = is_any(&ratio->excused), lasts = excused || is_any(&ratio->seen);

    if (now_us < ratio->sample_at_us)
        return;
    ratio->sample_at_us = now_us + SL_RATIO_SAMPLE_US;
    if (!lasts)
        ratio->held = 0;
    if (ratio->trouble)
        return;
    if (lasts && ratio->held < (excused ? SL_RATIO_EXCUSED : SL_RATIO_STUBBORN))
        ratio->held++;
    else if (ratio->now.n >= SL_RATIO_LEAST)
        remember(ratio);
}

/* ---- judging */

/* Is a share that lies this far beyond `edge`, the edge of its usual range, more than chance explains in n decisions? Once
 * it is, half as far is enough. */
static bool is_beyond(double excess, double edge, uint64_t n, bool lasts)
{
    double scale = lasts ? 0.5 : 1, sigmas = SIGMAS * scale;

    return excess > SL_RATIO_MARGIN * scale && excess * excess > sigmas * sigmas * edge * (1 - edge) / (double)n;
}

/* A share that ends with the traffic it was of leaves less traffic. */
static bool goes_on(const struct sl_ratio *ratio)
{
    double share = (ratio->usual.low + ratio->usual.high) / 2;

    return ratio->now.whole >= ratio->usual.whole * (1 - share / 2);
}

static bool has_lasted(bool beyond, bool already, unsigned *n)
{
    *n = beyond ? *n + 1 : 0;
    return beyond && (already || *n >= SL_RATIO_STEADY);
}

static void judge_change(struct sl_ratio *ratio)
{
    const struct sl_ratio_window *now = &ratio->now;
    const struct sl_ratio_usual *usual = &ratio->usual;
    struct sl_ratio_state *s = &ratio->seen;
    bool above, below;

    if (now->n < SL_RATIO_LEAST) {
        s->risen = s->fallen = s->none = false;
        ratio->n_above = ratio->n_below = 0;
        return;
    }
    above = is_beyond(now->share - usual->high, usual->high, now->n, s->risen);
    below = is_beyond(usual->low - now->share, usual->low, now->n, s->fallen) && (s->fallen || goes_on(ratio));
    s->risen = has_lasted(above, s->risen, &ratio->n_above);
    s->fallen = has_lasted(below, s->fallen, &ratio->n_below);
    s->none = now->share <= usual->low * NONE_OF_LOW * (s->none ? 2 : 1) && usual->low * usual->whole >= NONE_LEAST &&
              (s->none || goes_on(ratio));
}

static void judge_all(struct sl_ratio *ratio)
{
    struct sl_ratio_window now = window(ratio, SL_RATIO_SUDDEN_S);
    const struct sl_ratio_usual *usual = &ratio->usual;
    double at = ratio->seen.all ? 2 * ratio->all_at - 1 : ratio->all_at;

    ratio->seen.all = now.n >= SL_RATIO_LEAST_SUDDEN && now.share >= at && usual->rest >= ALL_REST_LEAST &&
                      now.rest <= usual->rest * ALL_REST * (ratio->seen.all ? 2 : 1) &&
                      now.whole >= usual->whole * ALL_WHOLE;
}

/* ---- excuses */

static bool excuse(bool seen, bool was_seen, bool explained, bool *excused)
{
    *excused = *excused || (seen && !was_seen && explained);
    return seen && !*excused;
}

static void publish(struct sl_ratio *ratio, const struct sl_ratio_state *was)
{
    const struct sl_ratio_state *seen = &ratio->seen;
    struct sl_ratio_state *excused = &ratio->excused;
    bool falls = ratio->trouble & SL_RATIO_FALLS, all = ratio->trouble & SL_RATIO_ALL;

    if (is_any(seen))
        ratio->calm = 0;
    else if (ratio->now.n >= SL_RATIO_LEAST && ++ratio->calm >= SL_RATIO_CALM)
        *excused = (struct sl_ratio_state){.fallen = false};
    ratio->state.risen = seen->risen;
    ratio->state.fallen = excuse(seen->fallen, was->fallen, falls, &excused->fallen);
    ratio->state.none = excuse(seen->none, was->none, falls, &excused->none);
    ratio->state.all = excuse(seen->all, was->all, all, &excused->all);
}

void sl_ratio_trouble(struct sl_ratio *ratio, unsigned explains)
{
    ratio->trouble = explains;
}

bool sl_ratio_is_excused_fall(const struct sl_ratio *ratio)
{
    return ratio->seen.fallen && ratio->excused.fallen;
}

void sl_ratio_feed(struct sl_ratio *ratio, uint64_t part, uint64_t whole, uint64_t now_us)
{
    struct sl_ratio_state was = ratio->seen;

    take_reading(ratio, part, whole, now_us);
    ratio->now = window(ratio, SL_RATIO_WINDOW_S);
    if (ratio->usual.n >= ratio->mature) {
        judge_change(ratio);
        judge_all(ratio);
        publish(ratio, &was);
    }
    sample(ratio, now_us);
}
