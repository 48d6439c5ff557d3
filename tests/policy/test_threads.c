/* One policy, many threads: resolution needs no lock, and the last reference frees. Run under ThreadSanitizer too. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 3000

static struct sl_policy *shared;

/* Every thread works on a reference of its own and must see what a single thread sees. */
static void *work(void *arg)
{
    struct sl_policy *policy = arg;
    struct sl_resolution r;
    char key[16], scope[16];
    size_t wrong = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sluice_request request;

        snprintf(key, sizeof key, "k%u", i % 50);
        snprintf(scope, sizeof scope, "s%u", i % 7);
        request = request_of(key, scope);
        sl_policy_unref(sl_policy_ref(policy));
        sl_policy_resolve(policy, &request, &r);
        wrong += r.n_items != 2 || r.items[0].shape->count != (i % 50 < 10 ? i % 50 + 1 : 99) ||
                 r.items[1].shape->count != (i % 7 == 3 ? 5u : 77u);
    }
    sl_policy_unref(policy);
    return wrong ? arg : NULL;
}

static void threads_resolve_on_one_policy(void **state)
{
    pthread_t threads[THREADS];
    char text[2000] = "version: 1\nendpoints: {e: {match: [\"*3\"]}}\nlimits:\n  - {name: all, rate: 99/s}\n"
                      "  - {name: e, layer: e, endpoint: e, rate: 5/s, per: [key, scope]}\n"
                      "  - {name: rest, layer: e, rate: 77/s}\n";

    (void)state;
    for (int i = 0; i < 10; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  - {name: k%d, key: k%d, rate: %d/s}\n", i, i,
                 i + 1);
    shared = must_load(text);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, sl_policy_ref(shared)), 0);
    sl_policy_unref(shared); /* the threads keep it alive */
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_resolve_on_one_policy)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
