// Graphs: what is captured is not disturbed by what goes on around it, and runs right when its memory has left the device meanwhile.
// Argument: how.
#include "pool_check.h"

enum { BLOCKS = 12, WORDS = 1 << 19 };
static CUdeviceptr blocks[BLOCKS], out;
static CUstream stream, other;

static CUgraphExec finish(void) {
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static void press(CUstream in) {
    for (int i = 0; i < BLOCKS; i++)
        OK(mix(blocks[i], 1000, 1, in));
}

static void *ends(void *nothing) {
    CUgraph graph;
    OK(cuCtxSetCurrent(context));
    printf("%d ", cuStreamEndCapture(other, &graph));
    return nothing;
}

// The other stream captures a fill of the first block, after something that seems to end the capture and does not.
static void capture_after(int wrong_thread) {
    // One stream has had all the work for long, and what was freed may be used again in its order: work elsewhere has something to
    // wait for, but nothing that is captured has.
    for (int i = 0; i < 100; i++)
        OK(fill(blocks[0], i, 4, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree_v2(block(4 * WORDS)));
    OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (wrong_thread) {
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, ends, NULL));
        pthread_join(id, NULL);
    } else {
        CUgraph graph;
        printf("%d ", cuStreamEndCapture(stream, &graph));
    }
    OK(fill(blocks[0], 100, WORDS, other));
    stream = other;
    CUgraphExec exec = finish();
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    printf("%u", word_at(blocks[0] + 4 * WORDS - 4));
}

// Whether a free waits for work on host memory, as it does while nothing is captured.
static void free_waits(void) {
    void *pinned;
    unsigned one = 1;
    uint64_t delay = 50000;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    volatile unsigned *flag = pinned;
    *flag = 0;
    void *flags[] = {&flag, &one, &delay};
    OK(launch("flag_host", stream, flags));
    OK(cuMemFree_v2(blocks[1]));
    printf("flag %u", *flag);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    out = block(8 * BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        OK(fill(blocks[i] = block(4 * WORDS), i, WORDS, stream));
    OK(cuStreamSynchronize(stream));
    if (!strcmp(how, "replay")) {
        // The graph names blocks that have left when it is launched.
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        for (int i = 0; i < BLOCKS; i++) {
            OK(mix(blocks[i], 1000, 1, stream));
            OK(sum(blocks[i], out + 8 * i, WORDS, stream));
        }
        CUgraphExec exec = finish();
        for (int round = 0; round < 4; round++) {
            press(other);
            OK(cuStreamSynchronize(other));
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            for (int i = 0; i < BLOCKS; i++)
                printf("%lx ", (long)wide_at(out + 8 * i));
        }
        OK(cuGraphExecDestroy(exec));
    } else if (!strcmp(how, "pressure")) {
        // Launches, frees and allocations in another stream and thread while this one is capturing. The thread's mode is its own.
        int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        for (int i = 0; i < BLOCKS; i++) {
            OK(fill(blocks[i], 100 + i, WORDS, stream));
            OK(mix(blocks[(i + 5) % BLOCKS], 1000, 1, other));
            if (i == 6) {
                CUdeviceptr more = block(4 * WORDS);
                OK(fill(more, 5, WORDS, other));
                OK(cuMemFree_v2(more));
                OK(cuMemAllocAsync(&more, 4 * WORDS, other));
                OK(fill(more, 5, WORDS, other));
                OK(cuMemFreeAsync(more, other));
            }
        }
        OK(cuStreamSynchronize(other));
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        printf("mode %d\n", mode);
        CUgraphExec exec = finish();
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < BLOCKS; i++)
            printf("%u ", word_at(blocks[i] + 4 * WORDS - 4));
    } else if (!strcmp(how, "own-memory")) {
        // Memory that the graph takes is the driver's, and has the same address at every launch (C19).
        CUdeviceptr own;
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        uint64_t calls = stat_of("cuMemAllocAsync");
        OK(cuMemAllocAsync(&own, 4 * WORDS, stream));
        ANSWERS(1, stat_of("cuMemAllocAsync") - calls);
        OK(fill(own, 9, WORDS, stream));
        OK(cuMemcpyDtoDAsync_v2(blocks[3], own, 4 * WORDS, stream));
        OK(cuMemFreeAsync(own, stream));
        CUgraphExec exec = finish();
        for (int round = 0; round < 3; round++) {
            press(other);
            OK(cuStreamSynchronize(other));
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            printf("%u ", word_at(blocks[3] + 4 * WORDS - 4));
        }
    } else if (!strcmp(how, "own-pool")) {
        // The same from a pool of the program's own, of which memory is held besides.
        CUmemPoolProps props = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, NULL, 0, 0, {0}};
        CUmemoryPool pool;
        CUdeviceptr held, own;
        OK(cuMemPoolCreate(&pool, &props));
        OK(cuMemAllocFromPoolAsync(&held, 4 * WORDS, pool, stream));
        OK(fill(held, 6, WORDS, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        uint64_t calls = stat_of("cuMemAllocFromPoolAsync");
        OK(cuMemAllocFromPoolAsync(&own, 4 * WORDS, pool, stream));
        ANSWERS(1, stat_of("cuMemAllocFromPoolAsync") - calls);
        OK(cuMemcpyDtoDAsync_v2(own, held, 4 * WORDS, stream));
        OK(cuMemcpyDtoDAsync_v2(blocks[3], own, 4 * WORDS, stream));
        OK(cuMemFreeAsync(own, stream));
        CUgraphExec exec = finish();
        for (unsigned round = 0; round < 3; round++) {
            press(other);
            OK(cuStreamSynchronize(other));
            OK(fill(held, 6 + round, WORDS, stream));
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            printf("%u ", word_at(blocks[3] + 4 * WORDS - 4));
        }
        OK(cuMemFreeAsync(held, stream));
    } else if (!strcmp(how, "free-in-order")) {
        // A graph cannot free what no graph has taken.
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(fill(blocks[0], 1, 4, stream));
        printf("%d ", cuMemFreeAsync(blocks[1], stream));
        CUgraph graph;
        printf("%d ", cuStreamEndCapture(stream, &graph));
        printf("%u", word_at(blocks[1]));
    } else if (!strcmp(how, "free")) {
        // A free during a capture is what the capture's mode makes of it (C31).
        for (int mode = 0; mode < 3; mode++) {
            CUgraph graph;
            CUdeviceptr at = block(4 * WORDS), small = block(1000);
            OK(cuStreamBeginCapture_v2(stream, mode));
            OK(fill(blocks[0], 1, 4, stream));
            printf("mode %d: %d ", mode, cuMemFree_v2(at));
            printf("%d ", cuStreamEndCapture(stream, &graph));
            OK(cuStreamBeginCapture_v2(stream, mode));
            OK(fill(blocks[0], 1, 4, stream));
            printf("%d ", cuMemFree_v2(small));
            printf("%d\n", cuStreamEndCapture(stream, &graph));
        }
    } else if (!strcmp(how, "alloc")) {
        for (int mode = 0; mode < 3; mode++) {
            CUgraph graph;
            CUdeviceptr at;
            OK(cuStreamBeginCapture_v2(stream, mode));
            OK(fill(blocks[0], 1, 4, stream));
            printf("mode %d: %d ", mode, cuMemAlloc_v2(&at, 4096));
            printf("%d\n", cuStreamEndCapture(stream, &graph));
        }
    } else if (!strcmp(how, "blocking")) {
        // A stream that waits for the legacy stream is capturing: whoever used that would end the capture (C15, C17).
        CUstream blocking = new_stream(CU_STREAM_DEFAULT);
        uint64_t waits = stat_of("cuCtxSynchronize");
        OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
        stream = blocking;
        for (int i = 0; i < BLOCKS; i++) {
            OK(fill(blocks[i], 100 + i, WORDS, blocking));
            OK(mix(blocks[(i + 5) % BLOCKS], 1000, 1, other));
        }
        ANSWERS(0, stat_of("cuCtxSynchronize") - waits);
        CUgraphExec exec = finish();
        OK(cuStreamSynchronize(other));
        OK(cuGraphLaunch(exec, blocking));
        OK(cuStreamSynchronize(blocking));
        for (int i = 0; i < BLOCKS; i++)
            printf("%u ", word_at(blocks[i] + 4 * WORDS - 4));
    } else if (!strcmp(how, "freed-under")) {
        // The graph has been launched and is held when a block of its is freed, and another's work gets new memory.
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(fill(blocks[0], 7, WORDS, stream));
        OK(spin(2000, stream));
        OK(sum(blocks[0], out, WORDS, stream));
        CUgraphExec exec = finish();
        OK(cuGraphLaunch(exec, stream));
        OK(cuMemFree_v2(blocks[0]));
        for (int i = 0; i < 3; i++)
            OK(fill(block(4 * WORDS), 1, WORDS, other));
        let_go();
        OK(cuCtxSynchronize());
        printf("%lx", (long)wide_at(out));
    } else if (!strcmp(how, "not-capturing") || !strcmp(how, "wrong-thread")) {
        capture_after(!strcmp(how, "wrong-thread"));
    } else if (!strcmp(how, "stream-gone")) {
        // The capture goes with its stream.
        OK(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(fill(blocks[0], 1, 4, other));
        OK(cuStreamDestroy_v2(other));
        free_waits();
    } else if (!strcmp(how, "context-gone")) {
        // The capture goes with its context.
        CUcontext second;
        OK(cuCtxCreate_v2(&second, 0, 0));
        OK(cuStreamBeginCapture_v2(new_stream(CU_STREAM_NON_BLOCKING), CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuCtxDestroy_v2(second));
        OK(cuCtxSetCurrent(context));
        free_waits();
    } else {
        return 2;
    }
    puts("");
}
