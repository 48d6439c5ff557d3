#include "sluiced/see.h"

#include "base/clock.h"
#include "base/err.h"
#include "limiter/counters.h"

#include <stdio.h>
#include <string.h>

#define LINES_A_LOOK 100u /* half of what the log takes a second: a trace does not push out all else */

static void turn(void *ctx, bool on)
{
    struct sl_seeing *seeing = ctx;

    sl_witness_set(seeing->traced, on ? SL_SEE_ALL : 0);
}

int sl_seeing_start(struct sl_seeing *seeing, unsigned n_loops, struct sl_top *top, struct sl_witnesses *witnesses,
                    struct sl_log *log)
{
    struct sl_alloc alloc = sl_alloc_system();
    struct sl_clock clock = sl_clock_system();
    struct sl_see *see = &seeing->see;
    struct sl_witness *rejected;
    int err;

    *seeing = (struct sl_seeing){.log = log};
    err = sl_rejections_new(&alloc, n_loops, clock.wall_us(clock.ctx), &see->rejections);
    if (!err)
        err = sl_traces_new(&alloc, &see->traces);
    if (!err)
        err = sl_top_follow_rejections(top, n_loops);
    if (err) {
        sl_seeing_stop(seeing);
        return err;
    }
    see->top = top;
    rejected = sl_witness_add(witnesses, sl_see_rejection, NULL, see);
    seeing->traced = sl_witness_add(witnesses, sl_see_traced, sl_see_wants, see);
    if (!rejected || !seeing->traced) {
        sl_seeing_stop(seeing);
        return SL_EBUSY;
    }
    sl_traces_set_switch(see->traces, turn, seeing);
    sl_witness_set(rejected, SL_SEE_REJECTED);
    return 0;
}

void sl_seeing_stop(struct sl_seeing *seeing)
{
    sl_rejections_free(seeing->see.rejections);
    sl_traces_free(seeing->see.traces);
    *seeing = (struct sl_seeing){0};
}

/* ---- traces in the log */

/* "free:shared:no:0/100 edge:local:yes:399/400": limit, who said so, had it room, remaining and limit. */
static void write_buckets(const struct sl_traced *traced, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < traced->n_items && i < SL_TRACE_ITEMS_MAX && used < size; i++) {
        const struct sl_report_item *item = &traced->items[i];

        used += (size_t)snprintf(buf + used, size - used, "%s%s%s:%s:%s:%lld/%lld", i ? " " : "",
                                 item->dry_run ? "dry_run:" : "", item->name, sluice_source_name(item->source),
                                 item->allowed ? "yes" : "no", (long long)item->remaining, (long long)item->quota);
    }
}

static struct sl_log_field text(const char *name, const char *value)
{
    return (struct sl_log_field){.name = name, .kind = SL_LOG_TEXT, .text = value};
}

static struct sl_log_field number(const char *name, int64_t value)
{
    return (struct sl_log_field){.name = name, .kind = SL_LOG_NUMBER, .number = value};
}

static void log_decision(struct sl_log *log, const struct sl_traced *traced, const struct sl_trace_state *trace)
{
    const struct sluice_verdict *v = &traced->verdict;
    struct sl_date_cache cache = {0};
    char id[17], at[SL_RFC3339_LEN + 1], buckets[2048];
    struct sl_log_field fields[20];
    size_t n = 0;

    snprintf(id, sizeof id, "%016llx", (unsigned long long)trace->id);
    *sl_write_rfc3339(at, (int64_t)(traced->at_us / 1000), &cache) = '\0';
    write_buckets(traced, buckets, sizeof buckets);
    fields[n++] = text("trace", id);
    fields[n++] = number("seq", (int64_t)traced->seq);
    fields[n++] = text("at", at);
    fields[n++] = text("key", trace->key);
    fields[n++] = text("key_type", trace->key_type);
    fields[n++] = text("scope", traced->scope);
    if (traced->cost >= 0)
        fields[n++] = number("cost", traced->cost);
    fields[n++] = text("tier", traced->tier);
    fields[n++] = text("endpoint", traced->endpoint);
    fields[n++] = (struct sl_log_field){.name = "allowed", .kind = SL_LOG_TRUTH, .number = v->allowed};
    if (!v->allowed)
        fields[n++] = text("reason", sluice_reason_name(v->reason));
    fields[n++] = text("source", sluice_source_name(v->source));
    fields[n++] = text("policy", v->policy);
    fields[n++] = number("limit", v->limit);
    fields[n++] = number("remaining", v->remaining);
    fields[n++] = number("retry_after_ms", v->retry_after_ms);
    if (v->dry_run)
        fields[n++] = text("dry_run_policy", v->dry_run_policy);
    fields[n++] = text("buckets", buckets);
    sl_log_fields(log, SL_LOG_INFO, "decision", fields, n);
}

void sl_seeing_look(struct sl_seeing *seeing)
{
    struct sl_trace_state trace;
    struct sl_traced traced;

    for (unsigned i = 0; i < LINES_A_LOOK && sl_traces_next_to_log(seeing->see.traces, &traced, &trace); i++)
        log_decision(seeing->log, &traced, &trace);
    sl_traces_sweep(seeing->see.traces, sl_stopwatch_ns() / 1000);
}
