/* What witnesses want together: server/witness.h. */
#include "server/witness.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define THREADS 4u
#define ROUNDS 40000u /* so many that a processor is taken away in the worst moment of one */

struct racer {
    struct sl_witness *witness;
    pthread_barrier_t *barrier;
    unsigned bit;
};

static void *race(void *ctx)
{
    struct racer *racer = ctx;

    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(racer->barrier);
        sl_witness_set(racer->witness, i % 2 ? 0 : racer->bit);
        pthread_barrier_wait(racer->barrier);
        /* all are still, until the next round */
        assert_int_equal(atomic_load(&racer->witness->among->sees), i % 2 ? 0 : (1u << THREADS) - 1);
    }
    return NULL;
}

/* A sum that was written late and lacks the other's change would keep a witness blind for good. */
static void those_who_change_at_once_are_all_heard(void **state)
{
    struct sl_witnesses witnesses = {.n = 0};
    struct racer racers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;

    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        racers[i] = (struct racer){sl_witness_add(&witnesses, NULL, NULL, NULL), &barrier, 1u << i};
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void there_is_room_for_so_many(void **state)
{
    struct sl_witnesses witnesses = {.n = 0};

    (void)state;
    for (unsigned i = 0; i < SL_WITNESSES_MAX; i++)
        assert_non_null(sl_witness_add(&witnesses, NULL, NULL, NULL));
    assert_null(sl_witness_add(&witnesses, NULL, NULL, NULL));
    sl_witness_set(&witnesses.list[SL_WITNESSES_MAX - 1], SL_SEE_DRY);
    sl_witness_set(&witnesses.list[0], SL_SEE_WARNED);
    assert_int_equal(atomic_load(&witnesses.sees), SL_SEE_DRY | SL_SEE_WARNED);
    sl_witness_set(&witnesses.list[0], 0);
    assert_int_equal(atomic_load(&witnesses.sees), SL_SEE_DRY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_change_at_once_are_all_heard),
        cmocka_unit_test(there_is_room_for_so_many),
    };

    return cmocka_run_group_tests_name("witness", tests, NULL, NULL);
}
