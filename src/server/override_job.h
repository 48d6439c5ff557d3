/* Work on overrides: taken from a request, done elsewhere (the daemon keeps them), answered when it is back.
 *
 * The server fills in the first part and hands the job to hooks.overrides; whoever does it fills in the second and calls
 * sl_override_job_done. The job's memory is the server's. */
#ifndef SL_SERVER_OVERRIDE_JOB_H
#define SL_SERVER_OVERRIDE_JOB_H

#include "policy/override.h"
#include "server/audit.h"
#include "server/post.h"

#include <stddef.h>
#include <stdint.h>

enum sl_override_verb { SL_OVERRIDE_LIST, SL_OVERRIDE_SET, SL_OVERRIDE_REMOVE };

struct json_t;
struct sl_service;
struct sl_http_later;

struct sl_override_job {
    struct sl_post post;
    struct sl_service *service;
    struct sl_http_later *later;
    enum sl_override_verb verb;
    struct json_t *value;        /* what the override borrows its texts from; freed with the job */
    struct sl_override override; /* SET: checked by itself; REMOVE: only key, key_type and limit */
    char author[SL_OVERRIDE_AUTHOR_MAX + 1],
        comment[SL_OVERRIDE_COMMENT_MAX + 1]; /* of the change; never empty author */
    unsigned log;                             /* LIST: so many of the newest changes with it; 0: none */
    char caller[SL_CALLER_MAX];               /* who asks */
    /* the answer */
    int status;
    char *text;        /* JSON, malloc'd; NULL: a problem with `why` */
    char why[1600];    /* a sentence */
    const char *field; /* at fault; static; NULL: none */
};

/* Any thread; once. */
void sl_override_job_done(struct sl_override_job *job);

#endif
