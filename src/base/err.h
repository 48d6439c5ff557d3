/* Error codes of the library: functions return 0 or one of these, negative.
 *
 * "Over limit" is never an error: it is a verdict. A code here says that no verdict, policy or table could be
 * had. Codes, names and messages come from the one table SL_ERR_MAP; the public header repeats the numbers and
 * a static_assert in src/lib keeps the two in step. */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

/* name, number, message */
#define SL_ERR_MAP(X)                                           \
    X(NOMEM, 1, "out of memory")                                \
    X(INVALID, 2, "an argument or option is out of its range")  \
    X(IO, 3, "a file could not be read or written")             \
    X(POLICY, 4, "the policy has errors")                       \
    X(FORMAT, 5, "not a file of this kind, or a damaged one")   \
    X(BUSY, 6, "the resource is in use in an incompatible way") \
    X(NOTFOUND, 7, "no such thing")                             \
    X(UNSUPPORTED, 8, "not supported on this machine or store")

enum sl_err {
    SL_OK = 0,
#define X(name, number, message) SL_E##name = -(number),
    SL_ERR_MAP(X)
#undef X
};

/* The message of a code, for people; never NULL. Any thread. */
const char *sl_err_text(int code);

/* The symbolic name ("ENOMEM" style: "nomem"), for logs and JSON; never NULL. Any thread. */
const char *sl_err_name(int code);

#endif
