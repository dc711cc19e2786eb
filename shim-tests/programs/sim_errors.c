// Wrong use has the right errors; pointers have the right attributes; an illegal access ends the context; a fork may call nothing.
#include "sim_check.h"
#include <sys/wait.h>

static void before_and_without_context(void) {
    CUdeviceptr d;
    int count;
    ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&d, 4));
    ANSWERS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuInit(0));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&d, 4));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
    OK(cuDeviceGetCount(&count));
    ANSWERS(2, count);
    ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&count, 2));
}

static void contexts(void) {
    CUcontext primary, again, now, other;
    unsigned flags;
    int active;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    ANSWERS(0, active);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxGetCurrent(&now));
    HOLDS(now == NULL);
    OK(cuCtxSetCurrent(primary));
    CUdeviceptr d;
    OK(cuMemAlloc_v2(&d, MIB));
    OK(cuCtxCreate_v2(&other, 0, 1));
    CUdevice dev;
    OK(cuCtxGetDevice(&dev));
    ANSWERS(1, dev);
    OK(cuCtxPopCurrent_v2(&now));
    HOLDS(now == other);
    OK(cuCtxDestroy_v2(other));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    // The last release took the context and its memory; the handle comes back to life empty.
    ANSWERS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFree_v2(d));
    ANSWERS(0, simcuda_stat("device_bytes"));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    HOLDS(again == primary);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d));
    OK(cuCtxPopCurrent_v2(&now));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    ANSWERS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
}

static void allocations(void) {
    CUdeviceptr d, base;
    size_t size, pitch;
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&d, 0));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 4));
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&d, (size_t)1 << 50));
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&d, SIZE_MAX));
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocManaged(&d, (size_t)1 << 50, CU_MEM_ATTACH_GLOBAL));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&d, 0, CU_MEM_ATTACH_GLOBAL));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&d, 4, 0));
    OK(cuMemFree_v2(0));
    OK(cuMemAlloc_v2(&d, 1000));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d + 256));
    OK(cuMemGetAddressRange_v2(&base, &size, d + 999));
    HOLDS(base == d && size == 1000);
    OK(cuMemFree_v2(d));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d));
    OK(cuMemAllocPitch_v2(&d, &pitch, 700, 3, 4));
    ANSWERS(1024, pitch);
    OK(cuMemFree_v2(d));
    OK(cuMemGetInfo_v2(NULL, &size));
    OK(cuMemGetInfo_v2(&size, NULL));
    // Copies that would leave the allocation are refused when asked for.
    OK(cuMemAlloc_v2(&d, 4096));
    char here[4100];
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(here, d, 4097));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(d + 8192, here, 1));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(d, 0, 4097));
    OK(cuMemFree_v2(d));
    // Pools: the memory ends where the stream frees it.
    CUmemoryPool pool;
    uint64_t used;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&d, MIB, NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ANSWERS(MIB, used);
    OK(fill(d, 1, 10, NULL));
    OK(cuMemFreeAsync(d, NULL));
    OK(cuStreamSynchronize(NULL));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(d, NULL));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ANSWERS(0, used);
    CUmemAllocationProp prop = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, NULL, {0}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    ANSWERS(1, simcuda_stat("mem_handles"));
    OK(cuMemRelease(handle));
    ANSWERS(0, simcuda_stat("mem_handles"));
}

static unsigned long long attribute(int which, CUdeviceptr at) {
    unsigned long long value = 0;
    OK(cuPointerGetAttribute(&value, which, at));
    return value;
}

static void pointers(void) {
    CUdeviceptr device, unified = managed(3 * MIB);
    void *pinned;
    OK(cuMemAlloc_v2(&device, 5000));
    OK(cuMemHostAlloc(&pinned, 5000, 0));
    unsigned long long value;
    ANSWERS(CU_MEMORYTYPE_DEVICE, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 100));
    ANSWERS(CU_MEMORYTYPE_DEVICE, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unified + 100));
    ANSWERS(CU_MEMORYTYPE_HOST, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    ANSWERS(0, attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, device));
    ANSWERS(1, attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, unified));
    ANSWERS(1, attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, device));
    ANSWERS(0, attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, unified));
    ANSWERS(0, attribute(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, unified));
    ANSWERS(unified, attribute(CU_POINTER_ATTRIBUTE_HOST_POINTER, unified));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
    ANSWERS(device, attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 4999));
    ANSWERS(5000, attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 4999));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5000));
    ANSWERS(context, attribute(CU_POINTER_ATTRIBUTE_CONTEXT, unified));

    // Unknown pointers are no error in the plural form.
    int which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned long long ctx = 9;
    int type = 9, ordinal = 9;
    void *to[] = {&ctx, &type, &ordinal};
    OK(cuPointerGetAttributes(3, which, to, (CUdeviceptr)&ctx));
    HOLDS(ctx == 0 && type == 0 && ordinal == CU_DEVICE_INVALID);
    OK(cuPointerGetAttributes(3, which, to, device));
    HOLDS(ctx == (unsigned long long)context && type == CU_MEMORYTYPE_DEVICE && ordinal == 0);

    CUipcMemHandle handle;
    OK(cuIpcGetMemHandle(&handle, device));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, unified));
    OK(cuMemFreeHost(pinned));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
}

static void launches(void) {
    CUfunction nop = function("nop"), found;
    CUlibrary library;
    CUkernel kernel;
    size_t offset, size;
    ANSWERS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&found, module, "no such kernel"));
    ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(nop, 1, 0, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(nop, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    // Each parameter query answers for its own kind of handle only.
    OK(cuLibraryLoadData(&library, "any", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "table_fill"));
    OK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
    HOLDS(offset == 0 && size == 152);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo(kernel, 1, &offset, &size));
    ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuFuncGetParamInfo((CUfunction)kernel, 0, &offset, &size));
    CUfunction fill_u32 = function("fill_u32");
    OK(cuFuncGetParamInfo(fill_u32, 2, &offset, &size));
    HOLDS(offset == 16 && size == 8);
    ANSWERS(CUDA_ERROR_INVALID_HANDLE, cuKernelGetParamInfo((CUkernel)fill_u32, 0, &offset, &size));
    // The buffer form of a launch, a kernel handle, and a launch with a configuration.
    CUdeviceptr d = managed(4096);
    struct { CUdeviceptr at; unsigned value; uint64_t n; } buffer = {d, 21, 8};
    size_t bytes = sizeof buffer, few = bytes - 1;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    OK(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    ANSWERS(21, word_at(d + 28));
    extra[3] = &few;
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(fill_u32, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, 0};
    buffer.value = 22;
    void *params[] = {&buffer.at, &buffer.value, &buffer.n};
    OK(cuLaunchKernelEx(&config, fill_u32, params, NULL));
    ANSWERS(22, word_at(d));
    OK(cuMemFree_v2(d));
}

static void sticky(void) {
    CUdeviceptr freed, alive;
    OK(cuMemAlloc_v2(&freed, 4096));
    OK(cuMemAlloc_v2(&alive, 4096));
    OK(cuMemFree_v2(freed));
    OK(cuMemsetD32_v2(alive, 1, 1));
    OK(fill(alive, 2, 1025, NULL)); // one past the end
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&freed, 4096));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2(alive));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(NULL));
    ANSWERS(1, simcuda_stat("illegal_accesses"));
    OK(cuCtxDestroy_v2(context));
    // A new context is well; freed memory is illegal there, too.
    start();
    OK(fill(freed, 2, 1, NULL));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(NULL));
    OK(cuCtxDestroy_v2(context));
    // Misaligned is another error; device memory of another device is out of reach.
    start();
    OK(cuMemAlloc_v2(&alive, 4096));
    OK(fill(alive + 2, 2, 1, NULL));
    ANSWERS(CUDA_ERROR_MISALIGNED_ADDRESS, cuCtxSynchronize());
    OK(cuCtxDestroy_v2(context));
    CUcontext second;
    OK(cuCtxCreate_v2(&second, 0, 1));
    CUdeviceptr far;
    OK(cuMemAlloc_v2(&far, 4096));
    start();
    OK(cuMemcpyDtoD_v2(far, managed(4096), 4096));
    OK(fill(far, 2, 1, NULL));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        CUcontext now;
        int count, ok = cuCtxGetCurrent(&now) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                        cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cuStreamQuery(NULL) == CUDA_ERROR_NOT_INITIALIZED;
        exit(ok ? 0 : 1);
    }
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    ANSWERS(0, status);
    int count;
    OK(cuDeviceGetCount(&count));
}

int main(void) {
    before_and_without_context();
    contexts();
    start();
    allocations();
    pointers();
    launches();
    sticky();
    forked();
    return 0;
}
