/* Runs a fuzz target over files and folders without libFuzzer, so that plain ctest replays every corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(1u << 20);
    size_t size;

    if (!f || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        if (f)
            fclose(f);
        free(data);
        return 1;
    }
    size = fread(data, 1, 1u << 20, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int run_folder(const char *path, unsigned *n)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    char name[4096];

    if (!dir) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    while ((e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (run_file(name))
            return 1;
        ++*n;
    }
    closedir(dir);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st)) {
            perror(argv[i]);
            return 1;
        }
        if (S_ISDIR(st.st_mode) ? run_folder(argv[i], &n) : (n++, run_file(argv[i])))
            return 1;
    }
    printf("%u inputs replayed\n", n);
    return n == 0;
}
