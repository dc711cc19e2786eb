// Takes memory by every call there is, and ends with some of it held: prints what it was told that it holds. Argument: what it keeps,
// or how its context ends.
#include "pool_check.h"

static size_t used(void) {
    size_t free, total;
    OK(cuMemGetInfo_v2(&free, &total));
    return total - free;
}

// A context ends with all that was taken in it.
static void ends(const char *how) {
    int own = !strcmp(how, "destroyed");
    OK(cuInit(0));
    for (int round = 0; round < 3; round++) {
        CUcontext now;
        if (own)
            OK(cuCtxCreate_v2(&now, 0, 0));
        else
            OK(cuDevicePrimaryCtxRetain(&now, 0));
        OK(cuCtxSetCurrent(now));
        CUdeviceptr ordered, unified = managed(6 * MIB), at = block(4 * MIB);
        OK(cuMemAllocAsync(&ordered, 2 * MIB, NULL));
        OK(cuMemsetD8_v2(at, 1, 4 * MIB));
        OK(cuMemsetD8_v2(unified, 1, 6 * MIB));
        if (own)
            OK(cuCtxDestroy_v2(now));
        else if (!strcmp(how, "reset"))
            OK(cuDevicePrimaryCtxReset_v2(0));
        else
            OK(cuDevicePrimaryCtxRelease_v2(0));
        HOLDS(stat_of("managed_bytes") == 0 && stat_of("device_bytes") == 0);
    }
    fprintf(stderr, "used 0\n");
}

int main(int argc, char **argv) {
    const char *keeps = argc > 1 ? argv[1] : "";
    if (!strcmp(keeps, "destroyed") || !strcmp(keeps, "reset") || !strcmp(keeps, "released")) {
        ends(keeps);
        return 0;
    }
    start();
    size_t before = used();
    CUmemAllocationProp prop = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, NULL, {0}};
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr plain[6], pitched, ordered[2], unified[2];
    size_t pitch, sizes[6] = {1, 1000, 300000, MIB, 3 * MIB, 5 * MIB + 1};
    // Twice, so that what is counted also goes.
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++)
            plain[i] = block(sizes[i]);
        OK(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 700, 4));
        OK(cuMemAllocAsync(&ordered[0], 2 * MIB, NULL));
        OK(cuMemAllocAsync(&ordered[1], 777, NULL));
        unified[0] = managed(6 * MIB);
        unified[1] = managed(4096);
        OK(cuMemCreate(&handles[0], 10 * MIB, &prop, 0));
        OK(cuMemCreate(&handles[1], 2 * MIB, &prop, 0));
        // What is refused is not counted.
        CUdeviceptr none = 99;
        CUmemGenericAllocationHandle no_handle;
        HOLDS(cuMemAlloc_v2(&none, (size_t)1 << 60) && cuMemAllocAsync(&none, (size_t)1 << 60, NULL));
        HOLDS(cuMemAllocManaged(&none, MIB, 77) && cuMemCreate(&no_handle, 77, &prop, 0));
        if (round)
            break;
        for (int i = 0; i < 6; i++)
            OK(cuMemFree_v2(plain[i]));
        OK(cuMemFree_v2(pitched));
        OK(cuMemFreeAsync(ordered[0], NULL));
        OK(cuMemFreeAsync(ordered[1], NULL));
        OK(cuStreamSynchronize(NULL));
        for (int i = 0; i < 2; i++) {
            OK(cuMemFree_v2(unified[i]));
            OK(cuMemRelease(handles[i]));
            HOLDS(cuMemFree_v2(unified[i]) && cuMemRelease(handles[i]));
        }
        ANSWERS(before, used());
    }
    if (strcmp(keeps, "created"))
        for (int i = 0; i < 2; i++)
            OK(cuMemRelease(handles[i]));
    if (strcmp(keeps, "managed"))
        for (int i = 0; i < 2; i++)
            OK(cuMemFree_v2(unified[i]));
    if (strcmp(keeps, "pool")) {
        for (int i = 0; i < 6; i++)
            OK(cuMemFree_v2(plain[i]));
        OK(cuMemFree_v2(pitched));
        OK(cuMemFreeAsync(ordered[0], NULL));
        OK(cuMemFreeAsync(ordered[1], NULL));
        OK(cuStreamSynchronize(NULL));
    }
    // Where the test reads it: what it prints to the standard output is somebody else's there.
    fprintf(stderr, "used %zu\n", used() - before);
}
