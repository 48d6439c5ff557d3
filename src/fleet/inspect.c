/* The buckets of one key, wherever they lie: the table's at once, the store's by a call each. */
#include "fleet/internal.h"

#include "base/err.h"

struct visit;

/* One bucket of the store that is being asked about. */
struct visited {
    struct visit *visit;
    const struct sl_limit *limit;
    const char *endpoint;
    unsigned rate_idx;
    const struct sl_shape *shape;
    struct sl_hash128 fp;
};

struct visit {
    struct sl_lane *lane;
    struct sl_policy *policy;
    struct sl_lane_visitor visitor;
    bool reset, boarding;
    size_t n, unknown, n_open;
    unsigned n_visited;
    struct visited visited[SL_INSPECT_BUCKETS_MAX];
};

static void look_over(struct visit *v)
{
    struct sl_alloc alloc = v->lane->fleet->alloc;
    struct sl_lane_visitor visitor = v->visitor;
    size_t n = v->n, unknown = v->unknown;

    if (v->n_open > 0 || v->boarding)
        return;
    sl_policy_unref(v->policy);
    sl_free(&alloc, v);
    visitor.done(visitor.ctx, n, unknown);
}

/* Tells of the bucket unless it is whole. */
static bool show(const struct visited *b, const struct sl_reply *reply)
{
    struct sl_bucket_info info = {.limit = b->limit, .endpoint = b->endpoint, .rate_idx = b->rate_idx};
    const uint32_t cost = 0;
    struct sl_answer answer;
    struct sl_answer_group group;
    struct sl_decision peek;

    if (reply->type != SL_REPLY_STRING || sl_answer_open(&answer, reply->text, reply->n) != 0 ||
        sl_answer_next(&answer, &b->shape, 1, &group) != 0 || group.failed ||
        sl_answer_decide(&group, &cost, &peek) < 0 || sl_answer_end(&group) != 0)
        return false;
    sl_decision_numbers(b->shape, &peek, &info.numbers);
    if (info.numbers.reset_after_ms == 0)
        return true;
    b->visit->n++;
    b->visit->visitor.bucket(b->visit->visitor.ctx, &info);
    return true;
}

static void on_answer(void *ctx, enum sl_result result, const struct sl_reply *reply)
{
    struct visited *b = ctx;
    struct visit *v = b->visit;

    v->n_open--;
    if (result != SL_RESULT_OK)
        v->unknown++;
    else if (!v->reset)
        v->unknown += !show(b, reply);
    else if (reply->type == SL_REPLY_INTEGER)
        v->n += reply->integer > 0;
    if (v->reset) /* whatever became of it: what is known here is of before */
        sl_fleet_forget(v->lane->fleet, b->fp);
    look_over(v);
}

static enum sl_result ask_about(struct visited *b, struct sl_client *client, struct sl_word key)
{
    uint8_t bytes[SL_ASK_HEADER_MAX + SL_GROUP_SIZE(1, 1)];
    const struct sl_word words[] = {SL_WORD("DEL"), key};
    const uint32_t cost = 0;
    struct sl_ask ask;
    struct sl_script_call call = {.keys = &key, .n_keys = 1, .ask = bytes};

    if (b->visit->reset)
        return sl_client_command(client, words, 2, &key, 0, on_answer, b);
    sl_ask_start(&ask, bytes, sizeof bytes);
    if (sl_ask_group(&ask, &b->shape, 1) != 0 || sl_ask_request(&ask, &cost) != 0)
        return SL_RESULT_NOMEM;
    call.ask_len = ask.len;
    return sl_client_script(client, &call, 0, on_answer, b);
}

/* One bucket, or one part of a split one. */
static void visit_one(struct visit *v, const struct sl_bucket_place *place, const struct sl_part *part)
{
    struct sl_client *client = sl_lane_client(v->lane, part->store);
    char bytes[SL_STORE_KEY_MAX];
    struct sl_word key = {bytes, sl_lane_key(v->lane, part->item.fp, part->owner, bytes)};
    struct visited *b;

    if (!client || v->n_visited == SL_INSPECT_BUCKETS_MAX) {
        v->unknown++;
        return;
    }
    b = &v->visited[v->n_visited++];
    *b = (struct visited){.visit = v,
                          .limit = place->limit,
                          .endpoint = place->endpoint,
                          .rate_idx = place->rate_idx,
                          .shape = part->item.shape,
                          .fp = part->item.fp};
    v->n_open++;
    if (ask_about(b, client, key) != SL_RESULT_OK) {
        v->n_open--;
        v->unknown++;
    }
}

static bool visit_place(void *ctx, const struct sl_bucket_place *place)
{
    struct visit *v = ctx;
    struct sl_item item = {.limit = place->limit,
                           .shape = &place->limit->shapes[place->rate_idx],
                           .fp = place->fp,
                           .rate_idx = (uint16_t)place->rate_idx};
    struct sl_part part = {.item = item};
    struct sl_hash128 owner;
    unsigned store;

    if (!sl_policy_bucket_owner(v->policy, place->limit, place->request, &place->fp, &owner, &store)) {
        v->unknown++;
        return false;
    }
    part.owner = owner;
    if (store && place->limit->per & SL_PER_KEY) /* as near.c has it */
        part.store = (uint16_t)sl_fleet_store(v->lane->fleet, sl_policy_dedicated_store(v->policy, store - 1));
    if (!place->limit->shared->n_parts)
        visit_one(v, place, &part);
    for (unsigned at = 0; at < place->limit->shared->n_parts; at++) {
        sl_part_split(&part, &item, owner, at);
        visit_one(v, place, &part);
    }
    if (v->reset)
        sl_fleet_forget(v->lane->fleet, place->fp);
    return false; /* counted when the store has answered */
}

static void visit_bucket(void *ctx, const struct sl_bucket_info *info)
{
    struct visit *v = ctx;

    v->visitor.bucket(v->visitor.ctx, info);
}

int sl_lane_inspect(struct sl_lane *lane, const struct sluice_request *request, bool reset,
                    const struct sl_lane_visitor *visitor, const char **ret_field, const char **ret_why)
{
    struct sl_limiter *limiter = lane->fleet->limiter;
    struct sl_policy *policy = sl_limiter_policy(limiter);
    struct sl_request_buffer buffer;
    struct sluice_request checked;
    struct visit *v = NULL;
    int err = sl_check_request(policy, request, &checked, &buffer, ret_field, ret_why);

    if (err == 0 && !(v = sl_calloc(&lane->fleet->alloc, 1, sizeof *v)))
        err = SL_ENOMEM;
    if (err != 0) {
        sl_policy_unref(policy);
        return err;
    }
    v->lane = lane;
    v->policy = policy;
    v->visitor = *visitor;
    v->reset = reset;
    v->boarding = true;
    v->n += sl_limiter_walk(limiter, policy, request, reset, visit_bucket, visit_place, v);
    v->boarding = false;
    look_over(v);
    return 0;
}
