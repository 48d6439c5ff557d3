#include "store/breaker.h"

#include <string.h>

void sl_breaker_init(struct sl_breaker *breaker)
{
    *breaker = (struct sl_breaker){.state = SL_BREAKER_CLOSED};
}

void sl_breaker_reset(struct sl_breaker *breaker)
{
    *breaker = (struct sl_breaker){.state = SL_BREAKER_CLOSED, .generation = breaker->generation + 1};
}

static uint64_t probe_delay_us(uint64_t random)
{
    uint64_t spread = SL_BREAKER_PROBE_US * SL_BREAKER_JITTER_PERCENT / 100;

    return SL_BREAKER_PROBE_US - spread + random % (2 * spread + 1);
}

static void open_breaker(struct sl_breaker *breaker, uint64_t from_us, uint64_t random)
{
    breaker->state = SL_BREAKER_OPEN;
    breaker->generation++;
    breaker->next_probe_us = from_us + probe_delay_us(random);
}

enum sl_breaker_answer sl_breaker_ask(struct sl_breaker *breaker, uint64_t now_us, uint64_t deadline_us,
                                      uint64_t random, uint32_t *ret_generation)
{
    if (breaker->state == SL_BREAKER_HALF_OPEN && now_us > breaker->probe_deadline_us)
        open_breaker(breaker, breaker->probe_deadline_us, random); /* nobody told us what became of it */
    if (breaker->state == SL_BREAKER_CLOSED) {
        *ret_generation = breaker->generation;
        return SL_BREAKER_PASS;
    }
    if (breaker->state == SL_BREAKER_HALF_OPEN || now_us < breaker->next_probe_us)
        return SL_BREAKER_REFUSE;
    breaker->state = SL_BREAKER_HALF_OPEN;
    breaker->probe_deadline_us = deadline_us;
    *ret_generation = ++breaker->generation;
    return SL_BREAKER_PROBE;
}

/* Moves the window to now_us; parts that were skipped are empty. */
static void advance(struct sl_breaker *breaker, uint64_t now_us)
{
    uint64_t part = now_us / SL_BREAKER_PART_US;

    if (part >= breaker->part + SL_BREAKER_PARTS)
        memset(breaker->parts, 0, sizeof breaker->parts);
    else
        for (uint64_t p = breaker->part + 1; p <= part; p++)
            memset(&breaker->parts[p % SL_BREAKER_PARTS], 0, sizeof *breaker->parts);
    if (part > breaker->part)
        breaker->part = part;
}

static bool too_many_bad(const struct sl_breaker *breaker)
{
    uint64_t calls = 0, bad = 0;

    for (unsigned i = 0; i < SL_BREAKER_PARTS; i++) {
        calls += breaker->parts[i].calls;
        bad += breaker->parts[i].bad;
    }
    return calls >= SL_BREAKER_CALLS && 2 * bad >= calls;
}

static bool report_probe(struct sl_breaker *breaker, uint64_t now_us, enum sl_breaker_result result, uint64_t random)
{
    if (result == SL_BREAKER_GOOD)
        sl_breaker_reset(breaker);
    else
        open_breaker(breaker, now_us, random);
    return true;
}

bool sl_breaker_report(struct sl_breaker *breaker, uint64_t now_us, uint32_t generation, enum sl_breaker_result result,
                       uint64_t random)
{
    if (generation != breaker->generation)
        return false;
    if (breaker->state == SL_BREAKER_HALF_OPEN)
        return report_probe(breaker, now_us, result, random);
    if (breaker->state == SL_BREAKER_OPEN || result == SL_BREAKER_UNKNOWN)
        return false;
    advance(breaker, now_us);
    breaker->parts[breaker->part % SL_BREAKER_PARTS].calls++;
    breaker->parts[breaker->part % SL_BREAKER_PARTS].bad += result != SL_BREAKER_GOOD;
    breaker->timeouts = result == SL_BREAKER_TIMED_OUT ? breaker->timeouts + 1 : 0;
    if (breaker->timeouts < SL_BREAKER_TIMEOUTS && !too_many_bad(breaker))
        return false;
    open_breaker(breaker, now_us, random);
    return true;
}

uint64_t sl_breaker_wait_us(const struct sl_breaker *breaker, uint64_t now_us)
{
    uint64_t until;

    if (breaker->state == SL_BREAKER_CLOSED)
        return 0;
    /* After a silent probe the next one comes a delay later; the least that can be said is the shortest delay. */
    until = breaker->state == SL_BREAKER_OPEN ? breaker->next_probe_us : breaker->probe_deadline_us + probe_delay_us(0);
    return until > now_us ? until - now_us : 0;
}
