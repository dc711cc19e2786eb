// Finds its functions as programs for CUDA 13 do, and as old ones do, and calls each form with its own arguments.
#include "pool_check.h"

typedef CUresult (*prefetch_t)(CUdeviceptr, size_t, CUdevice, CUstream);
typedef CUresult (*prefetch_v2_t)(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);
typedef CUresult (*advise_t)(CUdeviceptr, size_t, int, CUdevice);
typedef CUresult (*advise_v2_t)(CUdeviceptr, size_t, int, CUmemLocation);
typedef CUresult (*create_v4_t)(CUcontext *, void *, unsigned, CUdevice);

static void *found(const char *name, int version) {
    void *function = NULL;
    int status = 77;
    OK(cuGetProcAddress_v2(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    ANSWERS(0, status);
    return function;
}

// Where a range was last prefetched to, and where it would rather be.
static void where(const char *when, CUdeviceptr at, size_t bytes) {
    int last = 77, preferred = 77;
    OK(cuCtxSynchronize());
    OK(cuMemRangeGetAttribute(&last, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, bytes));
    OK(cuMemRangeGetAttribute(&preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, bytes));
    printf("%s: %d %d\n", when, last, preferred);
}

int main(void) {
    CUcontext own;
    OK(cuInit(0));
    OK(((create_v4_t)found("cuCtxCreate", 13000))(&own, NULL, 0, 0));
    OK(cuModuleLoadData(&module, "any image"));
    prefetch_t prefetch = (prefetch_t)found("cuMemPrefetchAsync", 8000);
    prefetch_v2_t prefetch_v2 = (prefetch_v2_t)found("cuMemPrefetchAsync", 13000);
    advise_t advise = (advise_t)found("cuMemAdvise", 8000);
    advise_v2_t advise_v2 = (advise_v2_t)found("cuMemAdvise", 13000);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, 9}, numa = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    CUdeviceptr unified = managed(4 * MIB);
    where("new", unified, 4 * MIB);
    OK(prefetch_v2(unified, 4 * MIB, device, 0, stream));
    OK(advise_v2(unified, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    where("device", unified, 4 * MIB);
    OK(prefetch_v2(unified, 4 * MIB, host, 0, stream));
    OK(advise_v2(unified, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    where("host", unified, 4 * MIB);
    OK(prefetch(unified, 4 * MIB, 0, stream));
    OK(advise(unified, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
    where("device again", unified, 4 * MIB);
    OK(prefetch(unified, 4 * MIB, CU_DEVICE_CPU, stream));
    OK(prefetch_v2(unified, 2 * MIB, numa, 0, stream));
    where("host again", unified, 2 * MIB);
    // What is wrong is refused by whoever looks at it.
    printf("%d %d", prefetch_v2(unified, 4 * MIB, nowhere, 0, stream), prefetch(unified, 4 * MIB, 9, stream));
    printf(" %d %d\n", prefetch_v2(unified, 64 * MIB, device, 0, stream), prefetch_v2(0, 4 * MIB, device, 0, stream));
    // The pool's memory holds what it held.
    CUdeviceptr at = block(4 * MIB);
    OK(fill(at, 5, MIB, stream));
    uint64_t calls = stat_of("cuMemPrefetchAsync") + stat_of("cuMemPrefetchAsync_v2");
    prefetch_v2(at, 4 * MIB, host, 0, stream);
    prefetch(at, 4 * MIB, CU_DEVICE_CPU, stream);
    HOLDS(calls <= stat_of("cuMemPrefetchAsync") + stat_of("cuMemPrefetchAsync_v2"));
    OK(cuStreamSynchronize(stream));
    printf("%u\n", word_at(at + 4 * MIB - 4));
    OK(cuMemFree_v2(at));
    OK(cuMemFree_v2(unified));
    OK(cuCtxDestroy_v2(own));
}
