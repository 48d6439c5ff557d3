/* The slots of a Redis Cluster: which slot a key is in, and what a cluster says of who serves it. No I/O. */
#ifndef SL_STORE_SLOTS_H
#define SL_STORE_SLOTS_H

#include "store/net.h"
#include "store/reply.h"

#define SL_SLOTS 16384u
#define SL_SLOT_RANGES_MAX 16384u

/* The slot of a key: CRC16 of what stands in its first braces, when that is not empty, else of all of it. */
unsigned sl_slot_of(const char *key, size_t len);

struct sl_slot_range {
    uint16_t from, to; /* both included */
    struct sl_endpoint master;
};

/* Reads the reply to CLUSTER SLOTS, range after range. An empty or absent host means the server that was asked
 * (`asked`). Of later additions (node id, metadata, whatever else) only the address in the metadata is used, when the
 * host is "?": the server then knows no name of its own. A range whose server cannot be told has host "". Unknown
 * extra elements are ignored. Returns the number of ranges, or SL_EFORMAT, or SL_ENOMEM; then nothing is returned.
 * The caller frees *ret_ranges (sl_free). */
int sl_slots_read(const struct sl_reply *reply, const struct sl_endpoint *asked, const struct sl_alloc *alloc,
                  struct sl_slot_range **ret_ranges);

/* Addresses of all servers in the reply, replicas too, without doubles: at most `max`. Returns how many. */
unsigned sl_slots_servers(const struct sl_reply *reply, const struct sl_endpoint *asked,
                          struct sl_endpoint *ret_endpoints, unsigned max);

/* Reads the error "MOVED slot host:port" or "ASK slot host:port". An empty host is the server that answered. Returns
 * 0, or SL_EFORMAT. */
int sl_slots_redirect(const char *text, size_t len, const struct sl_endpoint *asked, unsigned *ret_slot,
                      struct sl_endpoint *ret_endpoint);

#endif
