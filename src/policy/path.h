/* The name of a place in a policy: "limits[2].rates[0].burst". Grows and shrinks with the walk; never fails: what does
 * not fit is cut and ends in "...". Bytes that are not printable ASCII are written as `?`. */
#ifndef SL_POLICY_PATH_H
#define SL_POLICY_PATH_H

#include <stddef.h>

#define SL_PATH_MAX 200

struct sl_path {
    char text[SL_PATH_MAX];
    size_t len;
};

/* Each appends one step and returns the length before, for sl_path_cut. */
size_t sl_path_field(struct sl_path *path, const char *name, size_t len);
size_t sl_path_index(struct sl_path *path, size_t index);

/* Back to an earlier length. */
void sl_path_cut(struct sl_path *path, size_t len);

#endif
