// Streams of which one has had all the work so far, when that ends: by other work beside a kernel that does not end, by a capture,
// by its destruction, by the end of another context. Argument: which.
#include "pool_check.h"

static const size_t BYTES = 4 * MIB;

// One stream does all the work, and something is freed in it for use at once.
static CUstream work_and_free(void) {
    CUstream solo = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 100; i++) {
        CUdeviceptr at = block(BYTES);
        OK(fill(at, i, 1000, solo));
        OK(cuMemFreeAsync(at, solo) == CUDA_SUCCESS ? CUDA_SUCCESS : cuMemFree_v2(at));
    }
    return solo;
}

// Whether the kernel that the test holds has not ended: not by our letting go, nor because nobody ever has.
static int is_held(CUstream stream) { return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; }

// Two kernels that run side by side: the first does not end before the second has.
static void beside(void) {
    CUdeviceptr at = block(BYTES);
    CUstream solo = work_and_free(), other = new_stream(CU_STREAM_NON_BLOCKING);
    OK(fill(at, 1, 1000, solo));
    OK(spin(1, solo)); // held by the test
    OK(fill(at + 8192, 7, 1000, other));
    OK(cuStreamSynchronize(other));
    int held = is_held(solo);
    let_go();
    OK(cuStreamSynchronize(solo));
    printf("%d %u %u\n", held, word_at(at), word_at(at + 8192));
}

// The stream becomes part of a graph: work elsewhere runs at once, and is no part of the graph.
static void captured(void) {
    CUdeviceptr at = block(BYTES);
    CUstream solo = work_and_free(), other = new_stream(CU_STREAM_NON_BLOCKING);
    OK(fill(at, 1, 1000, solo));
    OK(cuStreamBeginCapture_v2(solo, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(fill(at, 2, 1000, solo));
    OK(fill(at + 8192, 7, 1000, other));
    OK(cuStreamSynchronize(other));
    CUgraph graph;
    OK(cuStreamEndCapture(solo, &graph));
    OK(cuStreamSynchronize(solo));
    unsigned before = word_at(at), beside = word_at(at + 8192);
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(fill(at + 8192, 8, 1000, other));
    OK(cuStreamSynchronize(other));
    OK(cuGraphLaunch(exec, solo));
    OK(cuStreamSynchronize(solo));
    printf("%u %u %u %u\n", before, beside, word_at(at), word_at(at + 8192));
}

// The stream is destroyed while its work runs; its destruction does not wait.
static void destroyed(void) {
    CUdeviceptr at = block(BYTES);
    CUstream solo = work_and_free();
    OK(fill(at, 1, 1000, solo));
    OK(spin(1, solo)); // held by the test
    CUevent behind;
    OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(behind, solo));
    OK(cuStreamDestroy_v2(solo));
    printf("%d ", cuEventQuery(behind) == CUDA_ERROR_NOT_READY);
    let_go();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 4; i++) {
        CUdeviceptr next = block(BYTES);
        OK(fill(next, 10 + i, 1000, other));
        OK(cuStreamSynchronize(other));
        printf("%u ", word_at(next));
    }
    OK(cuCtxSynchronize());
    printf("%u\n", word_at(at));
}

// A context that took no memory ends, with work in it that nobody has waited for. Freed memory is free all the same.
static void ended(void) {
    CUcontext first, second;
    OK(cuCtxGetCurrent(&first));
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = block(BYTES);
    OK(fill(at, 1, 1000, a));
    OK(fill(at, 2, 1000, b));
    OK(cuCtxCreate_v2(&second, 0, 0));
    CUmodule module;
    CUfunction nop;
    OK(cuModuleLoadData(&module, "its own"));
    OK(cuModuleGetFunction(&nop, module, "nop"));
    OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxDestroy_v2(second));
    OK(cuCtxSetCurrent(first));
    for (int i = 0; i < 20; i++) {
        CUdeviceptr more = block(BYTES);
        OK(fill(more, i, 1000, i % 2 ? a : b));
        OK(cuMemFree_v2(more));
    }
    OK(cuCtxSynchronize());
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    OK(cuMemFree_v2(at));
    puts("all freed");
}

int main(int argc, char **argv) {
    start();
    const struct { const char *name; void (*run)(void); } all[] = {
        {"beside", beside}, {"captured", captured}, {"destroyed", destroyed}, {"ended", ended}};
    for (size_t i = 0; i < LENGTH(all); i++)
        if (argc == 2 && !strcmp(argv[1], all[i].name))
            return all[i].run(), 0;
    return 2;
}
