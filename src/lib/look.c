/* The buckets of a key that lie in the store: looked at, or reset, on the background thread while the caller waits. */
#include "lib/look.h"

#include "base/err.h"

#include <string.h>

/* A bucket as the program will see it, with strings of its own. */
struct found {
    struct sluice_bucket bucket;
    char policy[SLUICE_NAME_MAX];
    char *endpoint;
};

struct look {
    struct sl_ticket ticket;
    const struct sl_alloc *alloc;
    const struct sluice_request *request;
    bool reset;
    struct found *found;
    size_t n_found, room;
    size_t n;
    int err;
    struct sl_wait wait;
};

void sl_bucket_public(const struct sl_bucket_info *info, struct sluice_bucket *ret_bucket)
{
    const struct sl_shape *shape = &info->limit->shapes[info->rate_idx];

    *ret_bucket = (struct sluice_bucket){.policy = info->limit->name,
                                         .endpoint = info->endpoint,
                                         .rate_idx = info->rate_idx,
                                         .dry_run = info->limit->mode == SL_MODE_DRY_RUN,
                                         .limit = info->numbers.limit,
                                         .remaining = info->numbers.remaining,
                                         .period_ms = (int64_t)(shape->period_us / SL_MS_US),
                                         .reset_after_ms = info->numbers.reset_after_ms};
}

static bool make_room(struct look *look)
{
    size_t room = look->room ? 2 * look->room : 16;
    struct found *grown;

    if (look->n_found < look->room)
        return true;
    grown = sl_reallocarray(look->alloc, look->found, room, sizeof *grown);
    if (!grown)
        return false;
    look->found = grown;
    look->room = room;
    return true;
}

static void on_bucket(void *ctx, const struct sl_bucket_info *info)
{
    struct look *look = ctx;
    struct found *found;

    if (!make_room(look)) {
        look->err = SL_ENOMEM;
        return;
    }
    found = &look->found[look->n_found];
    sl_bucket_public(info, &found->bucket);
    memcpy(found->policy, info->limit->name, strlen(info->limit->name) + 1);
    found->endpoint = sl_strndup(look->alloc, info->endpoint, strlen(info->endpoint));
    if (found->endpoint)
        look->n_found++;
    else
        look->err = SL_ENOMEM;
}

static void on_looked(void *ctx, size_t n, size_t unknown)
{
    struct look *look = ctx;

    look->n = n;
    if (look->err == 0 && unknown > 0)
        look->err = SL_EIO;
    sl_wait_done(&look->wait);
}

static void go(struct sl_ticket *ticket, struct sl_lane *lane)
{
    struct look *look = (struct look *)ticket; /* its first member */
    const struct sl_lane_visitor visitor = {.bucket = on_bucket, .done = on_looked, .ctx = look};
    const char *field, *why;
    int err = sl_lane_inspect(lane, look->request, look->reset, &visitor, &field, &why);

    if (err == 0)
        return;
    look->err = err;
    sl_wait_done(&look->wait);
}

static void tell(struct look *look, sluice_bucket_fn *fn, void *ctx)
{
    for (size_t i = 0; i < look->n_found; i++) {
        struct found *found = &look->found[i];

        found->bucket.policy = found->policy;
        found->bucket.endpoint = found->endpoint;
        if (fn && (look->err == 0 || look->err == SL_EIO))
            fn(ctx, &found->bucket);
        sl_free(look->alloc, found->endpoint);
    }
    sl_free(look->alloc, look->found);
}

int sl_tier_look(struct sl_tier *tier, const struct sluice_request *request, bool reset, sluice_bucket_fn *fn,
                 void *ctx, size_t *ret_n)
{
    struct look look = {.ticket.go = go, .alloc = &tier->alloc, .request = request, .reset = reset};

    if (sl_tier_is_here(tier))
        return SL_EBUSY;
    sl_wait_init(&look.wait, 1);
    if (!sl_tier_post(tier, &look.ticket))
        return SL_EIO;
    sl_wait_for(&look.wait, UINT64_MAX);
    tell(&look, fn, ctx);
    if (look.err == 0 && ret_n)
        *ret_n = look.n;
    return look.err;
}
