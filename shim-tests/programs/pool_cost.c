// What a call takes, in nanoseconds: the least of several rounds of many calls, so that what else the machine does is left out.
#include "pool_check.h"
#include <time.h>

enum { ROUNDS = 15, CALLS = 200 };

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

#define COSTS(name, call)                                         \
    do {                                                          \
        uint64_t least = UINT64_MAX;                              \
        for (int round = 0; round < ROUNDS; round++) {            \
            uint64_t before = now();                              \
            for (int i = 0; i < CALLS; i++) {                     \
                call;                                             \
            }                                                     \
            uint64_t took = (now() - before) / CALLS;             \
            least = took < least ? took : least;                  \
            OK(cuCtxSynchronize());                               \
        }                                                         \
        printf("%s %lu\n", name, (unsigned long)least);           \
    } while (0)

int main(void) {
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = block(8 * MIB), other = block(8 * MIB), base;
    size_t free, total, bytes;
    int value;
    CUfunction f = function("mix");
    uint64_t n = 1;
    unsigned rounds = 1;
    void *params[] = {&at, &n, &rounds};
    OK(cuMemFree_v2(block(2 * MIB)));
    COSTS("launch", OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL)));
    COSTS("copy", OK(cuMemcpyDtoDAsync_v2(at, other, 16, stream)));
    COSTS("set", OK(cuMemsetD32Async(at, 1, 4, stream)));
    COSTS("small", OK(cuMemFree_v2(block(1000))));
    COSTS("large", OK(cuMemFree_v2(block(2 * MIB))));
    COSTS("ordered", OK(cuMemAllocAsync(&base, 2 * MIB, stream)); OK(cuMemFreeAsync(base, stream)));
    COSTS("info", OK(cuMemGetInfo_v2(&free, &total)));
    COSTS("range", OK(cuMemGetAddressRange_v2(&base, &bytes, at + MIB)));
    COSTS("attribute", OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, at)));
}
