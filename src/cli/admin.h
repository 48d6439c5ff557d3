/* Asking a daemon's admin listener, and telling what it says. */
#ifndef SL_CLI_ADMIN_H
#define SL_CLI_ADMIN_H

#include "cli/cli.h"
#include "cli/connect.h"

#include <stdint.h>

struct json_t;

#define ADMIN_PATH_MAX 32768u /* a key and its scope, whatever is in them; more than a daemon takes */

/* A path with a query, put together: "/v1/top?n=20". */
struct admin_path {
    char text[ADMIN_PATH_MAX];
    bool failed; /* something did not fit */
};

void admin_path_begin(struct admin_path *path, const char *text);
/* Adds "name=value", encoded; a value of NULL adds nothing. */
void admin_path_add(struct admin_path *path, const char *name, const char *value);
void admin_path_add_number(struct admin_path *path, const char *name, uint64_t value);

/* Asks. Returns the answer, or NULL with the sentence in `why` and *ret_status: the answer's, 0 when none came, 414 when the
 * path was too long to be asked. */
struct json_t *admin_ask(const struct cli_connect *connect, const char *method, const struct admin_path *path,
                         long *ret_status, char *why, size_t why_size);
/* The same with a body, JSON; NULL: none. */
struct json_t *admin_send(const struct cli_connect *connect, const char *method, const struct admin_path *path,
                          const char *body, long *ret_status, char *why, size_t why_size);

/* The exit status of a failed question about traffic. No such route says 404 of itself: whoever does is no admin listener. */
enum cli_status admin_failure(long status);

/* A member that is a string, made fit for a terminal whoever sent it; "" when it is none. */
#define ADMIN_TEXT_MAX 2048u
const char *admin_shown(const struct json_t *value, char buf[static ADMIN_TEXT_MAX]); /* the same of a value */
const char *admin_text(const struct json_t *object, const char *name, char buf[static ADMIN_TEXT_MAX]);

/* Makes all of an answer fit for a terminal, whoever sent it: texts as above, in full; numbers not beyond ADMIN_NUMBER_MAX, so
 * that sums and milliseconds of them are numbers too. What is printed as JSON stays as it came. */
#define ADMIN_NUMBER_MAX (INT64_C(1) << 53)
void admin_fit(struct json_t *answer);

/* A member that is a whole number; 0 when it is none. Not beyond ADMIN_NUMBER_MAX. */
long long admin_number(const struct json_t *object, const char *name);

/* "2026-01-31T12:03:04.120Z", to Unix milliseconds; 0 when it is none. */
int64_t admin_time(const struct json_t *object, const char *name);

/* As the daemon's log has it: "2026-01-31T12:03:04.120Z". */
#define ADMIN_CLOCK_MAX 64u
const char *admin_clock(int64_t unix_ms, char buf[static ADMIN_CLOCK_MAX]);

/* "ops@desk, until 2026-01-31T18:00:00.000Z: comment": of an override, as the daemon shows it, and what it says besides. */
#define ADMIN_OVERRIDE_MAX (3 * ADMIN_TEXT_MAX + 32)
const char *admin_override(const struct json_t *override, char buf[static ADMIN_OVERRIDE_MAX]);
/* "50/m", "50/m burst 10", "blocked". */
#define ADMIN_RATE_MAX (ADMIN_TEXT_MAX + 32)
const char *admin_rate(const struct json_t *override, char buf[static ADMIN_RATE_MAX]);

/* Now, as the daemon's answers count it: Unix milliseconds. */
int64_t admin_now_ms(void);

#endif
