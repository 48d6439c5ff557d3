/* What settings mean that are more than a value. */
#include "sluiced/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* `auto` depends on whether decisions wait for a store. */
static void the_budget_of_decisions(void **state)
{
    static const struct {
        char text[8];
        uint64_t local_us, shared_us;
    } rows[] = {{"auto", 1000, 7500}, {"off", 0, 0}, {"3ms", 3000, 3000}, {"1s", 1000000, 1000000}};

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[8];
        struct sl_config config = {.timeout_us = 15000, .latency_budget = text};

        for (unsigned k = 0; k < sizeof text; k++)
            text[k] = rows[i].text[k];
        assert_int_equal(sl_config_latency_budget_us(&config, false), rows[i].local_us);
        assert_int_equal(sl_config_latency_budget_us(&config, true), rows[i].shared_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_of_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
