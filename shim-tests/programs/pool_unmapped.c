// Works under pressure while the system refuses to map files of shared memory: this program's `mmap` stands before the C library's.
#define _GNU_SOURCE
#include "pool_check.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int refused;

static void *maps(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    char link[32], path[16] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    // The simulated driver maps files of its own, which are not there.
    if (file >= 0 && readlink(link, path, 9) == 9 && !strcmp(path, "/dev/shm/")) {
        refused++;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    return maps(at, bytes, protection, flags, file, offset);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off64_t offset) {
    return maps(at, bytes, protection, flags, file, offset);
}

int main(int argc, char **argv) {
    (void)argv;
    CUdeviceptr blocks[12];
    start();
    for (int i = 0; i < 12; i++)
        OK(fill(blocks[i] = block(2 * MIB), i, MIB / 2, NULL));
    for (int i = 0; i < 12; i++)
        ANSWERS(i, word_at(blocks[i] + 2 * MIB - 4));
    for (int i = 0; i < 12; i++)
        OK(cuMemFree_v2(blocks[i]));
    // With an argument: it was tried.
    HOLDS(argc == 1 || refused);
    puts("done");
}
