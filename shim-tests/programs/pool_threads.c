// Threads that end with work in their own default streams, which nobody else can name: memory that is freed later is used again all the
// same, once that work has ended.
#include "pool_check.h"

enum { THREADS = 100 };
static const size_t BYTES = 400 << 20;
static CUdeviceptr shared;

static void *work_and_end(void *argument) {
    (void)argument;
    OK(cuCtxSetCurrent(context));
    OK(fill(shared, 1, 16, CU_STREAM_PER_THREAD));
    return NULL;
}

int main(void) {
    start();
    shared = block(4096);
    // From two streams: none has all the work.
    OK(fill(shared, 1, 16, new_stream(CU_STREAM_NON_BLOCKING)));
    OK(fill(shared, 1, 16, new_stream(CU_STREAM_NON_BLOCKING)));
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        HOLDS(!pthread_create(&thread, NULL, work_and_end, NULL));
        HOLDS(!pthread_join(thread, NULL));
    }
    CUdeviceptr first = block(BYTES);
    OK(cuMemFree_v2(first));
    // The driver waits for all work when it frees memory of its own, and tells nobody.
    CUdeviceptr own;
    OK(cuMemAllocManaged(&own, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemFree_v2(own));
    puts(block(BYTES) == first ? "used again" : "not used again");
    return 0;
}
