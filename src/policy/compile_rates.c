/* What becomes of a rate as written: first the ceiling, then the region's share. In this order all regions together keep
 * to the ceiling too. */
#include "policy/compiled.h"
#include "policy/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHOLE_PPM 1000000u

/* ---- the ceiling ------------------------------------------------------------------------------------------------ */

/* x < y as COUNT/PERIOD. */
static bool rate_less(const struct sl_rate *x, const struct sl_rate *y)
{
    return (unsigned __int128)x->count * y->period_us < (unsigned __int128)y->count * x->period_us;
}

static uint32_t burst_of(const struct sl_rate_draft *rate)
{
    return rate->burst ? rate->burst : rate->rate.count;
}

static bool cap_bucket(const struct sl_policy *policy, struct sl_rate_draft *rate)
{
    bool capped = false;

    if (burst_of(rate) > policy->ceiling_burst) {
        rate->burst = policy->ceiling_burst;
        capped = true;
    } else {
        rate->burst = burst_of(rate); /* of the rate as written, also when the ceiling's takes its place below */
    }
    if (rate_less(&policy->ceiling_rate, &rate->rate)) {
        rate->rate = policy->ceiling_rate;
        capped = true;
    }
    return capped;
}

/* COUNT <= floor(ceiling rate * PERIOD), at least 1, and <= the ceiling's burst. */
static bool cap_window(const struct sl_policy *policy, struct sl_rate_draft *rate)
{
    unsigned __int128 most =
        (unsigned __int128)policy->ceiling_rate.count * rate->rate.period_us / policy->ceiling_rate.period_us;

    if (most > policy->ceiling_burst)
        most = policy->ceiling_burst;
    if (most < 1)
        most = 1;
    if (rate->rate.count <= most)
        return false;
    rate->rate.count = (uint32_t)most;
    return true;
}

bool sl_rate_cap(const struct sl_policy *policy, const struct sl_limit *limit, struct sl_rate_draft *rate)
{
    if (!policy->has_ceiling || !(limit->per & SL_PER_KEY))
        return false;
    return sl_algorithm_is_bucket(limit->algorithm) ? cap_bucket(policy, rate) : cap_window(policy, rate);
}

struct sl_rate_draft sl_limit_whole(const struct sl_policy *policy, const struct sl_limit *limit, unsigned rate_idx)
{
    struct sl_rate_draft rate = {.rate = policy->ceiling_rate, .burst = policy->ceiling_burst};

    if (limit->index != UINT32_MAX && limit->kind == SL_RATE_LIMITED) {
        rate = limit->replaced ? *limit->replaced : policy->written[limit->index].rates[rate_idx];
        (void)sl_rate_cap(policy, limit, &rate);
    }
    return rate;
}

/* ---- the region ------------------------------------------------------------------------------------------------- */

static uint32_t share_of(uint32_t x, uint32_t share_ppm)
{
    uint32_t share = (uint32_t)((uint64_t)x * share_ppm / WHOLE_PPM);

    return share ? share : 1;
}

void sl_rate_share(uint32_t share_ppm, bool bucket, struct sl_rate_draft *rate)
{
    uint32_t burst = share_of(burst_of(rate), share_ppm);
    unsigned __int128 most;

    rate->rate.count = share_of(rate->rate.count, share_ppm);
    if (!bucket)
        return;
    /* Rounding may slow a rate more than its burst. */
    most = (unsigned __int128)SL_LIFE_MAX_US * rate->rate.count / rate->rate.period_us;
    rate->burst = burst > most ? (uint32_t)most : burst;
}

void sl_sum_regions(const struct sl_limit *limit, const struct sl_rate_draft *whole, struct sl_region_sum *ret_sum)
{
    bool bucket = sl_algorithm_is_bucket(limit->algorithm);

    *ret_sum = (struct sl_region_sum){.count = 0};
    for (unsigned i = 0; i < limit->n_regions; i++) {
        struct sl_rate_draft share = *whole;

        sl_rate_share(limit->regions[i].share_ppm, bucket, &share);
        ret_sum->count += share.rate.count;
        ret_sum->limit += bucket ? share.burst : share.rate.count;
    }
}

void sl_share_line(uint32_t share_ppm, char buf[SL_SHARE_LINE_MAX])
{
    if (share_ppm % 10000)
        snprintf(buf, SL_SHARE_LINE_MAX, "%" PRIu32 ".%04" PRIu32 "%%", share_ppm / 10000, share_ppm % 10000);
    else
        snprintf(buf, SL_SHARE_LINE_MAX, "%" PRIu32 "%%", share_ppm / 10000);
}

bool sl_region_is_valid(const char *name)
{
    size_t len = strlen(name);

    return len < SLUICE_NAME_MAX && sl_text_is_name(name, len);
}

static const struct sl_limit_region *smallest(const struct sl_limit *limit)
{
    const struct sl_limit_region *least = &limit->regions[0];

    for (unsigned i = 1; i < limit->n_regions; i++)
        if (limit->regions[i].share_ppm < least->share_ppm)
            least = &limit->regions[i];
    return least;
}

/* A region that is not named has the smallest share: a new one neither stands still nor gets a large part twice. */
bool sl_choose_region(struct sl_load *load, struct sl_limit *limit)
{
    const char *region = load->policy->region;
    struct sl_limit_region *unnamed;

    if (!region || !limit->n_regions)
        return true;
    for (unsigned i = 0; i < limit->n_regions; i++)
        if (!strcmp(limit->regions[i].name, region)) {
            limit->region = &limit->regions[i];
            return true;
        }
    unnamed = sl_read_alloc(&load->reader, 1, sizeof *unnamed);
    if (!unnamed)
        return false;
    *unnamed = (struct sl_limit_region){.name = region, .share_ppm = smallest(limit)->share_ppm};
    limit->region = unnamed;
    return true;
}

/* ---- warnings --------------------------------------------------------------------------------------------------- */

/* A region that has less than one of something, which is rounded up: then all together have more than the limit. */
static void lint_rounding(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit)
{
    const struct sl_limit_region *least = smallest(limit);

    for (unsigned i = 0; i < limit->n_rates; i++) {
        struct sl_rate_draft whole = sl_limit_whole(load->policy, limit, i);
        bool count = (uint64_t)whole.rate.count * least->share_ppm < WHOLE_PPM;
        uint32_t n = count ? whole.rate.count : burst_of(&whole);

        if (!count && (uint64_t)n * least->share_ppm >= WHOLE_PPM)
            continue;
        sl_limit_warning(load, draft, SL_LF_REGIONS,
                         "the share of region `%s` in a %s of %" PRIu32 " is less than 1 and becomes 1: all regions "
                         "together may have more than the limit",
                         least->name, count ? "COUNT" : "burst", n);
        return;
    }
}

static void lint_place(struct sl_load *load, const struct sl_limit_draft *draft, const struct sl_limit *limit)
{
    char share[SL_SHARE_LINE_MAX];

    if (!load->policy->region) {
        if (!load->options->any_region)
            sl_limit_warning(load, draft, SL_LF_REGIONS,
                             "this instance has no region: it counts the whole limit, apart from the regions");
        return;
    }
    for (unsigned i = 0; i < limit->n_regions; i++)
        if (limit->region == &limit->regions[i])
            return;
    sl_share_line(limit->region->share_ppm, share);
    sl_limit_warning(load, draft, SL_LF_REGIONS,
                     "region `%s`, where this instance is, has no share: it gets the smallest one, %s, on top of the "
                     "others",
                     load->policy->region, share);
}

void sl_lint_regions(struct sl_load *load)
{
    for (size_t i = 0; i < load->policy->n_limits; i++) {
        const struct sl_limit_draft *draft = &load->draft.limits[i];
        const struct sl_limit *limit = &load->policy->limits[i];

        if (!draft->sound || !limit->n_regions || !limit->n_rates ||
            !sl_limit_draft_knows(&load->draft, draft, SL_LF_REGIONS))
            continue;
        lint_place(load, draft, limit);
        lint_rounding(load, draft, limit);
    }
}
