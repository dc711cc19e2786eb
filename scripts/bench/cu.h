// The few declarations of the CUDA driver that the programs of this folder use, so that they build with any C compiler and no SDK.
//
// Everything is found by dlopen("libcuda.so.1") and dlsym: the same binary runs natively and under LD_PRELOAD=libvshare.so.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUmempool_st *CUmemoryPool;
typedef struct {
    int type, id;
} CUmemLocation;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_READY = 600 };
enum { STREAM_BLOCKING = 0, STREAM_NON_BLOCKING = 1 };
enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
enum { MEM_ATTACH_GLOBAL = 1 };
static const CUmemLocation ON_DEVICE = {1, 0}, ON_HOST = {2, 0};

// X(name here, exported name, parameters): every function used here, with the signature of that exported name.
#define CU_FUNCTIONS(X)                                                                                                                                        \
    X(cuInit, "cuInit", (unsigned))                                                                                                                            \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *))                                                                                                       \
    X(cuGetErrorName, "cuGetErrorName", (CUresult, const char **))                                                                                             \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice *, int))                                                                                                           \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))                                                                                           \
    X(cuDeviceTotalMem_v1, "cuDeviceTotalMem", (unsigned *, CUdevice))                                                                                         \
    X(cuDeviceGetMemPool, "cuDeviceGetMemPool", (CUmemoryPool *, CUdevice))                                                                                    \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))                                                                           \
    X(cuCtxCreate, "cuCtxCreate_v2", (CUcontext *, unsigned, CUdevice))                                                                                        \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                                                         \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                                                                                                       \
    X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice *))                                                                                                          \
    X(cuCtxSynchronize, "cuCtxSynchronize", (void))                                                                                                            \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))                                                                                        \
    X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                                                                      \
    X(cuLaunchKernel, "cuLaunchKernel", (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))        \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                                                                   \
    X(cuMemGetInfo_v1, "cuMemGetInfo", (unsigned *, unsigned *))                                                                                               \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                                                                    \
    X(cuMemAlloc_v1, "cuMemAlloc", (unsigned *, unsigned))                                                                                                     \
    X(cuMemAllocPitch, "cuMemAllocPitch_v2", (CUdeviceptr *, size_t *, size_t, size_t, unsigned))                                                              \
    X(cuMemAllocPitch_v1, "cuMemAllocPitch", (unsigned *, unsigned *, unsigned, unsigned, unsigned))                                                           \
    X(cuMemAllocManaged, "cuMemAllocManaged", (CUdeviceptr *, size_t, unsigned))                                                                               \
    X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *, size_t, CUstream))                                                                                   \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                                                                \
    X(cuMemFree_v1, "cuMemFree", (unsigned))                                                                                                                   \
    X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                                                                               \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                                                           \
    X(cuMemGetAddressRange, "cuMemGetAddressRange_v2", (CUdeviceptr *, size_t *, CUdeviceptr))                                                                 \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *, int, CUdeviceptr))                                                                              \
    X(cuPointerGetAttributes, "cuPointerGetAttributes", (unsigned, int *, void **, CUdeviceptr))                                                               \
    X(cuMemcpyDtoD, "cuMemcpyDtoD_v2", (CUdeviceptr, CUdeviceptr, size_t))                                                                                     \
    X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                                                                      \
    X(cuMemPrefetchAsync, "cuMemPrefetchAsync_v2", (CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream))                                                   \
    X(cuMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync", (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream))  \
    X(cuMemDiscardBatchAsync, "cuMemDiscardBatchAsync", (CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream))                                       \
    X(cuMemDiscardAndPrefetchBatchAsync, "cuMemDiscardAndPrefetchBatchAsync",                                                                                  \
      (CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream))                                                      \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                                                                                \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                                                                       \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                                                                  \
    X(cuStreamQuery, "cuStreamQuery", (CUstream))                                                                                                              \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                                                                   \
    X(cuStreamGetFlags, "cuStreamGetFlags", (CUstream, unsigned *))                                                                                            \
    X(cuStreamGetCtx, "cuStreamGetCtx", (CUstream, CUcontext *))                                                                                               \
    X(cuStreamGetId, "cuStreamGetId", (CUstream, unsigned long long *))                                                                                        \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, int *))                                                                                           \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                                                                                        \
    X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *))                                                                                         \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *))                                                                         \
    X(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph, CUgraphNode *, size_t *))                                                                                  \
    X(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                                                                                             \
    X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))                                                                                                   \
    X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                                                                     \
    X(cuEventQuery, "cuEventQuery", (CUevent))

#define CU_SLOT(name, exported, parameters) __attribute__((unused)) static CUresult(*name) parameters;
CU_FUNCTIONS(CU_SLOT)
#undef CU_SLOT

// Fills the slots; a function that the driver lacks stays NULL.
static void cu_load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(1);
    }
#define CU_FIND(name, exported, parameters)                                                                                                                    \
    {                                                                                                                                                          \
        void *found = dlsym(driver, exported);                                                                                                                 \
        memcpy(&name, &found, sizeof name);                                                                                                                    \
    }
    CU_FUNCTIONS(CU_FIND)
#undef CU_FIND
}

__attribute__((unused)) static const char *cu_name(CUresult result) {
    const char *name = NULL;
    if (cuGetErrorName) cuGetErrorName(result, &name);
    return name ? name : "?";
}

#define CHECK(call)                                                                                                                                            \
    do {                                                                                                                                                       \
        CUresult result_ = (call);                                                                                                                             \
        if (result_ != CUDA_SUCCESS) {                                                                                                                         \
            printf("%s:%d: %s -> %d %s\n", __FILE__, __LINE__, #call, result_, cu_name(result_));                                                              \
            exit(1);                                                                                                                                           \
        }                                                                                                                                                      \
    } while (0)

__attribute__((unused)) static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int cu_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

__attribute__((unused)) static void sort_samples(double *samples, size_t count) { qsort(samples, count, sizeof *samples, cu_ascending); }

// The sample below which the share `part` of them lies; `sorted` must be sorted.
__attribute__((unused)) static double quantile(const double *sorted, size_t count, double part) {
    size_t index = (size_t)(part * (double)count);
    return sorted[index < count ? index : count - 1];
}
