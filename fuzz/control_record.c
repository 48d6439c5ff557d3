/* What stands in a store about versions and instances: the first byte chooses the reader. What is accepted is written out
 * again and must be read as the same. */
#include "control/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_pointer(const char *text, size_t len)
{
    struct sl_pointer pointer;

    if (sl_pointer_read(text, len, &pointer))
        return;
    require(pointer.number >= 1 && pointer.number <= SL_VERSION_NUMBER_MAX);
    require(strlen(pointer.hash) == SL_HASH_HEX && sl_pointer_equal(&pointer, &pointer));
}

static void check_version(const char *text, size_t len)
{
    struct sl_version version, again;
    char head[SL_RECORD_MAX], tail[SL_RECORD_MAX], record[2 * SL_RECORD_MAX + 32];
    int n;

    if (sl_version_read(7, text, len, &version))
        return;
    if (sl_version_check_texts(version.author, version.comment))
        return; /* an empty author is read, and never written */
    sl_version_write_before(&version, head);
    sl_version_write_after(&version, tail);
    n = snprintf(record, sizeof record, "%s%llu%s", head, (unsigned long long)version.time_us, tail);
    require(n > 0 && sl_version_read(7, record, (size_t)n, &again) == 0);
    require(!strcmp(version.hash, again.hash) && !strcmp(version.token, again.token));
    require(!strcmp(version.author, again.author) && !strcmp(version.comment, again.comment));
    require(version.body_len == again.body_len && version.keys_len == again.keys_len);
    require(version.has_keys == again.has_keys && version.from == again.from && version.time_us == again.time_us);
}

static void check_running(const char *text, size_t len)
{
    struct sl_running running, again;
    char record[SL_RECORD_MAX];

    if (sl_running_read(9, text, len, &running))
        return;
    require(sl_running_read(9, record, sl_running_write(&running, record), &again) == 0);
    require(sl_pointer_equal(&running.version, &again.version) && running.from_file == again.from_file);
    require(running.refused == again.refused && !strcmp(running.host, again.host) && !strcmp(running.why, again.why));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size < 1)
        return 0;
    if (data[0] % 3 == 0)
        check_pointer(text, size - 1);
    else if (data[0] % 3 == 1)
        check_version(text, size - 1);
    else
        check_running(text, size - 1);
    return 0;
}
