/* Work on the policy's versions: taken from a request, done elsewhere (the daemon has the store), answered when it is back.
 *
 * The server fills in the first part and hands the job to hooks.policy; whoever does it fills in the second and calls
 * sl_policy_job_done. The job's memory is the server's. */
#ifndef SL_SERVER_POLICY_JOB_H
#define SL_SERVER_POLICY_JOB_H

#include "identity/address.h"
#include "server/post.h"

#include <stddef.h>
#include <stdint.h>

#define SL_JOB_AUTHOR_MAX 128u
#define SL_JOB_COMMENT_MAX 1024u
#define SL_JOB_HISTORY_MAX 1000u

enum sl_policy_verb { SL_POLICY_PUSH, SL_POLICY_HISTORY, SL_POLICY_ROLLBACK };

struct sl_service;
struct sl_http_later;

struct sl_policy_job {
    struct sl_post post;
    struct sl_service *service;
    struct sl_http_later *later;
    enum sl_policy_verb verb;
    char *body, *keys; /* PUSH: NUL-terminated; keys NULL: no keys_file. Freed with the job */
    size_t body_len, keys_len;
    char author[SL_JOB_AUTHOR_MAX + 1], comment[SL_JOB_COMMENT_MAX + 1]; /* author: empty when not given */
    char match[72];  /* If-Match: the hash that must be current; empty: whatever it is */
    uint64_t number; /* ROLLBACK: what to bring back, 0: the one before; HISTORY: only older ones, 0: all */
    unsigned limit;  /* HISTORY */
    char peer[SL_ADDRESS_TEXT_MAX]; /* who asks */
    /* the answer */
    int status;
    char *text;        /* JSON, malloc'd; NULL: a problem with `why` */
    char etag[72];     /* a hash; empty: none */
    char why[1600];    /* a sentence */
    const char *field; /* at fault; static; NULL: none */
};

/* Any thread; once. */
void sl_policy_job_done(struct sl_policy_job *job);

#endif
