// Graphs as the simulated driver has them: what their nodes are, what may be asked of them, what an executable one may become.
#include "sim_check.h"

enum { WORDS = 1024, BYTES = 4 * WORDS };

int main(void) {
    start();
    CUdeviceptr a, b;
    CUstream stream;
    OK(cuMemAlloc_v2(&a, BYTES));
    OK(cuMemAlloc_v2(&b, BYTES));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    // Captured work becomes nodes, in its order.
    CUgraph graph, child;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(fill(a, 1, WORDS, stream));
    OK(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
    OK(cuMemsetD32Async(a, 2, WORDS, stream));
    OK(cuStreamEndCapture(stream, &graph));
    CUgraphNode nodes[5];
    size_t count = 77;
    OK(cuGraphGetNodes(graph, NULL, &count));
    ANSWERS(3, count);
    count = 5;
    OK(cuGraphGetNodes(graph, nodes, &count));
    HOLDS(count == 3 && !nodes[3] && !nodes[4]);
    int types[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET}, type;
    for (int i = 0; i < 3; i++) {
        OK(cuGraphNodeGetType(nodes[i], &type));
        ANSWERS(types[i], type);
    }

    // What they are called with, by either form, and by no form of another kind.
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    OK(cuGraphKernelNodeGetParams_v2(nodes[0], &kernel));
    OK(cuGraphKernelNodeGetParams(nodes[0], &old));
    HOLDS(kernel.func == old.func && kernel.func && !kernel.kern && !kernel.extra && kernel.ctx == context);
    HOLDS(*(CUdeviceptr *)kernel.kernelParams[0] == a && *(unsigned *)kernel.kernelParams[1] == 1);
    HOLDS(*(uint64_t *)old.kernelParams[2] == WORDS);
    OK(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
    HOLDS(copy.dstDevice == b && copy.srcDevice == a && copy.WidthInBytes == BYTES && copy.Height == 1 && copy.Depth == 1);
    OK(cuGraphMemsetNodeGetParams(nodes[2], &set));
    HOLDS(set.dst == a && set.value == 2 && set.elementSize == 4 && set.width == WORDS && set.height == 1);
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeGetParams(nodes[1], &set));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphMemcpyNodeGetParams(nodes[0], &copy));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams_v2(nodes[2], &kernel));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphChildGraphNodeGetGraph(nodes[0], &child));

    // A graph within a graph is a copy.
    CUgraph outer;
    CUgraphNode inside, empty;
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddEmptyNode(&empty, outer, NULL, 0));
    OK(cuGraphAddChildGraphNode(&inside, outer, &empty, 1, graph));
    OK(cuGraphChildGraphNodeGetGraph(inside, &child));
    HOLDS(child != graph);
    CUgraphExec exec, whole;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphInstantiateWithFlags(&whole, outer, 0));
    OK(cuGraphDestroy(graph));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(nodes[0], &type));
    OK(cuGraphGetNodes(child, NULL, &count));
    ANSWERS(3, count);
    OK(cuGraphLaunch(whole, stream));
    OK(cuStreamSynchronize(stream));
    HOLDS(word_at(a) == 2 && word_at(b) == 1);

    // Nodes of an executable graph are changed by the nodes that it was made from; the graph stays as it was.
    set.value = 3;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set, context));
    CUgraphExec single;
    OK(cuGraphInstantiateWithFlags(&single, graph, 0));
    set.value = 4;
    OK(cuGraphExecMemsetNodeSetParams(single, nodes[0], &set, context));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(single, inside, &set, context));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(single, nodes[0], &copy, context));
    OK(cuGraphLaunch(single, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(4, word_at(a));
    OK(cuGraphMemsetNodeGetParams(nodes[0], &set));
    ANSWERS(3, set.value);

    // It becomes another of its shape only.
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate_v2(single, graph, &info));
    ANSWERS(0, info.result);
    OK(cuGraphLaunch(single, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(3, word_at(a));
    ANSWERS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(single, outer, &info));
    ANSWERS(2, info.result);
    ANSWERS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, outer, &info));
    OK(cuGraphDestroy(outer));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(child, NULL, &count));
    return 0;
}
