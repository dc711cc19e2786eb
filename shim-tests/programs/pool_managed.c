// The program's own managed memory, used by host and device in turn. With an argument: it is refused, and its pointer not touched.
#include "pool_check.h"

int main(int argc, char **argv) {
    (void)argv;
    start();
    CUdeviceptr at = 99, plain = 0;
    if (argc > 1) {
        CUresult answer = cuMemAllocManaged(&at, 4 * MIB, CU_MEM_ATTACH_GLOBAL);
        printf("%d %llu\n", answer, at);
        return 0;
    }
    OK(cuMemAlloc_v2(&plain, 3 * MIB));
    uint64_t allocations = stat_of("cuMemAllocManaged");
    at = managed(4 * MIB);
    ANSWERS(1, stat_of("cuMemAllocManaged") - allocations);
    unsigned *host = (unsigned *)at;
    for (int round = 0; round < 3; round++) {
        host[MIB - 1] = round;
        OK(mix(at, MIB, 1, NULL));
        OK(cuCtxSynchronize());
        printf("%u\n", host[MIB - 1]);
    }
    // Advice and prefetches reach the driver.
    allocations = stat_of("cuMemPrefetchAsync_v2");
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cuMemPrefetchAsync_v2(at, 4 * MIB, device, 0, NULL));
    OK(cuMemAdvise_v2(at, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    ANSWERS(1, stat_of("cuMemPrefetchAsync_v2") - allocations);
    OK(cuCtxSynchronize());
    int managed_memory = 7, location = 7;
    OK(cuPointerGetAttribute(&managed_memory, CU_POINTER_ATTRIBUTE_IS_MANAGED, at + MIB));
    OK(cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4 * MIB));
    printf("%d %d\n", managed_memory, location);
    OK(cuMemcpyDtoD_v2(plain, at, 3 * MIB));
    printf("%u\n", word_at(plain + 3 * MIB - 4));
    printf("%d", cuMemFree_v2(at));
    printf(" %d %d\n", cuMemFree_v2(at), cuMemFree_v2(plain));
}
