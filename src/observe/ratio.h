/* A share of what is decided (rejections of a limit's decisions, anonymous ones of all) and whether it has changed.
 *
 * Fed with two counters that only grow, once a second. The share of now is that of the last ten seconds. What is usual is
 * the range in which it lay in most of the samples of the last hour of traffic, one in ten seconds: the 10th to the 90th
 * percentile, so that neither a steady share, however high, nor one that swings, nor one that drifts over hours is a
 * change. Seconds with few decisions are neither judged nor remembered: in the morning yesterday's evening is usual.
 *
 *   risen, fallen   the share has left its usual range, by more than SL_RATIO_MARGIN and than chance explains, for
 *                   SL_RATIO_STEADY feeds: a few large keys near their limit are rejected in clumps. A fall only counts while
 *                   traffic goes on: when a flood ends, its rejections end with it.
 *   all             nearly everything, and what used to be the rest has all but stopped: more of the one beside as much of
 *                   the other as ever is not it. Judged by the last three seconds.
 *   none            nearly nothing, while traffic goes on.
 *
 * Each is given up at half of its margin (hysteresis). While one lasts nothing is remembered, for at most
 * SL_RATIO_STUBBORN samples: then what was a change slowly becomes usual, within six minutes more.
 *
 * What begins in a trouble that explains it (sl_ratio_trouble) is excused: it is no state, until the share has been usual
 * for SL_RATIO_CALM feeds. Nothing is remembered in trouble, nor while something is excused, for at most
 * SL_RATIO_EXCUSED samples.
 *
 *     sl_ratio_init(&ratio, 30, 0.99, now_us);
 *     sl_ratio_feed(&ratio, rejected, decided, now_us);       once a second
 *     if (ratio.state.risen) ...
 *
 * Time and counters are arguments; pure. Not thread-safe. */
#ifndef SL_OBSERVE_RATIO_H
#define SL_OBSERVE_RATIO_H

#include <stdbool.h>
#include <stdint.h>

#define SL_RATIO_WINDOW_S 10u
#define SL_RATIO_SUDDEN_S 3u
#define SL_RATIO_STEADY 20u
#define SL_RATIO_SAMPLE_US UINT64_C(10000000)
#define SL_RATIO_SAMPLES 360u
#define SL_RATIO_STUBBORN 90u
#define SL_RATIO_EXCUSED 360u
#define SL_RATIO_CALM 60u
#define SL_RATIO_MARGIN 0.10
#define SL_RATIO_LEAST 100u       /* decisions in ten seconds, to be judged and remembered */
#define SL_RATIO_LEAST_SUDDEN 30u /* in three, for `all` */

/* The last window, in units of the counters. */
struct sl_ratio_window {
    double share;       /* 0 ... 1; 0 when there was nothing */
    double whole, rest; /* a second */
    uint64_t n;
};

struct sl_ratio_usual {
    unsigned n;         /* samples it comes from */
    double low, high;   /* of the share */
    double whole, rest; /* a second: the median, and what it was at least in nine samples of ten */
};

struct sl_ratio_state {
    bool risen, fallen, all, none;
};

/* What a trouble explains, or-ed. */
enum sl_ratio_trouble {
    SL_RATIO_FALLS = 1, /* fallen, none */
    SL_RATIO_ALL = 2,   /* all */
};

struct sl_ratio_reading {
    uint64_t at_us, part, whole;
};

struct sl_ratio {
    struct sl_ratio_state state;   /* what is seen and not excused */
    struct sl_ratio_state excused; /* sticks until all is calm */
    struct sl_ratio_window now;
    struct sl_ratio_usual usual;
    unsigned mature; /* samples before risen, fallen, all and none are judged */
    double all_at;
    struct sl_ratio_state seen;
    unsigned trouble;          /* enum sl_ratio_trouble */
    unsigned n_above, n_below; /* feeds, in a row, at which the share was beyond its usual range */
    unsigned calm;             /* feeds, judged, without anything seen, in a row */
    /* the last readings, a ring */
    struct sl_ratio_reading readings[SL_RATIO_WINDOW_S + 1];
    unsigned n_readings, newest;
    /* samples, a ring */
    uint64_t sample_at_us; /* when the next one is due */
    unsigned held;         /* not taken, in a row, because something lasts or is excused */
    unsigned n_samples, next_sample;
    uint16_t shares[SL_RATIO_SAMPLES]; /* of UINT16_MAX */
    float wholes[SL_RATIO_SAMPLES];    /* a second */
};

/* Nothing is known. mature: 1 ... SL_RATIO_SAMPLES. all_at: the share that is nearly everything, 0.5 ... 1. */
void sl_ratio_init(struct sl_ratio *ratio, unsigned mature, double all_at, uint64_t now_us);

/* The counters as they are now: about once a second. part <= whole; a counter that went back counts as standing still. */
void sl_ratio_feed(struct sl_ratio *ratio, uint64_t part, uint64_t whole, uint64_t now_us);

/* What is going wrong elsewhere, from the next feed on, and explains; 0: nothing. */
void sl_ratio_trouble(struct sl_ratio *ratio, unsigned explains);

/* Is a fall excused now, and there? */
bool sl_ratio_is_excused_fall(const struct sl_ratio *ratio);

/* The share since ten seconds before the last feed, with the counters as they are at this moment. */
double sl_ratio_share(const struct sl_ratio *ratio, uint64_t part, uint64_t whole);

#endif
