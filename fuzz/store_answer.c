/* Any bytes as the answer of a store to a group of one bucket of each algorithm: refused, or verdicts whose figures
 * are in range. */
#include "store/codec.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sl_shape *shape, const struct sl_decision *d)
{
    struct sl_numbers n;

    sl_decision_numbers(shape, d, &n);
    assert(n.remaining >= 0 && n.remaining <= n.limit);
    assert(n.reset_after_ms >= 0 && n.delay_ms >= 0 && n.next_token_ms >= 0);
    assert(d->allowed ? n.retry_after_ms == 0 : d->never ? n.retry_after_ms == -1 : n.retry_after_ms > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t costs[][SL_ALGORITHMS] = {
        {1, 1, 1, 1, 1}, {9, 3, 1, 7, 2}, {9, 3, 1, 7, 2}, {0, 0, 0, 99, 0}};
    static const struct sl_rate rate = {.count = 97, .period_us = 3333000};
    static struct sl_answer_group group;
    struct sl_shape shapes[SL_ALGORITHMS];
    const struct sl_shape *pointers[SL_ALGORITHMS];
    struct sl_decision d[SL_ALGORITHMS];
    struct sl_answer answer;
    const char *why;
    unsigned given;

    for (unsigned i = 0; i < SL_ALGORITHMS; i++) {
        if (sl_shape_init(&shapes[i], (enum sl_algorithm)i, &rate, 0, &why))
            return 0;
        pointers[i] = &shapes[i];
    }
    if (sl_answer_open(&answer, data, size))
        return 0;
    while (sl_answer_next(&answer, pointers, SL_ALGORITHMS, &group) == 0) {
        for (unsigned k = 0; k < sizeof costs / sizeof *costs; k++) {
            if (sl_answer_decide(&group, costs[k], d) < 0)
                break;
            for (unsigned i = 0; i < SL_ALGORITHMS; i++)
                check(&shapes[i], &d[i]);
        }
        (void)sl_answer_end(&group);
    }
    (void)sl_answer_refund(&answer, &given);
    return 0;
}
