#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define GIVE_BACK_MAX 100

static bool is_log(const struct model *m)
{
    return m->shape.algorithm == SL_SLIDING_WINDOW_LOG;
}

/* Entries from the future are taken together as one of now. */
static void log_heal(struct model *m, uint64_t now_us)
{
    uint32_t ahead = 0;

    while (m->n_entries && m->entries[m->n_entries - 1].t_us > now_us)
        ahead += m->entries[--m->n_entries].cost;
    if (ahead)
        m->entries[m->n_entries++] = (struct model_entry){now_us, ahead};
}

void model_begin(struct model **models, unsigned n, uint64_t now_us, bool peek)
{
    for (unsigned i = 0; i < n; i++) {
        struct model *m = models[i];
        struct sl_decision d;

        m->charged = m->healed = false;
        if (is_log(m)) {
            if (!peek)
                log_heal(m, now_us);
            continue;
        }
        sl_decide(&m->shape, m->stored ? m->state : (struct sl_state){0}, now_us, UINT32_MAX, &d);
        m->now_state = d.before;
        m->healed = d.changed;
    }
}

static void log_look(const struct model *m, uint64_t now_us, uint32_t cost, struct sl_decision *d)
{
    uint64_t sum = 0, newest_us = 0, freed = 0;

    for (size_t i = 0; i < m->n_entries; i++) {
        if (!sl_log_in_force(&m->shape, m->entries[i].t_us, now_us))
            continue;
        sum += m->entries[i].cost;
        newest_us = m->entries[i].t_us < now_us ? m->entries[i].t_us : now_us;
    }
    sl_log_decide(&m->shape, sum, newest_us, now_us, cost, d);
    if (d->allowed || d->never)
        return;
    for (size_t i = 0; i < m->n_entries; i++) {
        if (sl_log_in_force(&m->shape, m->entries[i].t_us, now_us) &&
            sl_log_fit(&m->shape, d, &freed, m->entries[i].t_us, m->entries[i].cost))
            return;
    }
    fail_msg("the log is full of nothing");
}

static void spend(struct model *m, const struct sl_decision *d)
{
    if (d->cost == 0)
        return;
    if (!is_log(m)) {
        m->now_state = d->after;
    } else if (m->charged) {
        m->entries[m->n_entries - 1].cost += d->cost;
    } else {
        assert_true(m->n_entries < MODEL_ENTRIES_MAX);
        m->entries[m->n_entries++] = (struct model_entry){d->now_us, d->cost};
    }
    m->charged = true;
}

bool model_decide(struct model **models, unsigned n, uint64_t now_us, const uint32_t *costs, struct sl_decision *ret)
{
    bool allowed = true;

    for (unsigned i = 0; i < n; i++) {
        if (is_log(models[i]))
            log_look(models[i], now_us, costs[i], &ret[i]);
        else
            sl_decide(&models[i]->shape, models[i]->now_state, now_us, costs[i], &ret[i]);
        allowed = allowed && ret[i].allowed;
    }
    for (unsigned i = 0; i < n && allowed; i++)
        spend(models[i], &ret[i]);
    return allowed;
}

void model_end(struct model **models, unsigned n, uint64_t now_us, bool peek)
{
    for (unsigned i = 0; i < n && !peek; i++) {
        struct model *m = models[i];
        size_t dead = 0;

        if (!is_log(m)) {
            if (m->charged || m->healed) {
                m->state = m->now_state;
                m->stored = true;
            }
            continue;
        }
        while (m->charged && dead < m->n_entries && !sl_log_in_force(&m->shape, m->entries[dead].t_us, now_us))
            dead++;
        memmove(m->entries, m->entries + dead, (m->n_entries - dead) * sizeof *m->entries);
        m->n_entries -= dead;
    }
}

static bool log_refund(struct model *m, const struct sl_decision *charge, uint64_t now_us)
{
    size_t first = 0;

    if (!sl_log_in_force(&m->shape, charge->now_us, now_us))
        return false;
    while (first < m->n_entries && m->entries[first].t_us < charge->now_us)
        first++;
    if (m->n_entries - first >= GIVE_BACK_MAX)
        return false;
    for (size_t i = first; i < m->n_entries && m->entries[i].t_us == charge->now_us; i++) {
        if (m->entries[i].cost < charge->cost)
            continue;
        m->entries[i].cost -= charge->cost;
        if (m->entries[i].cost == 0)
            memmove(m->entries + i, m->entries + i + 1, (--m->n_entries - i) * sizeof *m->entries);
        return true;
    }
    return false;
}

bool model_refund(struct model *m, const struct sl_decision *charge, uint64_t now_us)
{
    if (is_log(m))
        return log_refund(m, charge, now_us);
    if (!m->stored || !sl_refund(&m->shape, m->state, charge, now_us, &m->state))
        return false;
    m->stored =
        sl_state_whole_us(m->state) + (sl_algorithm_is_bucket(m->shape.algorithm) && (uint32_t)m->state.hi) > now_us;
    return true;
}
