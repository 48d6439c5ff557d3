/* The daemon's life: set-up in order, serving, reloads, draining, end. */
#ifndef SL_SLUICED_DAEMON_H
#define SL_SLUICED_DAEMON_H

#include "sluiced/config.h"

/* Runs until SIGTERM or SIGINT and the drain that follows. Returns the process's exit status: 0 stopped, 2 could not
 * start (one line on standard error has said why). `options` is what filled `config`. Call once, from the main thread,
 * before any other thread exists. */
int sl_daemon_run(const struct sl_config *config, const struct sl_options *options);

#endif
