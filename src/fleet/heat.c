/* The sketch. Each counter carries the number of its window, so that nobody has to clear anything: a counter of another
 * window reads as zero. */
#include "fleet/heat.h"

#include "base/err.h"

#include <assert.h>
#include <stdatomic.h>

#define ROWS 4u
#define COLUMN_BITS 11u
#define COLUMNS (1u << COLUMN_BITS)
#define COUNT_BITS 20u
#define COUNT_MAX ((1u << COUNT_BITS) - 1)
#define EPOCH_MASK ((1u << (32 - COUNT_BITS)) - 1)

struct sl_heat {
    _Atomic uint32_t counters[2][ROWS][COLUMNS]; /* epoch | count; [window & 1] */
    struct sl_alloc alloc;
};
static_assert(sizeof(((struct sl_heat *)NULL)->counters) == 64u << 10, "what the header says");

int sl_heat_new(const struct sl_alloc *alloc, struct sl_heat **ret_heat)
{
    struct sl_heat *heat = sl_calloc(alloc, 1, sizeof *heat);

    if (!heat)
        return SL_ENOMEM;
    heat->alloc = *alloc;
    *ret_heat = heat;
    return 0;
}

void sl_heat_free(struct sl_heat *heat)
{
    if (heat) {
        struct sl_alloc alloc = heat->alloc;

        sl_free(&alloc, heat);
    }
}

/* Derived fingerprints differ from each other in one half only: both halves go into every column. */
static void columns_of(struct sl_hash128 fp, unsigned ret_columns[ROWS])
{
    uint64_t h = (fp.a ^ (fp.b << 32 | fp.b >> 32)) * UINT64_C(0x9e3779b97f4a7c15);

    for (unsigned row = 0; row < ROWS; row++)
        ret_columns[row] = (unsigned)(h >> (64 - COLUMN_BITS * (row + 1))) & (COLUMNS - 1);
}

/* Never zero: a counter that was never used belongs to no window. */
static uint32_t epoch_of(uint64_t window)
{
    return (uint32_t)(window / 2 % EPOCH_MASK + 1) << COUNT_BITS;
}

static uint32_t count_in(uint32_t counter, uint32_t epoch)
{
    return (counter & ~COUNT_MAX) == epoch ? counter & COUNT_MAX : 0;
}

static uint32_t least(struct sl_heat *heat, uint64_t window, const unsigned columns[ROWS])
{
    uint32_t epoch = epoch_of(window), result = COUNT_MAX;

    for (unsigned row = 0; row < ROWS; row++) {
        uint32_t count =
            count_in(atomic_load_explicit(&heat->counters[window & 1][row][columns[row]], memory_order_relaxed), epoch);

        if (count < result)
            result = count;
    }
    return result;
}

/* Conservative: only those counters rise that would otherwise be below the estimate. */
static uint32_t count(struct sl_heat *heat, uint64_t window, const unsigned columns[ROWS])
{
    uint32_t epoch = epoch_of(window), raised = least(heat, window, columns);

    if (raised < COUNT_MAX)
        raised++;
    for (unsigned row = 0; row < ROWS; row++) {
        _Atomic uint32_t *counter = &heat->counters[window & 1][row][columns[row]];

        if (count_in(atomic_load_explicit(counter, memory_order_relaxed), epoch) < raised)
            atomic_store_explicit(counter, epoch | raised, memory_order_relaxed);
    }
    return raised;
}

uint32_t sl_heat_add(struct sl_heat *heat, struct sl_hash128 fp, uint64_t now_us)
{
    uint64_t window = now_us / SL_HEAT_WINDOW_US, last = 0, now, both;
    unsigned columns[ROWS];

    columns_of(fp, columns);
    now = count(heat, window, columns);
    if (window > 0)
        last = least(heat, window - 1, columns);
    both = (last + now) * 1000000 / (SL_HEAT_WINDOW_US + now_us % SL_HEAT_WINDOW_US);
    last *= 1000000 / SL_HEAT_WINDOW_US;
    return (uint32_t)(both > last ? both : last);
}
