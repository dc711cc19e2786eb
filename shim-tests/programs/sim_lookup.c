// cuGetProcAddress finds, for each name, the newest function not newer than asked, and per-thread twins on request.
// Prints what it found of a few names, so that the test can run it as several driver versions.
#define _GNU_SOURCE
#include "sim_check.h"
#include <dlfcn.h>

typedef CUresult (*Lookup)(const char *, void **, int, uint64_t, int *);

static const char *const names[] = {"cuMemAlloc", "cuMemPrefetchAsync", "cuMemAllocAsync", "cuFuncGetParamInfo", "cuMemDiscardBatchAsync",
                                    "cuGetProcAddress", "cuCtxSynchronize", "cuMemcpyHtoDAsync", "cuGraphAddKernelNode", "cuNoSuchThing"};

// The exported name of a function of the driver's.
static const char *name_of(void *address) {
    Dl_info info;
    if (!address)
        return "NULL";
    return dladdr(address, &info) && info.dli_saddr == address ? info.dli_sname : "?";
}

int main(int argc, char **argv) {
    int asked = argc > 1 ? atoi(argv[1]) : 13000;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    HOLDS(driver);
    Lookup lookup = (Lookup)dlsym(driver, "cuGetProcAddress_v2");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (uint64_t flags = 0; flags <= 2; flags += 2) {
            void *found = &found;
            int status = -1;
            CUresult answer = lookup(names[i], &found, asked, flags, &status);
            if (answer == CUDA_ERROR_NOT_SUPPORTED) {
                // An older driver has the first form of the call, or none.
                CUresult (*first)(const char *, void **, int, uint64_t) = dlsym(driver, "cuGetProcAddress");
                answer = first(names[i], &found, asked, flags);
            }
            if (answer == CUDA_ERROR_NOT_SUPPORTED)
                found = NULL;
            printf("%s %d %d %s\n", names[i], answer, status, name_of(found));
        }
    void *found;
    if (asked == 13000) {
        // The status is optional; versions newer than the driver, unknown flags and NULL are refused.
        OK(lookup("cuInit", &found, 2000, 0, NULL));
        HOLDS(found == dlsym(driver, "cuInit"));
        ANSWERS(CUDA_ERROR_NOT_FOUND, lookup("", &found, 0, 0, NULL));
        HOLDS(found == NULL);
        ANSWERS(CUDA_ERROR_INVALID_VALUE, lookup("cuInit", &found, 13010, 0, NULL));
        ANSWERS(CUDA_ERROR_INVALID_VALUE, lookup("cuInit", &found, 13000, 3, NULL));
        ANSWERS(CUDA_ERROR_INVALID_VALUE, lookup("cuInit", NULL, 13000, 0, NULL));
        ANSWERS(CUDA_ERROR_INVALID_VALUE, lookup(NULL, &found, 13000, 0, NULL));
    }
    return 0;
}
