// Makes each of a few calls five times and prints the answers: SIMCUDA_FAIL decides which fail, and a failed call has done nothing.
#include "sim_check.h"

int main(void) {
    start();
    CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUdeviceptr at[5] = {0}, prefetched = managed(2 * MIB);
    for (int i = 0; i < 5; i++) {
        CUresult allocated = cuMemAllocManaged(&at[i], MIB, CU_MEM_ATTACH_GLOBAL);
        CUresult moved = i % 2 ? cuMemPrefetchAsync(prefetched, MIB, 0, NULL) : cuMemPrefetchAsync_v2(prefetched, MIB, gpu, 0, NULL);
        printf("%d %d %d\n", allocated, moved, fill(prefetched, 1, 1, NULL));
    }
    OK(cuCtxSynchronize());
    HOLDS(at[4] == 0);
    printf("%lu allocations, %lu prefetches, %lu kernels\n", simcuda_stat("managed_allocs"), simcuda_stat("promote_calls"),
           simcuda_stat("kernels"));
    return 0;
}
