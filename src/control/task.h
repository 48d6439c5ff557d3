/* What the files of control/versions.h share: asking, and saying what went wrong. */
#ifndef SL_CONTROL_TASK_H
#define SL_CONTROL_TASK_H

#include "control/versions.h"

/* As sl_client_command, with its result as an outcome. All keys are in the slot of `key`. */
enum sl_control sl_control_ask(const struct sl_versions_place *place, const struct sl_word *words, size_t n,
                               const struct sl_control_key *key, sl_client_done *done, void *ctx);

/* EVAL of a script with these keys and arguments, at most SL_EVAL_WORDS_MAX together. */
#define SL_EVAL_WORDS_MAX 16u
enum sl_control sl_control_eval(const struct sl_versions_place *place, const char *script,
                                const struct sl_control_key *keys, size_t n_keys, const struct sl_word *args,
                                size_t n_args, sl_client_done *done, void *ctx);

/* The outcome of a command that was not answered well; writes a sentence about it. `key` is whose command it was. */
enum sl_control sl_control_failed(enum sl_result result, const struct sl_reply *reply, const struct sl_control_key *key,
                                  char *why, size_t why_size);

/* SL_CONTROL_FOREIGN, and the sentence: the key holds something that is not `what`. */
enum sl_control sl_control_foreign(const struct sl_control_key *key, const char *what, char *why, size_t why_size);

struct sl_control_key sl_current_key(const struct sl_versions_place *place);
struct sl_control_key sl_versions_key(const struct sl_versions_place *place);
struct sl_control_key sl_body_key(const struct sl_versions_place *place, const char *hash);
struct sl_control_key sl_running_key(const struct sl_versions_place *place, uint64_t id);

/* How many pieces a text of so many bytes is cut into, and the size of one. */
size_t sl_pieces(size_t len);
size_t sl_piece_len(size_t len, size_t i);

/* Reads the pointer: an empty text is number 0. */
enum sl_control sl_pointer_of(const struct sl_versions_place *place, const struct sl_reply *reply,
                              struct sl_pointer *ret_pointer, char *why, size_t why_size);

#endif
