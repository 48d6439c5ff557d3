/* Files opened as a table: refused, or safe to use.
 *
 * The first byte says how the rest is meant. Even: it is the file, as it is. Odd: it is damage done to a good
 * table, as [offset 3 bytes, value 1 ... 8 bytes] pieces behind the header; then the header's checksum is made
 * right again, so that damage to the geometry gets past it. What opens is used: every algorithm on keys that were
 * in the good table and on new ones. */
#include "table/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEYS 1000
#define HITS 500

static const enum sl_algorithm algorithms[] = {SL_TOKEN_BUCKET, SL_LEAKY_BUCKET, SL_FIXED_WINDOW, SL_SLIDING_WINDOW_LOG,
                                               SL_SLIDING_WINDOW_COUNTER};
static uint64_t now_us = 1760000000000000;
static unsigned char *good;
static size_t good_size;

static struct sl_table *open_file(const char *path)
{
    struct sl_table_options o = sl_table_defaults();
    struct sl_table *t = NULL;
    char why[200];

    o.keys = KEYS;
    o.log_entries = HITS;
    o.path = path;
    o.clock = sl_clock_manual(&now_us);
    return sl_table_open(&o, &t, why, sizeof why) ? NULL : t;
}

static void use(struct sl_table *t)
{
    const char *why;

    for (unsigned a = 0; a < 5; a++) {
        struct sl_rate rate = {.kind = SL_RATE_LIMITED, .count = 9, .period_us = 60000000};
        struct sl_shape shape;
        struct sl_decision d;

        if (sl_shape_init(&shape, algorithms[a], &rate, 0, &why))
            abort();
        for (unsigned i = 0; i < 40; i++) {
            struct sl_hash128 fp = sl_hash13((struct sl_secret){1, 2}, (uint32_t[2]){a, i % 12}, 8);

            sl_table_prefetch_state(t, fp);
            sl_table_charge(t, fp, &shape, sl_table_now(t), 1 + i % 3, &d);
            if (sl_decision_remaining(&shape, &d) > 9)
                abort();
            if (i % 7 == 0)
                sl_table_refund(t, fp, &shape, &d);
            sl_table_look(t, fp, &shape, sl_table_now(t), i % 11, &d);
            if (i % 19 == 0)
                sl_table_reset(t, fp);
            now_us += 100000 * (i % 5);
        }
    }
    sl_table_scan(t, UINT64_MAX);
}

/* The file lives in memory; each input gets a fresh one. */
static int new_file(char path[40])
{
    int fd = memfd_create("table", MFD_CLOEXEC);

    if (fd < 0)
        abort();
    snprintf(path, 40, "/proc/self/fd/%d", fd);
    return fd;
}

static void make_good(void)
{
    char path[40];
    int fd = new_file(path);
    struct sl_table *t = open_file(path);

    if (!t)
        abort();
    use(t);
    good_size = t->mapping_bytes;
    good = malloc(good_size);
    memcpy(good, t->mapping, good_size);
    sl_table_close(&t);
    close(fd);
}

static size_t apply(unsigned char *image, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        size_t at = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % good_size;
        size_t n = 1 + data[3] % 8;

        data += 4;
        size -= 4;
        for (; n > 0 && size > 0 && at < good_size; n--, size--)
            image[at++] = *data++;
    }
    return good_size;
}

static void reseal(unsigned char *image)
{
    struct sl_region_header *h = (struct sl_region_header *)(void *)image, whole;

    sl_plan_header(&h->plan, &whole);
    memcpy(h->checksum, whole.checksum, sizeof whole.checksum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *image;
    struct sl_table *t;
    char path[40];
    int fd;

    if (size == 0)
        return 0;
    if (!good)
        make_good();
    fd = new_file(path);
    image = malloc(good_size);
    memcpy(image, good, good_size);
    if (data[0] & 1) {
        apply(image, data + 1, size - 1);
        reseal(image);
        if (write(fd, image, good_size) != (ssize_t)good_size)
            abort();
    } else if (write(fd, data + 1, size - 1) != (ssize_t)(size - 1)) {
        abort();
    }
    free(image);
    now_us = 1760000000000000 + 3600000000;
    t = open_file(path);
    if (t)
        use(t);
    sl_table_close(&t);
    close(fd);
    return 0;
}
