/* What tests of the store client stand on: a client on a loop of its own, real servers that can be stopped and started
 * again at the same address, and a puppet: a server that says what a test tells it to. */
#ifndef TESTS_STORE_RIG_H
#define TESTS_STORE_RIG_H

#include "store/client.h"
#include "store/net_uv.h"

#include <stdbool.h>
#include <sys/types.h>

#define RIG_PATIENCE_MS 30000

/* ---- the client */

struct rig {
    uv_loop_t loop;
    uv_timer_t tick;
    struct sl_net_uv net;
    struct sl_alloc alloc;
    struct sl_store_url url;
    struct sl_client_config config;
    struct sl_client *client;
    uint64_t ahead_us; /* how far the client's clock is ahead of the loop's; a test may move it on */
    char sha1[41];
    /* what was told */
    unsigned connected, disconnected, opened, closed, failovers;
    char said[4096]; /* the texts, the newest last */
    enum sl_result cause;
};

struct answer {
    bool done;
    unsigned times;
    enum sl_result result;
    int64_t integer;
    char text[256];
};

/* Sets up the loop and a config: the script increments KEYS[1] and returns the count; timeout 5 s. The test may
 * change rig->config, then calls rig_open. */
void rig_init(struct rig *rig, const char *url);
void rig_open(struct rig *rig);
/* Frees the client and the loop; fails when something is left over. */
void rig_close(struct rig *rig);

/* Runs the loop until *flag, or for the whole patience; returns *flag. */
bool rig_wait(struct rig *rig, const bool *flag);
bool rig_wait_until(struct rig *rig, bool (*reached)(void *ctx), void *ctx);
/* Runs the loop for about this long. */
void rig_run_ms(struct rig *rig, unsigned ms);

/* One call of the script on `key`, and its answer. */
struct answer rig_count(struct rig *rig, const char *key);
/* The same, not waited for; `answer` must live until it is done. */
void rig_count_later(struct rig *rig, const char *key, struct answer *answer);
/* Any command, and its answer. */
struct answer rig_command(struct rig *rig, const char *key, const char *const *words);
/* Repeats until the store answers; fails when the patience ends. Returns the time it took in ms. */
uint64_t rig_until_ok(struct rig *rig, const char *key);
/* Sum of a counter over all shards. */
uint64_t rig_total(struct rig *rig, enum sl_result result);
void rig_done(void *ctx, enum sl_result result, const struct sl_reply *reply);

/* ---- servers */

struct server {
    pid_t pid; /* 0: not running */
    int port;
    char folder[64];
    const char *const *options; /* further words of redis-server's command line, NULL-terminated; or NULL */
};

int free_port(void);
/* Starts redis-server in a new folder on a free port; in the folder are `socket`, `log`. */
void server_start(struct server *server, const char *const *options);
/* The same without waiting for it to answer. */
void server_launch(struct server *server);
void server_wait(struct server *server);
void server_kill(struct server *server); /* SIGKILL */
void server_signal(struct server *server, int signal);
void server_remove(struct server *server); /* kills it and removes its folder */
/* Runs a program to its end; fails the test when it fails. */
void run_program(const char *const *argv);
/* redis-cli -p port words...: for effect. */
void server_cli(const struct server *server, const char *const *words);

/* ---- the puppet, on the rig's own loop */

struct puppet {
    uv_pipe_t listener;
    bool listening;
    char path[96];
    struct rig *rig;
    struct strings *strings;             /* connections */
    unsigned n_open, accepted, received; /* received: calls of the script */
    /* Answers to one command (its bytes): writes into `reply` and returns the length; 0: says nothing; -1: hangs up.
     * NULL: all is well. */
    int (*speak)(struct puppet *puppet, const char *command, char *reply, size_t size);
};

void puppet_start(struct puppet *puppet, struct rig *rig, const char *path);
/* Stops listening and hangs up on everybody. */
void puppet_stop(struct puppet *puppet);
/* What a server with neither password nor module says to the greeting, and ":7" to the script. */
int puppet_politely(const char *command, char *reply, size_t size);

#endif
