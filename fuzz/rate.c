/* Rates and durations: whatever the bytes, an answer; and what is accepted is in range, has a canonical text, and
 * that text means the same. */
#include "base/err.h"
#include "core/limits.h"
#include "core/rate.h"
#include "core/shape.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_round_trip(const struct sl_rate *rate)
{
    char text[SL_RATE_TEXT_MAX], again[SL_RATE_TEXT_MAX];
    size_t len = sl_rate_format(rate, text);
    const char *why = NULL;
    struct sl_rate back;

    require(len == strlen(text));
    require(sl_rate_parse(text, len, &back, &why) == 0);
    require(back.kind == rate->kind && back.count == rate->count && back.period_us == rate->period_us);
    require(sl_rate_format(&back, again) == len && memcmp(text, again, len) == 0);
}

static void check_shapes(const struct sl_rate *rate)
{
    struct sl_shape shape;
    const char *why = NULL;

    if (rate->kind != SL_RATE_LIMITED)
        return;
    require(rate->count >= 1 && rate->count <= SL_COUNT_MAX);
    require(rate->period_us >= SL_PERIOD_MIN_US && rate->period_us <= SL_PERIOD_MAX_US);
    /* burst = COUNT fills in one PERIOD: always a shape */
    require(sl_shape_init(&shape, SL_TOKEN_BUCKET, rate, 0, &why) == 0);
    require(shape.cap_us == rate->period_us && shape.cap_frac == 0);
    require(sl_shape_init(&shape, SL_SLIDING_WINDOW_COUNTER, rate, 0, &why) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    struct sl_rate rate = {.kind = SL_RATE_LIMITED};
    uint64_t us = 0;

    if (sl_rate_parse((const char *)data, size, &rate, &why) == 0) {
        check_round_trip(&rate);
        check_shapes(&rate);
    } else {
        require(why && *why && rate.count == 0 && rate.period_us == 0);
    }
    why = NULL;
    if (sl_duration_parse((const char *)data, size, &us, &why) == 0)
        require(us >= SL_PERIOD_MIN_US && us <= SL_PERIOD_MAX_US && us % SL_MS_US == 0);
    else
        require(why && *why && us == 0);
    return 0;
}
