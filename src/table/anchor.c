/* The table's clock: wall time when the region was made (or first opened after a boot), carried on by the time
 * since boot. Setting the wall clock does not touch it.
 *
 * `latest_us` in the region is what no reading may fall behind. A clock that can step back raises it at every
 * reading. One that cannot (CLOCK_BOOTTIME, the same for all processes of the machine) only needs it for a later
 * boot and beside event times that were brought in, so it raises it once a heartbeat and the hot path writes
 * nothing. */
#include "table/internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define HEARTBEAT_US UINT64_C(100000)

static void read_boot_id(uint64_t id[2])
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    unsigned digits = 0;

    id[0] = id[1] = 0;
    if (fd < 0)
        return;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    for (const char *p = text; *p && digits < 32; p++) {
        unsigned v;

        if (*p >= '0' && *p <= '9')
            v = (unsigned)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            v = (unsigned)(*p - 'a') + 10;
        else
            continue;
        id[digits / 16] = id[digits / 16] << 4 | v;
        digits++;
    }
}

static uint64_t mono_us(const struct sl_table *t)
{
    return t->clock.mono_us(t->clock.ctx);
}

const char *sl_anchor_refuse(const struct sl_region_header *h)
{
    if (h->anchor_wall_us > SL_TIME_MAX_US || h->latest_us > SL_TIME_MAX_US || h->anchor_mono_us > SL_TIME_MAX_US)
        return "has a clock out of its range";
    return NULL;
}

static uint64_t at_most_max(uint64_t t_us)
{
    return t_us < SL_TIME_MAX_US ? t_us : SL_TIME_MAX_US;
}

static void anchor_anew(struct sl_table *t, const uint64_t boot_id[2], uint64_t wall_us, uint64_t mono)
{
    struct sl_region_header *h = t->header;

    h->anchor_wall_us = at_most_max(wall_us > h->latest_us ? wall_us : h->latest_us);
    h->anchor_mono_us = at_most_max(mono);
    h->boot_id[0] = boot_id[0];
    h->boot_id[1] = boot_id[1];
    sl_raise(&h->latest_us, h->anchor_wall_us);
}

void sl_anchor_init(struct sl_table *t, bool alone)
{
    struct sl_region_header *h = t->header;
    uint64_t boot_id[2], mono = mono_us(t);

    if (alone) {
        read_boot_id(boot_id);
        /* A steady clock of the same boot goes on; whatever else there was before has no relation to this one. */
        if (!t->clock.steady || h->anchor_wall_us == 0 || boot_id[0] != h->boot_id[0] || boot_id[1] != h->boot_id[1] ||
            mono < h->anchor_mono_us)
            anchor_anew(t, boot_id, t->clock.wall_us(t->clock.ctx), mono);
        else if (h->anchor_wall_us + (mono - h->anchor_mono_us) < h->latest_us)
            anchor_anew(t, boot_id, h->latest_us, mono); /* time goes on from there, it does not stand */
    }
    t->offset_us = h->anchor_wall_us - h->anchor_mono_us;
}

/* The reading `now_us` against what everybody saw: raises latest, or is raised to it. */
static uint64_t in_order(struct sl_table *t, uint64_t now_us, bool count)
{
    uint64_t *place = &t->header->latest_us, latest = __atomic_load_n(place, __ATOMIC_RELAXED);

    now_us = at_most_max(now_us);
    while (latest < now_us) {
        if (__atomic_compare_exchange_n(place, &latest, now_us, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return now_us;
    }
    if (count && latest > now_us)
        sl_add(&t->header->negative_elapsed, 1);
    return latest;
}

uint64_t sl_table_now(struct sl_table *t)
{
    uint64_t now_us = t->offset_us + mono_us(t);

    if (SL_LIKELY(t->clock.steady)) {
        uint64_t latest = __atomic_load_n(&t->header->latest_us, __ATOMIC_RELAXED);

        if (SL_LIKELY(now_us - latest < HEARTBEAT_US))
            return now_us;
        return in_order(t, now_us, false);
    }
    return in_order(t, now_us, true);
}

uint64_t sl_table_clamp(struct sl_table *t, uint64_t t_us)
{
    return in_order(t, t_us, true);
}

uint64_t sl_anchor_catch_up(struct sl_table *t, uint64_t now_us, uint64_t ahead_us)
{
    uint64_t real_us;

    if (SL_LIKELY(ahead_us <= now_us))
        return now_us;
    real_us = sl_table_now(t);
    if (ahead_us <= real_us)
        return ahead_us;
    return real_us > now_us ? real_us : now_us;
}
