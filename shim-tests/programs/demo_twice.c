// Works on more memory than it will be given, and says what came out: run natively and under vshare, it must say the same.
//
//   demo_twice --probe        whether there is a device: "FREE_MIB NAME" and exit code 0, else why not and 3
//   demo_twice MIB            works on so many MiB; prints "hash HASH seconds SECONDS" on stdout, progress on stderr
//
// It has the habits of a training: batches come from pinned memory in a stream of their own, two layers' worth of them at a time; each
// pass goes forward and backward through all blocks in a second stream; results leave in a third; memory is freed while work on it is
// still in flight. The hash is of every byte. Needs no SDK: the driver is found by dlopen, its kernels are PTX.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

// X(name here, exported name, parameters)
#define FUNCTIONS(X)                                                                                                                       \
    X(cuInit, "cuInit", (unsigned))                                                                                                        \
    X(cuGetErrorName, "cuGetErrorName", (int, const char **))                                                                              \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                                                                       \
    X(cuDeviceGet, "cuDeviceGet", (int *, int))                                                                                            \
    X(cuDeviceGetName, "cuDeviceGetName", (char *, int, int))                                                                              \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, int))                                                            \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int))                                                                    \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                                                     \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))                                                                    \
    X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *))                                                  \
    X(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                                                        \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                                               \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                                                                \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                                            \
    X(cuMemAllocHost, "cuMemAllocHost_v2", (void **, size_t))                                                                              \
    X(cuMemFreeHost, "cuMemFreeHost", (void *))                                                                                            \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))                                            \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream))                                                  \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                             \
    X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                                                  \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned))                                                                            \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                                                   \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                                              \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                                               \
    X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))                                                                               \
    X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                                                 \
    X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                                                                      \
    X(cuLaunchKernel, "cuLaunchKernel",                                                                                                    \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))

#define DECLARE(name, exported, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)

enum { STREAM_NON_BLOCKING = 1, EVENT_DISABLE_TIMING = 2 };
enum { BLOCKS = 61, BATCHES = 2, PASSES = 4, ROUNDS = 8, NO_DEVICE = 3 };

// Each kernel goes through its elements in strides of the whole grid.
#define INDEX                                                                                                                              \
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %nctaid.x;\n"                               \
    "  mul.wide.u32 %i, %r1, %r2;\n  cvt.u64.u32 %stride, %r3;\n  add.u64 %i, %i, %stride;\n  mul.wide.u32 %stride, %r4, %r2;\n"
#define REGISTERS "  .reg .pred %end;\n  .reg .b32 %r<9>;\n  .reg .b64 %p, %n, %i, %stride, %at, %sum, %word, %out;\n"
#define ADDRESS "  shl.b64 %at, %i, 2;\n  add.u64 %at, %at, %p;\n"

static const char PTX[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    // p[i] = value
    ".visible .entry fill_u32(.param .u64 p, .param .u32 value, .param .u64 n)\n{\n" REGISTERS
    "  ld.param.u64 %p, [p];\n  cvta.to.global.u64 %p, %p;\n  ld.param.u32 %r5, [value];\n  ld.param.u64 %n, [n];\n" INDEX
    "next:\n  setp.ge.u64 %end, %i, %n;\n  @%end bra done;\n" ADDRESS
    "  st.global.u32 [%at], %r5;\n  add.u64 %i, %i, %stride;\n  bra next;\n"
    "done:\n  ret;\n}\n"
    // rounds times: x = x * 0x9E3779B1 + round; x ^= x >> 15
    ".visible .entry mix(.param .u64 p, .param .u64 n, .param .u32 rounds)\n{\n" REGISTERS
    "  ld.param.u64 %p, [p];\n  cvta.to.global.u64 %p, %p;\n  ld.param.u64 %n, [n];\n  ld.param.u32 %r6, [rounds];\n" INDEX
    "next:\n  setp.ge.u64 %end, %i, %n;\n  @%end bra done;\n" ADDRESS
    "  ld.global.u32 %r5, [%at];\n  mov.u32 %r7, 0;\n"
    "round:\n  setp.ge.u32 %end, %r7, %r6;\n  @%end bra mixed;\n"
    "  mad.lo.u32 %r5, %r5, 0x9E3779B1, %r7;\n  shr.u32 %r8, %r5, 15;\n  xor.b32 %r5, %r5, %r8;\n"
    "  add.u32 %r7, %r7, 1;\n  bra round;\n"
    "mixed:\n  st.global.u32 [%at], %r5;\n  add.u64 %i, %i, %stride;\n  bra next;\n"
    "done:\n  ret;\n}\n"
    // *out += the sum of p[i], which is 0 before
    ".visible .entry sum_u64(.param .u64 p, .param .u64 out, .param .u64 n)\n{\n" REGISTERS
    "  ld.param.u64 %p, [p];\n  cvta.to.global.u64 %p, %p;\n  ld.param.u64 %out, [out];\n  cvta.to.global.u64 %out, %out;\n"
    "  ld.param.u64 %n, [n];\n  mov.u64 %sum, 0;\n" INDEX
    "next:\n  setp.ge.u64 %end, %i, %n;\n  @%end bra done;\n" ADDRESS
    "  ld.global.u32 %r5, [%at];\n  cvt.u64.u32 %word, %r5;\n  add.u64 %sum, %sum, %word;\n  add.u64 %i, %i, %stride;\n  bra next;\n"
    "done:\n  atom.global.add.u64 %word, [%out], %sum;\n  ret;\n}\n";

static void fail(const char *what, int result) {
    const char *name = NULL;
    if (cuGetErrorName) cuGetErrorName(result, &name);
    fprintf(stderr, "demo_twice: %s: %s (%d)%s\n", what, name ? name : "unknown error", result,
            result == 2 ? ": not enough memory; end other programs on the GPU, or ask for fewer MiB" : "");
    exit(1);
}

#define CHECK(call)                                                                                                                        \
    do {                                                                                                                                   \
        int result_ = (call);                                                                                                              \
        if (result_) fail(#call, result_);                                                                                                 \
    } while (0)

// Says in one line why there is no device.
static int no_device(const char *why, const char *detail) {
    printf("%s%s%s\n", why, detail ? ": " : "", detail ? detail : "");
    return NO_DEVICE;
}

// 0, or the exit code; then the reason has been printed.
static int find_device(int *device) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return no_device("no CUDA driver", dlerror());
#define FIND(name, exported, parameters)                                                                                                   \
    *(void **)&name = dlsym(driver, exported);                                                                                             \
    if (!name) return no_device("the CUDA driver is too old, it lacks " exported, NULL);
    FUNCTIONS(FIND)
    const char *name = NULL;
    int count = 0, result = cuInit(0);
    if (!result) result = cuDeviceGetCount(&count);
    if (result) cuGetErrorName(result, &name);
    if (result) return no_device("the CUDA driver does not start", name);
    if (count == 0 || cuDeviceGet(device, 0)) return no_device("the CUDA driver sees no device", NULL);
    return 0;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t block_bytes;
static CUfunction fill_u32, mix, sum_u64;

static void launch(CUfunction kernel, CUstream stream, void **parameters) {
    CHECK(cuLaunchKernel(kernel, 1024, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

static void run_fill(CUdeviceptr at, uint32_t value, size_t bytes, CUstream stream) {
    uint64_t n = bytes / 4;
    launch(fill_u32, stream, (void *[]){&at, &value, &n});
}

static void run_mix(CUdeviceptr at, uint32_t rounds, CUstream stream) {
    uint64_t n = block_bytes / 4;
    launch(mix, stream, (void *[]){&at, &n, &rounds});
}

static void run_sum(CUdeviceptr from, CUdeviceptr out, CUstream stream) {
    uint64_t n = block_bytes / 4;
    launch(sum_u64, stream, (void *[]){&from, &out, &n});
}

static void fill_batch(uint64_t *words, uint64_t seed) {
    for (size_t i = 0; i < block_bytes / 8; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        words[i] = seed;
    }
}

static uint64_t hash_words(uint64_t hash, const uint64_t *words) {
    for (size_t i = 0; i < block_bytes / 8; i++) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 29;
    }
    return hash;
}

static void work(void) {
    CUdeviceptr blocks[BLOCKS], batches[BATCHES], sums;
    uint64_t *host[BATCHES], *host_sums, hash = 0xCBF29CE484222325ULL;
    CUstream up, compute, down;
    CUevent arrived[BATCHES], consumed[BATCHES], summed;
    const size_t half = block_bytes / 2;

    CHECK(cuStreamCreate(&up, STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&compute, STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&down, STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&summed, EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&sums, BLOCKS * 8));
    CHECK(cuMemAllocHost((void **)&host_sums, BLOCKS * 8));
    for (int k = 0; k < BATCHES; k++) {
        CHECK(cuEventCreate(&arrived[k], EVENT_DISABLE_TIMING));
        CHECK(cuEventCreate(&consumed[k], EVENT_DISABLE_TIMING));
        CHECK(cuMemAlloc(&batches[k], block_bytes));
        CHECK(cuMemAllocHost((void **)&host[k], block_bytes));
        fill_batch(host[k], 0x123456789ABCDEFULL + (uint64_t)k);
    }

    double start = now();
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cuMemAlloc(&blocks[i], block_bytes));
        run_fill(blocks[i], (uint32_t)i * 2654435761u, block_bytes, compute);
        run_mix(blocks[i], 1 + (uint32_t)i % 3, compute);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        int k = pass % BATCHES;
        CUdeviceptr gradient;
        double begin = now();

        if (pass >= BATCHES) CHECK(cuStreamWaitEvent(up, consumed[k], 0));
        CHECK(cuMemcpyHtoDAsync(batches[k], host[k], block_bytes, up));
        CHECK(cuEventRecord(arrived[k], up));
        CHECK(cuStreamWaitEvent(compute, arrived[k], 0));
        CHECK(cuMemsetD8Async(sums, 0, BLOCKS * 8, compute));

        // Forward: each block takes half of what the one before it made.
        CHECK(cuMemcpyDtoDAsync(blocks[0], batches[k], block_bytes, compute));
        CHECK(cuEventRecord(consumed[k], compute));
        for (int i = 0; i < BLOCKS; i++) {
            if (i) CHECK(cuMemcpyDtoDAsync(blocks[i] + half, blocks[i - 1], half, compute));
            run_mix(blocks[i], ROUNDS, compute);
        }
        // Backward: through a block of memory that lives for this pass only.
        CHECK(cuMemAlloc(&gradient, block_bytes));
        for (int i = BLOCKS - 1; i >= 0; i--) {
            CHECK(cuMemcpyDtoDAsync(gradient, blocks[i], block_bytes, compute));
            run_mix(gradient, ROUNDS, compute);
            run_sum(gradient, sums + 8 * (CUdeviceptr)i, compute);
            CHECK(cuMemcpyDtoDAsync(blocks[i], gradient + half, half, compute));
        }
        CHECK(cuMemFree(gradient));

        CHECK(cuEventRecord(summed, compute));
        CHECK(cuStreamWaitEvent(down, summed, 0));
        CHECK(cuMemcpyDtoHAsync(host_sums, sums, BLOCKS * 8, down));
        CHECK(cuStreamSynchronize(down));
        for (int i = 0; i < BLOCKS; i++) hash = (hash ^ host_sums[i]) * 0x100000001B3ULL;
        fprintf(stderr, "  pass %d of %d: %.2f s\n", pass + 1, PASSES, now() - begin);
    }
    double seconds = now() - start;

    // Every byte, through both pinned buffers in turn.
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cuMemcpyDtoHAsync(host[i % BATCHES], blocks[i], block_bytes, down));
        if (i) hash = hash_words(hash, host[(i - 1) % BATCHES]);
        CHECK(cuStreamSynchronize(down));
    }
    hash = hash_words(hash, host[(BLOCKS - 1) % BATCHES]);
    printf("hash %016llx seconds %.3f\n", (unsigned long long)hash, seconds);

    for (int i = 0; i < BLOCKS; i++) CHECK(cuMemFree(blocks[i]));
    for (int k = 0; k < BATCHES; k++) {
        CHECK(cuMemFree(batches[k]));
        CHECK(cuMemFreeHost(host[k]));
        CHECK(cuEventDestroy(arrived[k]));
        CHECK(cuEventDestroy(consumed[k]));
    }
    CHECK(cuMemFree(sums));
    CHECK(cuMemFreeHost(host_sums));
    CHECK(cuEventDestroy(summed));
    CHECK(cuStreamDestroy(up));
    CHECK(cuStreamDestroy(compute));
    CHECK(cuStreamDestroy(down));
}

int main(int argc, char **argv) {
    int device, probe = argc == 2 && !strcmp(argv[1], "--probe");
    char *rest = "", name[128] = "";
    unsigned long mib = argc == 2 && !probe ? strtoul(argv[1], &rest, 10) : 0;
    size_t free_bytes = 0, total = 0;
    CUcontext context;
    CUmodule module;

    if (!probe && (mib < 64 || mib > 4096 || *rest)) {
        fprintf(stderr, "usage: demo_twice --probe | demo_twice MIB, from 64 to 4096\n");
        return 2;
    }
    int missing = find_device(&device);
    if (missing) return missing;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    if (probe) {
        CHECK(cuDeviceGetName(name, sizeof name, device));
        CHECK(cuMemGetInfo(&free_bytes, &total));
        printf("%zu %s\n", free_bytes >> 20, name);
    } else {
        block_bytes = (size_t)mib * ((1 << 20) / 64); // blocks, batches and one gradient
        CHECK(cuModuleLoadData(&module, PTX));
        CHECK(cuModuleGetFunction(&fill_u32, module, "fill_u32"));
        CHECK(cuModuleGetFunction(&mix, module, "mix"));
        CHECK(cuModuleGetFunction(&sum_u64, module, "sum_u64"));
        work();
        CHECK(cuModuleUnload(module));
    }
    CHECK(cuDevicePrimaryCtxRelease(device));
    return 0;
}
