/* Work on the policy's versions, and on candidates: taken from a request, done elsewhere (the daemon has the store),
 * answered when it is back.
 *
 * The server fills in the first part and hands the job to hooks.policy, or to hooks.shadow when the verb is
 * SL_SHADOW_REPORT or a later one; whoever does it fills in the second and calls sl_policy_job_done. The job's
 * memory is the server's. */
#ifndef SL_SERVER_POLICY_JOB_H
#define SL_SERVER_POLICY_JOB_H

#include "identity/address.h"
#include "policy/diag.h"
#include "server/post.h"
#include "server/route.h"

#include <stddef.h>
#include <stdint.h>

#define SL_JOB_AUTHOR_MAX 128u
#define SL_JOB_COMMENT_MAX 1024u
#define SL_JOB_HISTORY_MAX 1000u

enum sl_policy_verb {
    SL_POLICY_PUSH,
    SL_POLICY_HISTORY,
    SL_POLICY_ROLLBACK,
    SL_POLICY_TEXTS,
    SL_SHADOW_REPORT, /* hooks.shadow's, as all that follow */
    SL_SHADOW_START,
    SL_SHADOW_STOP,
    SL_SHADOW_PROMOTE,
    SL_DRY_REPORT,
    SL_DRY_CLEAR,
};

struct sl_policy_job {
    struct sl_post post;
    struct sl_service *service;
    struct sl_http_later *later;
    enum sl_policy_verb verb;
    char *body, *keys; /* PUSH, START: NUL-terminated; keys NULL: no keys_file. Freed with the job */
    size_t body_len, keys_len;
    char author[SL_JOB_AUTHOR_MAX + 1], comment[SL_JOB_COMMENT_MAX + 1]; /* author: empty when not given */
    char match[72]; /* If-Match: the hash that must be current; empty: whatever it is */
    uint64_t
        number; /* ROLLBACK: what to bring back, 0: the one before; TEXTS: which, 0: current; HISTORY: only older, 0: all */
    unsigned limit;                 /* HISTORY */
    enum sl_warnings refused;       /* PUSH */
    bool match_any;                 /* If-Match: * was given */
    bool with_text;                 /* SHADOW_REPORT: and the candidate itself */
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

/* ---- for handlers */

/* NULL: it has been answered why. */
struct sl_policy_job *sl_policy_job_new(struct sl_call *call, const struct sl_http_request *request,
                                        enum sl_policy_verb verb, struct sl_http_response *response);
/* Of one that was not handed over. */
void sl_policy_job_free(struct sl_policy_job *job);
/* Takes the job. answer_bytes: about how long its answer will be. */
void sl_policy_job_hand_over(struct sl_call *call, struct sl_policy_job *job, size_t answer_bytes,
                             struct sl_http_response *response);

/* Each returns false after it has answered what is wrong. The query; If-Match, whose absence is the caller's to
 * judge; all of a request that brings a policy; all of one that changes something without one. */
bool sl_policy_job_read_query(struct sl_policy_job *job, struct sl_slice query, struct sl_http_response *response);
bool sl_policy_job_read_match(struct sl_policy_job *job, const struct sl_http_request *request, bool *ret_given,
                              struct sl_http_response *response);
bool sl_policy_job_read_push(struct sl_policy_job *job, struct sl_call *call, const struct sl_http_request *request,
                             struct sl_http_response *response);
bool sl_policy_job_read_change(struct sl_policy_job *job, struct sl_call *call, const struct sl_http_request *request,
                               struct sl_http_response *response);

#endif
