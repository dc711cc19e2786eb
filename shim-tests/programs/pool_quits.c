// Ends in the middle of vshare's own bookkeeping, as a program does whose signal handler calls `exit`, or forks a child that does.
// Memory is taken and given back at such moments, and this program's own `malloc` and `free` stand before the C library's: at the
// n-th call of theirs by vshare, for every n there is, they do what such a handler would. Argument: exit or fork.
#define _GNU_SOURCE
#include "pool_check.h"
#include <link.h>
#include <sys/wait.h>

enum { WORDS = 1 << 19, MOST = 5000, ENDED = 7, WHOLE = 8 };
static uintptr_t low, high;
static __thread int left;
static int forks;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_realloc(void *at, size_t bytes);
extern void __libc_free(void *at);

static int status_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void look(void *caller) {
    if (!left || (uintptr_t)caller < low || (uintptr_t)caller >= high || --left)
        return;
    if (!forks)
        exit(ENDED);
    pid_t child = fork();
    if (!child) {
        alarm(10);
        exit(ENDED);
    }
    _exit(status_of(child));
}

void *malloc(size_t bytes) {
    look(__builtin_return_address(0));
    return __libc_malloc(bytes);
}
void *realloc(void *at, size_t bytes) {
    look(__builtin_return_address(0));
    return __libc_realloc(at, bytes);
}
void free(void *at) {
    look(__builtin_return_address(0));
    __libc_free(at);
}

static int find(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    if (!strstr(info->dlpi_name, "libvshare"))
        return 0;
    low = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = low + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        high = end > high ? end : high;
    }
    return 1;
}

static void works(void) {
    CUstream streams[2];
    for (int i = 0; i < 2; i++)
        streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 4; i++) {
        CUdeviceptr at = block(4 * WORDS), ordered;
        OK(fill(at, 1, WORDS, streams[i % 2]));
        OK(cuMemAllocAsync(&ordered, 1000, streams[i % 2]));
        OK(cuMemFreeAsync(ordered, streams[i % 2]));
        OK(cuMemFree_v2(at));
    }
    OK(cuStreamDestroy_v2(streams[1]));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    forks = !strcmp(argv[1], "fork");
    dl_iterate_phdr(find, NULL);
    for (int n = 1; n <= MOST; n++) {
        // No parent of these uses CUDA.
        pid_t child = fork();
        if (!child) {
            alarm(20);
            start();
            OK(cuMemFree_v2(block(1)));
            left = n;
            works();
            left = 0;
            _exit(WHOLE);
        }
        int status = status_of(child);
        if (status == WHOLE) {
            printf("%d ended\n", n - 1);
            return 0;
        }
        ANSWERS(ENDED, status);
    }
    return 3;
}
