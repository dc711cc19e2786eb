// What the sim_ programs share: checking an answer, one context, launching by name.
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "../include/cuda_driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

// Ends the program, naming the line, unless `call` answers `wanted`.
#define ANSWERS(wanted, call)                                                                     \
    do {                                                                                          \
        long got_ = (long)(call);                                                                 \
        long wanted_ = (long)(wanted);                                                            \
        if (got_ != wanted_) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %ld, not %ld\n", __FILE__, __LINE__, #call, got_, wanted_); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)
#define OK(call) ANSWERS(CUDA_SUCCESS, call)
#define HOLDS(condition) ANSWERS(1, (condition) != 0)

static CUcontext context;
static CUmodule module;

static inline void start(void) {
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuModuleLoadData(&module, "any image"));
}

static inline CUfunction function(const char *name) {
    CUfunction found;
    OK(cuModuleGetFunction(&found, module, name));
    return found;
}

static inline CUresult launch(const char *name, CUstream stream, void **params) {
    return cuLaunchKernel(function(name), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static inline CUresult fill(CUdeviceptr at, unsigned value, uint64_t n, CUstream stream) {
    void *params[] = {&at, &value, &n};
    return launch("fill_u32", stream, params);
}

static inline unsigned word_at(CUdeviceptr at) {
    unsigned word;
    OK(cuMemcpyDtoH_v2(&word, at, sizeof word));
    return word;
}

static inline CUdeviceptr managed(size_t bytes) {
    CUdeviceptr at;
    OK(cuMemAllocManaged(&at, bytes, CU_MEM_ATTACH_GLOBAL));
    return at;
}
#endif
