/* Every case of tests/data/vectors.jsonl from log text to verdict lines: each field to the last millisecond. */
#include "replay/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VECTORS SLUICE_SOURCE_DIR "/tests/data/vectors.jsonl"

static struct sl_policy *policy_of(json_t *limit)
{
    struct sl_policy_options options = {.secret = sl_replay_secret(), .alloc = sl_alloc_system()};
    struct sl_policy *policy = NULL;
    struct sl_diags diags;
    char *text;
    json_t *root;

    json_object_set_new(limit, "name", json_string("c"));
    root = json_pack("{s:i, s:[O]}", "version", 1, "limits", limit);
    text = json_dumps(root, 0);
    sl_diags_init(&diags, options.alloc);
    if (sl_policy_parse(text, strlen(text), "case.yaml", &options, &policy, &diags))
        sl_diags_print(&diags, stdout);
    sl_diags_fini(&diags);
    assert_non_null(policy);
    free(text);
    json_decref(root);
    return policy;
}

/* The steps as a jsonl log, to be read as standard input. */
static FILE *log_of(json_t *steps)
{
    FILE *f = tmpfile();

    assert_non_null(f);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i);

        fprintf(f, "{\"t_us\":%lld,\"key\":\"k\",\"cost\":%lld}\n",
                (long long)json_integer_value(json_object_get(step, "t_us")),
                (long long)json_integer_value(json_object_get(step, "cost")));
    }
    assert_int_equal(fflush(f), 0);
    assert_int_equal(lseek(fileno(f), 0, SEEK_SET), 0);
    return f;
}

static void compare(const char *name, size_t step_idx, json_t *right, json_t *verdict)
{
    const char *field;
    json_t *value;

    json_object_foreach(right, field, value)
    {
        if (!json_equal(value, json_object_get(verdict, field)))
            fail_msg("%s, step %zu: %s is %s, right is %s", name, step_idx, field,
                     json_dumps(json_object_get(verdict, field), JSON_ENCODE_ANY), json_dumps(value, JSON_ENCODE_ANY));
    }
}

static size_t run_case(json_t *root)
{
    static const char *const standard_input = "-";
    const char *name = json_string_value(json_object_get(root, "case"));
    struct sl_replay_options options = sl_replay_defaults();
    json_t *steps = json_object_get(root, "steps");
    struct sl_replay_summary *summary;
    char why[SL_REPLAY_WHY_MAX], *text, *at;
    size_t size, i = 0;

    options.format = SL_REPLAY_JSONL;
    options.reorder_us = 0;
    options.table_keys = 1000;
    options.policy = policy_of(json_object_get(root, "limit"));
    options.paths = &standard_input;
    options.n_paths = 1;
    options.input = log_of(steps);
    options.verdicts = open_memstream(&text, &size);
    if (sl_replay_run(&options, &summary, why, sizeof why))
        fail_msg("%s: %s", name, why);
    fclose(options.verdicts);
    fclose(options.input);
    assert_int_equal(summary->events, json_array_size(steps));
    at = text;
    for (; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i);
        char *end = strchr(at, '\n');
        json_t *verdict = json_loadb(at, (size_t)(end - at), 0, NULL);

        assert_non_null(verdict);
        assert_int_equal(json_integer_value(json_object_get(verdict, "t_us")),
                         json_integer_value(json_object_get(step, "t_us")));
        compare(name, i, json_object_get(step, "expect"), verdict);
        json_decref(verdict);
        at = end + 1;
    }
    free(text);
    sl_replay_summary_free(&summary);
    sl_policy_unref(options.policy);
    return i;
}

static void every_step_has_the_right_verdict(void **state)
{
    FILE *f = fopen(VECTORS, "r");
    size_t room = 0, n_cases = 0, n_steps = 0;
    char *line = NULL;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        json_t *root = json_loads(line, 0, NULL);

        assert_non_null(root);
        n_steps += run_case(root);
        n_cases++;
        json_decref(root);
    }
    free(line);
    fclose(f);
    assert_int_equal(n_cases, 370);
    assert_true(n_steps > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_has_the_right_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
