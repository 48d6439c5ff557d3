/* What all instances on the store counted of one candidate: each tells the store its sums once a second.
 *
 *     NAMESPACE:shadow:{fleet}:shadow:counts:VERSION   hash   instance -> the live policy, and the counts
 *
 * The counts of an instance that has gone stay: it decided its part. Only those that compare with the same live
 * policy are added up. The key goes a day after the last one told it. */
#include "control/task.h"
#include "sluiced/rehearsal.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTS 7u
#define LIVE_HEX 16 /* of the live policy's hash */
#define TEXT_MAX 256

static const char tell_script[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= "
                                  "tonumber(ARGV[4]) then return 0 end\n"
                                  "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])\n"
                                  "redis.call('PEXPIRE', KEYS[1], ARGV[3])\n"
                                  "return 1\n";

static struct sl_control_key counts_key(const struct sl_rehearsal *rehearsal)
{
    return sl_control_key(rehearsal->ns, "shadow:counts:%" PRIu64, rehearsal->version.number);
}

static void take_counts(struct sl_rehearsal *rehearsal, uint64_t counts[static COUNTS])
{
    struct sl_shadow_figures figures;

    sl_shadow_figures(rehearsal->shadow, &figures);
    memcpy(counts, figures.compared.n, SL_OUTCOMES * sizeof *counts);
    counts[4] = figures.compared.undecided;
    counts[5] = figures.refused;
    counts[6] = figures.dropped;
}

static_assert(SL_OUTCOMES + 3 == COUNTS, "outcomes, undecided, refused, dropped");

/* ---- telling */

static void on_told(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_rehearsal *rehearsal = ctx;

    (void)result; /* the next one comes in a second */
    (void)reply;
    rehearsal->telling = false;
}

static int instance_name(const struct sl_rehearsal *rehearsal, char name[static 20])
{
    return snprintf(name, 20, "%016" PRIx64, sl_fleet_id(rehearsal->set.tier->fleet));
}

void sl_rehearsal_tell(struct sl_rehearsal *rehearsal)
{
    static const char life[] = SL_REHEARSAL_COUNTS_LIFE_MS, most[] = SL_REHEARSAL_INSTANCES_MAX;
    struct sl_control_key key = counts_key(rehearsal);
    uint64_t counts[COUNTS], now = uv_now(rehearsal->set.loop);
    char name[20], text[TEXT_MAX];
    struct sl_word args[4];
    size_t used;

    if (!sl_shadow_runs(rehearsal->shadow) || !rehearsal->follow || rehearsal->telling ||
        now < rehearsal->told_ms + SL_REHEARSAL_TELL_MS)
        return;
    take_counts(rehearsal, counts);
    used = (size_t)snprintf(text, sizeof text, "%.*s", LIVE_HEX, rehearsal->live);
    for (unsigned i = 0; i < COUNTS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %" PRIu64, counts[i]);
    args[0] = (struct sl_word){name, (size_t)instance_name(rehearsal, name)};
    args[1] = (struct sl_word){text, used};
    args[2] = (struct sl_word){life, sizeof life - 1};
    args[3] = (struct sl_word){most, sizeof most - 1};
    rehearsal->told_ms = now;
    rehearsal->telling =
        sl_control_eval(&rehearsal->place, tell_script, &key, 1, args, 4, on_told, rehearsal) == SL_CONTROL_OK;
}

/* ---- adding up */

struct sums {
    unsigned n_instances;
    uint64_t counts[COUNTS];
};

static void add(struct sums *sums, const uint64_t counts[static COUNTS])
{
    sums->n_instances++;
    for (unsigned i = 0; i < COUNTS; i++)
        sums->counts[i] += counts[i];
}

/* Whatever does not read as counts is none of ours, and left out. */
static bool read_counts(const struct sl_reply *field, const char *live, uint64_t counts[static COUNTS])
{
    char text[TEXT_MAX], *at = text + LIVE_HEX, *end;

    if (field->type != SL_REPLY_STRING || field->n >= sizeof text || field->n < LIVE_HEX ||
        memcmp(field->text, live, LIVE_HEX) != 0)
        return false;
    memcpy(text, field->text, field->n);
    text[field->n] = '\0';
    for (unsigned i = 0; i < COUNTS; i++) {
        if (at[0] != ' ' || at[1] < '0' || at[1] > '9')
            return false;
        counts[i] = strtoull(at, &end, 10);
        at = end;
    }
    return *at == '\0';
}

static json_t *sums_json(const struct sums *sums)
{
    const uint64_t *n = sums->counts;
    uint64_t all = n[SL_BOTH_ALLOWED] + n[SL_BOTH_REJECTED] + n[SL_NEWLY_REJECTED] + n[SL_NEWLY_ALLOWED];

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "instances", (json_int_t)sums->n_instances,
                     "decisions", (json_int_t)all, "allowed", (json_int_t)n[SL_BOTH_ALLOWED], "rejected",
                     (json_int_t)n[SL_BOTH_REJECTED], "newlyRejected", (json_int_t)n[SL_NEWLY_REJECTED], "newlyAllowed",
                     (json_int_t)n[SL_NEWLY_ALLOWED], "undecided", (json_int_t)n[4], "refused", (json_int_t)n[5],
                     "dropped", (json_int_t)n[6]);
}

/* Its own part is taken as it is now, not as it was told. */
static json_t *add_up(struct sl_rehearsal *rehearsal, const struct sl_reply *reply)
{
    struct sums sums = {.n_instances = 0};
    uint64_t counts[COUNTS];
    char name[20];
    int len = instance_name(rehearsal, name);

    take_counts(rehearsal, counts);
    add(&sums, counts);
    for (size_t i = 0; i + 1 < reply->n; i += 2) {
        const struct sl_reply *of = reply->elements[i];
        bool own = of->type == SL_REPLY_STRING && of->n == (size_t)len && !memcmp(of->text, name, of->n);

        if (!own && read_counts(reply->elements[i + 1], rehearsal->live, counts))
            add(&sums, counts);
    }
    return sums_json(&sums);
}

struct report {
    struct sl_rehearsal *rehearsal;
    struct sl_policy_job *job;
};

static void on_asked(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct report *report = ctx;
    struct sl_rehearsal *rehearsal = report->rehearsal;
    json_t *fleet = NULL;

    if (result == SL_RESULT_OK && reply->type == SL_REPLY_ARRAY && sl_shadow_runs(rehearsal->shadow))
        fleet = add_up(rehearsal, reply);
    sl_rehearsal_answer(report->job, sl_rehearsal_json(rehearsal, report->job->with_text, fleet));
    free(report);
}

void sl_rehearsal_report_shared(struct sl_rehearsal *rehearsal, struct sl_policy_job *job)
{
    struct sl_control_key key = counts_key(rehearsal);
    const struct sl_word words[] = {{"HGETALL", 7}, sl_control_word(&key)};
    struct report *report = sl_shadow_runs(rehearsal->shadow) ? malloc(sizeof *report) : NULL;

    if (report) {
        *report = (struct report){rehearsal, job};
        if (sl_control_ask(&rehearsal->place, words, 2, &key, on_asked, report) == SL_CONTROL_OK)
            return;
        free(report);
    }
    sl_rehearsal_answer(job, sl_rehearsal_json(rehearsal, job->with_text, NULL));
}
