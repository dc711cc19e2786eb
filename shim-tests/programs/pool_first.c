// A program whose first memory of all is asked for while a stream is being captured: whatever is made for it is no part of the capture,
// and what the capture's mode forbids is forbidden. Arguments: the mode; what is asked for first.
#include "pool_check.h"

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int mode = atoi(argv[1]), status = 77;
    const char *what = argv[2];
    start();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr unified = managed(MIB), at = 0;
    size_t free, total;
    OK(cuStreamBeginCapture_v2(blocking, mode));
    OK(fill(unified, 1, 8, blocking));
    if (!strcmp(what, "info"))
        printf("%d ", cuMemGetInfo_v2(&free, &total));
    else if (!strcmp(what, "total"))
        printf("%d ", cuDeviceTotalMem_v2(&total, 0));
    else if (!strcmp(what, "plain"))
        printf("%d ", cuMemAlloc_v2(&at, 4 * MIB));
    else if (!strcmp(what, "pitched"))
        printf("%d ", cuMemAllocPitch_v2(&at, &total, 1024, 4096, 4));
    else if (!strcmp(what, "beside"))
        printf("%d ", cuMemAllocAsync(&at, 4 * MIB, other));
    else if (!strcmp(what, "free"))
        printf("%d %d ", cuMemFree_v2(0), cuMemFree_v2(12345));
    else
        return 2;
    OK(cuStreamIsCapturing(blocking, &status));
    printf("status %d ", status);
    if (at)
        printf("work %d ", fill(at, 2, MIB, other));
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUresult ended = cuStreamEndCapture(blocking, &graph);
    printf("ended %d ", ended);
    if (!ended) {
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, blocking));
    }
    OK(cuCtxSynchronize());
    printf("%u ", *(unsigned *)unified);
    if (at)
        printf("%u ", word_at(at + 4 * MIB - 4));
    if (at)
        printf("freed %d", cuMemFree_v2(at));
    puts("");
}
