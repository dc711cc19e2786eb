// What a program can learn of a block: the same as of the driver's own memory, asked one by one or all at once, at the start or inside.
// Prints answers; addresses relative to the block, numbers that are the driver's own choice not at all.
#include "pool_check.h"

static void ask(const char *what, CUdeviceptr base, CUdeviceptr at) {
    unsigned long long apart[24], together[24];
    int all[24];
    void *data[24];
    for (int i = 1; i <= 21; i++) {
        // Whether another process or card can have it: of the pool's memory none can, and that is said. How wide 14 is, is not written.
        if (i == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE || i == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE || i == 14)
            continue;
        // Of what is not there a real driver says less than the simulated one: nothing of these.
        int varies = i == CU_POINTER_ATTRIBUTE_HOST_POINTER || i == 5 || i == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || i == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        if (varies && !strcmp(what, "freed"))
            continue;
        int answered = 1;
        apart[i] = together[i] = 0xAAAAAAAAAAAAAAAA;
        all[0] = i, data[0] = &together[i];
        CUresult one = cuPointerGetAttribute(&apart[i], i, at), many = cuPointerGetAttributes(1, all, data, at);
        unsigned long long value = one ? together[i] : apart[i];
        if (i == CU_POINTER_ATTRIBUTE_HOST_POINTER)
            value = value == at;
        else if (i == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || i == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || i == 19)
            value -= value ? base : 0;
        else if (i == CU_POINTER_ATTRIBUTE_CONTEXT && value == (unsigned long long)context)
            value = 1;
        else if (i == CU_POINTER_ATTRIBUTE_BUFFER_ID || i == 20 || i == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
            answered = value != 0, value = 0;
        printf("%s %d: %d %d %llx %d same %d\n", what, i, one, many, value, answered, one || apart[i] == together[i]);
    }
    // All at once.
    for (int i = 0; i < 9; i++)
        all[i] = (int[]){1, 2, 3, 7, 8, 9, 11, 12, 13}[i], data[i] = &together[all[i]], together[all[i]] = 0;
    OK(cuPointerGetAttributes(9, all, data, at));
    for (int i = 0; i < 9; i++) {
        apart[all[i]] = 0;
        CUresult one = cuPointerGetAttribute(&apart[all[i]], all[i], at);
        printf("%s %d: same %d\n", what, all[i], one || apart[all[i]] == together[all[i]]);
    }
    CUdeviceptr start = 5;
    size_t size = 5;
    CUresult range = cuMemGetAddressRange_v2(&start, &size, at);
    printf("%s range %d %lld %zu\n", what, range, start - (range ? 5 : base), size);
    printf("%s range %d", what, cuMemGetAddressRange_v2(NULL, &size, at));
    printf(" %d", cuMemGetAddressRange_v2(&start, NULL, at));
    printf(" %d\n", cuMemGetAddressRange_v2(NULL, NULL, at));
    unsigned long long untouched = 0xAAAAAAAAAAAAAAAA;
    printf("%s wrong %d", what, cuPointerGetAttribute(&untouched, 999, at));
    printf(" %d %d %llx\n", cuPointerGetAttribute(&untouched, 0, at), cuPointerGetAttribute(NULL, 2, at), untouched);
}

int main(void) {
    start();
    CUdeviceptr small = block(1000), large = block(5 * MIB), gone = block(3 * MIB), first, second;
    unsigned long long id, again;
    ask("small", small, small);
    ask("inside small", small, small + 999);
    ask("large", large, large);
    ask("inside large", large, large + 4 * MIB + 12345);
    OK(fill(large, 1, MIB, NULL));
    ask("used", large, large);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr ordered;
    OK(cuMemAllocAsync(&ordered, 3 * MIB, stream));
    ask("in order", ordered, ordered + MIB);
    CUmemoryPool pool, of;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ordered));
    HOLDS(of == pool);
    // Two blocks have two ids; the same address later another.
    OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, gone));
    OK(cuMemFree_v2(gone));
    first = block(3 * MIB), second = block(3 * MIB);
    for (int i = 0; i < 2; i++) {
        OK(cuPointerGetAttribute(&again, CU_POINTER_ATTRIBUTE_BUFFER_ID, i ? first : second));
        HOLDS(again != id);
    }
    // What is no memory of ours.
    CUdeviceptr unified = managed(3 * MIB);
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    ask("managed", unified, unified + 4096);
    ask("pinned", (CUdeviceptr)pinned, (CUdeviceptr)pinned + 8);
    CUdeviceptr freed = large;
    OK(cuMemFree_v2(large));
    ask("freed", freed, freed);
    ask("nothing", 0, 0);
    ask("low", 4096, 4096);
    CUipcMemHandle handle;
    printf("ipc of managed %d\n", cuIpcGetMemHandle(&handle, unified));
}
