// Memory in stream order: from the device's pool, from pools of the program's own, and freed by either call.
#include "pool_check.h"

static uint64_t attribute(CUmemoryPool pool, int which) {
    uint64_t value = 77;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void used(const char *when, CUmemoryPool pool) {
    HOLDS(attribute(pool, 8) >= attribute(pool, 7) || !attribute(pool, 8));
    printf("%s: used %lu\n", when, (long)attribute(pool, 7) / MIB);
}

int main(void) {
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool, now, own, exported;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuDeviceGetMemPool(&now, 0));
    HOLDS(pool == now);
    size_t before, after, total;
    OK(cuMemGetInfo_v2(&before, &total));
    CUdeviceptr a, b, c, d;
    OK(cuMemAllocAsync(&a, 4 * MIB, stream));
    OK(cuMemAllocAsync(&b, 6 * MIB, stream));
    used("two", pool);
    OK(fill(a, 1, MIB, stream));
    OK(fill(b, 2, MIB, stream));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    used("one", pool);
    printf("high %lu\n", (long)attribute(pool, 8) / MIB);
    ANSWERS(2, word_at(b + 4 * MIB - 4));
    uint64_t zero = 0;
    OK(cuMemPoolSetAttribute(pool, 8, &zero));
    printf("set %d %d\n", cuMemPoolSetAttribute(pool, 7, &zero), cuMemPoolSetAttribute(pool, 99, &zero));
    // What was allocated in order is freed at once, and the other way round.
    OK(cuMemFree_v2(b));
    printf("again %d %d\n", cuMemFree_v2(b), cuMemFreeAsync(b, stream));
    used("none", pool);
    // The program's own pool (B3).
    CUmemPoolProps props = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, NULL, 0, 0, {0}};
    OK(cuMemPoolCreate(&own, &props));
    OK(cuMemAllocFromPoolAsync(&c, 8 * MIB, own, stream));
    OK(cuMemAllocFromPoolAsync(&d, 2 * MIB, own, stream));
    OK(fill(c, 3, 2 * MIB, stream));
    used("own", own);
    used("default", pool);
    CUmemoryPool of;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, c + MIB));
    HOLDS(of == own);
    OK(cuMemFreeAsync(c, stream));
    OK(cuStreamSynchronize(stream));
    used("own", own);
    OK(cuMemPoolTrimTo(own, 0));
    OK(cuMemFree_v2(d));
    used("own", own);
    // The current pool is another.
    OK(cuDeviceSetMemPool(0, own));
    OK(cuMemAllocAsync(&a, 2 * MIB, stream));
    used("current", own);
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuMemPoolDestroy(own));
    printf("destroyed %d\n", cuMemAllocFromPoolAsync(&a, MIB, own, stream));
    // A pool that other processes can open is the driver's.
    props.handleTypes = 1;
    OK(cuMemPoolCreate(&exported, &props));
    uint64_t allocations = stat_of("device_allocs");
    OK(cuMemAllocFromPoolAsync(&a, 4 * MIB, exported, stream));
    ANSWERS(1, stat_of("device_allocs") - allocations);
    OK(fill(a, 4, MIB, stream));
    used("exported", exported);
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    used("exported", exported);
    OK(cuMemPoolDestroy(exported));
    // Wrong arguments.
    printf("%d\n", cuMemAllocFromPoolAsync(&a, MIB, NULL, stream));
    // Many in a row reuse what is freed: no more is taken than two need.
    CUdeviceptr at[2] = {0, 0};
    for (int i = 0; i < 400; i++) {
        if (at[i % 2])
            OK(cuMemFreeAsync(at[i % 2], stream));
        OK(cuMemAllocAsync(&at[i % 2], 8 * MIB, stream));
        OK(cuMemsetD32Async(at[i % 2], i, 16, stream));
        if (i % 20 == 0)
            OK(cuStreamSynchronize(stream));
    }
    OK(cuMemFreeAsync(at[0], stream));
    OK(cuMemFreeAsync(at[1], stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo_v2(&after, &total));
    ANSWERS(before, after);
}
