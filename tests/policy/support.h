/* Loading policies from text in tests. */
#ifndef TESTS_POLICY_SUPPORT_H
#define TESTS_POLICY_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/policy.h"

/* The secret every test policy has. */
extern const struct sl_secret test_secret;

struct loaded {
    int rc;
    struct sl_policy *policy; /* NULL when rc != 0 */
    struct sl_diags diags;
};

/* Compiles text as "p.yaml", without a store, for all regions. Free with unload. */
struct loaded load_text(const char *text);
struct loaded load_bytes(const char *text, size_t len);
struct loaded load_with_store(const char *text);
/* With a store, as an instance in this region does; NULL: in none. */
struct loaded load_in_region(const char *text, const char *region);
struct loaded load_file(const char *path);
void unload(struct loaded *loaded);

/* A policy that must load; findings are printed and the test fails when it does not. */
struct sl_policy *must_load(const char *text);

/* True when a finding has this severity, place, and a message that contains `part`. Line 0: any place. */
bool has_finding(const struct sl_diags *diags, enum sl_severity severity, unsigned line, unsigned column,
                 const char *field, const char *part);

/* Fails with all findings printed unless has_finding. */
void expect_error(const struct loaded *loaded, unsigned line, unsigned column, const char *field, const char *part);
void expect_warning(const struct loaded *loaded, unsigned line, unsigned column, const char *field, const char *part);
void expect_no_findings(const struct loaded *loaded);

/* A request for key and scope; the rest default. NULL scope: none. */
struct sluice_request request_of(const char *key, const char *scope);

/* Resolves into static storage. */
struct sl_resolution *resolve(const struct sl_policy *policy, const struct sluice_request *request);

#endif
