// A libcuda.so.1 that can be found, and does nothing. Options:
//   FEW           only the functions of an old driver: no cuGetProcAddress, no _ptsz
//   NO_GPA_V2     cuGetProcAddress in its first version only
//   ASKS_ITSELF   cuInit looks itself up by dlsym
//   ASKS_HELPER   cuInit lets another library look itself up
//   ASKS_EARLY    a constructor looks functions up by dlsym
//   CALLS_EARLY   a constructor calls exported functions, as other libraries would
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "loader_whose.h"

typedef uint64_t dptr;
typedef void *handle;

int cuInit(unsigned flags) {
    (void)flags;
#ifdef ASKS_ITSELF
    static int depth;
    if (depth++) return 9;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*mine)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    void *any = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    printf("inside cuInit: cuInit=%s cuMemFree_v2=%s\n", whose((void *)mine), whose(any));
    int result = mine == cuInit ? 0 : mine(0);
    depth--;
    return result;
#endif
#ifdef ASKS_HELPER
    void *helper = dlopen("libhelper.so", RTLD_NOW);
    void *(*finds)(void) = (void *(*)(void))dlsym(helper, "runtime_finds");
    printf("inside cuInit: cuInit=%s\n", whose(finds()));
#endif
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuMemAlloc(uint32_t *p, unsigned n) { *p = n; return 0; }
int cuMemAlloc_v2(dptr *p, size_t n) { *p = n; return 0; }
int cuMemFree_v2(dptr p) { (void)p; return 0; }
int cuStreamSynchronize(handle stream) { (void)stream; return 70; }
int cuMemsetD8Async(dptr p, unsigned char v, size_t n, handle s) { (void)p; (void)v; (void)n; (void)s; return 71; }
int cuCtxDestroy_v2(handle context) { (void)context; return 73; }

#ifndef FEW
int cuMemsetD8Async_ptsz(dptr p, unsigned char v, size_t n, handle s) { (void)p; (void)v; (void)n; (void)s; return 72; }

// One function under several names, as a linker that merges equal functions would leave it.
int cuCtxDestroy(handle context) __attribute__((alias("cuCtxDestroy_v2")));
int cuLaunch(handle function) { (void)function; return 801; }
int cuTexRefCreate(handle *texref) __attribute__((alias("cuLaunch")));

int cuGetProcAddress(const char *name, void **pfn, int version, uint64_t flags);
#ifndef NO_GPA_V2
int cuGetProcAddress_v2(const char *name, void **pfn, int version, uint64_t flags, int *status);
#endif

static void *choose(const char *name, int version, uint64_t flags) {
#define IF(wanted, since, function) if (!strcmp(name, wanted) && version >= since) return (void *)function
#ifndef NO_GPA_V2
    IF("cuGetProcAddress", 12000, cuGetProcAddress_v2);
#endif
    IF("cuGetProcAddress", 11030, cuGetProcAddress);
    IF("cuInit", 2000, cuInit);
    IF("cuDeviceGet", 2000, cuDeviceGet);
    IF("cuMemAlloc", 3020, cuMemAlloc_v2);
    IF("cuMemAlloc", 2000, cuMemAlloc);
    if (flags & 2) IF("cuMemsetD8Async", 7000, cuMemsetD8Async_ptsz);
    IF("cuMemsetD8Async", 3020, cuMemsetD8Async);
    IF("cuCtxDestroy", 4000, cuCtxDestroy_v2);
    IF("cuLaunch", 2000, cuLaunch);
    IF("cuTexRefCreate", 2000, cuTexRefCreate);
    return NULL;
}
int cuGetProcAddress(const char *name, void **pfn, int version, uint64_t flags) {
    *pfn = choose(name, version, flags);
    return *pfn ? 0 : 500;
}
#ifndef NO_GPA_V2
int cuGetProcAddress_v2(const char *name, void **pfn, int version, uint64_t flags, int *status) {
    *pfn = choose(name, version, flags);
    if (status) *status = *pfn ? 0 : 1;
    return *pfn ? 0 : 500;
}
#endif
#endif

#ifdef ASKS_EARLY
__attribute__((constructor)) static void early(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    printf("early: cuInit=%s ", whose(dlsym(cuda, "cuInit")));
    printf("cuMemFree_v2=%s\n", whose(dlsym(RTLD_DEFAULT, "cuMemFree_v2")));
    dlclose(cuda);
}
#endif
#ifdef CALLS_EARLY
__attribute__((constructor)) static void early(void) {
    printf("early: %d %d\n", cuInit(0), cuStreamSynchronize(NULL));
}
#endif
