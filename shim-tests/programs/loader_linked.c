// Calls the driver without looking for it: linked with it, or built with WEAK, with whatever the
// dynamic linker finds. With WEAK, an argument is a driver to open before a second try.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#ifdef WEAK
#pragma weak cuInit
#pragma weak cuMemsetD8Async
#pragma weak cuMemsetD8Async_ptsz
#endif
int cuInit(unsigned);
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void *);
int cuMemsetD8Async_ptsz(uint64_t, unsigned char, size_t, void *);

static void call(void) {
    printf("%d %d %d\n", cuInit(0), cuMemsetD8Async(0, 0, 0, NULL), cuMemsetD8Async_ptsz(0, 0, 0, NULL));
}

int main(int argc, char **argv) {
#ifdef WEAK
    if (!cuInit) return puts("nobody"), 0;
#endif
    call();
    if (argc > 1 && dlopen(argv[1], RTLD_NOW)) call();
    return 0;
}
