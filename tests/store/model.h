/* What the store must do, told plainly by core: the oracle of the differential test. A group is begun, its requests
 * are decided one by one, and it is ended, as script and module do it in one call. */
#ifndef TESTS_STORE_MODEL_H
#define TESTS_STORE_MODEL_H

#include "core/log.h"
#include "store/codec.h"

#define MODEL_ENTRIES_MAX 4096

struct model {
    struct sl_shape shape;
    struct sl_state state; /* as stored */
    bool stored;           /* there is a value */
    /* while a group is decided */
    struct sl_state now_state;
    bool healed, charged;
    /* the log, oldest first; the last entry may be of the group that is being decided */
    struct model_entry {
        uint64_t t_us;
        uint32_t cost;
    } entries[MODEL_ENTRIES_MAX];
    size_t n_entries;
};

void model_begin(struct model **models, unsigned n, uint64_t now_us, bool peek);
bool model_decide(struct model **models, unsigned n, uint64_t now_us, const uint32_t *costs, struct sl_decision *ret);
void model_end(struct model **models, unsigned n, uint64_t now_us, bool peek);

/* Gives a charge back; true when there was something to give back. */
bool model_refund(struct model *m, const struct sl_decision *charge, uint64_t now_us);

#endif
