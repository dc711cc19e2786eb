// Graphs over memory that has left when they are launched, and what they leave in it. Argument: how the graph comes to name its memory.
#include "pool_check.h"

// Of all blocks half fit the budget; what a graph names at a time does, but for the one that is to name too much.
enum { BLOCKS = 24, MINE = 6, WORDS = 1 << 19, BYTES = 4 * WORDS, PART = 1000, ROUNDS = 50 };
static CUdeviceptr blocks[BLOCKS], out, table;
static CUstream stream, other;

static CUgraph end_capture(void) {
    CUgraph graph;
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void begin_capture(void) {
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraphExec executable(CUgraph graph) {
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

// The blocks from `first` on are used, and so the others leave.
static void press(unsigned first) {
    for (unsigned i = first; i < BLOCKS; i++)
        OK(mix(blocks[i], PART, 1, other));
    OK(cuStreamSynchronize(other));
}

static void run(CUgraphExec exec) {
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

static void show(const char *what, CUdeviceptr at) {
    OK(sum(at, out + 8 * MINE, WORDS, stream));
    OK(cuStreamSynchronize(stream));
    printf("%s %lx\n", what, (long)wide_at(out + 8 * MINE));
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(const char *name, void **params) {
    return (CUDA_KERNEL_NODE_PARAMS){function(name), 1, 1, 1, 32, 1, 1, 0, params, NULL, NULL, NULL};
}

static CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = from, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = to,
                           .WidthInBytes = BYTES, .Height = 1, .Depth = 1};
}

static CUDA_MEMSET_NODE_PARAMS fill_params(CUdeviceptr at, unsigned value) {
    return (CUDA_MEMSET_NODE_PARAMS){at, 0, value, 4, WORDS, 1};
}

// A graph of one kernel, which adds to a block.
static CUgraph mixing(CUdeviceptr at) {
    begin_capture();
    OK(mix(at, PART, 1, stream));
    return end_capture();
}

static CUgraphNode first_node(CUgraph graph) {
    CUgraphNode nodes[1];
    size_t count = 1;
    OK(cuGraphGetNodes(graph, nodes, &count));
    return nodes[0];
}

static void replay(int how) {
    begin_capture();
    for (int i = 0; i < MINE; i++) {
        OK(mix(blocks[i], PART, 1, stream));
        OK(sum(blocks[i], out + 8 * i, PART, stream));
    }
    CUgraph graph = end_capture();
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    if (how == 0)
        exec = executable(graph);
    else if (how == 1)
        OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
    else if (how == 2)
        OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    else if (how == 3)
        OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    else {
        // As the runtime of CUDA 12 finds it, where the name means the function with flags.
        CUresult (*made)(CUgraphExec *, CUgraph, unsigned long long);
        int status;
        OK(cuGetProcAddress_v2("cuGraphInstantiate", (void **)&made, 12000, 0, &status));
        OK(made(&exec, graph, 0));
    }
    OK(cuGraphDestroy(graph));
    for (int round = 0; round < ROUNDS; round++) {
        press(MINE);
        run(exec);
        for (int i = 0; i < MINE; i++)
            printf("%lx ", (long)wide_at(out + 8 * i));
        puts("");
    }
    OK(cuGraphExecDestroy(exec));
}

// Kernels that name their memory in other ways: in a buffer, in a struct by value, under a handle that no context has.
static void forms(void) {
    struct { CUdeviceptr at; unsigned value; uint64_t n; } args = {blocks[0], 7, WORDS};
    size_t size = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    struct { uint64_t count; uint64_t at[16]; unsigned value; uint64_t n; } by_value = {2, {blocks[1], blocks[2]}, 8, WORDS};
    void *values[] = {&by_value};
    CUlibrary library;
    CUkernel kernel;
    unsigned value = 9;
    uint64_t n = WORDS;
    void *params[] = {&blocks[3], &value, &n};
    OK(cuLibraryLoadData(&library, "any image", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    begin_capture();
    OK(cuLaunchKernel(function("fill_u32"), 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
    OK(launch("table_fill", stream, values));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    CUgraphExec exec = executable(end_capture());
    for (int round = 0; round < 3; round++) {
        press(4);
        run(exec);
    }
    for (int i = 0; i < 4; i++)
        show("form", blocks[i]);
}

// A graph that was launched in a capture, one added by hand, and one within that.
static void children(void) {
    CUgraph inner = mixing(blocks[0]), middle, outer;
    CUgraphNode node;
    CUgraphExec launched = executable(mixing(blocks[1]));
    OK(cuGraphCreate(&middle, 0));
    OK(cuGraphAddEmptyNode(&node, middle, NULL, 0));
    OK(cuGraphAddChildGraphNode(&node, middle, NULL, 0, inner));
    begin_capture();
    OK(cuGraphLaunch(launched, stream));
    OK(mix(blocks[2], PART, 1, stream));
    outer = end_capture();
    OK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, middle));
    CUgraphExec exec = executable(outer);
    for (int round = 0; round < 3; round++) {
        press(3);
        run(exec);
    }
    // The child becomes another of its shape, again and again.
    for (int i = 3; i < BLOCKS; i++) {
        CUgraph becomes, part = mixing(blocks[i]);
        CUgraphNode added;
        OK(cuGraphCreate(&becomes, 0));
        OK(cuGraphAddEmptyNode(&added, becomes, NULL, 0));
        OK(cuGraphAddChildGraphNode(&added, becomes, NULL, 0, part));
        OK(cuGraphExecChildGraphNodeSetParams(exec, node, becomes));
        run(exec);
        CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {becomes, 0}};
        OK(cuGraphExecNodeSetParams(exec, node, &params));
        run(exec);
    }
    for (int i = 0; i < BLOCKS; i++)
        show("child", blocks[i]);
}

// A node is made to name each block in turn, by each call that can.
static void set_kernels(void) {
    CUgraph graph = mixing(blocks[0]);
    CUgraphNode node = first_node(graph);
    CUgraphExec exec = executable(graph);
    for (int i = 0; i < 3 * BLOCKS; i++) {
        uint64_t n = PART;
        unsigned rounds = 1;
        void *params[] = {&blocks[i % BLOCKS], &n, &rounds};
        CUDA_KERNEL_NODE_PARAMS now = kernel_params("mix", params);
        CUDA_KERNEL_NODE_PARAMS_v1 old = {now.func, 1, 1, 1, 32, 1, 1, 0, params, NULL};
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = now};
        if (i < BLOCKS)
            OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &now));
        else if (i < 2 * BLOCKS)
            OK(cuGraphExecKernelNodeSetParams(exec, node, &old));
        else
            OK(cuGraphExecNodeSetParams(exec, node, &any));
        run(exec);
    }
    for (int i = 0; i < BLOCKS; i++)
        show("set", blocks[i]);
}

// Copies and fills: captured, added by hand, changed.
static void copies(void) {
    CUgraph graph;
    CUgraphNode copy, set;
    begin_capture();
    OK(cuMemsetD32Async(blocks[0], 5, WORDS, stream));
    OK(cuMemcpyDtoDAsync_v2(blocks[1], blocks[2], BYTES, stream));
    graph = end_capture();
    CUDA_MEMCPY3D by_hand = copy_params(blocks[3], blocks[4]);
    CUDA_MEMSET_NODE_PARAMS set_by_hand = fill_params(blocks[5], 6);
    OK(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &by_hand, context));
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &set_by_hand, context));
    CUgraphExec exec = executable(graph);
    for (int round = 0; round < 3; round++) {
        press(6);
        run(exec);
    }
    for (int i = 6; i + 2 < BLOCKS; i++) {
        CUDA_MEMCPY3D to = copy_params(blocks[i], blocks[i + 1]);
        CUDA_MEMSET_NODE_PARAMS fill = fill_params(blocks[i + 2], i);
        CUgraphNodeParams any_copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {0, 0, context, to}};
        CUgraphNodeParams any_fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = {fill, context}};
        if (i % 2) {
            OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &to, context));
            OK(cuGraphExecMemsetNodeSetParams(exec, set, &fill, context));
        } else {
            OK(cuGraphExecNodeSetParams(exec, copy, &any_copy));
            OK(cuGraphExecNodeSetParams(exec, set, &any_fill));
        }
        run(exec);
    }
    for (int i = 0; i < BLOCKS; i++)
        show("copy", blocks[i]);
}

// The executable graph becomes that of each block in turn.
static void updates(void) {
    CUgraphExec exec = executable(mixing(blocks[0]));
    for (int i = 0; i < 2 * BLOCKS; i++) {
        CUgraph next = mixing(blocks[i % BLOCKS]);
        CUgraphExecUpdateResultInfo info;
        CUgraphNode node;
        int result;
        if (i % 2)
            OK(cuGraphExecUpdate_v2(exec, next, &info));
        else
            OK(cuGraphExecUpdate(exec, next, &node, &result));
        OK(cuGraphDestroy(next));
        run(exec);
    }
    // Another shape is refused, and what was is still done.
    press(1);
    begin_capture();
    OK(mix(blocks[1], PART, 1, stream));
    OK(mix(blocks[2], PART, 1, stream));
    CUgraphExecUpdateResultInfo info;
    printf("%d ", cuGraphExecUpdate_v2(exec, end_capture(), &info));
    printf("%d\n", info.result);
    run(exec);
    for (int i = 0; i < BLOCKS; i++)
        show("update", blocks[i]);
}

// What has been destroyed is launched, which the driver refuses: nothing moves for it.
static void destroyed(void) {
    CUgraphExec exec = executable(mixing(blocks[0]));
    run(exec);
    OK(cuGraphExecDestroy(exec));
    press(1);
    uint64_t moved = stat_of("promoted_bytes");
    printf("%d\n", cuGraphLaunch(exec, stream));
    ANSWERS(0, stat_of("promoted_bytes") - moved);
}

// Blocks that no node names: their addresses are in memory.
static void hidden(void) {
    uint64_t at[MINE], count = MINE, n = PART;
    for (int i = 0; i < MINE; i++)
        at[i] = blocks[i];
    OK(cuMemcpyHtoD_v2(table, at, sizeof at));
    void *params[] = {&table, &count, &n, &out};
    begin_capture();
    OK(launch("gather_ptrs", stream, params));
    CUgraphExec exec = executable(end_capture());
    for (int round = 0; round < 5; round++) {
        OK(fill(blocks[round], 100 * round, WORDS, other));
        press(MINE);
        run(exec);
        for (int i = 0; i < MINE; i++)
            printf("%lx ", (long)wide_at(out + 8 * i));
        puts("");
    }
}

// One graph names all there is, which is more than fits.
static void larger(void) {
    begin_capture();
    for (int i = 0; i < BLOCKS; i++)
        OK(mix(blocks[i], PART, 1, stream));
    CUgraphExec exec = executable(end_capture());
    for (int round = 0; round < 5; round++)
        run(exec);
    for (int i = 0; i < BLOCKS; i++)
        show("large", blocks[i]);
}

// A graph names blocks that are freed before it is launched, and does nothing with them. What lies there then is left alone.
static void stale(void) {
    begin_capture();
    for (int i = 0; i < MINE; i++)
        OK(fill(blocks[i], 1, i < 3 ? 0 : WORDS, stream));
    CUgraphExec exec = executable(end_capture());
    for (int i = 0; i < 3; i++)
        OK(cuMemFree_v2(blocks[i]));
    press(MINE);
    run(exec);
    for (int i = 0; i < 2; i++)
        OK(fill(blocks[i] = block(BYTES), 50 + i, WORDS, stream));
    press(MINE);
    run(exec);
    blocks[2] = blocks[3];
    for (int i = 0; i < BLOCKS; i++)
        show("stale", blocks[i]);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    out = block(4096), table = block(4096);
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(fill(blocks[i] = block(BYTES), i, WORDS, stream));
    OK(cuStreamSynchronize(stream));
    if (!strcmp(how, "replay"))
        replay(argc > 2 ? atoi(argv[2]) : 0);
    else if (!strcmp(how, "forms"))
        forms();
    else if (!strcmp(how, "children"))
        children();
    else if (!strcmp(how, "set"))
        set_kernels();
    else if (!strcmp(how, "copies"))
        copies();
    else if (!strcmp(how, "updates"))
        updates();
    else if (!strcmp(how, "destroyed"))
        destroyed();
    else if (!strcmp(how, "hidden"))
        hidden();
    else if (!strcmp(how, "larger"))
        larger();
    else if (!strcmp(how, "stale"))
        stale();
    else
        return 2;
}
