/* A policy and its resolution the slow and obvious way: lists that are walked, strings that are compared. Written from
 * the contract, not from the code under test. */
#ifndef TESTS_POLICY_MODEL_H
#define TESTS_POLICY_MODEL_H

#include "policy/policy.h"

#define MODEL_LIMITS 40
#define MODEL_GLOBS 3
#define MODEL_ENDPOINTS 8
#define MODEL_KEYS 6

struct model_limit {
    char name[16];
    const char *layer, *key, *endpoint, *tier, *key_type; /* NULL: any */
    const char *label_names[3], *label_globs[3];
    unsigned n_labels;
    unsigned per; /* SL_PER_... */
    const char *per_label;
    enum sl_mode mode;
    enum sl_rate_kind kind;
    unsigned n_rates;
    int cost; /* -1: not given */
};

struct model_policy {
    struct model_limit limits[MODEL_LIMITS];
    unsigned n_limits;
    struct {
        char name[16];
        const char *globs[MODEL_GLOBS];
        unsigned n_globs;
        int cost; /* -1: not given */
    } endpoints[MODEL_ENDPOINTS];
    unsigned n_endpoints;
    struct {
        const char *key, *tier;
    } keys[MODEL_KEYS];
    unsigned n_keys;
    const char *default_tier, *anonymous; /* NULL: not given */
    int unknown;                          /* 0 default, 1 anonymous, 2 deny */
    bool ceiling, unmatched_deny;
};

/* Fills a random policy; limits that would repeat a matcher are left out. */
void model_random(struct model_policy *model);

/* Writes it as YAML. */
void model_write(const struct model_policy *model, char *buf, size_t size);

struct model_answer {
    const char *endpoint, *tier; /* "" when none; tier also when the request named one that the policy does not */
    bool denied, unmatched;
    int n_layers;
    const char *layers[SL_LAYERS_MAX];
    const struct model_limit *winners[SL_LAYERS_MAX], *dry[SL_LAYERS_MAX]; /* by position in `layers` */
};

void model_resolve(const struct model_policy *model, const struct sluice_request *request, struct model_answer *ret);

int model_cost(const struct model_policy *model, const struct model_limit *limit, const char *endpoint,
               const struct sluice_request *request);

/* The identity of a bucket as text, each part with its length before it. */
void model_bucket(const struct model_limit *limit, unsigned rate_idx, const struct model_answer *answer,
                  const struct sluice_request *request, char *buf, size_t size);

#endif
