/* A daemon without a network, in virtual time: a real limiter, the real watches, a look once a second, and a record of what
 * each alarm did. Traffic is drawn by chance from flows, the same at each run. */
#ifndef TESTS_OBSERVE_SCENE_H
#define TESTS_OBSERVE_SCENE_H

#include "../limiter/kit.h"
#include "observe/store_watch.h"
#include "observe/watch_health.h"
#include "observe/watch_ratio.h"

#define SCENE_FLOW_KEYS_MAX 1000u
#define SCENE_LINES_MAX 64u

/* So many requests a second on average, at random moments, of keys chosen at random among n_keys. */
struct flow {
    const char *name; /* keys are NAME0, NAME1 ... */
    unsigned n_keys;
    bool anonymous; /* key type address: keys are addresses instead, all of this flow's from n_keys on `first` */
    unsigned first;
    double per_second;
};

struct scene {
    struct kit kit;
    struct sl_alarms alarms;
    struct sl_alloc alloc;
    struct sl_ratio_watch *ratios;
    struct sl_health_watch health;
    struct sl_store_watch *store;
    bool shared; /* the limiter's decisions count as the store's */
    bool reached, breaker_open;
    uint64_t random, begun_us;
    /* of this second's anonymous requests, by address */
    unsigned addresses[SCENE_FLOW_KEYS_MAX], n_anonymous;
    double hottest;
    /* what became of each alarm since scene_mark */
    uint64_t marked_us, raised_us[SL_ALARMS], ended_us[SL_ALARMS];
    unsigned n_raised[SL_ALARMS];
    unsigned n_lines;
    char lines[SCENE_LINES_MAX][SL_ALARM_SENTENCE_MAX];
};

void scene_open(struct scene *s, const char *policy);
void scene_close(struct scene *s);

/* Seconds of these flows. */
void scene_run(struct scene *s, unsigned seconds, const struct flow *flows, size_t n);
/* ... whose rates become those of `to`, evenly. */
void scene_ramp(struct scene *s, unsigned seconds, const struct flow *flows, const struct flow *to, size_t n);

/* One request now, and the look of a second that is over. */
bool scene_decide(struct scene *s, const char *key, bool anonymous);
void scene_look(struct scene *s);

/* The watches start anew, as after a restart that kept the buckets. */
void scene_restart_watches(struct scene *s);

/* Forgets what alarms did so far; what is raised stays so. */
void scene_mark(struct scene *s);

/* Since the mark this was raised exactly once, at the earliest and latest so many seconds after it. */
void scene_expect(struct scene *s, enum sl_alarm alarm, unsigned earliest_s, unsigned latest_s);
/* Since the mark none was raised but those of these bits. */
void scene_expect_only(struct scene *s, unsigned alarms);
#define ONLY(alarm) (1u << SL_ALARM_##alarm)

bool scene_is_raised(struct scene *s, enum sl_alarm alarm);

/* 0 ... 1 */
double scene_chance(struct scene *s);

#endif
