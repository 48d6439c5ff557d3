/* Random policies and requests: the tables of resolution against the slow model, bucket by bucket.
 *
 *   test_policy-model [POLICIES [SEED]] */
#include "support.h"

#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUESTS 120

static unsigned n_policies = 400, seed;

static const char *const keys[] = {"k1", "k2", "k3", "other", "192.0.2.1", "198.51.100.7"};
static const char *const types[] = {"api_key", "user", "device", "sensor"};
static const char *const tiers[] = {"free", "pro", "anon", "gold", "platinum"};
static const char *const addresses[] = {"192.0.2.1", "192.0.2.2"};
static const char *const scopes[] = {"",   "a",   "ab",    "abc",    "abcd",    "abd",     "aab", "aa", "ac", "b",
                                     "ba", "bca", "GET /", "GET /a", "GET /ab", "POST /a", "x/a", "xb", "c",  "abxd"};
static const char *const names[] = {"x", "y", "z", "w"};
static const char *const values[] = {"", "a", "ab", "b", "bb", "c"};

#define PICK(list) (list)[(size_t)rand() % (sizeof(list) / sizeof *(list))]

static void random_request(struct sluice_request *r, struct sluice_label labels[4])
{
    *r = request_of(PICK(keys), PICK(scopes));
    if (rand() % 3 == 0) {
        r->key_type = r->key[0] == '1' ? "address" : PICK(types);
        r->key_type_len = strlen(r->key_type);
    }
    if (rand() % 3 == 0) {
        r->tier = PICK(tiers);
        r->tier_len = strlen(r->tier);
    }
    if (rand() % 3 == 0) {
        r->address = PICK(addresses);
        r->address_len = strlen(r->address);
    }
    if (rand() % 4 == 0)
        r->cost = rand() % 4;
    r->labels = labels;
    for (int i = 0; i < 4; i++)
        if (rand() % 3) {
            const char *value = PICK(values);

            labels[r->n_labels++] = (struct sluice_label){names[i], 1, value, strlen(value)};
        }
}

/* ---- buckets: equal text, equal fingerprint, and the other way round -------------------------------------------- */

struct pair {
    char text[200];
    struct sl_hash128 fp;
};

static struct pair pairs[20000];
static size_t n_pairs;

static void check_bucket(const char *text, struct sl_hash128 fp)
{
    for (size_t i = 0; i < n_pairs; i++) {
        bool same_fp = pairs[i].fp.a == fp.a && pairs[i].fp.b == fp.b;

        if (same_fp != !strcmp(pairs[i].text, text))
            fail_msg("buckets `%s` and `%s` %s", pairs[i].text, text, same_fp ? "collide" : "differ");
        if (same_fp)
            return;
    }
    if (n_pairs < sizeof pairs / sizeof *pairs) {
        snprintf(pairs[n_pairs].text, sizeof pairs[n_pairs].text, "%s", text);
        pairs[n_pairs++].fp = fp;
    }
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static unsigned buckets_of(const struct model_policy *model, const struct model_limit *limit)
{
    if (limit->kind == SL_RATE_UNLIMITED)
        return model->ceiling && (limit->per & SL_PER_KEY) ? 1 : 0;
    return limit->n_rates;
}

struct context {
    const struct model_policy *model;
    const struct sluice_request *request;
    const struct model_answer *answer;
};

/* Checks the items of one winner from items[at] and returns where the next begins. */
static unsigned check_items(const struct context *c, const struct model_limit *limit, const struct sl_item *items,
                            unsigned n, unsigned at)
{
    char text[200];

    for (unsigned i = 0; i < buckets_of(c->model, limit); i++, at++) {
        assert_true(at < n);
        assert_string_equal(items[at].limit->name, limit->name);
        assert_int_equal(items[at].rate_idx, i);
        assert_ptr_equal(items[at].shape, &items[at].limit->shapes[i]);
        assert_int_equal(items[at].cost, model_cost(c->model, limit, c->answer->endpoint, c->request));
        model_bucket(limit, i, c->answer, c->request, text, sizeof text);
        check_bucket(text, items[at].fp);
    }
    return at;
}

static void check_layers(const struct context *c, const struct sl_resolution *r)
{
    const char *blocked = NULL, *unlimited = NULL, *dry_blocked = NULL;
    unsigned at = 0, dry_at = 0;

    for (int i = 0; i < c->answer->n_layers; i++) {
        const struct model_limit *winner = c->answer->winners[i], *dry = c->answer->dry[i];

        if (winner) {
            assert_non_null(r->winners[i]);
            assert_string_equal(r->winners[i]->name, winner->name);
            at = check_items(c, winner, r->items, r->n_items, at);
            if (winner->kind == SL_RATE_BLOCKED && !blocked)
                blocked = winner->name;
            if (winner->kind == SL_RATE_UNLIMITED && !buckets_of(c->model, winner) && !unlimited)
                unlimited = winner->name;
        } else {
            assert_null(r->winners[i]);
        }
        if (dry) {
            dry_at = check_items(c, dry, r->dry, r->n_dry, dry_at);
            if (dry->kind == SL_RATE_BLOCKED && !dry_blocked)
                dry_blocked = dry->name;
        }
    }
    assert_string_equal(r->blocked ? r->blocked->name : "", blocked ? blocked : "");
    assert_string_equal(r->unlimited ? r->unlimited->name : "", unlimited ? unlimited : "");
    assert_string_equal(r->dry_blocked ? r->dry_blocked->name : "", dry_blocked ? dry_blocked : "");
    assert_int_equal(r->n_dry, dry_at);
    if (!(c->answer->unmatched && c->model->ceiling && !c->answer->denied))
        assert_int_equal(r->n_items, at);
}

static bool names_tier(const struct model_policy *model, const char *tier)
{
    bool known = (model->default_tier && !strcmp(model->default_tier, tier)) ||
                 (model->anonymous && !strcmp(model->anonymous, tier));

    for (unsigned i = 0; i < model->n_keys; i++)
        known |= !strcmp(model->keys[i].tier, tier);
    for (unsigned i = 0; i < model->n_limits; i++)
        known |= model->limits[i].tier && !strcmp(model->limits[i].tier, tier);
    return known;
}

static void check_request(const struct model_policy *model, const struct sl_policy *policy,
                          const struct sluice_request *request)
{
    struct model_answer answer;
    struct context c = {model, request, &answer};
    const struct sl_resolution *r = resolve(policy, request);
    char text[200];

    model_resolve(model, request, &answer);
    assert_string_equal(r->endpoint, answer.endpoint);
    assert_string_equal(r->tier, names_tier(model, answer.tier) ? answer.tier : "");
    assert_int_equal(r->denied, answer.denied);
    assert_int_equal(r->unmatched, answer.unmatched);
    if (answer.denied && !answer.unmatched)
        fail_msg("the model denies what it matched");
    check_layers(&c, r);
    if (answer.unmatched && model->ceiling && !answer.denied) {
        assert_int_equal(r->n_items, 1);
        assert_int_equal(r->items[0].cost, model_cost(model, NULL, answer.endpoint, request));
        model_bucket(NULL, 0, &answer, request, text, sizeof text);
        check_bucket(text, r->items[0].fp);
    }
}

static void check_policy(unsigned number)
{
    static char text[20000];
    struct model_policy model;
    struct sl_policy *policy;

    srand(seed + number);
    model_random(&model);
    model_write(&model, text, sizeof text);
    policy = must_load(text);
    n_pairs = 0;
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request request;
        struct sluice_label labels[4];

        random_request(&request, labels);
        check_request(&model, policy, &request);
    }
    sl_policy_unref(policy);
}

static void tables_answer_as_the_model_does(void **state)
{
    (void)state;
    print_message("seed %u\n", seed);
    for (unsigned i = 0; i < n_policies; i++)
        check_policy(i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_answer_as_the_model_does)};

    if (argc > 1)
        n_policies = (unsigned)strtoul(argv[1], NULL, 10);
    seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
