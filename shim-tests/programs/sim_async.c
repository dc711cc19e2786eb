// Work is asynchronous, in stream order; the legacy stream and blocking streams wait for each other; held kernels stay in flight.
#include "sim_check.h"

static int calls;
static void host(void *data) { calls += *(int *)data; }
static void calls_cuda(void *data) { *(CUresult *)data = cuCtxSynchronize(); }

extern CUresult cuMemsetD32Async_ptsz(CUdeviceptr dst, unsigned value, size_t count, CUstream stream);
extern CUresult cuStreamQuery_ptsz(CUstream stream);

int main(void) {
    start();
    CUstream blocking, other, free_running;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    CUdeviceptr a, b;
    OK(cuMemAlloc_v2(&a, 4 * MIB));
    OK(cuMemAlloc_v2(&b, 4 * MIB));

    // In order within a stream, and after an event in another.
    CUevent event, before;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&before, CU_EVENT_DEFAULT));
    OK(cuEventQuery(event));
    OK(cuEventRecord(before, blocking));
    for (unsigned i = 0; i < 50; i++)
        OK(fill(a, i, MIB, blocking));
    OK(cuEventRecord(event, blocking));
    OK(cuStreamWaitEvent(free_running, event, 0));
    OK(cuMemcpyDtoDAsync_v2(b, a, 4 * MIB, free_running));
    OK(cuStreamSynchronize(free_running));
    ANSWERS(49, word_at(b + 4 * MIB - 4));
    float millis;
    OK(cuEventElapsedTime(&millis, before, event));
    HOLDS(millis > 0);

    // Held work is in flight: spin_us is held by the test.
    uint64_t none = 0;
    void *spin[] = {&none};
    OK(launch("spin_us", blocking, spin));
    OK(cuEventRecord(event, blocking));
    ANSWERS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
    ANSWERS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    ANSWERS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&millis, before, event));
    // In the per-thread functions a null stream is the thread's own, which waits for nobody yet.
    OK(cuMemsetD32Async_ptsz(b, 6, MIB, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuStreamQuery_ptsz(NULL));
    // The free-running stream goes on; the legacy stream waits, and what follows it in blocking streams waits with it.
    OK(cuMemsetD32Async(b, 7, MIB, free_running));
    OK(cuStreamSynchronize(free_running));
    OK(cuMemsetD32Async(b, 8, MIB, CU_STREAM_LEGACY));
    OK(cuMemsetD32Async(b, 9, MIB, other));
    ANSWERS(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    ANSWERS(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    OK(cuMemsetD32Async_ptsz(a + 8, 6, 1, NULL));
    ANSWERS(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(NULL));
    unsigned *pinned;
    OK(cuMemHostAlloc((void **)&pinned, 4096, 0));
    OK(cuMemcpyDtoHAsync_v2(pinned, b, 4, free_running));
    OK(cuStreamSynchronize(free_running));
    ANSWERS(7, pinned[0]);
    // A copy from pageable memory takes what is there when it is asked for, one from pinned memory what is there when it runs.
    unsigned pageable = 31;
    pinned[1] = 32;
    OK(cuMemcpyHtoDAsync_v2(a, &pageable, 4, blocking));
    OK(cuMemcpyHtoDAsync_v2(a + 4, &pinned[1], 4, blocking));
    pageable = 0;
    pinned[1] = 33;
    simcuda_release(1);
    OK(cuCtxSynchronize());
    ANSWERS(9, word_at(b));
    ANSWERS(31, word_at(a));
    ANSWERS(33, word_at(a + 4));
    OK(cuStreamQuery(blocking));
    OK(cuEventQuery(event));

    // Host functions run in order and may not call the driver.
    int one = 1;
    CUresult answer = -1;
    OK(cuLaunchHostFunc(other, host, &one));
    OK(cuLaunchHostFunc(other, calls_cuda, &answer));
    OK(cuStreamSynchronize(other));
    ANSWERS(1, calls);
    ANSWERS(CUDA_ERROR_NOT_PERMITTED, answer);

    // A kernel's flag reaches the host while the kernel's stream goes on.
    pinned[0] = 0;
    unsigned value = 5;
    uint64_t delay = 1000;
    void *flag[] = {&pinned, &value, &delay};
    OK(launch("flag_host", free_running, flag));
    while (*(volatile unsigned *)pinned != 5)
        usleep(100);

    // A destroyed stream finishes its work; its handle is gone at once.
    OK(fill(a, 77, MIB, other));
    OK(cuStreamDestroy_v2(other));
    ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(other));
    OK(cuCtxSynchronize());
    ANSWERS(77, word_at(a));
    OK(cuCtxDestroy_v2(context));
    return 0;
}
