// What may not be freed is refused, with the driver's own code, and nothing is lost by it. Prints the codes.
#include "pool_check.h"

static CUcontext other_context;

static void *frees(void *at) {
    OK(cuCtxSetCurrent(other_context));
    printf("other thread, other context %d\n", cuMemFree_v2((CUdeviceptr)at));
    return NULL;
}

// With no context current.
static int without(void) {
    CUcontext popped;
    size_t before, after, total;
    OK(cuMemGetInfo_v2(&before, &total));
    CUdeviceptr large = block(4 * MIB);
    OK(cuCtxPopCurrent_v2(&popped));
    CUresult answer = cuMemFree_v2(large);
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo_v2(&after, &total));
    printf("%d %s\n", answer, before == after ? "freed" : "kept");
    return 0;
}

int main(int argc, char **argv) {
    (void)argv;
    size_t before, between, after, total;
    start();
    if (argc > 1)
        return without();
    CUdeviceptr keep = block(5 * MIB), small = block(1000), large = block(4 * MIB), neighbour = block(1000);
    OK(fill(keep, 3, 5 * MIB / 4, NULL));
    OK(fill(small, 4, 250, NULL));
    OK(fill(neighbour, 5, 250, NULL));
    OK(cuMemGetInfo_v2(&before, &total));
    printf("nothing %d\n", cuMemFree_v2(0));
    // Interior, garbage, host and foreign.
    CUdeviceptr bad[] = {keep + 512, keep + 2 * MIB, keep + 5 * MIB - 512, small + 256, small + 512, small + 999, small + 1, keep + 1,
                         1, 4096, (CUdeviceptr)-1, (CUdeviceptr)-4096, (CUdeviceptr)&before, (CUdeviceptr)1 << 47, 0xdeadbeef000};
    for (unsigned i = 0; i < LENGTH(bad); i++)
        printf("bad %u %d\n", i, cuMemFree_v2(bad[i]));
    for (unsigned i = 0; i < LENGTH(bad); i++)
        printf("bad in order %u %d\n", i, cuMemFreeAsync(bad[i], NULL));
    printf("nothing in order %d\n", cuMemFreeAsync(0, NULL));
    OK(cuMemGetInfo_v2(&between, &total));
    ANSWERS(before, between);
    printf("%d\n", cuMemFree_v2(large));
    for (int i = 0; i < 3; i++)
        printf("again %d %d\n", cuMemFree_v2(large), cuMemFreeAsync(large, NULL));
    OK(cuMemGetInfo_v2(&after, &total));
    ANSWERS(before + 4 * MIB, after);
    printf("%d\n", cuMemFree_v2(small));
    printf("again %d\n", cuMemFree_v2(small));
    // In another thread, and with another context current.
    large = block(4 * MIB);
    pthread_t id;
    OK(cuCtxCreate_v2(&other_context, 0, 0));
    HOLDS(!pthread_create(&id, NULL, frees, (void *)large));
    pthread_join(id, NULL);
    OK(cuCtxSetCurrent(context));
    large = block(2 * MIB);
    OK(cuCtxSetCurrent(other_context));
    printf("other context %d\n", cuMemFree_v2(large));
    printf("and again %d\n", cuMemFree_v2(large));
    OK(cuCtxSetCurrent(context));
    ANSWERS(3, word_at(keep + 5 * MIB - 4));
    ANSWERS(5, word_at(neighbour + 996));
    // The driver's own kinds of memory, through the same calls.
    CUdeviceptr unified = managed(3 * MIB);
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    printf("pinned %d\n", cuMemFree_v2((CUdeviceptr)pinned));
    printf("managed %d", cuMemFree_v2(unified));
    printf(" again %d\n", cuMemFree_v2(unified));
    OK(cuMemFreeHost(pinned));
    printf("%d %d\n", cuMemFree_v2(keep), cuMemFree_v2(neighbour));
    printf("free host of device memory %d\n", cuMemFreeHost((void *)block(4096)));
}
