// Many threads, each with streams and memory of its own and one shared managed range larger than the device, leave nothing behind.
// Runs with SIMCUDA_VRAM=32M.
#include "sim_check.h"
#include <pthread.h>

enum { THREADS = 6, ROUNDS = 30 };
static CUdeviceptr shared;

static void *work(void *number) {
    unsigned me = (unsigned)(uintptr_t)number;
    OK(cuCtxSetCurrent(context));
    CUfunction fill_u32 = function("fill_u32"), sum = function("sum_u64");
    for (unsigned round = 0; round < ROUNDS; round++) {
        CUstream stream;
        CUevent event;
        CUdeviceptr own = managed(2 * MIB), total;
        OK(cuStreamCreate(&stream, round % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuMemAllocAsync(&total, 8, stream));
        unsigned value = me * 1000 + round;
        uint64_t n = 1000, answer = 0;
        CUdeviceptr part = shared + me * 8 * MIB;
        void *fill_params[] = {&part, &value, &n}, *own_params[] = {&own, &value, &n}, *sum_params[] = {&own, &total, &n};
        OK(cuLaunchKernel(fill_u32, 1, 1, 1, 1, 1, 1, 0, stream, fill_params, NULL));
        OK(cuLaunchKernel(fill_u32, 1, 1, 1, 1, 1, 1, 0, stream, own_params, NULL));
        OK(cuMemPrefetchAsync(part, 8 * MIB, round % 3 ? 0 : CU_DEVICE_CPU, stream));
        OK(cuLaunchKernel(sum, 1, 1, 1, 1, 1, 1, 0, stream, sum_params, NULL));
        OK(cuMemcpyDtoHAsync_v2(&answer, total, 8, stream));
        ANSWERS(1000ul * value, answer);
        OK(cuMemFreeAsync(total, stream));
        OK(cuEventRecord(event, stream));
        OK(cuStreamWaitEvent(NULL, event, 0));
        OK(cuMemsetD8Async(own, 1, 1, NULL));
        OK(cuEventDestroy_v2(event));
        OK(cuStreamDestroy_v2(stream));
        OK(cuMemFree_v2(own));
        ANSWERS(value, word_at(part + 3996));
    }
    return NULL;
}

int main(void) {
    start();
    shared = managed(THREADS * 8 * MIB);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        HOLDS(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cuCtxSynchronize());
    HOLDS(simcuda_stat("managed_resident_peak") <= 32 * MIB);
    ANSWERS(THREADS * 8 * MIB, simcuda_stat("managed_bytes"));
    OK(cuMemFree_v2(shared));
    ANSWERS(0, simcuda_stat("managed_resident"));
    ANSWERS(0, simcuda_stat("device_bytes"));
    ANSWERS(0, simcuda_stat("illegal_accesses"));
    OK(cuCtxDestroy_v2(context));
    return 0;
}
