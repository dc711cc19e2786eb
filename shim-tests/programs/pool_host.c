// cuMemFree waits for work in flight. A program can tell only by what that work does to host memory.
// Arguments: the kind of work; how many blocks are allocated and freed before.
#include "pool_check.h"

static void raise_flag(void *flag) {
    usleep(50000);
    *(volatile unsigned *)flag = 1;
}

static void *synchronizes(void *nothing) {
    OK(cuCtxSetCurrent(context));
    OK(cuCtxSynchronize());
    return nothing;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    if (!strcmp(how, "none")) {
        // There is nothing that the host could see: whether the work has ended when the free returns says how it was done.
        CUdeviceptr used = block(3 * MIB);
        OK(spin(50000, stream));
        OK(fill(used, 2, 1, stream));
        OK(cuMemFree_v2(used));
        printf("%d\n", cuStreamQuery(stream));
        let_go();
        return 0;
    }
    volatile unsigned *flag;
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    flag = pinned, *flag = 0;
    unsigned one = 1;
    uint64_t delay = 50000, n = 1;
    void *flags[] = {&flag, &one, &delay};
    if (!strcmp(how, "before-first")) {
        // There has been no memory on the device yet.
        OK(launch("flag_host", stream, flags));
        OK(cuMemFree_v2(block(MIB)));
        printf("flag %u\n", *flag);
        return 0;
    }
    for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 0); i++)
        OK(cuMemFree_v2(block(4096)));
    CUdeviceptr unified, at = block(3 * MIB), other = block(3 * MIB);
    OK(cuMemsetD32_v2(at, 1, 1));
    // Work in a stream before, so that there is nothing new about it.
    OK(fill(other, 1, 16, stream));
    OK(cuStreamSynchronize(stream));
    if (!strcmp(how, "kernel")) {
        OK(launch("flag_host", stream, flags));
    } else if (!strcmp(how, "two")) {
        CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
        OK(launch("flag_host", second, flags));
        OK(fill(other, 1, 16, stream));
    } else if (!strcmp(how, "interior")) {
        flag += 100;
        OK(launch("flag_host", stream, flags));
    } else if (!strcmp(how, "extra")) {
        struct { volatile unsigned *flag; unsigned value; uint64_t delay; } args = {flag, 1, delay};
        size_t size = sizeof args;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
        OK(cuLaunchKernel(function("flag_host"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    } else if (!strcmp(how, "copy")) {
        OK(spin(50000, stream));
        OK(cuMemcpyDtoHAsync_v2(pinned, at, 4, stream));
    } else if (!strcmp(how, "registered")) {
        OK(cuMemHostRegister_v2(pinned = aligned_alloc(4096, 4096), 4096, 0));
        flag = pinned, *flag = 0;
        OK(launch("flag_host", stream, flags));
    } else if (!strcmp(how, "registered-copy")) {
        OK(cuMemHostRegister_v2(pinned = aligned_alloc(4096, 4096), 4096, 0));
        flag = pinned, *flag = 0;
        OK(spin(50000, stream));
        OK(cuMemcpyAsync((CUdeviceptr)pinned, at, 4, stream));
    } else if (!strcmp(how, "managed")) {
        flag = (void *)(unified = managed(4096));
        *flag = 0;
        OK(launch("flag_host", stream, flags));
    } else if (!strcmp(how, "function")) {
        OK(cuLaunchHostFunc(stream, raise_flag, pinned));
    } else if (!strcmp(how, "graph")) {
        CUgraph graph;
        CUgraphExec exec;
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(launch("flag_host", stream, flags));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
    } else if (!strcmp(how, "after-sync")) {
        // What was in flight before has been waited for, then there is more.
        OK(launch("flag_host", stream, flags));
        OK(cuCtxSynchronize());
        *flag = 0;
        OK(launch("flag_host", stream, flags));
    } else if (!strcmp(how, "other-sync")) {
        // Another stream is waited for: the flag's work is still there.
        CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
        OK(fill(other, 1, 16, second));
        OK(launch("flag_host", stream, flags));
        OK(cuStreamSynchronize(second));
    } else if (!strcmp(how, "freed-before")) {
        // A free in between, of nothing.
        OK(launch("flag_host", stream, flags));
        OK(cuMemFree_v2(0));
    } else if (!strcmp(how, "other-context") || !strcmp(how, "other-free")) {
        // Another context is waited for, or memory of another context is freed: the flag's work is in neither.
        CUcontext second, popped;
        OK(launch("flag_host", stream, flags));
        OK(cuCtxCreate_v2(&second, 0, 0));
        CUdeviceptr there = block(MIB);
        if (!strcmp(how, "other-context"))
            OK(cuCtxSynchronize());
        OK(cuMemFree_v2(there));
        OK(cuCtxPopCurrent_v2(&popped));
    } else if (!strcmp(how, "while-waiting")) {
        // Work comes while another thread is waiting.
        pthread_t id;
        OK(spin(30000, stream));
        HOLDS(!pthread_create(&id, NULL, synchronizes, NULL));
        usleep(10000);
        OK(launch("flag_host", new_stream(CU_STREAM_NON_BLOCKING), flags));
        pthread_join(id, NULL);
    } else if (!strcmp(how, "unseen")) {
        // There is such memory, but no work on it.
        OK(spin(50000, stream));
        OK(fill(at, 2, n, stream));
        OK(cuMemFree_v2(at));
        printf("%d\n", cuStreamQuery(stream));
        let_go();
        return 0;
    } else if (!strcmp(how, "read")) {
        // Work that only reads it.
        OK(spin(50000, stream));
        OK(cuMemcpyHtoDAsync_v2(at, pinned, 4, stream));
        OK(cuMemFree_v2(at));
        printf("%d\n", cuStreamQuery(stream));
        let_go();
        return 0;
    } else {
        return 2;
    }
    OK(cuMemFree_v2(at));
    printf("flag %u\n", *flag);
}
