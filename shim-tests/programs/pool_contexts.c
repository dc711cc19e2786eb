// Contexts that end with work of which nobody has taken note, and come again; two devices whose work has nothing to do with each other.
// Arguments: which; how, or how many.
#include "pool_check.h"
#include <sys/mman.h>

enum { WORDS = 1 << 19, BYTES = 4 * WORDS };

static CUstream stream;

static void load(void) { OK(cuModuleLoadData(&module, "any image")); }

static void primary(void) {
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    load();
}

static void own(CUdevice device) {
    OK(cuCtxCreate_v2(&context, 0, device));
    load();
}

static void is_called(void *nothing) { (void)nothing; }

// Frees a block while a kernel that the test holds is in flight: whether it still is when the free returns says if the free has waited.
static void free_beside_work(void) {
    CUdeviceptr at = block(BYTES);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(spin(1, stream));
    OK(cuMemFree_v2(at));
    printf("%d\n", cuStreamQuery(stream));
    let_go();
    OK(cuCtxSynchronize());
}

// A context ends with a call of the host in it that nobody has waited for: such calls have to do with frees in that context alone.
static void called(const char *how) {
    if (!strcmp(how, "destroy")) {
        // Another context frees.
        CUcontext first;
        own(0);
        first = context;
        OK(cuMemFree_v2(block(BYTES)));
        own(0);
        OK(cuLaunchHostFunc(NULL, is_called, NULL));
        OK(cuCtxDestroy_v2(context));
        OK(cuCtxSetCurrent(first));
        load();
        free_beside_work();
        return;
    }
    // The same context comes again, under the same handle.
    primary();
    block(BYTES);
    OK(cuLaunchHostFunc(NULL, is_called, NULL));
    if (!strcmp(how, "release"))
        OK(cuDevicePrimaryCtxRelease_v2(0));
    else
        OK(cuDevicePrimaryCtxReset_v2(0));
    primary();
    free_beside_work();
}

// A kernel on the second device waits for its host, which frees on the first. Before that the first has freed so many blocks.
static void devices(int frees) {
    own(1);
    CUcontext far = context;
    CUmodule far_module = module;
    block(BYTES);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    own(0);
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_PORTABLE));
    volatile unsigned *flag = pinned;
    *flag = 0;
    for (int i = 0; i < frees; i++)
        OK(cuMemFree_v2(block(4096)));
    CUdeviceptr near = block(BYTES);
    OK(fill(near, 1, WORDS, NULL));
    CUcontext first = context;
    CUmodule first_module = module;
    OK(cuCtxSetCurrent(far));
    module = far_module;
    unsigned one = 1;
    uint64_t delay = 0;
    void *params[] = {&flag, &one, &delay};
    OK(launch("flag_host", stream, params)); // held by the test
    OK(cuCtxSetCurrent(first));
    module = first_module;
    OK(cuMemFree_v2(near));
    OK(cuCtxSetCurrent(far));
    printf("%d %u\n", cuStreamQuery(stream), *flag);
    let_go();
    OK(cuStreamSynchronize(stream));
    printf("%u\n", *flag);
}

// A stream of the second device is first used while the first device's context is current, as copies may be. Its work is the second
// device's all the same: waiting for the first device says nothing of it.
static void stream_of_another(void) {
    own(0);
    CUcontext first = context;
    own(1);
    CUdeviceptr out = block(4096), at = block(BYTES);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    OK(fill(out, 0, 8, other));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(first));
    OK(cuMemcpyDtoDAsync_v2(at, out, 8, stream));
    OK(cuCtxSetCurrent(context));
    OK(fill(at, 7, WORDS, stream));
    CUevent filled;
    OK(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(filled, stream));
    OK(cuEventSynchronize(filled));
    OK(spin(1, stream)); // held by the test
    OK(sum(at, out, WORDS, stream));
    OK(cuCtxSetCurrent(first));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree_v2(at));
    // Whoever keeps book looks at what has ended.
    OK(cuStreamSynchronize(other));
    for (int i = 0; i < 3; i++)
        OK(fill(block(BYTES), 9, WORDS, other));
    OK(cuStreamSynchronize(other));
    let_go();
    OK(cuCtxSynchronize());
    printf("%d\n", wide_at(out) == 7ul * WORDS);
}

// More than the test's budget, so that launches are looked at.
static void crowd(void) {
    for (int i = 0; i < 8; i++)
        OK(cuMemsetD8_v2(block(BYTES), i, BYTES));
}

// A function goes with its context or module, and its handle means another afterwards, of fewer parameters: there are no more to look at.
static void functions(const char *how) {
    int again = !strcmp(how, "release") || !strcmp(how, "reset");
    if (again)
        primary();
    else
        own(0);
    crowd();
    OK(fill(block(4096), 1, 4, NULL));
    if (!strcmp(how, "release"))
        OK(cuDevicePrimaryCtxRelease_v2(0));
    else if (!strcmp(how, "reset"))
        OK(cuDevicePrimaryCtxReset_v2(0));
    else if (!strcmp(how, "destroy"))
        OK(cuCtxDestroy_v2(context));
    else
        OK(cuModuleUnload(module));
    if (again)
        primary();
    else if (!strcmp(how, "destroy"))
        own(0);
    else
        load();
    CUfunction one = function("spin_us");
    crowd();
    // One parameter, and the array ends where memory does.
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(pages != MAP_FAILED && !mprotect(pages + 4096, 4096, PROT_NONE));
    uint64_t micros = 0;
    void **params = (void **)(pages + 4096) - 1;
    params[0] = &micros;
    OK(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
    puts("launched");
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    const char *which = argv[1], *how = argc > 2 ? argv[2] : "";
    OK(cuInit(0));
    if (!strcmp(which, "called"))
        called(how);
    else if (!strcmp(which, "devices"))
        devices(atoi(how));
    else if (!strcmp(which, "stream"))
        stream_of_another();
    else if (!strcmp(which, "functions"))
        functions(how);
    else
        return 2;
}
