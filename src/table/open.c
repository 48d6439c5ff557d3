#include "table/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define POPULATE_MAX (UINT64_C(256) << 20)
#define HUGE_PAGE ((size_t)2 << 20)

struct sl_table_options sl_table_defaults(void)
{
    return (struct sl_table_options){
        .keys = 1000000, .log_entries = 1000000, .clock = sl_clock_system(), .alloc = sl_alloc_system()};
}

void sl_table_set_probe(struct sl_table *table, void (*fn)(void *ctx, enum sl_point point), void *ctx)
{
    table->probe_ctx = ctx;
    table->probe = fn;
}

/* Zeroed memory that begins on a huge page, and is made of them where the machine has them: two cache misses a
 * decision are enough without a miss of the page table before each. */
static int map_anonymous(struct sl_table *t, size_t bytes)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    unsigned char *at = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (at == MAP_FAILED)
        return SL_ENOMEM;
    if (align) {
        before = (HUGE_PAGE - ((uintptr_t)at & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
        if (before)
            munmap(at, before);
        munmap(at + before + bytes, align - before);
        at += before;
        /* Wishes; without them all is as right and a little slower. Zeroing a huge page takes longer than a decision may:
         * it is done now, where it takes no longer than anybody waits for a start. */
        madvise(at, bytes, MADV_HUGEPAGE);
        if (bytes <= POPULATE_MAX)
            madvise(at, bytes, MADV_POPULATE_WRITE);
    }
    t->mapping = at;
    t->mapping_bytes = bytes;
    return 0;
}

static int open_anonymous(struct sl_table *t, const struct sl_table_options *o, char *why, size_t why_size)
{
    struct sl_region_header header;
    struct sl_region_plan plan;
    struct sl_secret secret;

    if (o->secret)
        secret = *o->secret;
    else if (sl_secret_random(&secret)) {
        snprintf(why, why_size, "the table cannot be set up: no random numbers");
        return SL_EIO;
    }
    sl_plan_make(&plan, o->keys, o->log_entries, secret, o->clock.wall_us(o->clock.ctx));
    if (map_anonymous(t, (size_t)plan.bytes)) {
        snprintf(why, why_size, "no memory for a table of %llu keys: it takes %llu bytes", (unsigned long long)o->keys,
                 (unsigned long long)plan.bytes);
        return SL_ENOMEM;
    }
    sl_plan_header(&plan, &header);
    header.complete = 1;
    memcpy(t->mapping, &header, sizeof header);
    sl_plan_attach(t, t->mapping);
    sl_anchor_init(t, true);
    return 0;
}

static int check_ranges(const struct sl_table_options *o, char *why, size_t why_size)
{
    if (o->keys < SL_TABLE_KEYS_MIN || o->keys > SL_TABLE_KEYS_MAX) {
        snprintf(why, why_size, "the table's size is %llu keys: it must be %llu to %llu", (unsigned long long)o->keys,
                 (unsigned long long)SL_TABLE_KEYS_MIN, (unsigned long long)SL_TABLE_KEYS_MAX);
        return SL_EINVALID;
    }
    if (o->log_entries > SL_TABLE_LOG_ENTRIES_MAX) {
        snprintf(why, why_size, "the table's room for log entries is %llu: it must be 0 to %llu",
                 (unsigned long long)o->log_entries, (unsigned long long)SL_TABLE_LOG_ENTRIES_MAX);
        return SL_EINVALID;
    }
    return 0;
}

int sl_table_open(const struct sl_table_options *options, struct sl_table **ret_table, char *ret_why, size_t why_size)
{
    struct sl_table *t;
    char nothing[1];
    int err;

    if (!ret_why || why_size == 0) {
        ret_why = nothing;
        why_size = sizeof nothing;
    }
    ret_why[0] = 0;
    err = check_ranges(options, ret_why, why_size);
    if (err)
        return err;
    t = sl_calloc(&options->alloc, 1, sizeof *t);
    if (!t) {
        snprintf(ret_why, why_size, "no memory for the table's handle");
        return SL_ENOMEM;
    }
    t->fd = -1;
    t->alloc = options->alloc;
    t->clock = options->clock;
    err = sl_self_init(t);
    if (err)
        snprintf(ret_why, why_size, "no memory for the table's handle");
    else
        err =
            options->path ? sl_file_open(t, options, ret_why, why_size) : open_anonymous(t, options, ret_why, why_size);
    if (err) {
        sl_table_close(&t);
        return err;
    }
    *ret_table = t;
    return 0;
}

void sl_table_close(struct sl_table **table)
{
    struct sl_table *t = *table;
    struct sl_alloc alloc;

    if (!t)
        return;
    *table = NULL;
    alloc = t->alloc;
    if (t->header)
        sl_raise(&t->header->latest_us, sl_table_now(t)); /* where a later process goes on */
    sl_self_fini(t);
    if (t->mapping)
        munmap(t->mapping, t->mapping_bytes);
    sl_file_close(t);
    sl_free(&alloc, t);
}

struct sl_secret sl_table_secret(const struct sl_table *table)
{
    return (struct sl_secret){table->header->plan.k0, table->header->plan.k1};
}
