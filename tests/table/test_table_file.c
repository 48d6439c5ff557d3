/* Tables in files: opened, shared, left behind, found again after a boot; and everything that must not be trusted. */
#include "kit.h"

#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const enum sl_algorithm all[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                        SL_SLIDING_WINDOW_COUNTER};

/* A clock whose two readings are apart: wall time can be set, time since boot cannot. */
struct two_clocks {
    uint64_t wall_us, mono_us;
};

static uint64_t wall_us(void *ctx)
{
    return ((struct two_clocks *)ctx)->wall_us;
}

static uint64_t mono_us(void *ctx)
{
    return ((struct two_clocks *)ctx)->mono_us;
}

static struct sl_table_options options(const char *path, struct two_clocks *clocks)
{
    struct sl_table_options o = sl_table_defaults();

    o.keys = 1000;
    o.log_entries = 1000;
    o.path = path;
    if (clocks)
        o.clock = (struct sl_clock){.wall_us = wall_us, .mono_us = mono_us, .ctx = clocks, .steady = true};
    return o;
}

static struct sl_table *open_with(const struct sl_table_options *o)
{
    struct sl_table *t = NULL;
    char why[300];

    if (sl_table_open(o, &t, why, sizeof why))
        fail_msg("%s", why);
    return t;
}

/* Expects `code` and a sentence that names the file and has `words` in it. */
static void expect_refusal(const struct sl_table_options *o, int code, const char *words)
{
    struct sl_table *t = NULL;
    char why[300] = "";
    int err = sl_table_open(o, &t, why, sizeof why);

    if (err == 0)
        sl_table_close(&t);
    if (err != code || (o->path && !strstr(why, o->path)) || !strstr(why, words))
        fail_msg("got %d \"%s\", wanted %d and \"%s\"", err, why, code, words);
}

struct image {
    unsigned char *bytes;
    size_t size;
};

static struct image read_file(const char *path)
{
    struct stat st = {0};
    struct image image;
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    image.size = (size_t)st.st_size;
    image.bytes = malloc(image.size + 1);
    assert_true(read(fd, image.bytes, image.size) == (ssize_t)image.size);
    close(fd);
    return image;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void a_restart_on_the_same_file_keeps_the_counts(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 5; a++) {
        uint64_t now_us = T0;
        const char *path = kit_path();
        struct sl_shape shape = kit_shape(all[a], "20/h", 0);
        struct sl_table *t = kit_open(path, 1000, 1000, &now_us);
        struct sl_secret secret = sl_table_secret(t), again;
        struct stat st;

        for (unsigned i = 0; i < 7; i++, now_us += 1000)
            assert_true(kit_charge(t, kit_key(1, 1), &shape, 2));
        sl_table_close(&t);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        t = kit_open(path, 1000, 1000, &now_us);
        again = sl_table_secret(t);
        assert_memory_equal(&secret, &again, sizeof secret);
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 6);
        assert_int_equal(kit_stats(t).live, 1);
        assert_true(kit_charge(t, kit_key(1, 1), &shape, 6));
        assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
        sl_table_close(&t);
        kit_forget(path);
    }
}

static void a_wall_clock_that_is_set_does_not_touch_the_table(void **state)
{
    struct two_clocks c = {.wall_us = T0, .mono_us = 5000000};
    const char *path = kit_path();
    struct sl_table_options o = options(path, &c);
    struct sl_table *t = open_with(&o);

    (void)state;
    assert_int_equal(sl_table_now(t), T0);
    c.mono_us += 7;
    c.wall_us -= 3600 * SL_SECOND_US;
    assert_int_equal(sl_table_now(t), T0 + 7);
    c.wall_us += 7200 * SL_SECOND_US;
    sl_table_close(&t);
    c.mono_us += 10; /* closed for ten microseconds of the same boot */
    t = open_with(&o);
    assert_int_equal(sl_table_now(t), T0 + 17);
    sl_table_close(&t);
    kit_forget(path);
}

static void after_a_reboot_time_is_wall_time_but_never_less_than_before(void **state)
{
    struct two_clocks c = {.wall_us = T0, .mono_us = 500 * SL_SECOND_US};
    const char *path = kit_path();
    struct sl_table_options o = options(path, &c);
    struct sl_table *t = open_with(&o);
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "10/h", 0);
    uint64_t left_us;

    (void)state;
    assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
    c.mono_us += 60 * SL_SECOND_US;
    t->header->boot_id[0] ^= 1; /* what the next boot finds */
    sl_table_close(&t);

    c = (struct two_clocks){.wall_us = T0 + 360 * SL_SECOND_US, .mono_us = 3 * SL_SECOND_US};
    t = open_with(&o);
    assert_int_equal(sl_table_now(t), T0 + 360 * SL_SECOND_US);
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 1);
    left_us = sl_table_now(t);
    t->header->boot_id[0] ^= 1;
    sl_table_close(&t);

    c = (struct two_clocks){.wall_us = 1000, .mono_us = SL_SECOND_US}; /* no battery: the wall clock says 1970 */
    t = open_with(&o);
    assert_int_equal(sl_table_now(t), left_us);
    c.mono_us += 360 * SL_SECOND_US;
    assert_int_equal(sl_table_now(t), left_us + 360 * SL_SECOND_US);
    assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 2);
    sl_table_close(&t);

    c.mono_us = 5; /* a boot that the boot id does not show */
    t = open_with(&o);
    assert_int_equal(sl_table_now(t), left_us + 360 * SL_SECOND_US);
    sl_table_close(&t);
    kit_forget(path);
}

static void open_for_all(void *ctx)
{
    struct sl_table *t = kit_open(((const char **)ctx)[0], 1000, 1000, NULL);
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "1000/d", 0);

    if (!kit_charge(t, kit_key(1, 1), &shape, 1))
        _exit(1);
    sl_table_close(&t);
}

static void of_many_who_open_a_missing_file_one_makes_the_table(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        const char *path = kit_path();
        struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "1000/d", 0);
        struct sl_table *t;
        pid_t children[8];

        for (unsigned i = 0; i < 8; i++)
            children[i] = kit_fork(open_for_all, &path);
        for (unsigned i = 0; i < 8; i++)
            assert_true(kit_reap(children[i]));
        t = kit_open(path, 1000, 1000, NULL);
        assert_int_equal(kit_remaining(t, kit_key(1, 1), &shape), 1000 - 8);
        sl_table_close(&t);
        kit_forget(path);
    }
}

static void an_empty_file_and_a_killed_set_up_are_begun_anew(void **state)
{
    const char *path = kit_path();
    struct sl_table_options o = options(path, NULL);
    struct sl_table *t;
    struct image image;

    (void)state;
    write_file(path, "", 0);
    t = open_with(&o);
    sl_table_close(&t);
    image = read_file(path);
    ((struct sl_region_header *)(void *)image.bytes)->complete = 0;
    for (size_t size = sizeof(struct sl_region_header); size <= image.size; size += 50000) {
        write_file(path, image.bytes, size);
        t = open_with(&o);
        sl_table_close(&t);
    }
    free(image.bytes);
    kit_forget(path);
}

static void another_size_is_refused_or_begun_anew_as_asked(void **state)
{
    const char *path = kit_path();
    struct sl_table_options o = options(path, NULL), bigger = o;
    struct sl_table *t = open_with(&o), *u;
    struct sl_secret secret = sl_table_secret(t), other = {1, 2}, kept;
    struct sl_shape shape = kit_shape(SL_TOKEN_BUCKET, "10/d", 0);

    (void)state;
    assert_true(kit_charge(t, kit_key(1, 1), &shape, 10));
    bigger.keys = 2000;
    expect_refusal(&bigger, SL_EBUSY, "not to be started anew");
    bigger.resize = true;
    expect_refusal(&bigger, SL_EBUSY, "another process has it open");
    assert_false(kit_charge(t, kit_key(1, 1), &shape, 1));
    sl_table_close(&t);
    u = open_with(&bigger);
    kept = sl_table_secret(u);
    assert_memory_equal(&secret, &kept, sizeof secret);
    assert_int_equal(kit_stats(u).resets, 1);
    assert_true(kit_charge(u, kit_key(1, 1), &shape, 10));
    sl_table_close(&u);
    bigger.secret = &other;
    expect_refusal(&bigger, SL_EINVALID, "another secret");
    bigger.secret = &secret;
    u = open_with(&bigger);
    sl_table_close(&u);
    kit_forget(path);
}

static void options_out_of_range_are_refused(void **state)
{
    struct sl_table_options o = options(NULL, NULL);

    (void)state;
    o.keys = 999;
    expect_refusal(&o, SL_EINVALID, "1000 to 4294967296");
    o.keys = (UINT64_C(1) << 32) + 1;
    expect_refusal(&o, SL_EINVALID, "4294967297");
    o.keys = 1000;
    o.log_entries = UINT32_MAX;
    expect_refusal(&o, SL_EINVALID, "4294967294");
}

static void files_of_others_are_refused_and_left_alone(void **state)
{
    const char *path = kit_path();
    struct sl_table_options o = options(path, NULL), missing = o;
    char text[6000], folder[400];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t size = 1; size <= sizeof text; size += 1199) {
        struct image image;

        write_file(path, text, size);
        expect_refusal(&o, SL_EFORMAT, "is not a table of sluice");
        image = read_file(path);
        assert_int_equal(image.size, size);
        assert_memory_equal(image.bytes, text, size);
        free(image.bytes);
    }
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(&o, SL_EFORMAT, "is not a regular file");
    unlink(path);
    snprintf(folder, sizeof folder, "%s/none/table", path);
    missing.path = folder;
    expect_refusal(&missing, SL_EIO, strerror(ENOENT));
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(&o, SL_EIO, strerror(EISDIR));
    rmdir(path);
    kit_forget(path);
}

static void reseal(struct sl_region_header *h)
{
    struct sl_region_header whole;

    sl_plan_header(&h->plan, &whole);
    memcpy(h->checksum, whole.checksum, sizeof whole.checksum);
}

static void damaged_headers_are_refused_and_left_alone(void **state)
{
    const char *path = kit_path();
    struct sl_table_options o = options(path, NULL);
    struct sl_table *t = open_with(&o);
    struct image image, after;
    struct sl_region_header *h;
    size_t covered = offsetof(struct sl_region_header, complete);

    (void)state;
    sl_table_close(&t);
    image = read_file(path);
    h = (struct sl_region_header *)(void *)image.bytes;
    for (size_t at = 0; at < covered; at++) {
        image.bytes[at] ^= 0x10;
        write_file(path, image.bytes, image.size);
        expect_refusal(&o, SL_EFORMAT, "is ");
        after = read_file(path);
        assert_int_equal(after.size, image.size);
        assert_memory_equal(after.bytes, image.bytes, image.size);
        free(after.bytes);
        image.bytes[at] ^= 0x10;
    }
    for (size_t size = image.size - 1; size > 0; size = size / 2) {
        write_file(path, image.bytes, size);
        expect_refusal(&o, SL_EFORMAT, "truncated");
    }
    image.bytes[image.size] = 0;
    write_file(path, image.bytes, image.size + 1);
    expect_refusal(&o, SL_EFORMAT, "longer");
    h->latest_us = SL_TIME_MAX_US + 1;
    write_file(path, image.bytes, image.size);
    expect_refusal(&o, SL_EFORMAT, "clock out of its range");
    h->latest_us = 0;
    h->plan.version++;
    reseal(h);
    write_file(path, image.bytes, image.size);
    expect_refusal(&o, SL_EFORMAT, "another version");
    h->plan.version--;
    h->plan.n_groups++; /* sealed, and yet not what a size of 1,000 keys gives */
    reseal(h);
    write_file(path, image.bytes, image.size);
    expect_refusal(&o, SL_EFORMAT, "do not fit");
    free(image.bytes);
    kit_forget(path);
}

/* A table with something of everything in it, then words of it overwritten with whatever: it opens, answers, and every
 * answer obeys the limit. */
static void use_everything(struct sl_table *t, uint64_t *now_us)
{
    for (unsigned a = 0; a < 5; a++) {
        struct sl_shape shape = kit_shape(all[a], "9/m", 0);
        struct sl_decision d;

        for (unsigned i = 0; i < 400; i++) {
            sl_table_charge(t, kit_key(a, i % 40), &shape, sl_table_now(t), 1, &d);
            assert_true(sl_decision_remaining(&shape, &d) <= 9);
            if (i % 5 == 0)
                sl_table_refund(t, kit_key(a, i % 40), &shape, &d);
            if (i % 50 == 0)
                sl_table_reset(t, kit_key(a, i % 40));
            *now_us += 1000 * (i % 40);
        }
    }
    sl_table_scan(t, UINT64_MAX);
}

static void damage_behind_the_header_is_survived(void **state)
{
    uint64_t seed = 1, now_us = T0;
    const char *path = kit_path();
    struct sl_table *t = kit_open(path, 1000, 1000, &now_us);
    struct image image, copy;

    (void)state;
    use_everything(t, &now_us);
    sl_table_close(&t);
    image = read_file(path);
    copy = (struct image){.bytes = malloc(image.size + 1), .size = image.size};
    for (unsigned round = 0; round < 300; round++) {
        memcpy(copy.bytes, image.bytes, image.size);
        for (unsigned i = 0; i < 1u << (round % 12); i++) {
            size_t from = offsetof(struct sl_region_header, negative_elapsed);
            size_t at = from + kit_random(&seed) % (image.size - 8 - from);
            uint64_t word = kit_random(&seed) >> (kit_random(&seed) % 64);

            memcpy(copy.bytes + at / 8 * 8, &word, 8);
        }
        write_file(path, copy.bytes, copy.size);
        t = kit_open(path, 1000, 1000, &now_us);
        use_everything(t, &now_us);
        sl_table_close(&t);
    }
    free(copy.bytes);
    free(image.bytes);
    kit_forget(path);
}

/* An allocator that fails its n-th call. */
struct scarce {
    unsigned left;
};

static void *scarce_realloc(void *ctx, void *p, size_t size)
{
    struct scarce *s = ctx;

    if (size == 0) {
        free(p);
        return NULL;
    }
    return s->left-- == 0 ? NULL : realloc(p, size);
}

static void want_of_memory_is_an_error(void **state)
{
    uint64_t now_us = T0;
    const char *path = kit_path();
    struct sl_table *t = kit_open(path, 1000, 1000, &now_us);
    struct sl_table_options o = options(path, NULL);
    struct scarce scarce = {0};

    (void)state;
    use_everything(t, &now_us); /* so that there are logs to repair, which takes memory */
    sl_table_close(&t);
    o.alloc = (struct sl_alloc){.realloc = scarce_realloc, .ctx = &scarce};
    o.path = NULL;
    expect_refusal(&o, SL_ENOMEM, "no memory");
    o.path = path;
    scarce.left = 1;
    expect_refusal(&o, SL_ENOMEM, "out of memory");
    scarce.left = 2;
    t = open_with(&o);
    sl_table_close(&t);
    kit_forget(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_on_the_same_file_keeps_the_counts),
        cmocka_unit_test(a_wall_clock_that_is_set_does_not_touch_the_table),
        cmocka_unit_test(after_a_reboot_time_is_wall_time_but_never_less_than_before),
        cmocka_unit_test(of_many_who_open_a_missing_file_one_makes_the_table),
        cmocka_unit_test(an_empty_file_and_a_killed_set_up_are_begun_anew),
        cmocka_unit_test(another_size_is_refused_or_begun_anew_as_asked),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(files_of_others_are_refused_and_left_alone),
        cmocka_unit_test(damaged_headers_are_refused_and_left_alone),
        cmocka_unit_test(damage_behind_the_header_is_survived),
        cmocka_unit_test(want_of_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
