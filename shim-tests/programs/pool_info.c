// What a program is told about memory in all: falls and rises with what it allocates. Prints codes and differences.
#include "pool_check.h"

static size_t free_now(void) {
    size_t free, total;
    OK(cuMemGetInfo_v2(&free, &total));
    HOLDS(free <= total);
    return free;
}

int main(int argc, char **argv) {
    size_t free = 1, total = 1, of_device = 1;
    printf("%d\n", cuMemGetInfo_v2(&free, &total));
    printf("%d\n", cuDeviceTotalMem_v2(&of_device, 0));
    start();
    printf("%d %d %d\n", cuMemGetInfo_v2(NULL, &total), cuMemGetInfo_v2(&free, NULL), cuMemGetInfo_v2(NULL, NULL));
    printf("%d %d %d\n", cuDeviceTotalMem_v2(&of_device, 0), cuDeviceTotalMem_v2(NULL, 0), cuDeviceTotalMem_v2(&of_device, 9));
    HOLDS(of_device == total);
    size_t at_start = free_now();
    CUdeviceptr blocks[40];
    // Sizes that need no rounding on either side.
    for (int i = 0; i < 40; i++) {
        size_t before = free_now();
        blocks[i] = block((size_t)(i % 4 + 1) * 2 * MIB);
        printf("%zu ", (before - free_now()) / MIB);
    }
    for (int i = 0; i < 40; i++) {
        size_t before = free_now();
        OK(cuMemFree_v2(blocks[i]));
        printf("%zu ", (free_now() - before) / MIB);
    }
    // In order, and what is none of ours: created, arrays aside.
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, 4 * MIB, NULL));
    printf("\n%zu", (at_start - free_now()) / MIB);
    OK(cuMemFreeAsync(at, NULL));
    OK(cuStreamSynchronize(NULL));
    printf(" %zu", (at_start - free_now()) / MIB);
    CUmemAllocationProp prop = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, NULL, {0}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
    printf(" %zu", (at_start - free_now()) / MIB);
    OK(cuMemRelease(handle));
    printf(" %zu\n", (at_start - free_now()) / MIB);
    if (argc > 1)
        printf("%s: total %zu free %zu\n", argv[1], total / MIB, at_start / MIB);
}
