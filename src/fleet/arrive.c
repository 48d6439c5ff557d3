/* What comes back: a call's answer, taken apart for everybody who asked in it. */
#include "fleet/internal.h"

#include <string.h>

static uint64_t wait_of(const struct sl_lane *lane, const struct sl_crate *crate, const struct sl_leg *leg)
{
    const struct sl_part *part = &leg->flight->parts[leg->parts[0]];
    struct sl_client *client = lane->stores[crate->store].client;
    char key[SL_STORE_KEY_MAX];
    size_t len = sl_lane_key(lane, part->item.fp, part->owner, key);

    return client ? sl_client_wait_us(client, key, len) : 0;
}

static void fail_legs(struct sl_lane *lane, const struct sl_crate *crate, struct sl_load *load)
{
    for (struct sl_leg *leg = load->legs, *next; leg; leg = next) {
        next = leg->next;
        sl_leg_failed(leg, wait_of(lane, crate, leg));
    }
}

static void fail(struct sl_lane *lane, const struct sl_crate *crate, struct sl_load *load, enum sl_result result)
{
    switch (load->kind) {
    case SL_LOAD_LEGS:
        fail_legs(lane, crate, load);
        break;
    case SL_LOAD_DEBIT:
        sl_lease_failed(lane->fleet->leases, load->errand.fp, load->errand.tokens, sl_result_ambiguous(result));
        break;
    case SL_LOAD_GIVE_BACK:
        sl_fleet_add(lane->fleet, SL_FC_TOKENS_LOST, load->errand.tokens);
        break;
    case SL_LOAD_REFUND:
        sl_fleet_add(lane->fleet, SL_FC_REFUNDS_LOST, load->n);
        break;
    }
}

/* ---- answers by kind; false: this is no answer to what was asked */

static void count_foreign(struct sl_lane *lane, const struct sl_answer_group *group)
{
    for (unsigned i = 0; i < group->n; i++)
        if (group->buckets[i].foreign)
            sl_fleet_add(lane->fleet, SL_FC_FOREIGN, 1);
}

/* The verdicts of one leg, as core computes them from the states that came back: 1, 0 or negative. */
static int decide_leg(struct sl_answer_group *group, struct sl_leg *leg)
{
    struct sl_decision decisions[SL_ITEMS_MAX];
    uint32_t costs[SL_ITEMS_MAX];
    int allowed;

    for (unsigned i = 0; i < leg->n; i++)
        costs[i] = leg->flight->parts[leg->parts[i]].item.cost;
    allowed = sl_answer_decide(group, costs, decisions);
    for (unsigned i = 0; allowed >= 0 && i < leg->n; i++)
        leg->flight->parts[leg->parts[i]].decision = decisions[i];
    return allowed;
}

/* Decides all legs before any of them is told: only when all of them agree with what the store did may the verdicts be
 * used. */
static bool arrive_legs(struct sl_lane *lane, const struct sl_crate *crate, struct sl_load *load,
                        struct sl_answer *answer)
{
    struct sl_answer_group group;
    uint8_t allowed[SL_GROUP_RUNS_MAX];
    unsigned i = 0;

    if (sl_answer_next(answer, load->shapes, load->n, &group) != 0)
        return false;
    if (group.failed) {
        count_foreign(lane, &group);
        fail_legs(lane, crate, load);
        return true;
    }
    for (struct sl_leg *leg = load->legs; leg; leg = leg->next, i++) {
        int result = decide_leg(&group, leg);

        if (result < 0)
            return false;
        allowed[i] = (uint8_t)result;
    }
    if (sl_answer_end(&group) != 0)
        return false;
    i = 0;
    for (struct sl_leg *leg = load->legs, *next; leg; leg = next, i++) {
        next = leg->next;
        leg->asked_us = crate->asked_us;
        sl_leg_answered(leg, allowed[i] != 0);
    }
    load->legs = NULL;
    return true;
}

static bool arrive_debit(struct sl_lane *lane, const struct sl_crate *crate, struct sl_load *load,
                         struct sl_answer *answer)
{
    const struct sl_shape *shape = &load->debit_shape;
    const struct sl_lease_bucket bucket = {
        .fp = load->errand.fp, .who = load->errand.who, .store = load->errand.store, .shape = &load->errand.shape};
    struct sl_answer_group group;
    struct sl_decision decision;

    if (sl_answer_next(answer, &shape, 1, &group) != 0)
        return false;
    if (group.failed) {
        count_foreign(lane, &group);
        sl_lease_failed(lane->fleet->leases, load->errand.fp, load->errand.tokens, false);
        return true;
    }
    if (sl_answer_decide(&group, &load->errand.tokens, &decision) < 0 || sl_answer_end(&group) != 0)
        return false;
    sl_lease_granted(lane->fleet->leases, &bucket, &load->errand.terms, &decision, crate->asked_us,
                     sl_table_now(lane->fleet->limiter->table));
    return true;
}

/* What comes back makes room: rejections pronounced meanwhile are not true any more. */
static bool arrive_refund(struct sl_lane *lane, const struct sl_load *load, struct sl_answer *answer)
{
    unsigned given;

    if (sl_answer_refund(answer, &given) != 0)
        return false;
    for (unsigned i = 0; given > 0 && load->kind == SL_LOAD_REFUND && i < load->n; i++)
        sl_deny_forget(lane->fleet->deny, load->refunds[i].fp);
    if (given > 0 && load->kind == SL_LOAD_GIVE_BACK)
        sl_deny_forget(lane->fleet->deny, load->errand.fp);
    return true;
}

static bool arrive(struct sl_lane *lane, const struct sl_crate *crate, struct sl_load *load, struct sl_answer *answer)
{
    switch (load->kind) {
    case SL_LOAD_LEGS:
        return arrive_legs(lane, crate, load, answer);
    case SL_LOAD_DEBIT:
        return arrive_debit(lane, crate, load, answer);
    default:
        return arrive_refund(lane, load, answer);
    }
}

void sl_crate_done(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct sl_crate *crate = ctx;
    struct sl_lane *lane = crate->lane;
    struct sl_answer answer;

    lane->n_crates_out--;
    if (result == SL_RESULT_OK) {
        sl_fleet_add(lane->fleet, SL_FC_ANSWERED, 1);
        sl_leases_note_rtt(lane->fleet->leases, sl_lane_now(lane) - crate->sent_us);
        if (reply->type != SL_REPLY_STRING || sl_answer_open(&answer, reply->text, reply->n) != 0)
            result = SL_RESULT_PROTOCOL;
    } else if (reply && reply->type == SL_REPLY_ERROR && sl_result_breaker(result) == SL_BREAKER_GOOD) {
        sl_lane_refused(lane, crate->store, result, reply->text);
    }
    for (struct sl_load *load = crate->loads, *next; load; load = next) {
        next = load->next;
        if (result == SL_RESULT_OK && !arrive(lane, crate, load, &answer))
            result = SL_RESULT_PROTOCOL; /* nothing behind this can be told apart any more */
        if (result != SL_RESULT_OK)
            fail(lane, crate, load, result);
        sl_load_free(lane, load);
    }
    sl_crate_free(crate);
    sl_lane_look_done(lane);
}
