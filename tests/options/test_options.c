/* The table of settings: four sources, one row each, and what is refused. */
#include "options/option.h"
#include "options/value.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct values {
    char *name, *secret;
    uint64_t count, bytes, wait_us;
    unsigned color;
    bool loud, help;
    struct sl_option_list hosts;
};

static const char *const colors[] = {"red", "green", NULL};

static const struct sl_option rows[] = {
    {.name = "full-name",
     .type = SL_OPTION_TEXT,
     .offset = offsetof(struct values, name),
     .argument = "NAME",
     .sentence = "a name"},
    {.name = "secret",
     .type = SL_OPTION_SECRET,
     .offset = offsetof(struct values, secret),
     .argument = "TOKEN",
     .sentence = "a secret"},
    {.name = "count",
     .letter = 'n',
     .type = SL_OPTION_COUNT,
     .offset = offsetof(struct values, count),
     .argument = "N",
     .preset = "7",
     .min = 1,
     .max = 64,
     .sentence = "how many"},
    {.name = "bytes",
     .type = SL_OPTION_BYTES,
     .offset = offsetof(struct values, bytes),
     .argument = "BYTES",
     .preset = "16k",
     .max = 1u << 30,
     .sentence = "how large"},
    {.name = "wait",
     .type = SL_OPTION_DURATION,
     .offset = offsetof(struct values, wait_us),
     .argument = "DURATION",
     .preset = "5s",
     .max = 3600000000u,
     .sentence = "how long"},
    {.name = "color",
     .type = SL_OPTION_CHOICE,
     .offset = offsetof(struct values, color),
     .argument = "COLOR",
     .preset = "green",
     .choices = colors,
     .sentence = "which"},
    {.name = "loud", .type = SL_OPTION_SWITCH, .offset = offsetof(struct values, loud), .sentence = "whether"},
    {.name = "host",
     .type = SL_OPTION_LIST,
     .offset = offsetof(struct values, hosts),
     .argument = "HOST",
     .preset = "home",
     .sentence = "where"},
    {.name = "help",
     .letter = 'h',
     .type = SL_OPTION_SWITCH,
     .offset = offsetof(struct values, help),
     .flags = SL_OPTION_FLAG_ONLY,
     .sentence = "help"},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

struct fixture {
    struct values values;
    struct sl_options options;
    char why[512];
    char path[64];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    for (size_t i = 0; i < N_ROWS; i++) {
        char name[64] = "SLUICE_";

        for (size_t j = 0; rows[i].name[j]; j++)
            name[7 + j] = rows[i].name[j] == '-' ? '_' : (char)(rows[i].name[j] - 'a' + 'A');
        unsetenv(name);
    }
    sl_options_init(&f->options, rows, N_ROWS, &f->values);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    sl_options_fini(&f->options);
    if (f->path[0])
        unlink(f->path);
    free(f);
    return 0;
}

static int args(struct fixture *f, int *argc, char **argv)
{
    return sl_options_args(&f->options, argc, argv, f->why, sizeof f->why);
}

/* Parses a NULL-terminated list of arguments. */
#define ARGS(f, ...) \
    args(f, &(int){(int)(sizeof((char *[]){"test", __VA_ARGS__}) / sizeof(char *))}, (char *[]){"test", __VA_ARGS__})

static int config(struct fixture *f, const char *text)
{
    FILE *out;
    int fd;

    if (!f->path[0]) {
        snprintf(f->path, sizeof f->path, "/tmp/test_options.XXXXXX");
        fd = mkstemp(f->path);
        assert_true(fd >= 0);
        close(fd);
    }
    out = fopen(f->path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return sl_options_config(&f->options, f->path, f->why, sizeof f->why);
}

static void presets_hold_until_something_is_given(void **state)
{
    struct fixture *f = *state;

    assert_null(f->values.name);
    assert_int_equal(f->values.count, 7);
    assert_int_equal(f->values.bytes, 16384);
    assert_int_equal(f->values.wait_us, 5000000);
    assert_int_equal(f->values.color, 1);
    assert_int_equal(f->values.hosts.n, 1);
    assert_string_equal(f->values.hosts.items[0], "home");
}

static void flags_in_every_spelling(void **state)
{
    struct fixture *f = *state;
    char *argv[] = {"test", "one",    "--count=3", "--full-name", "a b", "--loud",  "two", "-n",
                    "9",    "--host", "x",         "--host=y",    "--",  "--count", NULL};
    int argc = 14;

    assert_int_equal(args(f, &argc, argv), 0);
    assert_int_equal(f->values.count, 9);
    assert_string_equal(f->values.name, "a b");
    assert_true(f->values.loud);
    assert_int_equal(f->values.hosts.n, 2);
    assert_string_equal(f->values.hosts.items[0], "x");
    assert_string_equal(f->values.hosts.items[1], "y");
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "one");
    assert_string_equal(argv[2], "two");
    assert_string_equal(argv[3], "--count");
}

static void wrong_flags_name_themselves(void **state)
{
    struct fixture *f = *state;
    static const struct {
        char *flag, *value;
        const char *why;
    } cases[] = {
        {"--cuont", "3", "no option --cuont; did you mean --count?"},
        {"--zzzzzz", "3", "no option --zzzzzz; --help lists them"},
        {"-z", "3", "no option -z; --help lists them"},
        {"--full_name", "x", "no option --full_name; did you mean --full-name?"},
        {"--count", "0", "--count: `0`: must be a whole number from 1 to 64"},
        {"--count", "65", "--count: `65`: must be a whole number from 1 to 64"},
        {"--count", "-1", "--count: `-1`: must be a whole number from 1 to 64"},
        {"--count", "1.5", "--count: `1.5`: must be a whole number from 1 to 64"},
        {"--count", " 5", "--count: ` 5`: must be a whole number from 1 to 64"},
        {"--count", "0x5", "--count: `0x5`: must be a whole number from 1 to 64"},
        {"--count", "99999999999999999999", "--count: `99999999999999999999`: must be a whole number from 1 to 64"},
        {"--count", "", "--count: ``: must be a whole number from 1 to 64"},
        {"--bytes", "4T", "--bytes: `4T`: must be a size in bytes such as `16384` or `4M`, from 0 to 1G"},
        {"--bytes", "17179869184G",
         "--bytes: `17179869184G`: must be a size in bytes such as `16384` or `4M`, from 0 to 1G"},
        {"--wait", "5", "--wait: `5`: must be a duration such as `5s` or `250ms`, from 0s to 1h"},
        {"--wait", "s", "--wait: `s`: must be a duration such as `5s` or `250ms`, from 0s to 1h"},
        {"--wait", "2h", "--wait: `2h`: must be a duration such as `5s` or `250ms`, from 0s to 1h"},
        {"--color", "gren", "--color: `gren`: did you mean `green`?"},
        {"--color", "blue", "--color: `blue`: must be one of `red`, `green`"},
        {"--loud=maybe", "x", "--loud: `maybe`: must be true or false"},
        {"--full-name", "", "--full-name: ``: must be 1 to 4096 bytes long"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ARGS(f, cases[i].flag, cases[i].value), SL_EINVALID);
        assert_string_equal(f->why, cases[i].why);
    }
    assert_int_equal(f->values.count, 7);
    assert_int_equal(ARGS(f, "--count"), SL_EINVALID);
    assert_string_equal(f->why, "--count needs a value: --count N");
}

static void values_in_every_unit(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ARGS(f, "--bytes", "4M", "--wait", "250ms"), 0);
    assert_int_equal(f->values.bytes, 4u << 20);
    assert_int_equal(f->values.wait_us, 250000);
    assert_int_equal(ARGS(f, "--bytes", "1g", "--wait", "0s"), 0);
    assert_int_equal(f->values.bytes, 1u << 30);
    assert_int_equal(f->values.wait_us, 0);
    assert_int_equal(ARGS(f, "--loud=false"), 0);
    assert_false(f->values.loud);
}

static void a_flag_beats_the_environment_beats_the_file(void **state)
{
    struct fixture *f = *state;

    setenv("SLUICE_COUNT", "20", 1);
    setenv("SLUICE_WAIT", "2s", 1);
    setenv("SLUICE_HOST", "e1,e2", 1);
    setenv("SLUICE_HELP", "true", 1);
    /* Whatever the order in which they are read. */
    assert_int_equal(config(f, "count: 30\nwait: 3s\nbytes: 3k\nhost: [c1, c2, c3]\nfull_name: from file\n"), 0);
    assert_int_equal(ARGS(f, "--count", "10"), 0);
    assert_int_equal(sl_options_env(&f->options, f->why, sizeof f->why), 0);
    assert_int_equal(config(f, "count: 30\nwait: 3s\nbytes: 3k\nhost: [c1, c2, c3]\nfull_name: from file\n"), 0);
    assert_int_equal(f->values.count, 10);
    assert_int_equal(f->values.wait_us, 2000000);
    assert_int_equal(f->values.bytes, 3072);
    assert_string_equal(f->values.name, "from file");
    assert_int_equal(f->values.hosts.n, 2);
    assert_string_equal(f->values.hosts.items[1], "e2");
    assert_false(f->values.help);
    for (size_t i = 0; i < 4; i++)
        unsetenv((const char *[]){"SLUICE_COUNT", "SLUICE_WAIT", "SLUICE_HOST", "SLUICE_HELP"}[i]);
}

static void the_environment_is_checked_and_named(void **state)
{
    struct fixture *f = *state;

    setenv("SLUICE_FULL_NAME", "", 1); /* as good as not there */
    setenv("SLUICE_COUNT", "many", 1);
    assert_int_equal(sl_options_env(&f->options, f->why, sizeof f->why), SL_EINVALID);
    assert_string_equal(f->why, "SLUICE_COUNT: `many`: must be a whole number from 1 to 64");
    unsetenv("SLUICE_COUNT");
    unsetenv("SLUICE_FULL_NAME");
}

static void note_typo(void *ctx, const char *name, const char *nearest)
{
    snprintf(ctx, 128, "%s -> %s", name, nearest);
}

static void a_mistyped_variable_is_told_of(void **state)
{
    struct fixture *f = *state;
    char told[128] = "";

    setenv("SLUICE_FULNAME", "x", 1);
    setenv("SLUICE_ENTIRELY_ELSE", "x", 1);
    sl_options_env_typos(&f->options, note_typo, told);
    assert_string_equal(told, "SLUICE_FULNAME=x -> full-name");
    unsetenv("SLUICE_FULNAME");
    unsetenv("SLUICE_ENTIRELY_ELSE");
}

static void a_wrong_file_is_told_of_by_place(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"count: 3\ncuont: 4\n", ":2:1: error: cuont: unknown setting; did you mean `count`?"},
        {"help: true\n", ":1:1: error: help: cannot stand in a config file"},
        {"count: [1, 2]\n", ":1:8: error: count: must be a single value"},
        {"host: {a: b}\n", ":1:7: error: host: must be a single value or a list of them"},
        {"bytes: 1k\ncount: 70\nloud: perhaps\n",
         ":2:8: error: count: `70`: must be a whole number from 1 to 64 (and 1 more)"},
        {"- a\n", ":1:1: error: must be a mapping of settings, one `name: value` a line"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(config(f, cases[i].text), SL_EINVALID);
        assert_string_equal(f->why + strlen(f->path), cases[i].why);
    }
    assert_int_equal(config(f, "a: b: c\n"), SL_EINVALID);
    assert_int_equal(config(f, "# nothing but a comment\n"), 0);
    assert_int_equal(config(f, ""), 0);
}

static void a_file_that_cannot_be_read(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(sl_options_config(&f->options, "/nonexistent/x.yaml", f->why, sizeof f->why), SL_EINVALID);
    assert_string_equal(f->why, "/nonexistent/x.yaml: No such file or directory");
    assert_int_equal(sl_options_config(&f->options, "/tmp", f->why, sizeof f->why), SL_EINVALID);
    assert_string_equal(f->why, "/tmp: not a regular file");
}

static void a_secret_may_come_from_a_file_and_is_never_shown(void **state)
{
    struct fixture *f = *state;
    char flag[128];

    assert_int_equal(config(f, "s3cret\nsecond line\n"), SL_EINVALID); /* as settings it is none */
    snprintf(flag, sizeof flag, "--secret=@%s", f->path);
    assert_int_equal(ARGS(f, flag), 0);
    assert_string_equal(f->values.secret, "s3cret");
    assert_int_equal(ARGS(f, "--secret", "@/nonexistent"), SL_EINVALID);
    assert_string_equal(f->why, "--secret: cannot read /nonexistent: No such file or directory");
    assert_string_equal(f->values.secret, "s3cret");
    assert_int_equal(ARGS(f, "--secret", ""), SL_EINVALID);
    assert_null(strstr(f->why, "s3cret"));
    assert_int_equal(config(f, "\nnot the first line\n"), SL_EINVALID);
    assert_int_equal(ARGS(f, flag), SL_EINVALID);
    assert_non_null(strstr(f->why, "the first line of"));
}

static void a_list_has_an_end(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < SL_OPTION_LIST_MAX; i++)
        assert_int_equal(ARGS(f, "--host", "x"), 0);
    assert_int_equal(f->values.hosts.n, SL_OPTION_LIST_MAX);
    assert_int_equal(ARGS(f, "--host", "x"), SL_EINVALID);
    assert_string_equal(f->why, "--host: `x`: is given more than 64 times");
}

static void help_and_manual_say_every_row(void **state)
{
    char *help = NULL, *man = NULL;
    size_t len;
    FILE *out = open_memstream(&help, &len);

    (void)state;
    sl_options_help(rows, N_ROWS, 80, out);
    fclose(out);
    out = open_memstream(&man, &len);
    sl_options_man(rows, N_ROWS, out);
    fclose(out);
    for (size_t i = 0; i < N_ROWS; i++) {
        char flag[64];

        snprintf(flag, sizeof flag, "--%s", rows[i].name);
        assert_non_null(strstr(help, flag));
        snprintf(flag, sizeof flag, ".It Fl \\-%s", rows[i].name);
        assert_non_null(strstr(man, flag));
    }
    assert_non_null(strstr(help, "How many (1 to 64; default 7)."));
    assert_non_null(strstr(help, "Which (red, green; default green)."));
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    free(help);
    free(man);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(presets_hold_until_something_is_given),
        TEST(flags_in_every_spelling),
        TEST(wrong_flags_name_themselves),
        TEST(values_in_every_unit),
        TEST(a_flag_beats_the_environment_beats_the_file),
        TEST(the_environment_is_checked_and_named),
        TEST(a_mistyped_variable_is_told_of),
        TEST(a_wrong_file_is_told_of_by_place),
        TEST(a_file_that_cannot_be_read),
        TEST(a_secret_may_come_from_a_file_and_is_never_shown),
        TEST(a_list_has_an_end),
        TEST(help_and_manual_say_every_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
