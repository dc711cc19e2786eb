// Capture: what is captured runs when the graph does; what a capture forbids fails and ends the capture.
#include "sim_check.h"
#include <pthread.h>

static CUstream stream, side;
static CUdeviceptr memory;
static CUevent event;

static void begin(int mode) {
    OK(cuStreamBeginCapture_v2(stream, mode));
    OK(fill(memory, 1, 4, stream));
}

static CUresult end(void) {
    CUgraph graph;
    CUresult answer = cuStreamEndCapture(stream, &graph);
    HOLDS((graph != NULL) == (answer == CUDA_SUCCESS));
    if (graph)
        OK(cuGraphDestroy(graph));
    return answer;
}

static void *event_query(void *answer) {
    OK(cuCtxSetCurrent(context));
    *(CUresult *)answer = cuEventQuery(event);
    return NULL;
}

static CUresult query_in_another_thread(void) {
    CUresult answer;
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, event_query, &answer) == 0);
    pthread_join(thread, NULL);
    return answer;
}

// A call that answers `wanted` during a capture and ends it.
#define FORBIDS(mode, wanted, call)                        \
    do {                                                   \
        begin(mode);                                       \
        ANSWERS(wanted, call);                             \
        ANSWERS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end()); \
    } while (0)
// A call that a capture does not mind.
#define ALLOWS(mode, call) \
    do {                   \
        begin(mode);       \
        OK(call);          \
        OK(end());         \
    } while (0)

static void graphs(void) {
    CUgraph graph;
    CUgraphExec exec;
    int status;
    unsigned long long id;
    OK(cuMemsetD32_v2(memory, 0, 4));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(stream, &status));
    ANSWERS(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    OK(fill(memory, 5, 2, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    OK(cuStreamIsCapturing(side, &status));
    ANSWERS(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    OK(cuMemsetD32Async(memory + 8, 6, 2, side));
    OK(cuEventRecord(event, side));
    OK(cuStreamWaitEvent(stream, event, 0));
    OK(cuMemcpyDtoDAsync_v2(memory + 16, memory + 8, 8, stream));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL));
    HOLDS(id > 0);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamIsCapturing(side, &status));
    ANSWERS(CU_STREAM_CAPTURE_STATUS_NONE, status);
    OK(cuCtxSynchronize());
    ANSWERS(0, word_at(memory));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 2; i++) {
        OK(cuMemsetD32_v2(memory, 0, 8));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        ANSWERS(5, word_at(memory + 4));
        ANSWERS(6, word_at(memory + 20));
    }
    OK(cuGraphExecDestroy(exec));

    // Memory that a graph takes and gives back is there in every launch.
    CUdeviceptr own;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&own, 4096, stream));
    OK(fill(own, 9, 4, stream));
    OK(cuMemcpyDtoDAsync_v2(memory, own, 4, stream));
    OK(cuMemFreeAsync(own, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(9, word_at(memory));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

int main(void) {
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr unified = managed(2 * MIB), other;
    OK(cuMemAlloc_v2(&memory, 4096));
    graphs();
    OK(cuEventRecord(event, side));
    OK(cuEventSynchronize(event));
    int global = CU_STREAM_CAPTURE_MODE_GLOBAL, local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&other, 4));
    FORBIDS(local, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&other, 4));
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAllocManaged(&other, 4, CU_MEM_ATTACH_GLOBAL));
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFree_v2(memory));
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(event));
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, query_in_another_thread());
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(stream));
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, fill(memory, 1, 1, NULL));
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyDtoH_v2(&other, memory, 4));
    FORBIDS(global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemcpyDtoH_v2(&other, memory, 4));
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemPrefetchAsync(unified, MIB, 0, stream));
    ALLOWS(global, cuMemPrefetchAsync(unified, MIB, 0, side));
    ALLOWS(global, fill(memory, 1, 1, side));
    ALLOWS(relaxed, cuMemFree_v2(managed(4)));
    ALLOWS(relaxed, cuEventQuery(event));
    ALLOWS(relaxed, cuStreamSynchronize(side));
    ALLOWS(local, query_in_another_thread());

    // A thread may choose not to be bound.
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ANSWERS(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    ALLOWS(global, cuEventQuery(event));
    OK(cuThreadExchangeStreamCaptureMode(&mode));

    // Events and streams on both sides of a capture.
    begin(relaxed);
    OK(cuEventRecord(event, stream));
    ANSWERS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end());
    OK(cuEventRecord(event, side));
    FORBIDS(relaxed, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, event, 0));
    begin(relaxed);
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    OK(fill(memory, 1, 1, side));
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, end());
    ANSWERS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
    ANSWERS(CUDA_ERROR_ILLEGAL_STATE, end());
    // A capture ends with its stream, and with its context.
    CUstream gone;
    CUcontext second;
    OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamDestroy_v2(gone));
    OK(cuCtxSynchronize());
    OK(cuCtxCreate_v2(&second, 0, 0));
    OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuCtxDestroy_v2(second));
    OK(cuCtxSetCurrent(context));
    OK(cuCtxSynchronize());
    return 0;
}
