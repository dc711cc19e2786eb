// Two contexts of one device, and two threads in each that use more than their half of the budget holds: room is made for each in turn.
// Arguments: seed, operations of each thread.
#include "pool_check.h"

enum { LIVE = 8, WORDS = 1 << 19 };
static unsigned operations;

typedef struct {
    CUcontext context;
    CUfunction fill, sum;
    uint64_t random;
} Worker;

static void *work(void *argument) {
    Worker *w = argument;
    OK(cuCtxSetCurrent(w->context));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = block(8), blocks[LIVE];
    unsigned values[LIVE];
    uint64_t words = WORDS;
    for (int i = 0; i < LIVE; i++) {
        blocks[i] = block(4 * WORDS), values[i] = i;
        void *filling[] = {&blocks[i], &values[i], &words};
        OK(cuLaunchKernel(w->fill, 1, 1, 1, 1, 1, 1, 0, stream, filling, NULL));
    }
    for (unsigned k = 0; k < operations; k++) {
        int i = next_random(&w->random) % LIVE;
        void *summing[] = {&blocks[i], &out, &words};
        OK(cuLaunchKernel(w->sum, 1, 1, 1, 1, 1, 1, 0, stream, summing, NULL));
        OK(cuStreamSynchronize(stream));
        ANSWERS(wide_at(out), words * values[i]);
    }
    for (int i = 0; i < LIVE; i++)
        OK(cuMemFree_v2(blocks[i]));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    operations = atoi(argv[2]);
    OK(cuInit(0));
    pthread_t ids[4];
    static Worker workers[4];
    for (int c = 0; c < 2; c++) {
        CUcontext own;
        CUmodule code;
        OK(cuCtxCreate_v2(&own, 0, 0));
        OK(cuModuleLoadData(&code, "its own"));
        // Before either has much: each has its half from the start.
        block(4096);
        for (int i = 0; i < 2; i++) {
            Worker *w = &workers[2 * c + i];
            w->context = own, w->random = atol(argv[1]) * 10 + 2 * c + i;
            OK(cuModuleGetFunction(&w->fill, code, "fill_u32"));
            OK(cuModuleGetFunction(&w->sum, code, "sum_u64"));
        }
    }
    for (int i = 0; i < 4; i++)
        HOLDS(!pthread_create(&ids[i], NULL, work, &workers[i]));
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    puts("every block held what was written to it");
}
