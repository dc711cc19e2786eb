// Facts about the driver that vshare rests on, measured on a real GPU: blocking of cuMemFree, cost of small calls, edge cases of the
// memory calls, pointer attributes, captures, discard and prefetch.
//
//   cc -O2 -o /tmp/probe scripts/bench/probe.c -ldl -lpthread && /tmp/probe            every section, each in a process of its own
//   /tmp/probe a f l                                                                   some of them, by the start of their names
//
// A section that crashes or hangs loses only itself. Managed memory never exceeds MANAGED_CAP in any of them, one runs at a time.
#include "cu.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define MANAGED_CAP (1024 * MIB)
#define SECTION_SECONDS 60

static CUcontext context;
static CUfunction spin_kernel, empty_kernel;

static const char PTX[] = ".version 7.0\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          // writes 8 bytes at p unless it is null, then runs for ns nanoseconds
                          ".visible .entry spin(.param .u64 ns, .param .u64 p) {\n"
                          "  .reg .pred %c<3>; .reg .b64 %r<6>;\n"
                          "  ld.param.u64 %r1, [ns];\n"
                          "  ld.param.u64 %r2, [p];\n"
                          "  mov.u64 %r3, %globaltimer;\n"
                          "  setp.eq.u64 %c1, %r2, 0;\n"
                          "  @%c1 bra LOOP;\n"
                          "  st.global.u64 [%r2], %r3;\n"
                          "LOOP:\n"
                          "  mov.u64 %r4, %globaltimer;\n"
                          "  sub.u64 %r5, %r4, %r3;\n"
                          "  setp.lt.u64 %c2, %r5, %r1;\n"
                          "  @%c2 bra LOOP;\n"
                          "  ret;\n"
                          "}\n"
                          ".visible .entry empty(.param .u64 p) { ret; }\n";

static void open_device(void) {
    CUdevice device;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

static void load_kernels(void) {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, PTX));
    CHECK(cuModuleGetFunction(&spin_kernel, module, "spin"));
    CHECK(cuModuleGetFunction(&empty_kernel, module, "empty"));
}

static void launch_spin(CUstream stream, double milliseconds, CUdeviceptr touch) {
    unsigned long long ns = (unsigned long long)(1e6 * milliseconds);
    void *parameters[] = {&ns, &touch};
    CHECK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void launch_empty(CUstream stream) {
    CUdeviceptr none = 0;
    void *parameters[] = {&none};
    CHECK(cuLaunchKernel(empty_kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

static CUstream new_stream(unsigned flags) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, flags));
    return stream;
}

static CUdeviceptr device_alloc(size_t bytes) {
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

// The one place where managed memory is taken, but for a few pages that section j asks for during captures.
static CUdeviceptr managed_alloc(size_t bytes) {
    static size_t taken;
    size_t free_bytes = 0, total = 0;
    CHECK(cuMemGetInfo(&free_bytes, &total));
    taken += bytes;
    if (taken > MANAGED_CAP || taken > free_bytes / 4) {
        printf("refusing %zu MiB of managed memory in all\n", taken / MIB);
        exit(3);
    }
    CUdeviceptr p = 0;
    CHECK(cuMemAllocManaged(&p, bytes, MEM_ATTACH_GLOBAL));
    return p;
}

static void said(const char *what, CUresult result) { printf("  %-76s %d %s\n", what, result, cu_name(result)); }

// ---- a: does a free wait for running kernels?

static void free_under_kernel(const char *how, CUstream stream, size_t bytes, bool used) {
    CUdeviceptr p = device_alloc(bytes), scratch;
    CHECK(cuCtxSynchronize());
    launch_spin(stream, 50, used ? p : 0);
    double start = now_ns();
    CHECK(cuMemFree(p));
    double freed = now_ns() - start;
    bool running = cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    CHECK(cuCtxSynchronize());
    launch_spin(stream, 50, 0);
    start = now_ns();
    CHECK(cuMemAlloc(&scratch, bytes));
    double allocated = now_ns() - start;
    CHECK(cuCtxSynchronize());
    start = now_ns();
    CHECK(cuMemFree(scratch));
    double idle = now_ns() - start;
    printf("  %-20s %7zu KiB %-9s free %9.1f us, kernel %-7s after it; alloc beside a kernel %9.1f us; free when idle %7.1f us\n", how, bytes / KIB,
           used ? "used" : "unrelated", freed / 1e3, running ? "RUNNING" : "done", allocated / 1e3, idle / 1e3);
}

static void section_free_waits(void) {
    load_kernels();
    struct {
        const char *how;
        CUstream stream;
    } streams[] = {{"non-blocking stream", new_stream(STREAM_NON_BLOCKING)}, {"blocking stream", new_stream(STREAM_BLOCKING)}, {"legacy stream", NULL}};
    launch_spin(NULL, 1, 0);
    size_t sizes[] = {KIB, MIB, 2 * MIB, 64 * MIB, 512 * MIB};
    for (size_t s = 0; s < sizeof streams / sizeof *streams; s++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int used = 0; used < 2; used++) free_under_kernel(streams[s].how, streams[s].stream, sizes[i], used);

    CUdeviceptr managed = managed_alloc(64 * MIB);
    CHECK(cuMemPrefetchAsync(managed, 64 * MIB, ON_DEVICE, 0, streams[0].stream));
    CHECK(cuCtxSynchronize());
    launch_spin(streams[0].stream, 50, 0);
    double start = now_ns();
    CHECK(cuMemFree(managed));
    printf("  non-blocking stream, free of 64 MiB managed, unrelated: %.1f us, kernel %s after it\n", (now_ns() - start) / 1e3,
           cuStreamQuery(streams[0].stream) == CUDA_ERROR_NOT_READY ? "RUNNING" : "done");
    CHECK(cuCtxSynchronize());

    CUdeviceptr async;
    CHECK(cuMemAllocAsync(&async, 64 * MIB, streams[0].stream));
    CHECK(cuCtxSynchronize());
    launch_spin(streams[0].stream, 50, async);
    start = now_ns();
    CHECK(cuMemFree(async));
    printf("  non-blocking stream, cuMemFree of 64 MiB from cuMemAllocAsync, used: %.1f us, kernel %s after it\n", (now_ns() - start) / 1e3,
           cuStreamQuery(streams[0].stream) == CUDA_ERROR_NOT_READY ? "RUNNING" : "done");
    CHECK(cuCtxSynchronize());
}

// ---- b: what small calls cost

enum { SMALL_CALLS = 20000, PENDING_CALLS = 200 };

// Times `call` repeatedly: mean over all of them, then each alone. `call` must answer `wanted` every time.
#define COST(what, count, wanted, call)                                                                                                                        \
    do {                                                                                                                                                       \
        static double samples[SMALL_CALLS];                                                                                                                    \
        size_t count_ = (count), other_ = 0;                                                                                                                   \
        CUresult last_ = 0;                                                                                                                                    \
        double start_ = now_ns();                                                                                                                              \
        for (size_t i_ = 0; i_ < count_; i_++) other_ += (last_ = (call)) != (wanted);                                                                         \
        double mean_ = (now_ns() - start_) / (double)count_;                                                                                                   \
        for (size_t i_ = 0; i_ < count_; i_++) {                                                                                                               \
            double before_ = now_ns();                                                                                                                         \
            last_ = (call);                                                                                                                                    \
            samples[i_] = now_ns() - before_;                                                                                                                  \
            other_ += last_ != (wanted);                                                                                                                       \
        }                                                                                                                                                      \
        sort_samples(samples, count_);                                                                                                                         \
        printf("  %-52s mean %8.0f ns; alone p50 %8.0f p99 %8.0f max %9.0f ns; %zu answers other than %d\n", what, mean_, quantile(samples, count_, .5),      \
               quantile(samples, count_, .99), samples[count_ - 1], other_, (int)(wanted));                                                                    \
    } while (0)

static void section_small_calls(void) {
    load_kernels();
    CUstream stream = new_stream(STREAM_NON_BLOCKING), other = new_stream(STREAM_NON_BLOCKING);
    CUevent complete, pending, fresh;
    CHECK(cuEventCreate(&complete, 2)); // CU_EVENT_DISABLE_TIMING
    CHECK(cuEventCreate(&pending, 2));
    CHECK(cuEventCreate(&fresh, 2));
    CHECK(cuEventRecord(complete, stream));
    CHECK(cuCtxSynchronize());
    CUdeviceptr p = device_alloc(MIB), async;
    CHECK(cuMemAllocAsync(&async, MIB, stream));
    CHECK(cuCtxSynchronize());
    unsigned flags;
    unsigned long long id;
    int status, kind;
    int mode = CAPTURE_RELAXED;
    CUcontext current;
    CUdevice device;
    CUmemoryPool pool;
    size_t free_bytes, total;
    CUdeviceptr base;

    COST("nothing (the clock itself)", SMALL_CALLS, 0, 0);
    COST("cuCtxGetCurrent", SMALL_CALLS, 0, cuCtxGetCurrent(&current));
    COST("cuCtxGetDevice", SMALL_CALLS, 0, cuCtxGetDevice(&device));
    COST("cuCtxSetCurrent, the same", SMALL_CALLS, 0, cuCtxSetCurrent(context));
    COST("cuThreadExchangeStreamCaptureMode", SMALL_CALLS, 0, cuThreadExchangeStreamCaptureMode(&mode));
    mode = CAPTURE_GLOBAL;
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    COST("cuStreamIsCapturing, own stream", SMALL_CALLS, 0, cuStreamIsCapturing(stream, &status));
    COST("cuStreamIsCapturing, legacy stream", SMALL_CALLS, 0, cuStreamIsCapturing(NULL, &status));
    COST("cuStreamGetFlags", SMALL_CALLS, 0, cuStreamGetFlags(stream, &flags));
    COST("cuStreamGetCtx", SMALL_CALLS, 0, cuStreamGetCtx(stream, &current));
    COST("cuStreamGetId", SMALL_CALLS, 0, cuStreamGetId(stream, &id));
    COST("cuStreamQuery, idle", SMALL_CALLS, 0, cuStreamQuery(stream));
    COST("cuEventQuery, complete", SMALL_CALLS, 0, cuEventQuery(complete));
    COST("cuEventQuery, never recorded", SMALL_CALLS, 0, cuEventQuery(fresh));
    COST("cuEventRecord, idle stream", SMALL_CALLS, 0, cuEventRecord(fresh, stream));
    CHECK(cuCtxSynchronize());
    COST("cuStreamWaitEvent, complete event", SMALL_CALLS, 0, cuStreamWaitEvent(other, complete, 0));
    CHECK(cuCtxSynchronize());
    COST("cuPointerGetAttribute MEMORY_TYPE, cuMemAlloc", SMALL_CALLS, 0, cuPointerGetAttribute(&kind, 2, p));
    COST("cuPointerGetAttribute MEMORY_TYPE, cuMemAllocAsync", SMALL_CALLS, 0, cuPointerGetAttribute(&kind, 2, async));
    COST("cuPointerGetAttribute MEMORY_TYPE, unknown pointer", SMALL_CALLS, 1, cuPointerGetAttribute(&kind, 2, 0x1234));
    COST("cuMemGetAddressRange", SMALL_CALLS, 0, cuMemGetAddressRange(&base, &total, p));
    COST("cuDeviceGetMemPool", SMALL_CALLS, 0, cuDeviceGetMemPool(&pool, 0));
    COST("cuMemGetInfo", 2000, 0, cuMemGetInfo(&free_bytes, &total));

    launch_spin(stream, 200, 0);
    CHECK(cuEventRecord(pending, stream));
    COST("cuEventQuery, pending", PENDING_CALLS, CUDA_ERROR_NOT_READY, cuEventQuery(pending));
    COST("cuStreamQuery, busy", PENDING_CALLS, CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    COST("cuStreamIsCapturing, busy stream", PENDING_CALLS, 0, cuStreamIsCapturing(stream, &status));
    COST("cuEventRecord, busy stream", PENDING_CALLS, 0, cuEventRecord(fresh, stream));
    COST("cuStreamWaitEvent, pending event", PENDING_CALLS, 0, cuStreamWaitEvent(other, pending, 0));
    printf("  (pending rows valid: the kernel is %s)\n", cuEventQuery(pending) == CUDA_ERROR_NOT_READY ? "still running" : "OVER, they are not");
    CHECK(cuCtxSynchronize());
}

// ---- c: the 32-bit calls of the first API

static void section_v1(void) {
    unsigned long long p = 0xaaaaaaaaaaaaaaaaULL, extra = 0xbbbbbbbbbbbbbbbbULL;
    if (!cuMemAlloc_v1 || !cuMemFree_v1 || !cuMemGetInfo_v1 || !cuMemAllocPitch_v1 || !cuDeviceTotalMem_v1) printf("  some are not exported\n");
    if (cuMemAlloc_v1) {
        CUresult r = cuMemAlloc_v1((unsigned *)&p, 4096);
        said("cuMemAlloc (v1), 4096 bytes", r);
        printf("    pointer word now %llx (was aaaaaaaaaaaaaaaa)\n", p);
        if (r == CUDA_SUCCESS && cuMemFree_v1) said("cuMemFree (v1) of its low word", cuMemFree_v1((unsigned)p));
    }
    if (cuMemFree_v1) said("cuMemFree (v1) of 0", cuMemFree_v1(0));
    p = 0xaaaaaaaaaaaaaaaaULL;
    if (cuMemAllocPitch_v1) {
        said("cuMemAllocPitch (v1), 100 x 16", cuMemAllocPitch_v1((unsigned *)&p, (unsigned *)&extra, 100, 16, 4));
        printf("    pointer word %llx, pitch word %llx\n", p, extra);
    }
    p = extra = 0xaaaaaaaaaaaaaaaaULL;
    if (cuMemGetInfo_v1) {
        said("cuMemGetInfo (v1)", cuMemGetInfo_v1((unsigned *)&p, (unsigned *)&extra));
        printf("    free word %llx, total word %llx\n", p, extra);
    }
    p = 0xaaaaaaaaaaaaaaaaULL;
    if (cuDeviceTotalMem_v1) {
        said("cuDeviceTotalMem (v1)", cuDeviceTotalMem_v1((unsigned *)&p, 0));
        printf("    word %llx\n", p);
    }
}

// ---- d: null arguments

static void section_info_no_total(void) {
    size_t n = 7;
    said("cuMemGetInfo(&free, NULL)", cuMemGetInfo(&n, NULL));
    printf("    free %zu\n", n);
}

static void section_info_no_free(void) {
    size_t n = 7;
    said("cuMemGetInfo(NULL, &total)", cuMemGetInfo(NULL, &n));
    printf("    total %zu\n", n);
}

static void section_info_nothing(void) { said("cuMemGetInfo(NULL, NULL)", cuMemGetInfo(NULL, NULL)); }
static void section_total_null(void) { said("cuDeviceTotalMem_v2(NULL, 0)", cuDeviceTotalMem(NULL, 0)); }
static void section_alloc_null(void) { said("cuMemAlloc(NULL, 1024)", cuMemAlloc(NULL, 1024)); }
static void section_alloc_async_null(void) { said("cuMemAllocAsync(NULL, 1024, stream)", cuMemAllocAsync(NULL, 1024, new_stream(1))); }

static void section_pitch_null(void) {
    CUdeviceptr p = 7;
    said("cuMemAllocPitch(&p, NULL, 100, 16, 4)", cuMemAllocPitch(&p, NULL, 100, 16, 4));
    printf("    pointer %llx\n", p);
}

static void section_range_null(void) {
    CUdeviceptr p = device_alloc(MIB), base = 7;
    size_t size = 7;
    said("cuMemGetAddressRange(NULL, &size, p)", cuMemGetAddressRange(NULL, &size, p));
    said("cuMemGetAddressRange(&base, NULL, p)", cuMemGetAddressRange(&base, NULL, p));
    said("cuMemGetAddressRange(NULL, NULL, p)", cuMemGetAddressRange(NULL, NULL, p));
    printf("    size %zu, base %s\n", size, base == p ? "right" : "WRONG");
}

static void section_info_no_context(void) {
    size_t free_bytes = 7, total = 7;
    CHECK(cuCtxSetCurrent(NULL));
    said("cuMemGetInfo with no context current", cuMemGetInfo(&free_bytes, &total));
    printf("    free %zu total %zu\n", free_bytes, total);
}

// ---- e: zero sizes, bad frees, contexts

static void section_zero_sizes(void) {
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUdeviceptr p = 7, q = 7;
    size_t pitch = 7;
    said("cuMemAlloc(&p, 0)", cuMemAlloc(&p, 0));
    printf("    pointer %llx (was 7)\n", p);
    p = 7;
    said("cuMemAllocAsync(&p, 0)", cuMemAllocAsync(&p, 0, stream));
    printf("    pointer %llx\n", p);
    if (p != 7 && p) said("  its cuMemFreeAsync", cuMemFreeAsync(p, stream));
    p = 7;
    said("cuMemAllocManaged(&p, 0)", cuMemAllocManaged(&p, 0, MEM_ATTACH_GLOBAL));
    printf("    pointer %llx\n", p);
    p = 7;
    said("cuMemAllocPitch width 0", cuMemAllocPitch(&p, &pitch, 0, 16, 4));
    printf("    pointer %llx pitch %zu\n", p, pitch);
    said("cuMemAllocPitch height 0", cuMemAllocPitch(&p, &pitch, 100, 0, 4));
    printf("    pointer %llx pitch %zu\n", p, pitch);
    unsigned bad_elements[] = {0, 1, 2, 3, 5, 12, 32};
    for (size_t i = 0; i < sizeof bad_elements / sizeof *bad_elements; i++) {
        char what[64];
        snprintf(what, sizeof what, "cuMemAllocPitch 100 x 16, element %u", bad_elements[i]);
        said(what, cuMemAllocPitch(&q, &pitch, 100, 16, bad_elements[i]));
    }
    said("cuMemFree(0)", cuMemFree(0));
    said("cuMemFreeAsync(0, stream)", cuMemFreeAsync(0, stream));
    p = 7;
    said("cuMemAlloc of 2^60 bytes", cuMemAlloc(&p, (size_t)1 << 60));
    printf("    pointer %llx\n", p);
    said("cuMemAlloc of SIZE_MAX bytes", cuMemAlloc(&p, SIZE_MAX));
    said("cuMemAllocAsync of 2^60 bytes", cuMemAllocAsync(&p, (size_t)1 << 60, stream));
    said("cuMemAllocPitch 2^40 x 2^40", cuMemAllocPitch(&p, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_free_interior(void) {
    CUdeviceptr p = device_alloc(4 * MIB);
    said("cuMemFree of base + 512, 4 MiB", cuMemFree(p + 512));
    said("cuMemFree of base + 2 MiB, 4 MiB", cuMemFree(p + 2 * MIB));
    said("cuMemFree of the base afterwards", cuMemFree(p));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_free_twice(void) {
    CUdeviceptr p = device_alloc(MIB), q = device_alloc(64 * MIB);
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(q));
    said("second cuMemFree, 1 MiB", cuMemFree(p));
    said("second cuMemFree, 64 MiB", cuMemFree(q));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_free_garbage(void) {
    static int on_host;
    said("cuMemFree(0x1234)", cuMemFree(0x1234));
    said("cuMemFree(0x7f0000000000)", cuMemFree(0x7f0000000000ULL));
    said("cuMemFree(a host address)", cuMemFree((CUdeviceptr)(uintptr_t)&on_host));
    said("cuMemFree(all ones)", cuMemFree(~0ULL));
    void *pinned = NULL;
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    said("cuMemFree(pinned host memory)", cuMemFree((CUdeviceptr)(uintptr_t)pinned));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_free_async_garbage(void) {
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    said("cuMemFreeAsync(0x1234)", cuMemFreeAsync(0x1234, stream));
    said("cuMemFreeAsync(0x7f0000000000)", cuMemFreeAsync(0x7f0000000000ULL, stream));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_free_async_other(void) {
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(MIB), async;
    said("cuMemFreeAsync of a cuMemAlloc'd block", cuMemFreeAsync(p, stream));
    said("cuCtxSynchronize", cuCtxSynchronize());
    said("cuMemFree of it afterwards", cuMemFree(p));
    CHECK(cuMemAllocAsync(&async, MIB, stream));
    said("cuMemFreeAsync of an interior pointer", cuMemFreeAsync(async + 512, stream));
    said("cuMemFreeAsync of the base", cuMemFreeAsync(async, stream));
    said("cuMemFreeAsync of it again", cuMemFreeAsync(async, stream));
    said("cuMemFree of it again", cuMemFree(async));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
    CHECK(cuMemAllocAsync(&async, MIB, stream));
    said("cuMemFree of a cuMemAllocAsync'd block", cuMemFree(async));
    CUdeviceptr managed = managed_alloc(MIB);
    said("cuMemFreeAsync of a managed block", cuMemFreeAsync(managed, stream));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_contexts(void) {
    CUdeviceptr p = device_alloc(MIB), q = device_alloc(MIB), r = 7, async;
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUcontext second;
    CHECK(cuMemAllocAsync(&async, MIB, stream));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxCreate(&second, 0, 0));
    CHECK(cuCtxSetCurrent(second));
    said("cuMemFree with another context of the device current", cuMemFree(p));
    said("cuPointerGetAttribute MEMORY_TYPE with another context current", cuPointerGetAttribute(&r, 2, q));
    CHECK(cuCtxSetCurrent(NULL));
    size_t size;
    r = 7;
    said("cuMemAlloc with no context current", cuMemAlloc(&r, MIB));
    printf("    pointer %llx\n", r);
    said("cuMemAllocAsync with no context current, on a stream", cuMemAllocAsync(&r, MIB, stream));
    said("cuMemAllocAsync with no context current, legacy stream", cuMemAllocAsync(&r, MIB, NULL));
    said("cuMemFreeAsync with no context current, on a stream", cuMemFreeAsync(async, stream));
    said("cuMemGetAddressRange with no context current", cuMemGetAddressRange(&r, &size, q));
    said("cuMemFree(0) with no context current", cuMemFree(0));
    said("cuMemFree with no context current", cuMemFree(q));
    said("  and again", cuMemFree(q));
    CHECK(cuCtxSetCurrent(context));
    said("  and again with the context current", cuMemFree(q));
    said("cuCtxSynchronize afterwards", cuCtxSynchronize());
}

static void section_before_init(void) {
    CUdeviceptr p = 7;
    size_t size = 7, total = 7;
    said("cuMemAlloc before cuInit", cuMemAlloc(&p, MIB));
    said("cuMemFree(0) before cuInit", cuMemFree(0));
    said("cuMemGetInfo before cuInit", cuMemGetInfo(&size, &total));
    said("cuPointerGetAttribute before cuInit", cuPointerGetAttribute(&p, 2, 0x1234));
    said("cuDeviceTotalMem before cuInit", cuDeviceTotalMem(&size, 0));
}

// ---- f: pointer attributes

static const char *const ATTRIBUTES[] = {"",
                                         "CONTEXT",
                                         "MEMORY_TYPE",
                                         "DEVICE_POINTER",
                                         "HOST_POINTER",
                                         "P2P_TOKENS",
                                         "SYNC_MEMOPS",
                                         "BUFFER_ID",
                                         "IS_MANAGED",
                                         "DEVICE_ORDINAL",
                                         "IS_LEGACY_CUDA_IPC_CAPABLE",
                                         "RANGE_START_ADDR",
                                         "RANGE_SIZE",
                                         "MAPPED",
                                         "ALLOWED_HANDLE_TYPES",
                                         "IS_GPU_DIRECT_RDMA_CAPABLE",
                                         "ACCESS_FLAGS",
                                         "MEMPOOL_HANDLE",
                                         "MAPPING_SIZE",
                                         "MAPPING_BASE_ADDR",
                                         "MEMORY_BLOCK_ID",
                                         "IS_HW_DECOMPRESS_CAPABLE"};
enum { ATTRIBUTE_COUNT = 21 };

// How many of the bytes, all 0xEE before the call, the driver wrote (a written 0xEE at the end is missed).
static size_t written(const unsigned char *bytes, size_t room) {
    while (room && bytes[room - 1] == 0xee) room--;
    return room;
}

// The driver's answer for a value: "ptr", "ptr+N" near the pointer asked about, "context", or the number.
static void show_value(const unsigned char *bytes, size_t width, CUdeviceptr base) {
    unsigned long long value = 0;
    memcpy(&value, bytes, width < sizeof value ? width : sizeof value);
    if (width >= 8 && value == (uintptr_t)context)
        printf("context");
    else if (width >= 8 && base > 0xffff && value >= base - 4 * MIB && value < base + 128 * MIB)
        printf("base%+lld", (long long)(value - base));
    else
        printf("0x%llx", value);
}

static void show_attributes(const char *what, CUdeviceptr base, size_t offset) {
    CUdeviceptr asked = base + offset, range_base = 7;
    size_t range_size = 7;
    printf("  %s (base %llx, asked at +%zu)\n", what, base, offset);
    CUresult r = cuMemGetAddressRange(&range_base, &range_size, asked);
    printf("    cuMemGetAddressRange -> %d, base%+lld, size %zu\n", r, r ? 0 : (long long)(range_base - base), range_size);
    for (int attribute = 1; attribute <= ATTRIBUTE_COUNT; attribute++) {
        unsigned char one[64], many[64];
        memset(one, 0xee, sizeof one);
        memset(many, 0xee, sizeof many);
        void *data = many;
        CUresult single = cuPointerGetAttribute(one, attribute, asked);
        CUresult batch = cuPointerGetAttributes(1, &attribute, &data, asked);
        size_t one_width = written(one, sizeof one), many_width = written(many, sizeof many);
        printf("    %2d %-27s single -> %d, %zu bytes ", attribute, ATTRIBUTES[attribute], single, one_width);
        show_value(one, one_width, base);
        printf("; batch -> %d, %zu bytes ", batch, many_width);
        show_value(many, many_width, base);
        printf("%s\n", single == batch && !memcmp(one, many, sizeof one) ? "" : "   (DIFFER)");
    }
    int asked_for[ATTRIBUTE_COUNT];
    static unsigned char bytes[ATTRIBUTE_COUNT][64];
    void *data[ATTRIBUTE_COUNT];
    memset(bytes, 0xee, sizeof bytes);
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) asked_for[i] = i + 1, data[i] = bytes[i];
    printf("    batch of 1..20 -> %d\n", cuPointerGetAttributes(20, asked_for, data, asked));
    int runtime[] = {1, 2, 3, 4, 8, 9};
    memset(bytes, 0xee, sizeof bytes);
    printf("    batch as the runtime asks -> %d:", cuPointerGetAttributes(6, runtime, data, asked));
    for (int i = 0; i < 6; i++) {
        printf(" %s ", ATTRIBUTES[runtime[i]]);
        show_value(bytes[i], written(bytes[i], 64), base);
    }
    printf("\n");
}

static void section_attributes_alloc(void) {
    CUdeviceptr p = device_alloc(3 * MIB), tiny = device_alloc(1);
    show_attributes("cuMemAlloc 3 MiB", p, 0);
    show_attributes("cuMemAlloc 3 MiB, interior", p, MIB + 3);
    show_attributes("cuMemAlloc 3 MiB, last byte", p, 3 * MIB - 1);
    show_attributes("cuMemAlloc 3 MiB, one past the end", p, 3 * MIB);
    show_attributes("cuMemAlloc 1 byte", tiny, 0);
    show_attributes("cuMemAlloc 1 byte, one past the end", tiny, 1);
}

static void section_attributes_async(void) {
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUdeviceptr p;
    CHECK(cuMemAllocAsync(&p, 3 * MIB, stream));
    CHECK(cuStreamSynchronize(stream));
    show_attributes("cuMemAllocAsync 3 MiB", p, 0);
    show_attributes("cuMemAllocAsync 3 MiB, interior", p, MIB + 3);
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    show_attributes("cuMemAllocAsync 3 MiB, freed", p, 0);
}

static void section_attributes_managed(void) {
    CUdeviceptr p = managed_alloc(3 * MIB);
    show_attributes("cuMemAllocManaged 3 MiB", p, 0);
    show_attributes("cuMemAllocManaged 3 MiB, interior", p, MIB + 3);
}

static void section_attributes_none(void) {
    CUdeviceptr p = device_alloc(64 * MIB);
    static int on_host;
    CHECK(cuMemFree(p));
    show_attributes("freed cuMemAlloc 64 MiB", p, 0);
    show_attributes("null", 0, 0);
    show_attributes("a host address", (CUdeviceptr)(uintptr_t)&on_host, 0);
}

// ---- g, h, i: pitch, alignment, accounting

static void section_pitch(void) {
    size_t widths[] = {1, 100, 512, 513, 1000, 5000, 65537};
    unsigned elements[] = {4, 8, 16};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        printf("  width %6zu:", widths[w]);
        for (size_t e = 0; e < 3; e++) {
            CUdeviceptr p, base;
            size_t pitch = 0, size = 0;
            CUresult r = cuMemAllocPitch(&p, &pitch, widths[w], 16, elements[e]);
            if (r == CUDA_SUCCESS) CHECK(cuMemGetAddressRange(&base, &size, p));
            printf("  element %2u -> %d pitch %zu, range %zu (= %zu x 16 %s)", elements[e], r, pitch, size, pitch, size == pitch * 16 ? "yes" : "NO");
            if (r == CUDA_SUCCESS) CHECK(cuMemFree(p));
        }
        printf("\n");
    }
}

static void section_alignment(void) {
    size_t sizes[] = {1, 255, 256, 512, 513, 4096, 64 * KIB, 65 * KIB, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 16 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr any = 0, p[16];
        for (int k = 0; k < 16; k++) any |= p[k] = device_alloc(sizes[i]);
        printf("  %9zu bytes: all of 16 aligned to %llu; the second is %+lld, the third %+lld from the first\n", sizes[i], any & -any, (long long)(p[1] - p[0]),
               (long long)(p[2] - p[0]));
        for (int k = 0; k < 16; k++) CHECK(cuMemFree(p[k]));
    }
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUdeviceptr any = 0, p[16];
    for (int k = 0; k < 16; k++) {
        CHECK(cuMemAllocAsync(&p[k], 1, stream));
        any |= p[k];
    }
    printf("  cuMemAllocAsync of 1 byte: all of 16 aligned to %llu; the second is %+lld from the first\n", any & -any, (long long)(p[1] - p[0]));
}

static size_t free_now(void) {
    size_t free_bytes, total;
    CHECK(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static void section_accounting(void) {
    size_t sizes[] = {1, 1, MIB, MIB + 1, 2 * MIB, 3 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before = free_now();
        CUdeviceptr p = device_alloc(sizes[i]);
        size_t held = free_now();
        CHECK(cuMemFree(p));
        printf("  %9zu bytes: free falls by %zu KiB, stands %+lld KiB from before after the free\n", sizes[i], (before - held) / KIB,
               ((long long)free_now() - (long long)before) / 1024);
    }
    enum { MANY = 5000 };
    static CUdeviceptr many[MANY];
    size_t before = free_now();
    for (int i = 0; i < MANY; i++) many[i] = device_alloc(1);
    printf("  %d allocations of 1 byte: free falls by %zu KiB\n", MANY, (before - free_now()) / KIB);
    for (int i = 0; i < MANY; i++) CHECK(cuMemFree(many[i]));
    printf("    after their frees %+lld KiB from before\n", ((long long)free_now() - (long long)before) / 1024);
    before = free_now();
    CUdeviceptr managed = managed_alloc(64 * MIB);
    printf("  managed 64 MiB untouched: free falls by %lld KiB\n", ((long long)before - (long long)free_now()) / 1024);
    CHECK(cuMemPrefetchAsync(managed, 64 * MIB, ON_DEVICE, 0, new_stream(STREAM_NON_BLOCKING)));
    CHECK(cuCtxSynchronize());
    printf("  prefetched to the device: free falls by %lld KiB\n", ((long long)before - (long long)free_now()) / 1024);
}

// ---- j: captures

static CUstream capture_other;
static CUdeviceptr capture_device, capture_async, capture_managed;
static CUevent capture_event;
static void *capture_pinned;

static void *alloc_in_thread(void *result) {
    CUdeviceptr p;
    cuCtxSetCurrent(context);
    *(CUresult *)result = cuMemAlloc(&p, MIB);
    return NULL;
}

enum { CAPTURE_OPERATIONS = 27 };

static CUresult capture_operation(int which, CUstream capturing, const char **what) {
    static CUdeviceptr p;
    size_t free_bytes, total;
    int kind;
    CUresult r = -1;
    switch (which) {
    case 0: return *what = "nothing", 0;
    case 1: return *what = "cuMemAlloc", cuMemAlloc(&p, MIB);
    case 2: return *what = "cuMemFree", cuMemFree(capture_device);
    case 3: return *what = "cuMemAllocAsync, capturing stream", cuMemAllocAsync(&p, MIB, capturing);
    case 4: return *what = "cuMemFreeAsync, capturing stream, older block", cuMemFreeAsync(capture_async, capturing);
    case 5: return *what = "cuMemAllocAsync, other stream", cuMemAllocAsync(&p, MIB, capture_other);
    case 6: return *what = "cuMemFreeAsync, other stream", cuMemFreeAsync(capture_async, capture_other);
    case 7: return *what = "cuMemAllocAsync, legacy stream", cuMemAllocAsync(&p, MIB, NULL);
    case 8: return *what = "cuMemGetInfo", cuMemGetInfo(&free_bytes, &total);
    case 9: return *what = "cuPointerGetAttribute", cuPointerGetAttribute(&kind, 2, capture_device);
    case 10: return *what = "cuMemAllocManaged", cuMemAllocManaged(&p, 4096, MEM_ATTACH_GLOBAL);
    case 11: return *what = "cuMemAllocPitch", cuMemAllocPitch(&p, &total, 100, 16, 4);
    case 12: return *what = "cuMemHostAlloc", cuMemHostAlloc(&capture_pinned, 4096, 0);
    case 13: return *what = "cuEventQuery, event of other stream", cuEventQuery(capture_event);
    case 14: return *what = "cuEventRecord, other stream", cuEventRecord(capture_event, capture_other);
    case 15: return *what = "cuStreamQuery, other stream", cuStreamQuery(capture_other);
    case 16: return *what = "cuStreamSynchronize, other stream", cuStreamSynchronize(capture_other);
    case 17: return *what = "cuStreamQuery, capturing stream", cuStreamQuery(capturing);
    case 18: return *what = "cuCtxSynchronize", cuCtxSynchronize();
    case 19: return *what = "cuMemcpyDtoD (legacy stream)", cuMemcpyDtoD(capture_device, capture_device + 4096, 64);
    case 20: return *what = "cuMemPrefetchAsync, other stream", cuMemPrefetchAsync(capture_managed, 2 * MIB, ON_DEVICE, 0, capture_other);
    case 21: return *what = "cuMemPrefetchAsync, capturing stream", cuMemPrefetchAsync(capture_managed, 2 * MIB, ON_DEVICE, 0, capturing);
    case 22: return *what = "cuStreamCreate", cuStreamCreate(&(CUstream){0}, STREAM_NON_BLOCKING);
    case 23: return *what = "cuModuleLoadData", cuModuleLoadData(&(CUmodule){0}, PTX);
    case 24: {
        int mode = CAPTURE_RELAXED;
        *what = "cuMemAlloc within exchange to RELAXED";
        if ((r = cuThreadExchangeStreamCaptureMode(&mode))) return r;
        r = cuMemAlloc(&p, MIB);
        cuThreadExchangeStreamCaptureMode(&mode);
        return r;
    }
    case 25: {
        int mode = CAPTURE_RELAXED;
        *what = "cuMemFree within exchange to RELAXED";
        if ((r = cuThreadExchangeStreamCaptureMode(&mode))) return r;
        r = cuMemFree(capture_device);
        cuThreadExchangeStreamCaptureMode(&mode);
        return r;
    }
    case 26: {
        pthread_t thread;
        *what = "cuMemAlloc in another thread";
        pthread_create(&thread, NULL, alloc_in_thread, &r);
        pthread_join(thread, NULL);
        return r;
    }
    default: exit(2);
    }
}

static void section_capture(void) {
    load_kernels();
    capture_other = new_stream(STREAM_NON_BLOCKING);
    CHECK(cuEventCreate(&capture_event, 2));
    capture_managed = managed_alloc(2 * MIB);
    const char *modes[] = {"GLOBAL", "THREAD_LOCAL", "RELAXED"}, *what = "";
    for (int mode = 0; mode < 3; mode++)
        for (int which = 0; which < CAPTURE_OPERATIONS; which++) {
            CUstream stream = new_stream(STREAM_NON_BLOCKING);
            capture_device = device_alloc(2 * MIB);
            CHECK(cuMemAllocAsync(&capture_async, MIB, capture_other));
            CHECK(cuEventRecord(capture_event, capture_other));
            CHECK(cuCtxSynchronize());
            CHECK(cuStreamBeginCapture(stream, mode));
            launch_empty(stream);
            CUresult r = capture_operation(which, stream, &what);
            int status = -1;
            CUresult asked = cuStreamIsCapturing(stream, &status);
            CUgraph graph = NULL;
            CUresult end = cuStreamEndCapture(stream, &graph);
            size_t nodes = 0;
            if (end == CUDA_SUCCESS && graph) CHECK(cuGraphGetNodes(graph, NULL, &nodes));
            printf("  %-12s %-46s -> %3d %-42s | status %d %s, end -> %d, %zu nodes%s\n", modes[mode], what, r, cu_name(r), asked,
                   status == 1   ? "active"
                   : status == 2 ? "INVALIDATED"
                                 : "none",
                   end, nodes, end ? "  CAPTURE DEAD" : "");
            if (graph) cuGraphDestroy(graph);
            CUresult alive = cuCtxSynchronize();
            if (alive) {
                printf("  context lost: %d %s\n", alive, cu_name(alive));
                return;
            }
            CHECK(cuStreamDestroy(stream));
            cuMemFree(capture_device); // already freed by some operations: an error is no news
            cuMemFreeAsync(capture_async, capture_other);
        }
}

// ---- k: discard

static void whole_batch(CUresult (*batch)(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long, CUstream), CUdeviceptr p,
                        size_t bytes, size_t pieces, CUmemLocation to, CUstream stream) {
    CUdeviceptr starts[64];
    size_t sizes[64], first = 0;
    if (pieces > 64) exit(3);
    for (size_t i = 0; i < pieces; i++) starts[i] = p + i * (bytes / pieces), sizes[i] = bytes / pieces;
    CHECK(batch(starts, sizes, pieces, &to, &first, 1, 0, stream));
}

static double synced_ms(double start, CUstream stream) {
    CHECK(cuStreamSynchronize(stream));
    return (now_ns() - start) / 1e6;
}

static void section_discard(void) {
    if (!cuMemDiscardBatchAsync || !cuMemPrefetchBatchAsync) {
        printf("  this driver has no batch calls\n");
        return;
    }
    load_kernels();
    const size_t bytes = 64 * MIB;
    CUstream stream = new_stream(STREAM_NON_BLOCKING);
    CUdeviceptr p = managed_alloc(bytes);
    for (int protect = 0; protect < 2; protect++)
        for (int discard = 0; discard < 2; discard++)
            for (int round = 0; round < 3; round++) {
                CHECK(cuMemPrefetchAsync(p, bytes, ON_DEVICE, 0, stream));
                CHECK(cuMemsetD8Async(p, 1, bytes, stream));
                CHECK(cuStreamSynchronize(stream));
                if (protect) mprotect((void *)p, bytes, PROT_NONE);
                double start = now_ns(), discarded = 0, called = 0, device_called = 0;
                if (discard) {
                    CUdeviceptr one = p;
                    size_t all = bytes;
                    CHECK(cuMemDiscardBatchAsync(&one, &all, 1, 0, stream));
                    called = (now_ns() - start) / 1e6;
                    discarded = synced_ms(start, stream);
                }
                start = now_ns();
                whole_batch(cuMemPrefetchBatchAsync, p, bytes, 1, ON_HOST, stream);
                double host_called = (now_ns() - start) / 1e6, host = synced_ms(start, stream);
                if (protect) mprotect((void *)p, bytes, PROT_READ | PROT_WRITE);
                start = now_ns();
                whole_batch(cuMemPrefetchBatchAsync, p, bytes, 1, ON_DEVICE, stream);
                device_called = (now_ns() - start) / 1e6;
                double device = synced_ms(start, stream);
                printf("  %-9s %-10s 64 MiB: discard %.3f ms (call %.3f), to host %.3f ms (call %.3f), to device %.3f ms (call %.3f)\n",
                       protect ? "PROT_NONE" : "mapped", discard ? "discarded" : "kept", discarded, called, host, host_called, device, device_called);
            }
    for (int round = 0; round < 3; round++) {
        CHECK(cuMemPrefetchAsync(p, bytes, ON_DEVICE, 0, stream));
        CHECK(cuMemsetD8Async(p, 1, bytes, stream));
        CHECK(cuStreamSynchronize(stream));
        CUdeviceptr one = p;
        size_t all = bytes;
        double start = now_ns();
        CHECK(cuMemDiscardBatchAsync(&one, &all, 1, 0, stream));
        double discarded = synced_ms(start, stream);
        start = now_ns();
        whole_batch(cuMemPrefetchBatchAsync, p, bytes, 1, ON_DEVICE, stream);
        double device = synced_ms(start, stream), both = -1;
        if (cuMemDiscardAndPrefetchBatchAsync) {
            CHECK(cuMemsetD8Async(p, 1, bytes, stream));
            CHECK(cuStreamSynchronize(stream));
            start = now_ns();
            whole_batch(cuMemDiscardAndPrefetchBatchAsync, p, bytes, 1, ON_DEVICE, stream);
            both = synced_ms(start, stream);
        }
        printf("  resident 64 MiB: discard %.3f ms, then to device %.3f ms; discard-and-prefetch to device in one call %.3f ms\n", discarded, device, both);
    }
    for (int round = 0; round < 2; round++) {
        CHECK(cuMemPrefetchAsync(p, bytes, ON_DEVICE, 0, stream));
        CHECK(cuStreamSynchronize(stream));
        double start = now_ns();
        for (size_t at = 0; at < bytes; at += 2 * MIB) {
            CUdeviceptr one = p + at;
            size_t size = 2 * MIB;
            CHECK(cuMemDiscardBatchAsync(&one, &size, 1, 0, stream));
        }
        printf("  resident 64 MiB: 32 discards of 2 MiB %.3f ms in all\n", synced_ms(start, stream));
    }
}

// ---- l: evictions beside launches

enum { PIECES_SINGLE, PIECES_BATCH };
static const size_t ARENA = 512 * MIB;

struct mover {
    CUdeviceptr arena;
    size_t piece;
    int how;
    CUmemLocation to;
    CUstream stream;
    double *samples; // one per call, microseconds
    size_t calls;
    double total_ms;
    atomic_bool finished;
};

static void *move_all(void *argument) {
    struct mover *mover = argument;
    CHECK(cuCtxSetCurrent(context));
    size_t per_call = mover->how == PIECES_BATCH ? 8 * mover->piece : mover->piece;
    double start = now_ns();
    mover->calls = 0;
    for (size_t at = 0; at + per_call <= ARENA; at += per_call) {
        double before = now_ns();
        if (mover->how == PIECES_BATCH)
            whole_batch(cuMemPrefetchBatchAsync, mover->arena + at, per_call, 8, mover->to, mover->stream);
        else
            CHECK(cuMemPrefetchAsync(mover->arena + at, per_call, mover->to, 0, mover->stream));
        mover->samples[mover->calls++] = (now_ns() - before) / 1e3;
        CHECK(cuStreamSynchronize(mover->stream));
    }
    mover->total_ms = (now_ns() - start) / 1e6;
    atomic_store(&mover->finished, true);
    return NULL;
}

// Moves the arena in a second thread while this one launches empty kernels (or only waits), and prints what each saw.
static void move_beside(const char *what, struct mover *mover, CUstream launches, bool launching) {
    static double latency[1 << 20];
    size_t count = 0;
    pthread_t thread;
    atomic_store(&mover->finished, false);
    if (mover->to.type == ON_HOST.type) mprotect((void *)mover->arena, ARENA, PROT_NONE);
    pthread_create(&thread, NULL, move_all, mover);
    while (launching && !atomic_load(&mover->finished) && count < sizeof latency / sizeof *latency) {
        double before = now_ns();
        launch_empty(launches);
        latency[count++] = (now_ns() - before) / 1e3;
        if (count % 64 == 0) CHECK(cuStreamSynchronize(launches));
    }
    pthread_join(thread, NULL);
    mprotect((void *)mover->arena, ARENA, PROT_READ | PROT_WRITE);
    CHECK(cuStreamSynchronize(launches));
    sort_samples(mover->samples, mover->calls);
    printf("  %-34s %3zu calls, p50 %7.0f max %7.0f us each, %5.1f GB/s", what, mover->calls, quantile(mover->samples, mover->calls, .5),
           mover->samples[mover->calls - 1], (double)ARENA / mover->total_ms / 1e6);
    if (launching) {
        sort_samples(latency, count);
        printf("; %6zu launches p50 %6.1f p90 %6.1f p99 %6.1f max %6.0f us", count, quantile(latency, count, .5), quantile(latency, count, .9),
               quantile(latency, count, .99), count ? latency[count - 1] : 0);
    }
    printf("\n");
}

static void section_evict_beside(void) {
    load_kernels();
    CUstream launches = new_stream(STREAM_NON_BLOCKING);
    static double samples[1024];
    struct mover mover = {.arena = managed_alloc(ARENA), .stream = new_stream(STREAM_NON_BLOCKING), .samples = samples};
    CHECK(cuMemPrefetchAsync(mover.arena, ARENA, ON_DEVICE, 0, mover.stream));
    CHECK(cuMemsetD8Async(mover.arena, 1, ARENA, mover.stream));
    CHECK(cuStreamSynchronize(mover.stream));

    static double quiet[20000];
    for (size_t i = 0; i < 20000; i++) {
        double before = now_ns();
        launch_empty(launches);
        quiet[i] = (now_ns() - before) / 1e3;
        if (i % 64 == 63) CHECK(cuStreamSynchronize(launches));
    }
    sort_samples(quiet, 20000);
    printf("  launches with nothing beside: p50 %.1f p90 %.1f p99 %.1f max %.0f us\n", quantile(quiet, 20000, .5), quantile(quiet, 20000, .9),
           quantile(quiet, 20000, .99), quiet[19999]);

    // the host's pages are made by the first eviction
    mover.piece = 32 * MIB;
    mover.how = PIECES_SINGLE;
    mover.to = ON_HOST;
    move_beside("first eviction, 32 MiB", &mover, launches, false);
    mover.to = ON_DEVICE;
    move_beside("back, 32 MiB", &mover, launches, false);

    struct {
        size_t piece;
        int how;
    } kinds[] = {{32 * MIB, PIECES_SINGLE}, {16 * MIB, PIECES_SINGLE}, {8 * MIB, PIECES_SINGLE}, {4 * MIB, PIECES_SINGLE},
                 {2 * MIB, PIECES_SINGLE},  {4 * MIB, PIECES_BATCH},   {2 * MIB, PIECES_BATCH}};
    for (int launching = 0; launching < 2; launching++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            char what[64];
            if (kinds[i].how == PIECES_BATCH && !cuMemPrefetchBatchAsync) continue;
            mover.piece = kinds[i].piece;
            mover.how = kinds[i].how;
            const char *shape = kinds[i].how == PIECES_BATCH ? "batch of 8 x" : "";
            mover.to = ON_HOST;
            snprintf(what, sizeof what, "evict %s %zu MiB", shape, kinds[i].piece / MIB);
            move_beside(what, &mover, launches, launching);
            mover.to = ON_DEVICE;
            snprintf(what, sizeof what, "promote %s %zu MiB", shape, kinds[i].piece / MIB);
            move_beside(what, &mover, launches, launching);
        }
}

// ---- the list, and a process for each

static const struct section {
    const char *name, *title;
    void (*run)(void);
    bool without_device; // runs before cuInit
} SECTIONS[] = {
    {"a-free-waits", "does cuMemFree wait for a running kernel (50 ms)?", section_free_waits, false},
    {"b-small-calls", "cost of small calls", section_small_calls, false},
    {"c-v1", "the 32-bit calls", section_v1, false},
    {"d1", "cuMemGetInfo without total", section_info_no_total, false},
    {"d2", "cuMemGetInfo without free", section_info_no_free, false},
    {"d3", "cuMemGetInfo of nothing", section_info_nothing, false},
    {"d4", "cuDeviceTotalMem of nothing", section_total_null, false},
    {"d5", "cuMemGetInfo without context", section_info_no_context, false},
    {"d6", "cuMemAlloc to nowhere", section_alloc_null, false},
    {"d7", "cuMemAllocAsync to nowhere", section_alloc_async_null, false},
    {"d8", "cuMemAllocPitch without pitch", section_pitch_null, false},
    {"d9", "cuMemGetAddressRange of nothing", section_range_null, false},
    {"e1-zero", "zero and absurd sizes", section_zero_sizes, false},
    {"e2-interior", "free of an interior pointer", section_free_interior, false},
    {"e3-twice", "double free", section_free_twice, false},
    {"e4-garbage", "free of garbage", section_free_garbage, false},
    {"e5-async-garbage", "cuMemFreeAsync of garbage", section_free_async_garbage, false},
    {"e6-async-other", "frees across the two kinds", section_free_async_other, false},
    {"e7-contexts", "other contexts and none", section_contexts, false},
    {"e8-before-init", "before cuInit", section_before_init, true},
    {"f1-alloc", "attributes of cuMemAlloc's pointers", section_attributes_alloc, false},
    {"f2-async", "attributes of cuMemAllocAsync's pointers", section_attributes_async, false},
    {"f3-managed", "attributes of managed pointers", section_attributes_managed, false},
    {"f4-none", "attributes of freed and foreign pointers", section_attributes_none, false},
    {"g-pitch", "pitch", section_pitch, false},
    {"h-alignment", "alignment", section_alignment, false},
    {"i-accounting", "what cuMemGetInfo sees", section_accounting, false},
    {"j-capture", "memory calls during capture", section_capture, false},
    {"k-discard", "discard and prefetch", section_discard, false},
    {"l-evict-beside", "eviction in pieces, alone and beside launches", section_evict_beside, false},
};

static void run_in_own_process(const struct section *section) {
    printf("\n[%s] %s\n", section->name, section->title);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "probe", "--inside", section->name, NULL);
        _exit(127);
    }
    int status = 0;
    double start = now_ns();
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_ns() - start > 1e9 * SECTION_SECONDS) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            printf("  HUNG: ended after %d s\n", SECTION_SECONDS);
            return;
        }
        usleep(2000);
    }
    if (WIFSIGNALED(status)) printf("  CRASHED: %s\n", strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status)) printf("  ended with %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && !strcmp(argv[1], "--inside")) {
        cu_load();
        for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++)
            if (!strcmp(argv[2], SECTIONS[i].name)) {
                if (!SECTIONS[i].without_device) open_device();
                SECTIONS[i].run();
                return 0;
            }
        return 2;
    }
    // the parent never initialises CUDA, so its children may
    cu_load();
    int version = 0;
    cuDriverGetVersion(&version);
    printf("driver API %d\n", version);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++) wanted |= !strncmp(SECTIONS[i].name, argv[a], strlen(argv[a]));
        if (wanted) run_in_own_process(&SECTIONS[i]);
    }
    return 0;
}
