#include "support.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

const struct sl_secret test_secret = {0x0123456789abcdefu, 0xfedcba9876543210u};

static struct sl_policy_options options(bool has_store)
{
    return (struct sl_policy_options){
        .secret = test_secret, .alloc = sl_alloc_system(), .has_store = has_store, .any_region = true};
}

static struct loaded load_as(const char *text, size_t len, const struct sl_policy_options *o)
{
    struct loaded loaded = {.policy = NULL};

    sl_diags_init(&loaded.diags, sl_alloc_system());
    loaded.rc = sl_policy_parse(text, len, "p.yaml", o, &loaded.policy, &loaded.diags);
    assert_true(loaded.rc == 0 ? loaded.policy != NULL && loaded.diags.n_errors == 0
                               : loaded.rc == SL_EPOLICY && !loaded.policy && loaded.diags.n_errors > 0);
    return loaded;
}

static struct loaded load(const char *text, size_t len, bool has_store)
{
    struct sl_policy_options o = options(has_store);

    return load_as(text, len, &o);
}

struct loaded load_in_region(const char *text, const char *region)
{
    struct sl_policy_options o = options(true);

    o.region = region;
    o.any_region = false;
    return load_as(text, strlen(text), &o);
}

struct loaded load_text(const char *text)
{
    return load(text, strlen(text), false);
}

struct loaded load_bytes(const char *text, size_t len)
{
    return load(text, len, false);
}

struct loaded load_with_store(const char *text)
{
    return load(text, strlen(text), true);
}

struct loaded load_file(const char *path)
{
    struct sl_policy_options o = options(false);
    struct loaded loaded = {.policy = NULL};

    sl_diags_init(&loaded.diags, sl_alloc_system());
    loaded.rc = sl_policy_load(path, &o, &loaded.policy, &loaded.diags);
    return loaded;
}

void unload(struct loaded *loaded)
{
    sl_policy_unref(loaded->policy);
    sl_diags_fini(&loaded->diags);
    loaded->policy = NULL;
}

struct sl_policy *must_load(const char *text)
{
    struct loaded loaded = load_text(text);
    struct sl_policy *policy = loaded.policy;

    if (loaded.rc != 0)
        sl_diags_print(&loaded.diags, stderr);
    assert_int_equal(loaded.rc, 0);
    sl_diags_fini(&loaded.diags);
    return policy;
}

bool has_finding(const struct sl_diags *diags, enum sl_severity severity, unsigned line, unsigned column,
                 const char *field, const char *part)
{
    for (size_t i = 0; i < diags->n; i++) {
        const struct sl_diag *d = &diags->list[i];

        if (d->severity == severity && (line == 0 || (d->line == line && d->column == column)) &&
            !strcmp(d->field, field) && strstr(d->message, part))
            return true;
    }
    return false;
}

static void expect(const struct loaded *loaded, enum sl_severity severity, unsigned line, unsigned column,
                   const char *field, const char *part)
{
    if (has_finding(&loaded->diags, severity, line, column, field, part))
        return;
    sl_diags_print(&loaded->diags, stderr);
    fail_msg("expected %s %u:%u %s: ...%s...", severity == SL_DIAG_ERROR ? "error" : "warning", line, column, field,
             part);
}

void expect_error(const struct loaded *loaded, unsigned line, unsigned column, const char *field, const char *part)
{
    expect(loaded, SL_DIAG_ERROR, line, column, field, part);
}

void expect_warning(const struct loaded *loaded, unsigned line, unsigned column, const char *field, const char *part)
{
    expect(loaded, SL_DIAG_WARNING, line, column, field, part);
}

void expect_no_findings(const struct loaded *loaded)
{
    if (loaded->rc != 0 || loaded->diags.n)
        sl_diags_print(&loaded->diags, stderr);
    assert_int_equal(loaded->rc, 0);
    assert_int_equal(loaded->diags.n, 0);
}

struct sluice_request request_of(const char *key, const char *scope)
{
    struct sluice_request r = SLUICE_REQUEST_INIT;

    r.key = key;
    r.key_len = strlen(key);
    r.scope = scope;
    r.scope_len = scope ? strlen(scope) : 0;
    return r;
}

struct sl_resolution *resolve(const struct sl_policy *policy, const struct sluice_request *request)
{
    static struct sl_resolution r;

    memset(&r, 0xaa, sizeof r); /* what is not set must not matter */
    sl_policy_resolve(policy, request, &r);
    return &r;
}
